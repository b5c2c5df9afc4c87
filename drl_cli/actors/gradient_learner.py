"""GradientLearner: applies gradients that workers have computed, one after the other, and pushes after each.

TensorFlow is imported with this module, so it is loaded by its dotted name, in the thread or process that learns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from drl_cli.actors.part_records import LearnerIdentity, UpdateResult
from drl_cli.actors.session_state import Trained
from drl_cli.config.sections.on_policy import OnPolicyKeys
from drl_cli.contracts import Handle
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.tensorflow import function, tf


class GradientLearner:
    """Takes one step of the optimiser per gradient. ``prepare`` must come before the first ``apply``."""

    def __init__(
        self,
        config: OnPolicyKeys,
        spec: PolicySpec,
        graph: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """See ``Trained``; ``graph``: dotted name of the algorithm's graph module, which builds a GradientGraph."""
        self._config = config
        self._trained = Trained(config, spec, graph, initial, identity, server)
        self._given, self._rates, self._fetches = {}, {}, None
        self.publish, self.push = self._trained.publish, self._trained.push
        self.state, self.load = self._trained.state, self._trained.load
        self.scale_rates = self._trained.scale_rates

    def prepare(self) -> float:
        """Build the graph without touching a weight; returns the seconds that it took."""
        began = time.perf_counter()
        self._trained.open(self._add, lambda: self._run({n: np.zeros(p.shape) for n, p in self._given.items()}, 0))
        self._trained.graph.finalize()
        return time.perf_counter() - began

    def _add(self, built: Any) -> None:
        self._given = {
            name: tf.placeholder(tf.float32, shape, name=f"gradient/{name}") for name, shape in built.trained.items()
        }
        self._rates = {name: tf.placeholder(tf.float32, [], name=f"rate/{name}") for name in built.rates}
        compiled = function(built.apply, jit_compile=True if self._config.xla else None, autograph=False)
        self._fetches = compiled(self._given, self._rates)

    def apply(self, env_steps: int, seen: Any, found: dict[str, Any]) -> UpdateResult:
        """Apply ``found``, dict(gradients: {name: array}, stats), and push.

        ``env_steps`` places rates on their schedules; ``seen``: what the worker's observation filter saw, or None. Returns
        dict(updates, stats, seconds, version). Raises Diverged when the gradient is not finite; it has not been applied.
        """
        began = time.perf_counter()
        out = self._run(found["gradients"], env_steps)
        self._trained.made(bool(out["finite"]), out["finite"])
        if seen is not None:
            self._trained.observe([seen])  # after the step: its gradient was made with the filter as it was
        self._trained.send(keep=False)
        return {
            "updates": 1,
            "stats": found["stats"] | {"grad_norm": float(out["norm"])},
            "seconds": time.perf_counter() - began,
            "version": self._trained.version,
        }

    def _run(self, gradients: Mapping[str, np.ndarray], env_steps: int) -> Any:
        feeds = {placeholder: gradients[name] for name, placeholder in self._given.items()}
        return self._trained.run(self._fetches, feeds, self._rates, env_steps)
