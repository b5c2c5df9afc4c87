"""RolloutWorker: steps environments with the newest policy it has heard of, and sends what it saw as fragments.

A plain class: in the run's own process with ``num_workers: 0``, a Ray actor otherwise. It keeps one pull of weights
outstanding with the parameter server and adopts it when it has come; only ``min_version`` waits.
"""

import time

import numpy as np

from drl_cli.acting import envs, exploration
from drl_cli.acting.env_batch import EnvBatch
from drl_cli.acting.policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.data.columns import Meta, Token
from drl_cli.data.randomness import generator, set_state, state_of


class RolloutWorker:
    """One stream of fragments from ``num_envs_per_worker`` environments."""

    def __init__(self, config, env, spec, identity, server):
        """``env``: dict(id, env_config, imports); ``identity``: dict(seed, index, incarnation, random_steps).

        ``server`` is a handle of the parameter server: ``server.call("pull", version)`` returns a reference.
        """
        for module in env.get("imports", ()):
            envs.import_module(module)
        self._config, self._identity, self._server = config, identity, server
        key = (identity["seed"], identity["index"], identity["incarnation"])
        self._rng = generator(key[0], "worker", key[1], key[2])
        # An incarnation has its own environment seeds: a restarted worker must not repeat its predecessor's episodes.
        stream = identity["index"] + 100_003 * identity["incarnation"]
        self._envs = EnvBatch(env, config.num_envs_per_worker, (key[0], stream), config.horizon)
        self._policy = NumpyPolicy(spec)
        self._exploration = self._explorer(identity["random_steps"])
        self._state = self._policy.initial_state(config.num_envs_per_worker)
        self._version, self._pull = 0, None
        self._sequence, self._steps = 0, 0
        self._returns = np.zeros(config.num_envs_per_worker)
        self._lengths = np.zeros(config.num_envs_per_worker, np.int64)
        self._started = False

    def _explorer(self, random_steps):
        self._random_steps = random_steps
        kind = exploration.BY_NAME[self._config.exploration_config.type]
        return kind(random_steps, self._config.explore)

    def collect(self, min_version=0, max_version=None):
        """Step every environment ``rollout_fragment_length`` times; returns (Token, columns of data.columns.FRAGMENT).

        Waits for weights of ``min_version`` or newer; does not adopt any beyond ``max_version``.
        """
        began = time.perf_counter()
        if not self._started:
            self._envs.reset()
            self._started = True
        self._adopt(min_version, max_version)
        meta = Meta(self._identity["index"], self._identity["incarnation"], self._sequence, self._version)
        columns, episodes, seconds = self._fragment()
        self._sequence += 1
        notes, self._envs.notes = tuple(self._envs.notes[:3]), []
        bad, self._envs.bad_steps = self._envs.bad_steps, 0
        seconds["total"] = time.perf_counter() - began
        return Token(meta, columns["reward"].size, tuple(episodes), bad, notes, seconds), columns

    def _adopt(self, min_version, max_version):
        while True:
            if self._pull is None:
                self._pull = self._server.call("pull", self._version, max_version)
            if not self._pull.done() and min_version <= self._version:
                return
            found, self._pull = self._pull.result(), None
            if found is not None:
                self._version, weights = found
                self._policy.set_weights(weights[DEFAULT_POLICY])
            if min_version <= self._version:
                break
        if self._server.is_remote:
            self._pull = self._server.call("pull", self._version)

    def _fragment(self):
        config, envs = self._config, self._envs
        steps, count = config.rollout_fragment_length, envs.count
        obs_shape = self._policy.spec.obs_shape
        columns = {
            "obs": np.empty((steps, count, *obs_shape), np.float32),
            "action": np.empty((steps, count, self._policy.spec.action.size), np.float32),
            "reward": np.empty((steps, count), np.float32),
            "terminated": np.zeros((steps, count), bool),
            "truncated": np.zeros((steps, count), bool),
            # The first fragment of an incarnation continues nothing.
            "cut": np.full(count, self._sequence == 0),
        }
        ends, episodes, seconds = {}, [], {"env": 0.0, "policy": 0.0}
        for step in range(steps):
            began = time.perf_counter()
            obs = envs.obs()
            action, self._state, _ = self._exploration.act(self._policy, obs, self._state, self._rng, self._steps)
            env_action = self._policy.to_env(action)
            acted = time.perf_counter()
            columns["obs"][step], columns["action"][step] = obs, action
            for env in range(count):
                self._step(step, env, env_action[env], columns, ends, episodes)
            self._steps += 1
            seconds["policy"] += acted - began
            seconds["env"] += time.perf_counter() - acted
        columns["end_obs"] = (
            np.stack([ends[key] for key in sorted(ends)]) if ends else np.empty((0, *obs_shape), np.float32)
        )
        columns["tail_obs"] = envs.obs()
        columns["reward"] = clipped_rewards(columns["reward"], config.clip_rewards)
        return columns, episodes, seconds

    def _step(self, step, env, action, columns, ends, episodes):
        """Take one step of one environment, again in a new episode when it breaks, and note it in the columns."""
        outcome = self._envs.step(env, action)
        while outcome is None:
            # The broken step is not stored. What came before it in this stream ends there, cut short.
            last_obs = columns["obs"][step, env].copy()
            if step == 0:
                columns["cut"][env] = True
            elif not (columns["terminated"][step - 1, env] or columns["truncated"][step - 1, env]):
                columns["truncated"][step - 1, env] = True
                ends[step - 1, env] = last_obs
            self._returns[env], self._lengths[env] = 0.0, 0
            obs = self._envs.one_obs(env)
            chosen, _, _ = self._exploration.act(self._policy, obs, (), self._rng, self._steps)
            columns["obs"][step, env], columns["action"][step, env] = obs[0], chosen[0]
            outcome = self._envs.step(env, self._policy.to_env(chosen)[0])
        reward, terminated, truncated, next_obs = outcome
        columns["reward"][step, env] = reward
        self._returns[env] += reward
        self._lengths[env] += 1
        if terminated or truncated:
            columns["terminated"][step, env], columns["truncated"][step, env] = terminated, truncated
            ends[step, env] = next_obs
            episodes.append((float(self._returns[env]), int(self._lengths[env])))
            self._returns[env], self._lengths[env] = 0.0, 0

    def state(self):
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        if not self._started:
            self._envs.reset()
            self._started = True
        arrays, envs = self._envs.state()
        arrays["returns"], arrays["lengths"] = self._returns.copy(), self._lengths.copy()
        facts = {"rng": state_of(self._rng), "envs": envs, "sequence": self._sequence, "steps": self._steps}
        facts["random_steps"] = self._random_steps
        return arrays, facts

    def load(self, arrays, facts):
        """Continue from ``state``; CheckpointError when the running episodes cannot be replayed exactly."""
        self._envs.load(arrays, facts["envs"])
        self._started = True
        set_state(self._rng, facts["rng"])
        self._returns, self._lengths = arrays["returns"].copy(), arrays["lengths"].copy()
        self._sequence, self._steps = facts["sequence"], facts["steps"]
        self._exploration = self._explorer(facts["random_steps"])

    def close(self):
        """Close the environments."""
        self._envs.close()


def clipped_rewards(reward, rule):
    """Return the rewards to learn from: ``rule`` None or False: as they are; True: signs; x: within ±x; (lo, hi)."""
    if rule is None or rule is False:
        return reward
    if rule is True:
        return np.sign(reward)
    low, high = rule if isinstance(rule, (tuple, list)) else (-rule, rule)
    return np.clip(reward, low, high).astype(np.float32)
