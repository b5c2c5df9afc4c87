"""The loop of synchronous algorithms: all workers sample with one version of the weights, then the learner trains on the batch.

A batch is a fixed number of fragments or, with complete episodes, as many as yield ``train_batch_size`` env steps. Every
requested fragment is used, whichever worker it comes from and however late: a batch of the fastest fragments would be biased
towards short episodes. Fragments lost with a worker are requested again, from its successor or any free worker, so that a
batch is never smaller.

``straggler_cutoff`` closes a batch as soon as that share of it has come. What comes late fills, oldest first, the places
that the next batch leaves empty; what finds no place is dropped. Both are counted. A worker that is late gets no new call, and
the others are not asked for its share, which they would deliver only in a second round.

The first batch is sampled while the learner loads TensorFlow. Between iterations a run without workers is quiescent: a batch
that has been started is completed and trained on.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from typing import Any

from drl_cli.actors.part_records import BatchUpdateResult
from drl_cli.config.sections.on_policy import TrajectoryKeys, fragments_of_batch, late_fragments
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.loops.trajectories import PlannedBatch, Requested, TrajectoryLoop, seen_of
from drl_cli.runtime.replay_shards import Shards


def make(
    cluster: Cluster, pool: SamplePool, replay: Shards | None, learner: Handle, config: TrajectoryKeys
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
        self._spare = late_fragments(config)  # that a batch may lack
        self._batch: list[tuple[Token, Call]] = []  # in hand, of the newest weights
        self._late: collections.deque[tuple[Token, Call]] = collections.deque()  # of older weights, oldest first
        self._floor = 1  # version of the weights that the batch is sampled with; newer ones are the same weights
        self._dropped = self._learnt_late = 0

    @property
    def stored(self) -> int:
        """Env steps in hand."""
        return sum(token.steps for token, _ in (*self._batch, *self._late))

    @property
    def is_begun(self) -> bool:
        """Whether a batch has been begun: it is completed before the loop rests."""
        return bool(self._batch)

    def wanted(self, pool: SamplePool, is_busy: bool, is_closing: bool) -> Requested:
        """What is missing of the batch, of one version; nothing while the version is being made."""
        under_way = pool.under_way(self._floor)
        if is_busy or (is_closing and not self._batch and not under_way):
            return Requested(0)
        late = pool.late(self._floor) if self._spare else ()
        on_time = [index for index in range(pool.size) if index not in late]
        less = min(self._spare, self._fragments * len(late) // pool.size)  # the share of those that are late
        return Requested(self._missing() - less - under_way, self._floor, on_time if late and on_time else None)

    def _missing(self) -> int:
        """Fragments that have not come; of complete episodes at most, since each may bring more steps."""
        if self._config.batch_mode == "complete_episodes":
            steps = sum(token.steps for token, _ in self._batch)
            return max(0, math.ceil((self._config.train_batch_size - steps) / self._fragment))
        return max(0, self._fragments - len(self._batch))

    def took(self, token: Token, columns: Call) -> bool:
        """Take a fragment of the newest weights; one of older ones is late."""
        if token.meta.version >= self._floor and (self._missing() or not self._spare):
            self._batch.append((token, columns))
            return True
        if self._spare:
            self._late.append((token, columns))
            self._drop_beyond(self._spare)
            return True
        self._dropped += 1
        return False

    def batch(self, pool: SamplePool) -> PlannedBatch | None:
        """The batch when enough of it has come; without a cutoff when nothing that was requested is under way."""
        if not self._batch or self._missing() > self._spare or (not self._spare and pool.under_way(self._floor)):
            return None
        while self._late and self._missing():
            self._batch.append(self._late.popleft())
            self._learnt_late += 1
        self._drop_beyond(0)
        # In the order of the workers, not of arrival: the same fragments make the same batch.
        batch = sorted(self._batch, key=lambda entry: entry[0].meta[:3])
        self._batch = []
        tokens = [token for token, _ in batch]
        return PlannedBatch(tokens, seen_of(tokens), [columns for _, columns in batch], len(batch))

    def learns(self, batch: PlannedBatch, newest: int) -> None:
        """Nothing is to be noted: all of a batch has the newest weights, or counts as late."""

    def _drop_beyond(self, room: int) -> None:
        while len(self._late) > room:
            self._late.popleft()
            self._dropped += 1

    def learnt(self, result: BatchUpdateResult) -> int:
        """From now on what the new weights do is on time."""
        self._floor = result["version"]
        return result["steps"]

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result."""
        return {"fragments_dropped": self._dropped, "fragments_late": self._learnt_late}

    def state(self) -> dict[str, Any]:
        """Return plain data; what is late is not kept."""
        return {"dropped": self._dropped, "late": self._learnt_late}

    def load(self, facts: Mapping[str, Any], newest: int) -> None:
        """Continue from ``state`` with weights of the version ``newest``."""
        self._dropped, self._learnt_late, self._floor = facts["dropped"], facts.get("late", 0), newest
