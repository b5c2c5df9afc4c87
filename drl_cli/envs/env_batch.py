"""N environments stepped side by side: the one type of environment that workers see.

``step_all`` and ``step`` reset ended environments in the same step. The object is used again for the next episode, which is
seeded by (seed, worker, env, episode), so that it can be replayed from its actions; with ``fresh_envs`` every episode has a new
object. What a reset with a seed does not reset is carried over (of a BipedalWalker in 4 of 10 cases). A game whose lives are
episodes goes on in its object, and games that are slow to seed go on without a seed for some thousand steps (``fresh_after`` of
the preprocessing); all actions since the last seed are kept (4 bytes a step and number, see ``steps.ActionLogs``).

Observations are kept as they come, uint8 images as uint8, all else as float32, in stacks of the preprocessing's ``frames``.

An environment that raises or exits, or whose observation or reward is not finite or has another shape, costs only its running
episode: the step is not stored, a new episode begins in a new object, the stream is cut. Too many in a row end the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli.envs import preprocessors
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.env_reuse import FOREIGN, EnvMaker, EpisodeSeeds
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.envs.env_tasks import EnvTasks
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.remote_env import game_goes_on
from drl_cli.envs.render import Viewer
from drl_cli.envs.spaces import seen_dtype
from drl_cli.envs.steps import ActionLogs, Stepped, as_action, as_actions, as_number, is_finite, not_finite_error
from drl_cli.errors import CheckpointError, PluginFailed


class EnvBatch:
    """The environments of one worker."""

    def __init__(
        self,
        setup: EnvSetup,
        count: int,
        key: tuple[int, int],
        horizon: int | None = None,
        soft: bool = False,
        viewer: Viewer | None = None,
        watch: CallbackEpisodes | None = None,
    ) -> None:
        """``setup``: which environments; ``count``: N; ``key``: (seed, worker index); ``horizon``: steps.

        ``soft``: at the horizon an episode ends, but its environment goes on from where it is. ``viewer``: of the first
        environment (see ``envs.render``), or None. ``watch``: the callbacks' episodes, or None.
        """
        self._setup, self._horizon, self._soft = setup, horizon, soft
        self._plan = setup.get("preprocessing") or preprocessors.NOTHING
        self._viewers = [viewer or Viewer(), *[Viewer()] * (count - 1)]
        self._watch, self.infos = watch, [{}] * count  # infos: of each environment's last step
        self.count = count
        self.notes: list[str] = []  # what broke, taken by the worker
        self.bad_steps = 0
        self.making_s = 0.0  # spent on new objects, the first ones left out; taken by the worker
        self._seeds = EpisodeSeeds(setup["id"], key, count)
        self._maker = EnvMaker(setup, count)
        self._tasks = EnvTasks(setup, count)
        self._envs: list[Any] = [None] * count  # gymnasium.Env or RemoteEnv; None: not made yet
        self._is_spent = [True] * count  # whether the next seed needs a new object: there is none yet, or it raised
        self._began = [0] * count  # after how many logged actions the running episode began
        self._mid_game = [False] * count
        # Made by the first reset, which knows the shapes: actions since the last seed, for exact resume, and observations.
        self._logs: ActionLogs = None  # type: ignore[assignment]
        self._frames: FrameStack = None  # type: ignore[assignment]

    def reset(self) -> np.ndarray:
        """Begin an episode in every environment; returns the observations, as ``obs``."""
        self._start_processes()
        for index in range(self.count):
            self.restart(index)
        self.making_s = 0.0
        return self.obs()

    def _start_processes(self) -> None:
        """Start the processes of environments that have one, all at once."""
        if self._maker.is_remote:
            self._envs = [self._maker.renewed(env) for env in self._envs]

    def obs(self) -> np.ndarray:
        """Return the present observations, [N, …] float32 or uint8 (images of bytes)."""
        return self._frames.newest()

    def stacked(self) -> np.ndarray:
        """Return what the policy acts on, [N, H, W, C·frames]: the last observations, oldest first; ``obs`` for 1 frame."""
        return self._frames.stacked()

    def one_obs(self, index: int) -> np.ndarray:
        """Return the present observation of environment ``index``, [1, …]."""
        return self._frames.newest(slice(index, index + 1))

    def one_stacked(self, index: int) -> np.ndarray:
        """Return the present stack of environment ``index``, [1, H, W, C·frames]."""
        return self._frames.stacked(slice(index, index + 1))

    def step_all(self, actions: np.ndarray, which: Sequence[int] | None = None) -> Stepped:
        """Step every environment, or those of the indices ``which``, with its row of ``actions`` [N, …] (see ``step``).

        Returns Stepped. New episodes have begun where one ended or broke.
        """
        which = range(self.count) if which is None else which
        rewards, ended, failed = self._take_all(as_actions(actions), which)
        self._log(actions, which, failed)
        if self._watch is not None:
            for index in which:
                if index not in failed:
                    self._notify_step(index, actions[index], float(rewards[index]))
        going_on = self._cut_at_horizon(self._horizon, ended, failed) if self._horizon is not None else ()
        if any(self._seeds.failures):
            self._seeds.worked(set(which).difference(failed))
        if not failed and not ended:
            return Stepped(rewards, [], [])
        ends = []
        for index in sorted({*failed, *ended}):
            if index in failed:
                self._break(index, failed[index])
            else:
                ends.append((index, *ended[index], self.one_obs(index)[0]))
                self._begin(index, index in going_on)
        return Stepped(rewards, ends, sorted(failed))

    def _take_all(
        self, given: list, which: Sequence[int]
    ) -> tuple[list[float], dict[int, tuple[bool, bool]], dict[int, BaseException]]:
        """Step; return rewards, {index: (terminated, truncated)} and {index: what it raised, or what is wrong}."""
        envs, put, infos = self._envs, self._frames.put, self.infos
        rewards, ended, failed = [0.0] * self.count, {}, {}
        for index in which if self._maker.is_remote else ():
            envs[index].begin(given[index])
        for index in which:
            try:
                obs, reward, terminated, truncated, infos[index] = envs[index].step(given[index])
                put(index, obs)
                rewards[index] = reward if type(reward) is float else as_number(reward)
                if terminated or truncated:
                    ended[index] = (bool(terminated), bool(truncated))
                if index == 0:
                    self._viewers[0].stepped(envs[0], self.notes)
            except FOREIGN as error:
                failed[index] = error
        bad = self._frames.not_finite()
        if bad or not math.isfinite(sum(rewards)):
            for index in set(which).difference(failed):
                if index in bad or not math.isfinite(rewards[index]):
                    failed[index] = not_finite_error(rewards[index])
        for index in failed:
            rewards[index] = 0.0
        return rewards, ended, failed

    def _log(self, actions: np.ndarray, which: Sequence[int], failed: Mapping[int, BaseException]) -> None:
        """Log the actions [N, …] of the environments ``which``, those that failed left out."""
        self._logs.append(actions)
        if len(which) < self.count:
            for index in set(range(self.count)).difference(which):
                self._logs.drop(index)
        for index in failed:
            self._logs.drop(index)

    def _cut_at_horizon(
        self, horizon: int, ended: dict[int, tuple[bool, bool]], failed: Mapping[int, BaseException]
    ) -> set[int]:
        """Add the episodes that have reached the horizon to ``ended``; returns those whose environment goes on (soft)."""
        going_on = set()
        for index in range(self.count):
            if index in failed or self.episode_length(index) < horizon:
                continue
            if self._soft and index not in ended:
                going_on.add(index)
            if not ended.get(index, (False, False))[0]:
                ended[index] = (False, True)
        return going_on

    def step(self, index: int, action: np.ndarray) -> tuple[float, bool, bool, np.ndarray] | None:
        """Step environment ``index`` with ``action``: [A] float32, or a NumPy integer for Discrete actions.

        Returns (reward, terminated, truncated, real next observation), or None when the step broke the episode: a new
        one has begun, the step has not happened, and what came before it in the stream was cut.
        """
        try:
            obs, reward, terminated, truncated, goes_on = self._take(index, action)
        except FOREIGN as error:
            self._break(index, error)
            return None
        self._seeds.worked((index,))
        self._notify_step(index, action, reward)
        if terminated or truncated:
            self._begin(index, goes_on)
        return reward, terminated, truncated, obs

    def _break(self, index: int, error: BaseException) -> None:
        """Begin a new episode in a new object after a step that broke the running one."""
        self.bad_steps += 1
        self._is_spent[index] = True
        self._viewers[index].broken()
        self.notes.append(self._seeds.failed(index, error, f"step {self._logs.length(index)}"))
        self.restart(index)

    def episode_length(self, index: int) -> int:
        """Return the steps of the running episode of environment ``index``."""
        return self._logs.length(index) - self._began[index]

    def is_mid_game(self, index: int) -> bool:
        """Whether the running episode of environment ``index`` is a further life of a game that began before it."""
        return self._mid_game[index]

    def objects(self) -> list[Any]:
        """Return the environments that are there, a gymnasium.Env or RemoteEnv each: all after the first reset."""
        return [env for env in self._envs if env is not None]

    def set_task(self, task: Any) -> None:
        """Set the task of all environments, those of later objects too; see ``envs.env_tasks``."""
        self._tasks.set(task, self._envs, self._logs.lengths if self._logs is not None else ())

    def close(self) -> None:
        """Close all environments, and let go of them: a game of ale_py that is left at exit is reported on stderr."""
        self._viewers[0].broken()
        for env in self.objects():
            env.close()
        self._envs = [None] * self.count

    def _take(self, index: int, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, bool]:
        """Step, and log the step; raises what the environment raises, or what is wrong with its answer.

        Returns (obs, reward, terminated, truncated, whether the environment goes on after a soft horizon).
        """
        # What is replayed must be what was meant, also where an environment writes to its input: it gets a copy.
        obs, reward, terminated, truncated, self.infos[index] = self._envs[index].step(as_action(action.copy()))
        obs, reward = self._frames.seen(obs), as_number(reward)
        if not is_finite(obs, reward):
            raise not_finite_error(reward)
        self._logs.append(action, index)
        self._frames.push(index, obs)
        self._viewers[index].stepped(self._envs[index], self.notes)
        cut = self._horizon is not None and self.episode_length(index) >= self._horizon and not terminated
        return obs, reward, bool(terminated), bool(truncated) or cut, self._soft and cut and not truncated

    def _begin(self, index: int, goes_on: bool = False) -> None:
        """Begin an episode: the next life or game where that goes on, else one from a seed of its own.

        ``goes_on``: it begins where the last one stopped, without a reset.
        """
        if goes_on:
            self._frames.begin(index, self.one_obs(index)[0].copy())  # no stack reaches back over an end
            self._began[index] = self._logs.length(index)
            self._notify_end(index)
            self._notify_begin(index)
            return
        if not game_goes_on(self._envs[index]):
            self._viewers[index].ended(self.notes)
            self._notify_end(index)
        if self._keeps(index):
            try:
                self._again(index)
            except FOREIGN as error:
                self._is_spent[index] = True
                self.notes.append(self._seeds.failed(index, error, "a later reset"))
            else:
                if not self._mid_game[index]:
                    self._notify_begin(index)
                return
        self.restart(index)

    def _notify_begin(self, index: int) -> None:
        if self._watch is not None:
            self._watch.began(index, self._envs[index], lambda: self.one_obs(index)[0])

    def _notify_step(self, index: int, action: np.ndarray, reward: float) -> None:
        if self._watch is not None:
            self._watch.stepped(index, as_action(action), reward, self.infos[index])

    def _notify_end(self, index: int) -> None:
        if self._watch is not None:
            self._watch.ended(index)

    def _keeps(self, index: int) -> bool:
        """Whether the next episode goes on from the present one without a seed."""
        if game_goes_on(self._envs[index]):
            return True
        return not self._is_spent[index] and self._logs.length(index) < self._plan["fresh_after"]

    def _again(self, index: int) -> None:
        """Begin the next life or game in the same object, without a seed."""
        mid_game = game_goes_on(self._envs[index])
        self._set_first(index, self._envs[index].reset()[0])
        self._mid_game[index] = mid_game

    def restart(self, index: int) -> None:
        """Begin an episode from the next seed, in a new object where the present one is spent."""
        while True:
            seed = self._seeds.next(index)
            try:
                if self._is_spent[index]:
                    self._replace(index)
                self._logs.clear(index)
                self._tasks.begin(index, self._envs[index])
                self._set_first(index, self._envs[index].reset(seed=seed)[0])
                break
            except FOREIGN as error:
                self._is_spent[index] = True
                self.notes.append(self._seeds.failed(index, error, "reset"))
        self._viewers[index].began(self._envs[index], self._seeds.used[index], self.notes)
        self._seeds.used[index] += 1
        self._mid_game[index] = False
        self._notify_begin(index)

    def _set_first(self, index: int, obs: np.ndarray) -> None:
        """Take the first observation of an episode."""
        if self._frames is None:
            space = self._envs[index].observation_space
            self._frames = FrameStack(self.count, space.shape, seen_dtype(space), self._plan["frames"])
        obs = self._frames.seen(obs)
        if not is_finite(obs, 0.0):
            raise FloatingPointError("the first observation is not finite")
        self._frames.begin(index, obs)
        self._began[index] = self._logs.length(index)

    def _replace(self, index: int) -> None:
        """Put a new object in the place of a spent one, if there is one."""
        began, old = time.perf_counter(), self._envs[index]
        if self._maker.is_remote:
            self._envs[index] = self._maker.renewed(old)
            self._envs[index].await_made()
        else:
            self._envs[index] = None  # should the new one fail, the old one is not closed twice
            if old is not None:
                close(old)
            self._envs[index] = self._maker.made(self._viewers[index].render_mode)
        self._is_spent[index] = bool(self._setup.get("fresh_envs"))
        if self._logs is None:
            self._logs = ActionLogs(self.count, self._envs[index].action_space)
        self.making_s += time.perf_counter() - began

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): the running games as their actions, and how far each stream is."""
        arrays = {}
        for index in range(self.count):
            arrays[f"actions_{index}"] = self._logs.taken(index)
            arrays[f"obs_{index}"] = self.one_obs(index)[0]
        facts = {"episode": list(self._seeds.used), "failures": list(self._seeds.failures)}
        return arrays, facts | self._tasks.state()

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> list[int]:
        """Replay the running episodes of ``state`` in new environments; returns the indices of those that came out otherwise.

        There the environment keeps something over a reset, is not reproducible, or is another version than the one that the
        checkpoint was made with; ``restart`` them. Raises CheckpointError for what is no state of these environments.
        """
        try:
            episodes, failures = list(facts["episode"]), list(facts["failures"])
            running = [(arrays[f"actions_{index}"], arrays[f"obs_{index}"]) for index in range(self.count)]
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._setup['id']}: the state of its environments is incomplete ({error})."
            ) from error
        if not len(episodes) == len(failures) == self.count:
            raise CheckpointError(
                f"{self._setup['id']}: {len(episodes)} environments were saved; this run has {self.count}."
            )
        self._seeds.used = [episode - 1 for episode in episodes]
        self._is_spent = [True] * self.count
        self._start_processes()
        differing = [index for index, episode in enumerate(running) if not self._replayed(index, *episode, facts)]
        self._tasks.load(facts)
        self._seeds.failures = failures
        self.making_s = 0.0
        return differing

    def _replayed(self, index: int, actions: np.ndarray, obs: np.ndarray, facts: Mapping[str, Any]) -> bool:
        """Play the running episode of environment ``index`` again; returns whether it ends with ``obs``."""
        tasks = self._tasks.replaying(facts, index)
        self.restart(index)
        self._viewers[index].broken()  # what was played before the run was resumed has been filmed already
        if len(actions) and not self._logs.fits(actions):
            raise CheckpointError(f"{self._setup['id']}: the actions that were saved do not fit its action space.")
        for step, action in enumerate(self._logs.as_given(actions)):
            try:
                self._tasks.again(index, self._envs[index], step, tasks.get(step, []))
                _, reward, terminated, truncated, goes_on = self._take(index, action)
                self._notify_step(index, action, reward)
                if terminated or truncated:
                    if not goes_on and not self._keeps(index):
                        return False
                    self._begin(index, goes_on)
            except PluginFailed:
                raise
            except FOREIGN:
                self._is_spent[index] = True
                return False
        self._tasks.again(index, self._envs[index], len(actions), tasks.get(len(actions), []))
        return np.array_equal(self.one_obs(index)[0], obs)
