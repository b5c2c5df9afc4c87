"""Learner: owns the graph and its session, runs updates, pushes what it publishes to the parameter server.

TensorFlow is imported with this module, so it is loaded by its dotted name, in the thread or process that learns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from drl_cli.actors.part_records import LearnerIdentity, UpdateResult
from drl_cli.actors.session_state import Trained
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.contracts import Handle
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.repeat import Repeated, repeated


class Learner:
    """Runs updates on blocks of batches. ``prepare`` must come before the first ``learn``."""

    _loop: Repeated

    def __init__(
        self,
        config: BufferedKeys,
        spec: PolicySpec,
        graph: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """See ``Trained``; ``graph``: dotted name of the algorithm's graph module, which builds a LearnerGraph."""
        self._config = config
        self._trained = Trained(config, spec, graph, initial, identity, server)
        self.publish, self.push = self._trained.publish, self._trained.push
        self.state, self.load = self._trained.state, self._trained.load
        self.scale_rates = self._trained.scale_rates
        self.observe = self._trained.observe

    def prepare(self) -> float:
        """Build and compile the graph without touching a weight; returns the seconds that it took."""
        began = time.perf_counter()

        def add(built: Any) -> None:
            self._loop = repeated(
                built, self._config.updates_per_call, self._config.train_batch_size, bool(self._config.xla)
            )

        self._trained.open(add, lambda: self._call({name: self._zeros(name) for name in self._loop.block}, 0, 0))
        self._trained.graph.finalize()
        return time.perf_counter() - began

    def learn(self, block: Mapping[str, np.ndarray], count: int, env_steps: int) -> UpdateResult:
        """Make ``count`` updates on the first batches of ``block`` (see ReplayBuffer.sample).

        ``env_steps`` places the learning rates on their schedules. Returns dict(updates, stats, seconds, version), and for
        a prioritized block ``serial`` [M] and ``priority`` [M] of the rows learnt from.
        Raises Diverged when a loss or gradient is not finite; that update has not been applied.
        """
        began = time.perf_counter()
        self._trained.filter_anew()
        out = self._call(block, count, env_steps)
        self._trained.made(out["done"], out["finite"])
        if self._trained.unpushed >= self._config.publish_every:
            self._trained.send(keep=False)
        stats = {name: float(value) for name, value in out["stats"].items()}
        seconds = time.perf_counter() - began
        updates = int(out["done"])
        result: UpdateResult = {
            "updates": updates,
            "stats": stats,
            "seconds": seconds,
            "version": self._trained.version,
        }
        if "serial" in block and "priority" in out["rows"]:
            result["serial"] = block["serial"][:updates].ravel()
            result["priority"] = out["rows"]["priority"][:updates].ravel()
        return result

    def _call(self, block: Mapping[str, np.ndarray], count: int, env_steps: int) -> Any:
        feeds: dict[Any, Any] = {self._loop.block[name]: block[name] for name in self._loop.block}
        feeds[self._loop.count] = count
        return self._trained.run(self._loop.fetches, feeds, self._loop.rates, env_steps)

    def _zeros(self, name: str) -> np.ndarray:
        placeholder = self._loop.block[name]
        return np.zeros(placeholder.shape.as_list(), placeholder.dtype.as_numpy_dtype)
