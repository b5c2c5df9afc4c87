"""EnvBatch with images, stacks, Discrete actions, and games that go on over several episodes."""

import json

import gymnasium
import numpy as np
import odd_envs
import pytest
from watched_callbacks import Noting

from drl_cli.envs import preprocessors
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.callbacks import Hooks
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.errors import CheckpointError
from drl_cli.randomness import number

PLAN = preprocessors.NOTHING


def _batch(name, count=2, horizon=None, **plan):
    batch = EnvBatch({"id": f"Odd-{name}-v0", "env_config": {}, "preprocessing": PLAN | plan}, count, (7, 3), horizon)
    batch.reset()
    return batch


def _again(batch, count=2, horizon=None):
    arrays, facts = batch.state()
    other = EnvBatch(batch._setup, count, (7, 3), horizon)
    other.load({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(facts)))
    return other


def test_images_stay_bytes_and_stacks_grow_from_the_first_frame():
    batch = _batch("image", frames=3)
    assert (batch.obs().shape, batch.stacked().shape) == ((2, 16, 16, 3), (2, 16, 16, 9))
    assert batch.obs().dtype == batch.stacked().dtype == np.uint8
    batch.step(0, np.int32(1))
    batch.step(0, np.int32(1))
    assert batch.stacked()[:, 0, 0].tolist() == [[100] * 3 + [101] * 3 + [102] * 3, [100] * 9]
    assert batch.one_stacked(0)[0, 1, 1].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert batch.one_obs(0).shape == (1, 16, 16, 3) and batch.one_obs(0)[0, 0, 0].tolist() == [102] * 3


def test_stack_of_one_frame_is_the_observation():
    batch = _batch("image")
    assert batch.stacked().shape == (2, 16, 16, 3) and np.array_equal(batch.stacked(), batch.obs())


def test_stack_begins_anew_with_each_episode():
    batch = _batch("image", horizon=2, frames=2)
    for _ in range(2):
        reward, terminated, truncated, obs = batch.step(0, np.int32(1))
    assert (reward, terminated, truncated, obs[0, 0].tolist()) == (1.0, False, True, [102] * 3)
    assert batch.one_stacked(0)[0, 0, 0].tolist() == [100] * 6


@pytest.mark.parametrize(("name", "width"), [("number", 5), ("dict", 4), ("double", 2)])
def test_vectors_are_float32(name, width):
    assert _batch(name).obs().dtype == np.float32 and _batch(name).obs().shape == (2, width)


def test_discrete_actions_reach_the_environment_as_python_integers_and_are_kept():
    batch = _batch("from3")
    odd_envs.Odd.given.clear()
    for action in (3, 6):
        batch.step(0, np.int64(action))
    assert odd_envs.Odd.given == [3, 6] and [type(action) for action in odd_envs.Odd.given] == [int, int]
    actions = batch.state()[0]["actions_0"]
    assert actions.dtype == np.int32 and actions.tolist() == [3, 6]
    assert batch.state()[0]["actions_1"].shape == (0,)


def test_resume_gives_back_stacks_and_goes_on_alike():
    batch = _batch("image", frames=4)
    for action in (1, 0, 1):
        batch.step(1, np.int32(action))
    other = _again(batch)
    assert np.array_equal(other.stacked(), batch.stacked()) and batch.stacked()[1, 0, 0].tolist()[::3] == [
        100,
        101,
        102,
        103,
    ]
    assert other.step(1, np.int32(1))[0] == batch.step(1, np.int32(1))[0] == 1.0
    assert np.array_equal(other.stacked(), batch.stacked())


@pytest.mark.parametrize("wrong", [np.zeros((1, 3), np.float32), np.zeros((1, 1), np.int32), np.zeros(1, np.float32)])
def test_recorded_actions_of_another_kind_are_refused(wrong):
    batch = _batch("from3", 1)
    batch.step(0, np.int32(3))
    arrays, facts = batch.state()
    with pytest.raises(CheckpointError, match="Odd-from3-v0"):
        _batch("from3", 1).load(arrays | {"actions_0": wrong}, facts)


# -- games that go on over episodes -------------------------------------------------------------------------------


@pytest.fixture
def lives():
    """The id of ``odd_envs.Lives`` with lives as episodes; nothing of gymnasium's around it."""
    odd_envs.Lives.resets.clear()
    gymnasium.register(
        "Odd-lives-v0", lambda: preprocessors.AtariGame(odd_envs.Lives(), True, True), order_enforce=False
    )
    yield "lives"
    del gymnasium.registry["Odd-lives-v0"]


def _play(batch, index, steps):
    return [batch.step(index, np.int32(0))[:3] + (batch.is_mid_game(index),) for _ in range(steps)]


def test_lives_are_episodes_of_one_game_in_one_environment(lives):
    batch = _batch(lives, 1)
    found = _play(batch, 0, 12)
    on = (1.0, False, False)
    assert [outcome[:3] for outcome in found] == [on, on, on, (1.0, True, False)] * 3
    assert [mid_game for *_, mid_game in found] == [False] * 3 + [True] * 8 + [False]
    assert odd_envs.Lives.resets == [number(7, "env", 3, 0, 0), number(7, "env", 3, 0, 1)]
    assert batch.episode_length(0) == 0


def test_games_share_an_environment_until_it_is_worn(lives):
    batch = _batch(lives, 1, fresh_after=20)
    _play(batch, 0, 12 * 3)  # three games: the second begins after 12 steps, the third after 24
    assert odd_envs.Lives.resets == [number(7, "env", 3, 0, 0), None, number(7, "env", 3, 0, 1), None]


@pytest.mark.parametrize(("plan", "steps"), [({}, 12), ({"fresh_after": 20}, 24)])
def test_lives_of_a_game_are_one_episode_for_callbacks(lives, plan, steps, monkeypatch):
    monkeypatch.setattr(Noting, "heard", [])
    name = {"id": "Odd-lives-v0", "env_config": {}, "preprocessing": PLAN | plan}
    batch = EnvBatch(name, 1, (7, 3), watch=CallbackEpisodes(Hooks("noting")))
    batch.reset()
    _play(batch, 0, steps // 2)
    batch.step_all(np.zeros(1, np.int32))
    _play(batch, 0, steps - steps // 2 - 1)
    told = [(what, length, total) for what, _, length, total in Noting.heard if what != "step"]
    games = steps // 12
    assert told == [("start", 0, 0.0), ("end", 12, 12.0)] * games + [("start", 0, 0.0)]


@pytest.mark.parametrize("horizon", [None, 3])
@pytest.mark.parametrize("steps", [1, 4, 6, 12, 17, 20, 30])
def test_resume_in_the_middle_of_a_game_or_a_row_of_games_is_exact(lives, steps, horizon):
    batch = _batch(lives, 1, horizon, frames=2, fresh_after=20)
    _play(batch, 0, steps)
    other = _again(batch, 1, horizon)
    assert np.array_equal(other.stacked(), batch.stacked())
    assert (other.episode_length(0), other.is_mid_game(0)) == (batch.episode_length(0), batch.is_mid_game(0))
    for _ in range(40):
        assert _play(other, 0, 1) == _play(batch, 0, 1)
        assert np.array_equal(other.stacked(), batch.stacked())


def test_restart_of_a_kept_game_that_breaks_costs_the_environment_and_not_the_run(lives, monkeypatch):
    batch = _batch(lives, 1)
    _play(batch, 0, 3)
    step = odd_envs.Lives.step

    def breaks(self, action):
        if action == 1:
            monkeypatch.setattr(odd_envs.Lives, "step", step)
            raise RuntimeError("no coin")
        return step(self, action)

    monkeypatch.setattr(odd_envs.Lives, "step", breaks)
    assert batch.step(0, np.int32(0))[1]
    assert (batch.episode_length(0), batch.is_mid_game(0), batch.bad_steps) == (0, False, 0)
    seed = number(7, "env", 3, 0, 0)
    begins = f"Odd-lives-v0 failed in a later reset of an episode with seed {seed}: RuntimeError: no coin ("
    assert len(batch.notes) == 1 and batch.notes[0].startswith(begins)
    assert odd_envs.Lives.resets[-1] == number(7, "env", 3, 0, 1)
