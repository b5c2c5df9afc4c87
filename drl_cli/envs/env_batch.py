"""N environments stepped side by side: the one type of environment that workers see.

``step_all`` and ``step`` reset ended environments in the same step. The object is used again for the next episode, which is
seeded by (seed, worker, env, episode), so that it can be replayed from its actions; with ``fresh_envs`` every episode has a new
object. What a reset with a seed does not forget lives on: ``reset(seed)`` on a used BipedalWalker differs from a new one in 4
of 10 cases. A game whose lives are episodes goes on in its object, and games that are slow to seed go on without a seed for
some thousand steps (the plan's ``fresh_after``); all actions since the last seed are kept (4 bytes a step and number, see
``actions``).

Observations are kept as they come, uint8 images as uint8, all else as float32, in stacks of the plan's ``frames``.

An environment that raises, or whose observation or reward is not finite, spoils only its running episode: the step is
not stored, the object is closed, a new episode begins in a new one, the stream is cut. Failures in a row beyond a limit end
the run with their first cause.
The same goes for an observation of another shape and for an environment that exits.
"""

import math
import time
from typing import NamedTuple

import numpy as np

from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.envs.actions import ActionLogs, as_action, as_actions
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.numbers import as_number, is_finite
from drl_cli.envs.remote_env import renewed
from drl_cli.envs.render import Unseen
from drl_cli.envs.spaces import seen_dtype
from drl_cli.errors import CheckpointError, PluginFailed, WorkersFailed, failure
from drl_cli.randomness import number

FOREIGN = (Exception, SystemExit)  # an environment is foreign code: whatever it raises costs an episode, not the run
MAX_FAILURES = 10  # in a row, of one environment, before the run is given up


class Stepped(NamedTuple):
    """What one step of all environments brought."""

    rewards: list  # N floats, 0 for those that broke or stood still
    ends: list  # (index, terminated, truncated, real last observation) of each episode that ended
    broken: list  # indices of environments whose step broke the episode, see ``EnvBatch.step``


class EnvBatch:
    """The environments of one worker."""

    def __init__(self, name, count, key, horizon=None, soft=False, seen_by=None, watch=None):
        """``name``: dict(id, env_config, preprocessing, imports, fresh_envs: whether every episode has a new object, remote:
        whether each has a process of its own where there are several); ``count``: N; ``key``: (seed, worker index);
        ``horizon``: steps.

        ``soft``: at the horizon an episode ends, but its environment goes on from where it is. ``seen_by``: who looks at
        the first environment (see ``envs.render``), or None. ``watch``: the Watch of callbacks, or None.
        """
        self._name, self._key, self._horizon, self._soft = name, key, horizon, soft
        self._plan = name.get("preprocessing") or preprocessors.NOTHING
        self._seen_by = [seen_by or Unseen(), *[Unseen()] * (count - 1)]
        self._watch, self._infos = watch, [None] * count
        self.count = count
        self.notes = []  # texts about what broke, taken by the worker
        self.bad_steps = 0
        self.making_s = 0.0  # that went into new objects, the first ones left out; taken by the worker
        self._failures = [0] * count
        self._first_failures = [None] * count  # of the present row of failures
        self._envs = [None] * count
        self._is_remote, self._spaces = bool(name.get("remote")) and count > 1, None
        self._is_spent = [True] * count  # whether the next seed needs a new object: there is none yet, or it raised
        self._episode = [0] * count  # seeds so far: the last part of the next one's key
        self._logs = None  # ActionLogs of what was done since the last seed, for exact resume
        self._began = np.zeros(count, np.int64)  # after how many of these actions the running episode began
        self._mid_game = [False] * count
        self._frames = None  # FrameStack, made when the shape is known

    def reset(self):
        """Begin an episode in every environment; returns the observations, as ``obs``."""
        self._start()
        for index in range(self.count):
            self._fresh(index)
        self.making_s = 0.0
        return self.obs()

    def _start(self):
        """Start the processes of environments that have one, all at once."""
        if self._is_remote:
            with_env = envs.make(self._name["id"], self._name["env_config"], None, self._name.get("preprocessing"))
            self._spaces = with_env.observation_space, with_env.action_space
            with_env.close()
            self._envs = [renewed(env, self._name, self._spaces) for env in self._envs]

    def obs(self):
        """Return the present observations, [N, …] float32 or uint8 (images of bytes)."""
        return self._frames.newest()

    def stacked(self):
        """Return what the policy acts on, [N, H, W, C·frames]: the last observations, oldest first; ``obs`` for 1 frame."""
        return self._frames.stacked()

    def one_obs(self, index):
        """Return the present observation of environment ``index``, [1, …]."""
        return self._frames.newest(slice(index, index + 1))

    def one_stacked(self, index):
        """Return the present stack of environment ``index``, [1, H, W, C·frames]."""
        return self._frames.stacked(slice(index, index + 1))

    def step_all(self, actions, which=None):
        """Step every environment, or those of the indices ``which``, with its row of ``actions`` [N, …] (see ``step``).

        Returns Stepped. New episodes have begun where one ended or broke.
        """
        which = range(self.count) if which is None else which
        rewards, ended, failed = self._take_all(as_actions(actions), which)
        self._logs.append(actions)
        if len(which) < self.count:
            for index in set(range(self.count)).difference(which):
                self._logs.drop(index)
        for index in failed:
            self._logs.drop(index)
        if self._watch is not None:
            for index in which:
                if index not in failed:
                    self._tell_step(index, actions[index], float(rewards[index]))
        going_on = set()
        if self._horizon is not None:
            for index in np.flatnonzero(self._logs.lengths - self._began >= self._horizon).tolist():
                if self._soft and index not in failed and index not in ended:
                    going_on.add(index)
                if index not in failed and not ended.get(index, (False, False))[0]:
                    ended[index] = (False, True)
        if any(self._failures):
            self._failures = [n if i in failed or i not in which else 0 for i, n in enumerate(self._failures)]
        ends = []
        for index in sorted({*failed, *ended}):
            if index in failed:
                self._break(index, failed[index])
            else:
                ends.append((index, *ended[index], self.one_obs(index)[0]))
                self._begin(index, index in going_on)
        return Stepped(rewards, ends, sorted(failed))

    def _take_all(self, given, which):
        """Step; return rewards, {index: (terminated, truncated)} and {index: what it raised, or what is wrong}."""
        envs, put, infos = self._envs, self._frames.put, self._infos
        rewards, ended, failed = [0.0] * self.count, {}, {}
        for index in which if self._is_remote else ():
            envs[index].begin(given[index])
        for index in which:
            try:
                obs, reward, terminated, truncated, infos[index] = envs[index].step(given[index])
                put(index, obs)
                rewards[index] = reward if type(reward) is float else as_number(reward)
                if terminated or truncated:
                    ended[index] = (bool(terminated), bool(truncated))
                if index == 0:
                    self._seen_by[0].stepped(envs[0], self.notes)
            except FOREIGN as error:
                failed[index] = error
        bad = self._frames.not_finite()
        if bad or not math.isfinite(sum(rewards)):
            for index in set(which).difference(failed):
                if index in bad or not math.isfinite(rewards[index]):
                    failed[index] = _not_finite(rewards[index])
        for index in failed:
            rewards[index] = 0.0
        return rewards, ended, failed

    def step(self, index, action):
        """Step environment ``index`` with ``action``: [A] float32, or a NumPy whole number for Discrete actions.

        Returns (reward, terminated, truncated, real next observation), or None when the step broke the episode: a new
        one has begun, the step has not happened, and what came before it in the stream was cut.
        """
        try:
            obs, reward, terminated, truncated, goes_on = self._take(index, action)
        except FOREIGN as error:
            self._break(index, error)
            return None
        self._failures[index] = 0
        self._tell_step(index, action, reward)
        if terminated or truncated:
            self._begin(index, goes_on)
        return reward, terminated, truncated, obs

    def _break(self, index, error):
        """Begin a new episode in a new object behind a step that broke the running one."""
        self.bad_steps += 1
        self._is_spent[index] = True
        self._seen_by[index].spoilt()
        self._note(index, error, f"step {self._logs.lengths[index]}")
        self._fresh(index)

    def episode_length(self, index):
        """Return the steps of the running episode of environment ``index``."""
        return int(self._logs.lengths[index] - self._began[index])

    def is_mid_game(self, index):
        """Whether the running episode of environment ``index`` is a further life of a game that began before it."""
        return self._mid_game[index]

    def close(self):
        """Close all environments."""
        self._seen_by[0].spoilt()
        for env in self._envs:
            if env is not None:
                env.close()

    def _take(self, index, action):
        """Step, and note the step; raises what the environment raises, or what is wrong with its answer.

        Returns (obs, reward, terminated, truncated, whether the environment goes on behind a soft horizon).
        """
        # What is replayed must be what was meant, also where an environment writes to its input: it gets a copy.
        obs, reward, terminated, truncated, self._infos[index] = self._envs[index].step(as_action(action.copy()))
        obs, reward = self._frames.seen(obs), as_number(reward)
        if not is_finite(obs, reward):
            raise _not_finite(reward)
        self._logs.append(action, index)
        self._frames.push(index, obs)
        self._seen_by[index].stepped(self._envs[index], self.notes)
        cut = self._horizon is not None and self.episode_length(index) >= self._horizon and not terminated
        return obs, reward, bool(terminated), bool(truncated) or cut, self._soft and cut and not truncated

    def _begin(self, index, goes_on=False):
        """Begin an episode: the next life or game where that goes on, else one from a seed of its own.

        ``goes_on``: it begins where the last one stopped, without a reset.
        """
        if goes_on:
            self._frames.begin(index, self.one_obs(index)[0].copy())  # no stack reaches back over an end
            self._began[index] = self._logs.lengths[index]
            self._tell_end(index)
            self._tell_begin(index)
            return
        if not preprocessors.goes_on(self._envs[index]):
            self._seen_by[index].ended(self.notes)
            self._tell_end(index)
        if self._keeps(index):
            try:
                self._again(index)
            except FOREIGN as error:
                self._is_spent[index] = True
                self._note(index, error, "a later reset")
            else:
                if not self._mid_game[index]:
                    self._tell_begin(index)
                return
        self._fresh(index)

    def _tell_begin(self, index):
        if self._watch is not None:
            self._watch.began(index, self._envs[index], lambda: self.one_obs(index)[0])

    def _tell_step(self, index, action, reward):
        if self._watch is not None:
            self._watch.stepped(index, as_action(action), reward, self._infos[index])

    def _tell_end(self, index):
        if self._watch is not None:
            self._watch.ended(index)

    def _keeps(self, index):
        """Whether the next episode goes on from the present one without a seed."""
        if preprocessors.goes_on(self._envs[index]):
            return True
        return not self._is_spent[index] and bool(self._logs.lengths[index] < self._plan["fresh_after"])

    def _again(self, index):
        mid_game = preprocessors.goes_on(self._envs[index])
        self._first(index, self._envs[index].reset()[0])
        self._mid_game[index] = mid_game

    def _fresh(self, index):
        """Begin an episode from the next seed, in a new object where the present one is spent."""
        while True:
            seed = self._seed(index)
            try:
                if self._is_spent[index]:
                    self._replace(index)
                self._logs.clear(index)
                self._first(index, self._envs[index].reset(seed=seed)[0])
                break
            except FOREIGN as error:
                self._is_spent[index] = True
                self._note(index, error, "reset")
        self._seen_by[index].began(self._envs[index], self._episode[index], self.notes)
        self._episode[index] += 1
        self._mid_game[index] = False
        self._tell_begin(index)

    def _first(self, index, obs):
        if self._frames is None:
            space = self._envs[index].observation_space
            self._frames = FrameStack(self.count, space.shape, seen_dtype(space), self._plan["frames"])
        obs = self._frames.seen(obs)
        if not is_finite(obs, 0.0):
            raise FloatingPointError("the first observation is not finite")
        self._frames.begin(index, obs)
        self._began[index] = self._logs.lengths[index]

    def _replace(self, index):
        name, began = self._name, time.perf_counter()
        if self._is_remote:
            self._envs[index] = renewed(self._envs[index], name, self._spaces)
            self._envs[index].await_made()
        else:
            old, self._envs[index] = self._envs[index], None
            if old is not None:
                close(old)
            mode = self._seen_by[index].render_mode
            self._envs[index] = envs.make(name["id"], name["env_config"], mode, name.get("preprocessing"))
        self._is_spent[index] = bool(name.get("fresh_envs"))
        if self._logs is None:
            self._logs = ActionLogs(self.count, self._envs[index].action_space)
        self.making_s += time.perf_counter() - began

    def _seed(self, index):
        return number(self._key[0], "env", self._key[1], index, self._episode[index])

    def _note(self, index, error, where):
        # _episode counts seeds, so the running one in a step is the one before, and in a reset the next one.
        episode = self._episode[index] - (0 if where == "reset" else 1)
        seed = number(self._key[0], "env", self._key[1], index, max(episode, 0))
        text = f"{self._name['id']} failed in {where} of an episode with seed {seed}: {failure(error)}"
        if self._failures[index] == 0 or self._first_failures[index] is None:
            self._first_failures[index] = text
        self._failures[index] += 1
        self.notes.append(text)
        if where == "reset":
            self._episode[index] += 1
        if self._failures[index] > MAX_FAILURES:
            first = self._first_failures[index]
            raise WorkersFailed(f"more than {MAX_FAILURES} failures in a row; the first: {first}") from error

    def state(self):
        """Return ({name: array}, facts): the running games as their actions, and how far each stream is."""
        arrays = {}
        for index in range(self.count):
            arrays[f"actions_{index}"] = self._logs.taken(index)
            arrays[f"obs_{index}"] = self.one_obs(index)[0]
        return arrays, {"episode": list(self._episode), "failures": list(self._failures)}

    def load(self, arrays, facts):
        """Replay the running episodes of ``state`` in new environments; returns the indices of those that came out otherwise.

        There the environment keeps something over a reset, is not reproducible, or is another version than the one that the
        checkpoint was made with; ``restart`` them. Raises CheckpointError for what is no state of these environments.
        """
        try:
            episodes, failures = list(facts["episode"]), list(facts["failures"])
            running = [(arrays[f"actions_{index}"], arrays[f"obs_{index}"]) for index in range(self.count)]
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._name['id']}: the state of its environments is incomplete ({error})."
            ) from error
        if not len(episodes) == len(failures) == self.count:
            raise CheckpointError(
                f"{self._name['id']}: {len(episodes)} environments were saved; this run has {self.count}."
            )
        self._episode = [episode - 1 for episode in episodes]
        self._is_spent = [True] * self.count
        self._start()
        differing = [index for index, (actions, obs) in enumerate(running) if not self._replayed(index, actions, obs)]
        self._failures = failures
        self.making_s = 0.0
        return differing

    def _replayed(self, index, actions, obs):
        """Play the running episode of environment ``index`` again; returns whether it ends with ``obs``."""
        self._fresh(index)
        self._seen_by[index].spoilt()  # a film of what was played before the run was resumed is there already
        if len(actions) and not self._logs.fits(actions):
            raise CheckpointError(
                f"{self._name['id']}: the actions of its running episodes do not fit its action space."
            )
        for action in self._logs.as_given(actions):
            try:
                _, reward, terminated, truncated, goes_on = self._take(index, action)
                self._tell_step(index, action, reward)
                if terminated or truncated:
                    if not goes_on and not self._keeps(index):
                        return False
                    self._begin(index, goes_on)
            except PluginFailed:
                raise
            except FOREIGN:
                self._is_spent[index] = True
                return False
        return np.array_equal(self.one_obs(index)[0], obs)

    def restart(self, index):
        """Begin another episode in place of one that ``load`` could not bring back."""
        self._fresh(index)


def _not_finite(reward):
    return FloatingPointError(f"observation or reward is not finite (reward {reward})")
