"""BlockWorker: the rollout worker of a deterministic run, which steps blocks of environments that belong to the run.

Each block is a RolloutWorker with the number of the block in place of its own: seeds, exploration and fragments follow from
that. ``runtime.block_pool`` says with each call which block goes on, and from which state where this process does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from drl_cli.actors import node_weights, worker_functions
from drl_cli.actors.part_records import SampledConfig, WorkerIdentity
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.actors.weight_pulls import WeightWait, widened
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.errors import RunFailed
from drl_cli.experience.columns import Token
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

State = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]
"""What ``RolloutWorker.state`` returns."""


class BlockWorker:
    """Steps any of the run's blocks; a plain class, as RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(
        self, config: SampledConfig, env: EnvSetup, spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """Arguments as a RolloutWorker's; ``identity["streams"]``: environments of all blocks."""
        self._config, self._env, self._spec, self._identity = config, env, spec, identity
        self._weights = VersionedWeights(server, identity["index"])
        self._blocks: dict[int, RolloutWorker] = {}

    @property
    def policy(self) -> NumpyPolicy:
        """The NumpyPolicy of its first block."""
        return self._blocks[min(self._blocks)].policy

    def collect(
        self, version: int, block: int, incarnation: int, state: State | tuple[()] | None, is_kept: bool
    ) -> tuple[Token, dict[str, np.ndarray]]:
        """Return the next (Token, columns) of ``block``, with weights of exactly ``version``.

        ``state``: that the block goes on from, () at its beginning, None where it goes on here. ``incarnation``: how often the
        run went on without its running episodes. With ``is_kept`` the token brings the state after the fragment.
        """
        differing = self._go_on_from(block, incarnation, state) if state is not None else 0
        self._weights.adopt(version)
        worker = self._blocks[block]
        token, columns = worker.collect(version, version)
        if differing:
            text = f"{differing} running episodes of environment block {block} differed when they were replayed, and began anew"
            token = token._replace(notes=(f"{text}: this run is not deterministic. Set fresh_envs", *token.notes))
        return (token._replace(state=worker.state()) if is_kept else token), columns

    def _go_on_from(self, block: int, incarnation: int, state: State | tuple[()]) -> int:
        if block in self._blocks:
            self._blocks.pop(block).close()
        identity = {**self._identity, "index": block, "incarnation": incarnation}
        identity["stream"] = block * self._config.num_envs_per_worker
        worker = RolloutWorker(
            self._config, self._env, self._spec, cast(WorkerIdentity, identity), cast(Handle, self._weights)
        )
        worker.check = self._check  # type: ignore[method-assign]
        self._blocks[block] = worker
        return worker.load(*state) if state else 0

    def _check(self) -> None:
        self.check()

    def state(self, block: int, incarnation: int) -> State:
        """Return the state of ``block``, which begins if it has not."""
        if block not in self._blocks:
            self._go_on_from(block, incarnation, ())
        return self._blocks[block].state()

    def load(self, block: int, incarnation: int, state: State) -> int:
        """Let ``block`` go on from ``state``; returns how many running episodes begin anew."""
        return self._go_on_from(block, incarnation, state)

    apply = worker_functions.apply

    def foreach_env(self, function: Any) -> list[Any]:
        """Return [function(env)] of the environments of its blocks, in their order."""
        return [found for block in sorted(self._blocks) for found in self._blocks[block].foreach_env(function)]

    def set_task(self, task: Any) -> None:
        """Raise RunFailed: tasks are not part of what is computed again."""
        raise RunFailed(f"set_task({task!r}): a run with deterministic: true keeps the tasks of its environments.")

    def close(self) -> None:
        """Close all environments."""
        for worker in self._blocks.values():
            worker.close()


class VersionedWeights:
    """Weights of one version from the parameter server, in whose place it stands for the blocks of a process."""

    name, is_remote = "weights", False

    def __init__(self, server: Handle, worker: int) -> None:
        """``worker``: its index."""
        self._source, self._worker = node_weights.source(server), worker
        self._version, self._held = 0, {}

    def adopt(self, version: int) -> None:
        """Hold the weights of ``version``, once they have been pushed. Raises RunFailed where they do not come."""
        wait = WeightWait(self._worker, version)
        while self._version != version:
            # What is computed again after a loss may need older weights than the last.
            have = self._version if self._version < version else 0
            found = self._source.pull(have, version).result()
            if found is not None:
                self._version, self._held = found[0], widened(found[1])
            if self._version != version:
                wait.pause(self._version)

    def call(self, method: str, have: int, most: int) -> VersionedWeights:
        """``pull`` of ParameterServer, as WeightPulls calls it."""
        del method, most
        self._have = have
        return self

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return True

    def result(self) -> tuple[int, Any] | None:
        """Return (version, weights), None where the caller has them."""
        return None if self._have == self._version else (self._version, self._held)
