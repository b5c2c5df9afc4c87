"""GradientWorker: a rollout worker that sends what its fragments teach instead of the fragments.

The gradient is computed in NumPy where the nets are dense; otherwise in a graph, for which TensorFlow is loaded here, behind
the first fragment. Everything else is the RolloutWorker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli.actors import worker_functions
from drl_cli.actors.part_records import WorkerIdentity
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.algorithms.a3c_gradients import NumpyGradients, is_computed
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Token
from drl_cli.experience.trajectories import join
from drl_cli.extras import load
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.schedules import value_at

GRAPH = "drl_cli.actors.graph_gradients:GraphGradients"


class GradientWorker:
    """The same surface as a RolloutWorker; ``collect`` brings gradients."""

    def __init__(
        self, config: A3CConfig, env: EnvSetup, spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """See RolloutWorker."""
        self._config, self._spec = config, spec
        self._worker = RolloutWorker(config, env, spec, identity, server)
        self._compute = NumpyGradients(config, spec) if is_computed(spec) else None
        self._base, self._own = identity["base"], 0  # env steps of the run when this worker began, and its own since
        self._share = config.num_envs_per_worker / identity["streams"]  # of this worker in the run's env steps
        self.close, self.set_task = self._worker.close, self._worker.set_task

    def collect(self, min_version: int = 1, max_version: int | None = None) -> tuple[Token, dict[str, Any]]:
        """Sample one fragment and differentiate the loss on it; returns (Token, dict(gradients, stats)).

        The gradients, {weight name: array}, are of the weights of ``Token.meta.version``, which acted. Waits for weights of
        ``min_version`` or newer; does not adopt any beyond ``max_version``.
        """
        # Before the first weights there is nothing to differentiate.
        token, columns = self._worker.collect(max(1, min_version), max_version)
        began = time.perf_counter()
        if self._compute is None:
            made: Any = load(GRAPH)
            self._compute = made(self._config, self._spec)
        batch = join([columns], self._config.gamma, sequence_length(self._config), self._spec.stepwise)
        # Schedules go by the run's env steps; the others are taken to sample as fast as this worker.
        coefficient = value_at(self._config.entropy_coeff, self._base + self._own / self._share)
        gradients, stats = self._compute(self._worker.policy, batch, coefficient)
        self._own += token.steps
        seconds = token.seconds | {"learn": time.perf_counter() - began}
        return token._replace(seconds=seconds), {"gradients": gradients, "stats": stats}

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of the environments."""
        return self._worker.foreach_env(function)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next gradient depends on."""
        arrays, facts = self._worker.state()
        return arrays, facts | {"env_steps": [self._base, self._own]}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> int:
        """Continue from ``state``; what it returns and raises as for a RolloutWorker."""
        if "env_steps" not in facts:
            raise CheckpointError("The state of a worker is incomplete (env_steps).")
        differing = self._worker.load(arrays, facts)
        self._base, self._own = facts["env_steps"]
        return differing
