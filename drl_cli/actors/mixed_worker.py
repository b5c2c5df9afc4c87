"""MixedWorker: fragments from several streams in fixed shares, sampled in the environment or read from files.

The next fragment comes from the stream that lags its share of the steps most, so that shares hold from early on and
a run repeats. What is read is read again and again: in the replay old rows make room for new ones of every stream, and the
shares of what it holds stay those of what enters. Each stream has a worker number of its own, which keeps them apart there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli.actors import worker_functions
from drl_cli.actors.agents_reader import AgentsReader
from drl_cli.actors.experience_reader import ExperienceReader
from drl_cli.actors.multi_agent_worker import AgentColumns, MultiAgentWorker
from drl_cli.actors.part_records import ReaderIdentity
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import streams
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Token
from drl_cli.policies.policy_spec import PolicySpec


class MixedWorker:
    """Same interface as a RolloutWorker, with several agents as a MultiAgentWorker."""

    def __init__(
        self,
        config: BufferedKeys,
        env: EnvSetup,
        acting: PolicySpec | Mapping[str, PolicySetup],
        identity: ReaderIdentity,
        server: Handle,
    ) -> None:
        """Arguments as a RolloutWorker's or MultiAgentWorker's, with what readers need in ``env`` and ``identity``."""
        self._shares: list[float] = []
        self._parts: list[Any] = []
        # Files first: what is read has complete episodes in it.
        for place, stream in enumerate(sorted(streams(config), key=lambda stream: stream.paths is None)):
            if stream.paths is None:
                if isinstance(acting, PolicySpec):
                    part = RolloutWorker(config, env, acting, identity, server)
                else:
                    part = MultiAgentWorker(config, env, acting, identity, server)
            else:
                own: ReaderIdentity = {
                    **identity,
                    "number": identity["index"] + (place + 1) * identity["workers"],
                    "behind": 0,
                }
                if isinstance(acting, PolicySpec):
                    part = ExperienceReader(config, env, acting, own, server, stream.paths)
                else:
                    part = AgentsReader(config, env, acting, own, server, stream.paths)
            self._shares.append(stream.share)
            self._parts.append(part)
        self._steps = [0] * len(self._parts)

    def collect(
        self, min_version: int = 0, max_version: int | None = None
    ) -> tuple[Token, dict[str, np.ndarray] | AgentColumns | None]:
        """Return (Token, columns) of the stream whose turn it is."""
        turn = min(range(len(self._parts)), key=lambda part: (self._steps[part] / self._shares[part], part))
        token, columns = self._parts[turn].collect(min_version, max_version)
        self._steps[turn] += token.steps
        return token, columns

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        arrays, facts = {}, []
        for index, part in enumerate(self._parts):
            own, known = part.state()
            arrays |= {f"{index}/{name}": array for name, array in own.items()}
            facts.append(known)
        return arrays, {"parts": facts, "steps": list(self._steps)}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> int:
        """Continue from ``state``; returns how many running episodes could not be brought back, and begin anew."""
        if len(facts.get("parts", ())) != len(self._parts) or len(facts.get("steps", ())) != len(self._parts):
            raise CheckpointError("The state of a worker is of other streams than this run's.")
        differing = 0
        for index, (part, known) in enumerate(zip(self._parts, facts["parts"], strict=True)):
            prefix = f"{index}/"
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            differing += part.load(own, known) or 0  # a reader has none
        self._steps = [int(steps) for steps in facts["steps"]]
        return differing

    def set_task(self, task: Any) -> None:
        """Set the task of the environments that are stepped."""
        for part in self._parts:
            if hasattr(part, "set_task"):
                part.set_task(task)

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of the environments."""
        return [found for part in self._parts for found in part.foreach_env(function)]

    def close(self) -> None:
        """Close all streams."""
        for part in self._parts:
            part.close()
