"""Tester: plays whole episodes with given weights and returns their scores. It never touches what is learnt from."""

from typing import NamedTuple

import numpy as np

from drl_cli.acting import envs
from drl_cli.acting.policy import DEFAULT_POLICY, NumpyPolicy

SIDE_BY_SIDE = 16  # episodes stepped together: one forward pass for all of them


class Episode(NamedTuple):
    """One scored episode; ``reward`` is the sum of raw rewards."""

    reward: float
    length: int
    seed: int
    terminated: bool


def score(policy, env_id, env_config, seeds, explore=False, horizon=None):
    """Play one episode for each of ``seeds`` and return a list of Episode in their order.

    ``policy`` is a NumpyPolicy; each episode has an environment of its own, reset with its seed, and (with ``explore``)
    a generator of its own, so that a score depends on nothing but the weights and the seed.
    """
    episodes = []
    for start in range(0, len(seeds), SIDE_BY_SIDE):
        episodes += _play(policy, env_id, env_config, list(seeds[start : start + SIDE_BY_SIDE]), explore, horizon)
    return episodes


def _play(policy, env_id, env_config, seeds, explore, horizon):
    running, obs, totals, results = [], [], [0.0] * len(seeds), [None] * len(seeds)
    lengths = [0] * len(seeds)
    made = [envs.make(env_id, env_config) for _ in seeds]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    try:
        for index, (env, seed) in enumerate(zip(made, seeds, strict=True)):
            obs.append(np.asarray(env.reset(seed=seed)[0], np.float32))
            running.append(index)
        while running:
            if explore:  # each row with its own generator
                rows = [policy.act(obs[i][None], policy.initial_state(1), rngs[i], True)[0][0] for i in running]
                actions = policy.to_env(np.stack(rows))
            else:
                batch = np.stack([obs[i] for i in running])
                actions = policy.to_env(policy.act(batch, policy.initial_state(len(running)), None, False)[0])
            still = []
            for row, index in enumerate(running):
                next_obs, reward, terminated, truncated, _ = made[index].step(actions[row])
                obs[index] = np.asarray(next_obs, np.float32)
                totals[index] += float(reward)
                lengths[index] += 1
                if terminated or truncated or (horizon is not None and lengths[index] >= horizon):
                    results[index] = Episode(totals[index], lengths[index], seeds[index], bool(terminated))
                else:
                    still.append(index)
            running = still
    finally:
        for env in made:
            env.close()
    return results


class Tester:
    """Scores versions of the weights that the parameter server has kept."""

    def __init__(self, env, spec, server):
        """``env``: dict(id, env_config, imports, horizon, explore); ``server``: handle of the parameter server."""
        for module in env.get("imports", ()):
            envs.import_module(module)
        self._env, self._server = env, server
        self._policy = NumpyPolicy(spec)
        self._version = None

    def evaluate(self, version, seeds):
        """Score the weights of ``version`` on ``seeds``; returns a list of Episode."""
        if version != self._version:
            self._policy.set_weights(self._server.call("pull_exact", version).result()[DEFAULT_POLICY])
            self._version = version
        env = self._env
        return score(self._policy, env["id"], env["env_config"], seeds, env["explore"], env["horizon"])
