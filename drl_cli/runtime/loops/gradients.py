"""The loop of A3C: workers compute gradients, the learner applies them in the order in which they arrive.

Each worker has one gradient in flight, which it is computing or which the learner is applying. When it has been applied, the
worker computes the next one, with weights that include at least that step. Workers do not wait for each other, and pull new
weights with their own next call. The staleness of a gradient is thus the number of gradients applied meanwhile; it is
reported.

If a worker dies, one gradient is lost and its successor continues. Every gradient is the mean over one fragment, so the
others are not affected.

Without workers the same loop runs in one process: one gradient at a time, without staleness, reproducible bit for bit.

Source: Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning" (arXiv 1602.01783), section 4; gradients
that are sent instead of shared memory, as in RLlib's AsyncGradientsOptimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drl_cli.config.sections.common import CommonKeys
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.replay_shards import Shards


def make(
    cluster: Cluster, pool: WorkerPool, replay: Shards | None, learner: Handle, config: CommonKeys
) -> GradientLoop:
    """Return the loop over these parts; ``replay`` is not used."""
    return GradientLoop(cluster, pool, learner, config)


class GradientLoop:
    """``step`` issues all allowed calls and waits for one of them to complete."""

    def __init__(self, cluster: Cluster, pool: WorkerPool, learner: Handle, config: CommonKeys) -> None:
        """``learner``: handle of a GradientLearner; ``pool``: WorkerPool of GradientWorkers."""
        self._cluster, self._pool, self._learner = cluster, pool, learner
        self._applying = []  # (reference, token) of gradients that the learner has, oldest first
        self._ready, self._started = None, False
        self.ledger = Ledger(config)
        self._lags = []  # versions that each gradient was behind when it was applied

    def start(self) -> None:
        """Let the learner build its graph; sampling can begin at once."""
        self._ready, self._started = self._learner.call("prepare"), True

    @property
    def sampled(self) -> int:
        """Env steps sampled."""
        return self.ledger.sampled

    @property
    def stored(self) -> int:
        """Env steps whose gradients wait for the learner."""
        return sum(token.steps for _, token in self._applying)

    @property
    def is_learning(self) -> bool:
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self) -> int:
        """Env steps learnt from."""
        return self.ledger.trained

    def step(self, timeout: float = 0.25) -> None:
        """Ask idle workers for gradients, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._request()
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()

    def quiesce(self) -> None:
        """Deal with everything under way and ask for nothing new: afterwards no call is outstanding."""
        while self._pending():
            self._deal(self._cluster.wait(self._pending(), 0.25))
            self._pool.watch()

    def settle(self) -> None:
        """Deal with the gradients that the learner has: what it holds then belongs to the counters."""
        self._deal([reference for reference, _ in self._applying])

    def waiting(self) -> str:
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers are waiting for the learner to load"
        if self._applying:
            return "" if self._pool.outstanding else "workers are waiting for the learner"
        return "learner is waiting for gradients"

    def info(self) -> dict[str, Any]:
        """Return how stale the gradients applied since the last time were, in versions."""
        lags, self._lags = self._lags, []
        return {"weight_lag_mean": sum(lags) / len(lags) if lags else None, "weight_lag_max": max(lags, default=None)}

    def _pending(self) -> list[Call]:
        # Without Ray calls are dealt with in the order in which they were made.
        ready = [self._ready] if self._ready is not None else []
        return ready + [reference for reference, _ in self._applying] + self._pool.references()

    def _request(self) -> None:
        with_learner = {token.meta.worker for _, token in self._applying}
        idle = self._pool.handles().keys() - with_learner
        newest = self.ledger.version
        # Without Ray a worker must not see weights of an update that has not been dealt with.
        most = None if self._cluster.is_remote else newest
        # The least busy are called first, so that each worker has one call.
        self._pool.request(len(idle) - self._pool.outstanding, newest, most, idle)

    def _deal(self, done: Iterable[Call]) -> None:
        for reference in done:
            applied = next((entry for entry in self._applying if entry[0] is reference), None)
            if applied is not None:
                self._applied(*applied)
            elif reference is self._ready:
                self._ready = None
                self.ledger.loaded(reference.result())
            else:
                self._take(reference)
        self._pool.lost_workers.clear()  # a gradient continues nothing

    def _take(self, reference: Call) -> None:
        taken = self._pool.take(reference)
        if taken is None:
            return
        token, gradients = taken
        self.ledger.stored(token, token.steps)
        seen = token.seen
        self._applying.append((self._learner.call("apply", self.sampled, seen, gradients), token))

    def _applied(self, reference: Call, token: Token) -> None:
        self._applying.remove((reference, token))
        result = reference.result()
        self._lags.append(max(0, result["version"] - 1 - token.meta.version))
        self.ledger.learnt(result, token.steps)
        self.ledger.fragments += 1

    def state(self) -> dict[str, Any]:
        """Return the counters that a checkpoint keeps, as plain data."""
        return self.ledger.state()

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self.ledger.load(facts)
