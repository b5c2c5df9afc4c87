"""The loop of synchronous algorithms: all workers sample with one version of the weights, then the learner trains on the batch.

A batch is a fixed number of fragments or, with complete episodes, as many as yield ``train_batch_size`` env steps. Every
requested fragment is used, whichever worker it comes from and however late: a batch of the fastest fragments would be biased
towards short episodes. Fragments lost with a worker are requested again, from its successor or any free worker, so that a
batch is never smaller. Fragments of older weights are dropped and counted.

The first batch is sampled while the learner loads TensorFlow. Between iterations a run without workers is quiescent: a batch
that has been started is completed and trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drl_cli.actors.part_records import BatchUpdateResult
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.runtime.loops.trajectories import TrajectoryLoop, fragments_of_batch, seen_of
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.replay_shards import Shards


def make(
    cluster: Cluster, pool: WorkerPool, replay: Shards | None, learner: Handle, config: TrajectoryKeys
) -> TrajectoryLoop:
    """Return the loop over these parts; ``replay`` is not used."""
    return TrajectoryLoop(cluster, pool, learner, config, SyncPlan(config))


class SyncPlan:
    """The plan of a synchronous loop, see ``loops.trajectories``."""

    patience: float | None = None

    def __init__(self, config: TrajectoryKeys) -> None:
        self._config = config
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length  # least env steps of one
        self._fragments = fragments_of_batch(config)
        self._batch = []  # (token, columns reference) in hand
        self._floor = 1  # version of the weights that the batch is sampled with; newer ones are the same weights
        self._dropped = 0

    @property
    def stored(self) -> int:
        """Env steps of the batch in hand."""
        return sum(token.steps for token, _ in self._batch)

    @property
    def is_begun(self) -> bool:
        """Whether a batch has been begun: it is completed before the loop rests."""
        return bool(self._batch)

    def wanted(self, outstanding: int, is_busy: bool, is_closing: bool) -> tuple[int, int]:
        """What is missing of the batch, of one version; nothing while the version is being made."""
        idle = is_closing and not self._batch and not outstanding
        return (0 if is_busy or idle else self._missing(outstanding)), self._floor

    def _missing(self, outstanding: int) -> int:
        """Fragments that are still to be requested; of complete episodes at most, since each may bring more steps."""
        if self._config.batch_mode == "complete_episodes":
            wanted = math.ceil((self._config.train_batch_size - self.stored) / self._fragment)
        else:
            wanted = self._fragments - len(self._batch)
        return max(0, wanted - outstanding)

    def took(self, token: Token, columns: Call) -> bool:
        """Take a fragment of the newest weights; drop one of older ones."""
        if token.meta.version < self._floor:
            self._dropped += 1
            return False
        self._batch.append((token, columns))
        return True

    def batch(self, outstanding: int, newest: int) -> tuple[list[Any], list[Call]] | None:
        """The batch when it is whole: nothing is missing and nothing that was requested is under way."""
        if not self._batch or outstanding or self._missing(outstanding):
            return None
        # In the order of the workers, not of arrival: the same fragments make the same batch.
        batch = sorted(self._batch, key=lambda entry: entry[0].meta[:3])
        self._batch = []
        return seen_of([token for token, _ in batch]), [columns for _, columns in batch]

    def learnt(self, result: BatchUpdateResult) -> int:
        """From now on only what the new weights do is taken."""
        self._floor = result["version"]
        return result["steps"]

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result."""
        return {"fragments_dropped": self._dropped}

    def state(self) -> dict[str, Any]:
        """Return plain data."""
        return {"dropped": self._dropped}

    def load(self, facts: Mapping[str, Any], newest: int) -> None:
        """Continue from ``state`` with weights of the version ``newest``."""
        self._dropped, self._floor = facts["dropped"], newest
