"""AgentsReader: fragments of several policies from files: an ``experience_reader`` for each policy that learns.

Each policy's steps are read by themselves, all policies in the same passes. Used as a worker with ``input``, or by
``mixed_worker`` beside a MultiAgentWorker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli.actors import worker_functions
from drl_cli.actors.experience_reader import ExperienceReader
from drl_cli.actors.multi_agent_worker import AgentColumns
from drl_cli.actors.part_records import ReaderIdentity
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import EnvSetup, EnvSpec, agents_of
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Meta, ReadProgress, Token


class AgentsReader:
    """One stream of fragments from files. A step is one of the policy of which a fragment has the most."""

    def __init__(
        self,
        config: BufferedKeys,
        env: EnvSetup,
        policies: Mapping[str, PolicySetup],
        identity: ReaderIdentity,
        server: Handle,
        paths: Sequence[Path | str] | None = None,
    ) -> None:
        """See ``ExperienceReader``; ``env`` with ``agents``, ``policies`` by id."""
        del config
        self._identity = identity
        own: ReaderIdentity = {**identity, "behind": 0}
        self._readers = {
            name: ExperienceReader(setup.config, policy_setup(env, name), setup.spec, own, server, paths)
            for name, setup in policies.items()
            if setup.is_trained
        }
        self._reading = list(self._readers)  # policies that have steps left in this pass
        self._sequence, self._behind = 0, identity["behind"]

    def collect(self, min_version: int = 0, max_version: int | None = None) -> tuple[Token, AgentColumns | None]:
        """Read on for a fragment of every policy; returns (Token, AgentColumns, None where nothing was left)."""
        del min_version, max_version
        began = time.perf_counter()
        while self._behind:
            self._read()
            self._behind -= 1
        found, is_over = self._read()
        tokens = [token for token, _ in found.values()]
        columns = {name: own for name, (_, own) in found.items() if own is not None}
        steps = max(token.steps for token in tokens)
        meta = Meta(self._identity["number"], self._identity["incarnation"], self._sequence, 0)
        self._sequence += bool(columns)
        progress = [token.reading for token in tokens if token.reading is not None]
        reading = ReadProgress(
            max(one.pieces for one in progress), tuple(e for one in progress for e in one.episodes), is_over
        )
        seen = {name: token.seen for name, (token, _) in found.items() if token.seen is not None}
        notes = tuple(dict.fromkeys(note for token in tokens for note in token.notes))[:3]
        seconds = {"total": time.perf_counter() - began}
        token = Token(meta, steps, (), 0, notes, seconds, {}, seen or None, reading)
        return token, AgentColumns(steps, columns) if columns else None

    def _read(self) -> tuple[dict[str, tuple[Token, dict[str, np.ndarray] | None]], bool]:
        """Return ({policy id: (Token, columns)} of what is read next, whether the pass is over with it)."""
        found = {name: self._readers[name].collect() for name in self._reading}
        self._reading = [name for name, (token, _) in found.items() if token.reading is None or not token.reading.ended]
        is_over = not self._reading
        if is_over:
            self._reading = list(self._readers)
        return found, is_over

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        arrays, facts = {}, {}
        for name, reader in self._readers.items():
            own, facts[name] = reader.state()
            arrays |= {f"{name}/{what}": array for what, array in own.items()}
        return arrays, {
            "readers": facts,
            "reading": list(self._reading),
            "sequence": self._sequence,
            "behind": self._behind,
        }

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Read on from ``state``; CheckpointError when the files or policies are others than they were."""
        try:
            for name, reader in self._readers.items():
                prefix = f"{name}/"
                own = {what.removeprefix(prefix): array for what, array in arrays.items() if what.startswith(prefix)}
                reader.load(own, facts["readers"][name])
            self._reading = [name for name in self._readers if name in facts["reading"]]
            self._sequence, self._behind = int(facts["sequence"]), int(facts["behind"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of a reader is incomplete ({error}).") from error

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return []: files have no environments."""
        return []

    def close(self) -> None:
        """Close the files that are open."""
        for reader in self._readers.values():
            reader.close()


def policy_setup(env: EnvSetup, policy: str) -> EnvSetup:
    """Return the setup of what reads the steps of one ``policy``; ``env``: with ``agents`` and ``spaces``."""
    policies = agents_of(env)["policies"]
    frames = env["spaces"].get("frames", 1) if "spaces" in env else 1
    spaces: EnvSpec = {**policies[policy]["spaces"], "frames": frames}
    return {**env, "spaces": spaces, "policies": [policy, *(name for name in policies if name != policy)]}
