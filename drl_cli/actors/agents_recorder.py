"""AgentsRecorder: writes the fragments of a multi-agent worker in the format of RLlib's MultiAgentBatch, one line per fragment.

The multi-agent counterpart of ``recorder``. Each policy's steps are a batch of their own, agent by agent; ``eps_id`` is that of
the environment's episode, the same for all of its agents, ``agent_index`` the agent's place among them, ``t`` counts its steps.
Used by ``multi_agent_worker`` and ``policy_slots``. Source: RLlib 1.13, ``offline/json_writer.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli.actors.file_keeper import output_of
from drl_cli.actors.part_records import WorkerIdentity
from drl_cli.actors.recorder import EPISODES, cannot_be_written, observations_after
from drl_cli.config.sections.common import CommonKeys
from drl_cli.errors import CheckpointError
from drl_cli.experience.recorded.write import line_of_policies, probabilities
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import number

NOTED = {"eps_id": np.int64, "t": np.int64, "behaviour_logp": np.float32}
"""What a fragment that is recorded notes of each step beside the columns that are learnt from."""


class AgentsRecorder:
    """The recording of one worker."""

    def __init__(self, config: CommonKeys, folder: Path, identity: WorkerIdentity, count: int) -> None:
        """``folder``: where to; ``identity``: dict(seed, index, incarnation); ``count``: environments."""
        self._compress = tuple(config.output_compress_columns)
        self._output = output_of(folder, identity, config.output_max_file_size)
        self._index = identity["index"]
        self._base = number(identity["seed"], "worker", identity["index"], identity["incarnation"]) * EPISODES
        self._begun, self._rolls = 0, 0
        self.episode = np.zeros(count, np.int64)  # ids of the running episodes
        self.batches: dict[str, dict[str, np.ndarray]] = {}  # of the fragment that is being closed, by policy
        self._has_ended = False
        self.notes: list[str] = []  # messages for the user, taken by the worker

    def began(self, env: int) -> None:
        """An episode begins in environment ``env``."""
        self.episode[env] = self._base + self._begun
        self._begun += 1

    def roll(self) -> int:
        """Return the number of what RLlib calls an unroll: what one agent did in one environment and fragment."""
        self._rolls += 1
        return self._rolls

    def write(self, count: int) -> None:
        """Write the line of the fragment whose policies have added their batches; ``count``: its env steps."""
        batches, self.batches = self.batches, {}
        if self._has_ended or not batches:
            return
        try:
            self._output.write(line_of_policies(batches, count, self._compress))
        except OSError as error:
            self._has_ended = True
            self._output.close()
            self.notes.append(cannot_be_written(self._index, self._output.path, error))

    def state(self) -> dict[str, Any]:
        """Return plain data: which episodes run, and how far the files are."""
        return {
            "episode": self.episode.tolist(),
            "begun": self._begun,
            "rolls": self._rolls,
            "output": self._output.state(),
        }

    def load(self, facts: Mapping[str, Any]) -> None:
        """Continue from ``state``: what was written later is removed, since those steps are taken again."""
        try:
            self.episode[:] = facts["episode"]
            self._begun, self._rolls = int(facts["begun"]), int(facts["rolls"])
            self._output.cut_back(facts["output"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of a recording is incomplete ({error}).") from error

    def close(self) -> None:
        """Close the file."""
        self._output.close()


class PolicyRecording:
    """The part of a recording that one policy's streams add."""

    def __init__(
        self, recorder: AgentsRecorder, policy_id: str, spec: PolicySpec, agents: Sequence[str], everyone: Sequence[str]
    ) -> None:
        """``agents``: that the policy may act for; ``everyone``: all agents of the environment, in order."""
        self._recorder, self._policy_id = recorder, policy_id
        self._places = [list(everyone).index(agent) for agent in agents]
        count = len(recorder.episode) * len(agents)
        self._state = {
            "episode": np.full(count, -1, np.int64),
            "t": np.zeros(count, np.int64),
            "last_action": np.zeros((count, *spec.action.shape), spec.action.dtype),
            "last_reward": np.zeros(count, np.float32),
        }

    def noted(self, streams: np.ndarray, logp: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return what is noted of the steps that begin in ``streams`` (int [n]); ``logp`` [n], or None where it is unknown."""
        now, state = self._recorder.episode[streams // len(self._places)], self._state
        state["t"][streams] = np.where(state["episode"][streams] == now, state["t"][streams] + 1, 0)
        state["episode"][streams] = now
        unknown = np.full(len(streams), np.nan, np.float32)
        return {"eps_id": now, "t": state["t"][streams], "behaviour_logp": unknown if logp is None else logp}

    def add(self, columns: dict[str, np.ndarray], policy: NumpyPolicy) -> None:
        """Add the steps of a closed fragment, with raw rewards, and take what is only recorded out of its columns."""
        noted = {name: columns.pop(name) for name in NOTED}
        longest, streams = columns["reward"].shape
        lengths = columns.get("length", columns.get("steps", np.full(streams, longest))).tolist()
        every = {
            "obs": columns["obs"],
            "new_obs": observations_after(columns),
            "actions": policy.recorded(columns["action"]),
            "rewards": columns["reward"],
            "dones": columns["terminated"] | columns["truncated"],
            "terminateds": columns["terminated"],
            "truncateds": columns["truncated"],
            "eps_id": noted["eps_id"],
            "t": noted["t"],
        }
        taken = [(slice(0, steps), stream) for stream, steps in enumerate(lengths) if steps]
        if not taken:
            return
        batch = {name: np.concatenate([array[at] for at in taken]) for name, array in every.items()}
        own = [
            self._of_stream(stream, {name: array[: steps.stop, stream] for name, array in every.items()})
            for steps, stream in taken
        ]
        batch |= {name: np.concatenate([one[name] for one in own]) for name in own[0]}
        logp = np.concatenate([noted["behaviour_logp"][at] for at in taken])
        self._recorder.batches[self._policy_id] = batch | probabilities(logp)

    def _of_stream(self, stream: int, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the columns that say what came before each step, and whose it is."""
        state, count = self._state, len(columns["t"])
        whole = {"unroll_id": self._recorder.roll(), "agent_index": self._places[stream % len(self._places)]}
        found = {name: np.full(count, value, np.int64) for name, value in whole.items()}
        is_first = columns["t"] == 0
        for name, column, last in (
            ("prev_actions", columns["actions"], state["last_action"]),
            ("prev_rewards", columns["rewards"], state["last_reward"]),
        ):
            found[name] = np.concatenate([last[stream][None], column[:-1]])
            found[name][is_first] = 0
            last[stream] = column[-1]
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array}: where each stream is in its episode."""
        return {name: array.copy() for name, array in self._state.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``. Raises KeyError or ValueError for what is none."""
        for name, array in self._state.items():
            array[...] = arrays[name]
