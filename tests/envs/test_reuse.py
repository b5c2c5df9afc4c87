"""Environment objects that are used for several episodes: what a reset with a seed forgets, and what lives on."""

import gymnasium
import numpy as np
import pytest

from drl_cli.envs import carry_over, make
from drl_cli.envs.env_batch import EnvBatch

FORGETFUL = [
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


@pytest.mark.parametrize(
    ("env_id", "env_config"), FORGETFUL, ids=[f"{env_id} {config}" for env_id, config in FORGETFUL]
)
def test_reset_with_a_seed_makes_a_used_environment_as_new(env_id, env_config):
    used, rng = make.make(env_id, env_config), np.random.default_rng(0)
    used.action_space.seed(1)
    for seed in range(25):
        actions = [used.action_space.sample() for _ in range(rng.integers(1, 300))]
        new = make.make(env_id, env_config)
        assert _episode(used, seed, actions) == _episode(new, seed, actions)
        new.close()
    used.close()
    assert carry_over.tried(lambda: make.make_raw(env_id, env_config)).is_nothing


def test_a_walker_that_keeps_its_world_is_found_to_differ():
    found = carry_over.tried(lambda: make.make_raw("BipedalWalker-v3", {}))
    assert found.differs.startswith("from step ") and not found.is_nothing
    assert str(found) == f"a used one differs from a new one {found.differs}"


@pytest.mark.parametrize(
    ("wrapper", "kept"),
    [
        (gymnasium.wrappers.NormalizeObservation, "NormalizeObservation.obs_rms"),
        (gymnasium.wrappers.NormalizeReward, "NormalizeReward.return_rms"),
        (gymnasium.wrappers.RecordEpisodeStatistics, "RecordEpisodeStatistics.episode_count"),
    ],
)
def test_statistics_of_a_wrapper_are_found_by_their_names(wrapper, kept):
    found = carry_over.tried(lambda: wrapper(gymnasium.make("CartPole-v1", disable_env_checker=True)))
    assert kept in found.kept
    assert (found.differs is None) == (wrapper is gymnasium.wrappers.RecordEpisodeStatistics)


class Curriculum(gymnasium.Env):
    """Episodes of one step, which begin elsewhere when ``later`` of them are over; all objects are in ``made``."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    made, later = [], 50

    def __init__(self):
        self.episodes = 0
        self.rng = np.random.default_rng(3)
        self.made.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        return np.float32([0.5 if self.episodes > self.later else 0.0]), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {}


@pytest.fixture
def curriculum():
    gymnasium.register("Curriculum-v0", Curriculum)
    Curriculum.made.clear()
    yield "Curriculum-v0"
    del gymnasium.registry["Curriculum-v0"]


def test_a_counter_that_matters_only_later_is_found(curriculum, monkeypatch):
    monkeypatch.setattr(Curriculum, "later", 10_000)
    found = carry_over.tried(lambda: gymnasium.make(curriculum, max_episode_steps=5, disable_env_checker=True))
    assert (found.differs, found.kept, str(found)) == (None, ("Curriculum.episodes",), "Curriculum.episodes")


def test_a_curriculum_lives_on_from_episode_to_episode(curriculum):
    batch = EnvBatch({"id": curriculum, "env_config": {}}, 2, (3, 0))
    batch.reset()
    for _ in range(60):
        batch.step_all(np.zeros((2, 1), np.float32))
    assert [env.episodes for env in Curriculum.made] == [61, 61]
    assert batch.obs().tolist() == [[0.5], [0.5]]
    batch.close()


@pytest.mark.parametrize(
    ("env_id", "fresh"), [("CartPole-v1", False), ("BipedalWalker-v3", False), ("CartPole-v1", True)]
)
def test_objects_are_kept_for_the_next_episode_unless_fresh_ones_are_wanted(env_id, fresh):
    batch = EnvBatch({"id": env_id, "env_config": {}, "fresh_envs": fresh}, 2, (3, 0), horizon=4)
    batch.reset()
    first = list(batch._envs)
    actions = np.zeros(
        (2, *batch._envs[0].action_space.shape), np.float32 if batch._envs[0].action_space.shape else int
    )
    for _ in range(4):
        stepped = batch.step_all(actions)
    assert [end[:3] for end in stepped.ends] == [(0, False, True), (1, False, True)]
    assert [old is new for old, new in zip(first, batch._envs, strict=True)] == [not fresh] * 2
    assert [batch._logs.lengths.tolist(), batch._seeds.used] == [[0, 0], [2, 2]]
    batch.close()
