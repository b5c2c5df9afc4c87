"""N environments with several agents, stepped one after the other: what ``envs.env_batch`` is for those with one.

An environment that raises, or whose observation or reward is not finite, costs only its running episode. Episodes are seeded by
(seed, worker, env, episode), and the actions since the seed are kept, so that a resumed run can play them again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli.envs.env_reuse import FOREIGN, EpisodeSeeds
from drl_cli.envs.env_spec import EnvSetup, agents_of
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_callbacks import AgentsCallbacks
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.envs.multi_agent.remote_agents import RemoteAgents
from drl_cli.envs.render import Viewer
from drl_cli.errors import CheckpointError


class AgentsBatch:
    """The environments of one worker."""

    def __init__(
        self,
        setup: EnvSetup,
        count: int,
        key: tuple[int, int],
        horizon: int | None = None,
        soft: bool = False,
        viewer: Viewer | None = None,
        watch: AgentsCallbacks | None = None,
    ) -> None:
        """``setup``: with ``agents``; ``count``: N; ``key``: (seed, worker index); ``horizon``: env steps of an episode.

        ``soft``: at the horizon an episode ends, but its environment goes on from where it is. ``viewer``: of the first
        environment (see ``envs.render``), or None. ``watch``: the callbacks' episodes, or None.
        """
        self._setup, self._horizon, self._soft, self.count = setup, horizon, soft, count
        self._viewers = [viewer or Viewer(), *[Viewer()] * (count - 1)]
        self._watch = watch
        self._is_remote = bool(setup.get("remote")) and count > 1
        self.notes: list[str] = []  # what broke or was filled in, taken by the worker
        self._said: set[str] = set()  # what was filled in: once is enough
        self.making_s = 0.0  # spent on new objects, the first ones left out; taken by the worker
        self._agents = list(agents_of(setup)["spaces"])
        self._seeds = EpisodeSeeds(setup["id"], key, count)
        self._envs: list[MultiAgentEnv | None] = [None] * count
        self._was_made = [False] * count
        self._last: list[dict[str, np.ndarray]] = [{} for _ in range(count)]  # newest observation of each living agent
        self._going_on: list[dict[str, np.ndarray] | None] = [None] * count  # who acts next, after a soft horizon
        self._who: list[list[int]] = [
            [] for _ in range(count)
        ]  # who acted since the seed: numbers of agents, −1 after a step
        self._did: list[list[np.ndarray]] = [[] for _ in range(count)]
        self.lengths = np.zeros(count, np.int64)  # env steps of the running episodes

    def objects(self) -> list[MultiAgentEnv]:
        """Return the environments that are there."""
        return [env for env in self._envs if env is not None]

    def start(self) -> None:
        """Start the processes of environments that have one, all at once."""
        if self._is_remote:
            self._envs = [RemoteAgents(self._setup) if env is None else env for env in self._envs]

    def begin(self, index: int) -> AgentsStep:
        """Begin an episode in environment ``index``: from the next seed, or after a soft horizon from where it is.

        Seeds with which it cannot begin are passed over.
        """
        goes_on, self._going_on[index] = self._going_on[index], None
        if goes_on is None:
            step = self._reset(index)
        else:
            step = AgentsStep(goes_on, {}, frozenset(), frozenset(), False, {})
        self.lengths[index] = 0
        self._last[index] = dict(step.obs)
        if self._watch is not None:
            self._watch.began(index, self._env(index), step)
        return step

    def _env(self, index: int) -> MultiAgentEnv:
        """Return environment ``index``, which is made where there is none."""
        env = self._envs[index]
        if env is None:
            began = time.perf_counter()
            if self._is_remote:
                env = RemoteAgents(self._setup)
            else:
                env = open_envs.open_setup(self._setup, self._viewers[index].render_mode)
            self._envs[index] = env
            self.making_s += time.perf_counter() - began if self._was_made[index] else 0.0
            self._was_made[index] = True
        return env

    def _reset(self, index: int) -> AgentsStep:
        while True:
            seed = self._seeds.next(index)
            try:
                if self._setup.get("fresh_envs") and self._who[index]:
                    self._spent(index)
                step = self._env(index).reset(seed)
                break
            except FOREIGN as error:
                self._discard(index)
                self.notes.append(self._seeds.failed(index, error, "reset"))
        self._viewers[index].began(self._env(index), self._seeds.used[index], self.notes)
        self._seeds.used[index] += 1
        self._who[index], self._did[index] = [], []
        return step

    def _spent(self, index: int) -> None:
        """Let the next episode have a new object; where it has a process, in that one."""
        env = self._envs[index]
        if isinstance(env, RemoteAgents) and env.process.is_alive():
            env.process.renew()
        else:
            self._discard(index)

    def send(self, actions: Sequence[Mapping[str, np.ndarray]], which: Sequence[int]) -> None:
        """Let the environments ``which`` compute at once, where each has a process; ``actions`` by environment."""
        if self._is_remote:
            for index in which:
                env: Any = self._env(index)
                env.begin(actions[index])

    def step(self, index: int, actions: Mapping[str, np.ndarray]) -> AgentsStep | None:
        """Step environment ``index``; None when that broke its episode: the step has not happened, ``begin`` comes next."""
        env, viewer = self._env(index), self._viewers[index]
        try:
            step = env.step(actions)
        except FOREIGN as error:
            self._discard(index)
            viewer.broken()
            self.notes.append(self._seeds.failed(index, error, f"step {self.lengths[index]}"))
            return None
        self._seeds.worked((index,))
        if env.notes:
            self._pass_on(env.notes)
        for agent, action in actions.items():
            self._who[index].append(self._agents.index(agent))
            self._did[index].append(np.asarray(action))
        self._who[index].append(-1)
        self.lengths[index] += 1
        step = self._cut_at_horizon(index, step)
        viewer.stepped(env, self.notes)
        if self._watch is not None:
            self._watch.stepped(index, actions, step)
        if step.is_over:
            if self._going_on[index] is None:
                viewer.ended(self.notes)
            if self._watch is not None:
                self._watch.ended(index)
        return step

    def _cut_at_horizon(self, index: int, step: AgentsStep) -> AgentsStep:
        """Return the step, with all who are left truncated at the horizon; note who lives."""
        last = self._last[index]
        last.update(step.obs)
        if self._horizon is not None and self.lengths[index] >= self._horizon and not step.is_over:
            if self._soft:
                self._going_on[index] = {agent: step.obs[agent] for agent in step.acting()}
            step = step._replace(
                obs={agent: last[agent] for agent in last},
                truncated=step.truncated | (last.keys() - step.terminated),
                is_over=True,
            )
        for agent in step.ended:
            last.pop(agent, None)
        return step

    def _pass_on(self, notes: list[str]) -> None:
        """Take what an environment filled in."""
        self.notes += [f"{self._setup['id']}: {note}" for note in notes if note not in self._said]
        self._said.update(notes)
        notes.clear()

    def living(self, index: int) -> set[str]:
        """Return the agents of environment ``index`` that were observed and have not ended."""
        return set(self._last[index])

    def _discard(self, index: int) -> None:
        env, self._envs[index] = self._envs[index], None
        if env is not None:
            try:
                env.close()
            except FOREIGN as error:
                self.notes.append(f"{self._setup['id']} failed in close: {error}")

    def close(self) -> None:
        """Close all environments."""
        self._viewers[0].broken()
        for index in range(self.count):
            self._discard(index)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): from which seeds the running episodes began, and what was done since."""
        arrays = {}
        for index in range(self.count):
            arrays[f"who_{index}"] = np.array(self._who[index], np.int32)
            numbers = [number for number in self._who[index] if number >= 0]
            for number in sorted(set(numbers)):
                own = [a for a, n in zip(self._did[index], numbers, strict=True) if n == number]
                arrays[f"did_{index}_{number}"] = np.stack(own)
        return arrays, {"episode": list(self._seeds.used), "failures": list(self._seeds.failures)}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> tuple[list[AgentsStep], list[int]]:
        """Play the running episodes of ``state`` again; returns (the last step of each, indices of those that broke).

        The caller begins new episodes in place of those that broke. Raises CheckpointError for what is no state of these
        environments.
        """
        try:
            episodes, failures = list(facts["episode"]), list(facts["failures"])
            logs = [self._steps_of(arrays, index) for index in range(self.count)]
        except (KeyError, TypeError, IndexError) as error:
            raise CheckpointError(
                f"{self._setup['id']}: the state of its environments is incomplete ({error})."
            ) from error
        if len(episodes) != self.count:
            raise CheckpointError(
                f"{self._setup['id']}: {len(episodes)} environments were saved; this run has {self.count}."
            )
        self._seeds.used = [episode - 1 for episode in episodes]
        self.start()
        steps, broken = [], []
        for index, log in enumerate(logs):
            step = self.begin(index)
            self._viewers[index].broken()  # what was played before the run was resumed has been filmed already
            for actions in log:
                after = self.step(index, actions) if set(actions) == set(step.acting()) else None
                if after is None or (after.is_over and self._going_on[index] is None):
                    broken.append(index)
                    break
                step = self.begin(index) if after.is_over else after
            steps.append(step)
        self._seeds.failures, self.making_s = failures, 0.0
        return steps, broken

    def _steps_of(self, arrays: Mapping[str, np.ndarray], index: int) -> list[dict[str, np.ndarray]]:
        """Return the actions of each step since the seed, by agent."""
        taken: dict[int, int] = {}
        steps: list[dict[str, np.ndarray]] = [{}]
        for number in arrays[f"who_{index}"].tolist():
            if number < 0:
                steps.append({})
                continue
            row = taken.get(number, 0)
            taken[number] = row + 1
            steps[-1][self._agents[number]] = arrays[f"did_{index}_{number}"][row]
        return steps[:-1]
