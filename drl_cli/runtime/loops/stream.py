"""The loop of IMPALA and APPO: a bounded stream of trajectories from workers that do not wait for the learner.

Workers act with the newest weights they have pulled and receive their next call immediately; fragments arrive in
completion order, from mixed versions, and a batch is the oldest ``train_batch_size`` steps of them. Back-pressure: while
``learner_queue_size`` batches, or one fragment per worker, are queued or in flight, no more are requested.
This bounds the policy lag, for which V-trace corrects; results report the lag in versions. Aggregators
(``num_aggregation_workers``) each hold one batch more.

Without workers the same loop runs in one process: fragments are taken in the order of the calls, and a worker adopts only
weights of updates that have been processed, so that a run is reproducible bit for bit. Between iterations such a run
is quiescent with an empty queue: a batch that has been started is completed and trained on.

Source: Espeholt et al. 2018, "IMPALA" (arXiv 1802.01561), section 3; replay and the minibatch buffer as in RLlib's
execution plan (MixInReplay, MinibatchBuffer).
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drl_cli.actors.part_records import BatchUpdateResult
from drl_cli.algorithms.impala import APPOConfig, IMPALAConfig, passes_per_call
from drl_cli.config.sections.deterministic import is_deterministic, sources
from drl_cli.config.sections.on_policy import fragments_of_batch
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.randomness import generator, set_state, state_of
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.cluster import ACTOR
from drl_cli.runtime.loops.trajectories import PlannedBatch, Requested, TrajectoryLoop, seen_of
from drl_cli.runtime.replay_shards import Shards

AGGREGATOR = "drl_cli.actors.aggregator:Aggregator"
StreamConfig = IMPALAConfig | APPOConfig


def make(
    cluster: Cluster, pool: SamplePool, replay: Shards | None, learner: Handle, config: StreamConfig
) -> TrajectoryLoop:
    """Return the loop over these parts; ``replay`` is not used."""
    rests = not cluster.is_remote or is_deterministic(config)
    loop = TrajectoryLoop(cluster, pool, learner, config, StreamPlan(config, rests))
    names = [f"aggregator {index}" for index in range(config.num_aggregation_workers)]
    loop.aggregate([cluster.spawn(name, AGGREGATOR, (), ACTOR, {"restarts": True}) for name in names])
    return loop


class StreamPlan:
    """The plan of a loop without a barrier, see ``loops.trajectories``."""

    def __init__(self, config: StreamConfig, rests: bool) -> None:
        """``rests``: when the loop comes to rest, a batch that has been begun is completed."""
        self._config, self._rests = config, rests
        self._fragments = fragments_of_batch(config)
        # Fewer than one for every worker would leave some of them idle for good.
        self._room = max(config.learner_queue_size * self._fragments, sources(config))  # fragments
        self._queue = collections.deque()  # (token, columns reference, whether it is new), oldest first
        self._stock, self._turns, self._staleness = _Stock(config), _Turns(config), _Staleness()
        self._is_first = True  # whether what is being learnt from was not learnt from before
        self.patience = None if rests else config.learner_queue_timeout

    @property
    def stored(self) -> int:
        """Env steps that wait."""
        return sum(token.steps for token, _, _ in self._queue)

    @property
    def is_begun(self) -> bool:
        """Whether something waits that is to be learnt from before the loop rests."""
        return self._rests and (bool(self._queue) or self._turns.pending)

    def wanted(self, pool: SamplePool, is_busy: bool, is_closing: bool) -> Requested:
        """As many as there is room for, of whatever version."""
        outstanding = pool.outstanding
        self._stock.is_open = not is_closing  # what is old would make the last batch no fuller
        room = self._room
        if is_closing:
            room = self._fragments * math.ceil((len(self._queue) + outstanding) / self._fragments) if self._rests else 0
        return Requested(max(0, room - len(self._queue) - outstanding))

    def took(self, token: Token, columns: Call) -> bool:
        """Queue a fragment, and older ones beside it."""
        self._queue.append((token, columns, True))
        self._queue.extend((*old, False) for old in self._stock.beside(token, columns))
        return True

    def batch(self, pool: SamplePool) -> PlannedBatch | None:
        """The oldest fragments of the queue, or, where batches take turns, one of those under way once more."""
        taken = self._turns.take(self._oldest)
        if taken is None:
            return None
        entries, is_first = taken
        tokens = [token for token, _, _ in entries]
        # What a filter saw of a fragment counts once, however often it is learnt from.
        seen = [
            own if is_new and is_first else None for own, (_, _, is_new) in zip(seen_of(tokens), entries, strict=True)
        ]
        fresh = sum(is_new for _, _, is_new in entries) if is_first else 0
        return PlannedBatch(tokens, seen, [columns for _, columns, _ in entries], fresh, is_first)

    def learns(self, batch: PlannedBatch, newest: int) -> None:
        """Note how old the batch is, and whether it is looked at for the first time."""
        self._is_first = batch.is_first
        self._staleness.learnt(newest, [token.meta.version for token in batch.tokens])

    def _oldest(self) -> list[tuple[Token, Call, bool]] | None:
        """Take a batch from the queue, or None."""
        if self._config.batch_mode == "complete_episodes":
            steps = itertools.accumulate(token.steps for token, _, _ in self._queue)
            count = next((n for n, total in enumerate(steps, 1) if total >= self._config.train_batch_size), None)
        else:
            count = self._fragments if len(self._queue) >= self._fragments else None
        return [self._queue.popleft() for _ in range(count)] if count else None

    def learnt(self, result: BatchUpdateResult) -> int:
        """Passes over a batch count once."""
        return result["steps"] if self._is_first else 0

    def info(self) -> dict[str, Any]:
        """Return the fields of a result about the stream since the last time."""
        return self._staleness.close() | {
            "queue_size": len(self._queue),
            "queue_capacity": self._room,
            "num_steps_replayed": self._stock.replayed,
        }

    def state(self) -> dict[str, Any]:
        """Return plain data; what waits in the queue is not kept."""
        return {"stock": self._stock.state()}

    def load(self, facts: Mapping[str, Any], newest: int) -> None:
        """Continue from ``state``."""
        self._stock.load(facts["stock"])


class _Stock:
    """Replay of the newest fragments: RLlib's MixInReplay."""

    def __init__(self, config: StreamConfig) -> None:
        self._proportion = config.replay_proportion
        self._slots = collections.deque(maxlen=config.replay_buffer_num_slots)
        self._rng = generator(config.seed or 0, "replay")
        self.replayed = 0
        self.is_open = True

    def beside(self, token: Token, columns: Call) -> list[tuple[Token, Call]]:
        """Keep a new fragment, and return older ones that join it: as many as ``replay_proportion``, on average."""
        if not self._proportion or not self.is_open:
            return []
        left, drawn = self._proportion, []
        while self._slots and self._rng.random() < left:
            left -= 1.0
            drawn.append(self._slots[self._rng.integers(len(self._slots))])
        self._slots.append((token, columns))
        self.replayed += sum(token.steps for token, _ in drawn)
        return drawn

    def state(self) -> dict[str, Any]:
        """Return plain data; the fragments themselves are not kept."""
        return {"rng": state_of(self._rng), "replayed": self.replayed}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Continue from ``state`` with empty slots."""
        set_state(self._rng, facts["rng"])
        self.replayed = facts["replayed"]


class _Turns:
    """Batches whose passes take turns: RLlib's MinibatchBuffer. One slot gives each batch once, for all of its passes."""

    def __init__(self, config: StreamConfig) -> None:
        self._calls = config.num_sgd_iter // passes_per_call(config)  # of the learner for each batch
        self._slots = [(None, 0)] * config.minibatch_buffer_size  # (batch, calls left)
        self._at = 0

    @property
    def pending(self) -> bool:
        """Whether a batch waits for another pass."""
        return any(left for _, left in self._slots)

    def take(self, new: Callable[[], Any]) -> tuple[Any, bool] | None:
        """Return (batch, whether it is looked at for the first time), or None; ``new()`` gives the next one, or None.

        A slot that nothing waits for is passed over.
        """
        for _ in self._slots:
            at, self._at = self._at, (self._at + 1) % len(self._slots)
            batch, left = self._slots[at]
            is_new = not left
            if is_new:
                batch, left = new(), self._calls
            if batch is not None:
                self._slots[at] = (batch, left - 1) if left > 1 else (None, 0)
                return batch, is_new
        return None


class _Staleness:
    """Policy lag of the training data: how many versions older than the newest its behaviour weights were."""

    def __init__(self) -> None:
        self._lags = []

    def learnt(self, newest: int, versions: Iterable[int]) -> None:
        """Note a batch that is about to be learnt from."""
        self._lags.extend(max(0, newest - version) for version in versions)

    def close(self) -> dict[str, float | None]:
        """Return the mean and the largest since the last call; None where nothing was learnt."""
        lags, self._lags = self._lags, []
        return {"weight_lag_mean": sum(lags) / len(lags) if lags else None, "weight_lag_max": max(lags, default=None)}
