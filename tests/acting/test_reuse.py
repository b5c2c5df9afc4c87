"""Environments whose objects are used for several episodes: bit for bit those of new objects, whatever happened before."""

import gymnasium
import numpy as np
import pytest

from drl_cli.acting import envs, preprocessing
from drl_cli.acting.env_batch import EnvBatch

KNOWN = [
    ("CartPole-v1", {}),
    ("CartPole-v1", {"sutton_barto_reward": True}),
    ("drl/StatelessCartPole-v1", {}),
    ("Acrobot-v1", {}),
    ("MountainCar-v0", {}),
    ("MountainCarContinuous-v0", {}),
    ("Pendulum-v1", {"g": 9.0}),
    ("LunarLander-v3", {}),
    ("LunarLander-v3", {"enable_wind": True}),
    ("LunarLander-v3", {"continuous": True}),
]


def _episode(env, seed, actions):
    """Every number of an episode that ends, or is broken off behind the last of ``actions``."""
    seen = [*env.reset(seed=seed)[0]]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen += [*obs, reward, terminated, truncated]
        if terminated or truncated:
            break
    return seen


@pytest.mark.parametrize(("env_id", "env_config"), KNOWN, ids=[f"{env_id} {config}" for env_id, config in KNOWN])
def test_reset_with_a_seed_makes_a_used_environment_as_new(env_id, env_config):
    used, rng = envs.make(env_id, env_config), np.random.default_rng(0)
    assert preprocessing.forgets(used)
    used.action_space.seed(1)
    for seed in range(25):
        actions = [used.action_space.sample() for _ in range(rng.integers(1, 300))]
        new = envs.make(env_id, env_config)
        assert _episode(used, seed, actions) == _episode(new, seed, actions)
        new.close()
    used.close()


@pytest.mark.parametrize(
    "wrapper", [None, gymnasium.wrappers.NormalizeReward, gymnasium.wrappers.FrameStackObservation]
)
def test_what_is_not_known_to_forget_is_made_anew(wrapper):
    if wrapper is None:
        assert not preprocessing.forgets(envs.make("BipedalWalker-v3", {}))
    else:
        env = envs.make("CartPole-v1", {})
        more = {"stack_size": 2} if wrapper is gymnasium.wrappers.FrameStackObservation else {}
        assert preprocessing.forgets(env) and not preprocessing.forgets(wrapper(env, **more))


@pytest.mark.parametrize(("env_id", "same"), [("CartPole-v1", True), ("BipedalWalker-v3", False)])
def test_objects_are_kept_for_the_next_episode_only_where_they_forget(env_id, same):
    batch = EnvBatch({"id": env_id, "env_config": {}}, 2, (3, 0), horizon=4)
    batch.reset()
    first = list(batch._envs)
    actions = np.zeros(
        (2, *batch._envs[0].action_space.shape), np.float32 if batch._envs[0].action_space.shape else int
    )
    for _ in range(4):
        stepped = batch.step_all(actions)
    assert [end[:3] for end in stepped.ends] == [(0, False, True), (1, False, True)]
    assert [old is new for old, new in zip(first, batch._envs, strict=True)] == [same, same]
    assert [batch._logs.lengths.tolist(), batch._episode] == [[0, 0], [2, 2]]
    batch.close()
