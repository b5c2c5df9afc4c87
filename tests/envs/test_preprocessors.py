"""Observations of every kind become vectors or images; the plan as data; lives and FIRE."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import odd_envs
import pytest

from drl_cli.config.sections.model import Vision
from drl_cli.envs import make, preprocessors
from drl_cli.errors import CheckpointError, EnvError

NOTHING = {"frames": 1, "dim": None, "grayscale": False, "atari": None, "scale_bytes": False, "fresh_after": 0}
DEEPMIND = {"noop_max": 30, "frame_skip": 4, "fire": True, "lives": True}
ATARI = {"frames": 4, "dim": 84, "grayscale": True, "atari": DEEPMIND, "scale_bytes": True, "fresh_after": 5000}


@pytest.fixture(autouse=True)
def games():
    """Ids that look like ale_py's, whether it is installed or not."""
    for env_id in ("ALE/Nogame-v5", "NogameNoFrameskip-v4"):
        gymnasium.registry[env_id] = gymnasium.envs.registration.EnvSpec(env_id, entry_point="ale_py.env:AtariEnv")
    yield
    for env_id in ("ALE/Nogame-v5", "NogameNoFrameskip-v4"):
        del gymnasium.registry[env_id]


def config(pref="deepmind", env_config=None, **model):
    return SimpleNamespace(env_wrappers=(), model=Vision(**model), preprocessor_pref=pref, env_config=env_config or {})


def made(name, **plan):
    return make.make(f"Odd-{name}-v0", {}, preprocessing=NOTHING | plan)


# -- the plan -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "given", "expected"),
    [
        ("Pendulum-v1", config(), NOTHING),
        ("Odd-image-v0", config(), NOTHING),
        ("Odd-image-v0", config(dim=42, framestack=True), NOTHING | {"dim": 42, "frames": 4}),
        ("Odd-image-v0", config(grayscale=True), NOTHING | {"grayscale": True}),
        ("Odd-image-v0", config(framestack=3), NOTHING | {"frames": 3}),
        ("ALE/Nogame-v5", config(), ATARI),
        ("NogameNoFrameskip-v4", config(), ATARI),
        ("ALE/Nogame-v5", config(dim=42, framestack=False), ATARI | {"dim": 42, "frames": 1}),
        ("ALE/Nogame-v5", config(grayscale=False), ATARI | {"grayscale": False}),
        ("ALE/Nogame-v5", config(framestack=2), ATARI | {"frames": 2}),
        ("ALE/Nogame-v5", config("rllib"), ATARI | {"atari": None, "frames": 1, "grayscale": False}),
        ("ALE/Nogame-v5", config(None), NOTHING | {"fresh_after": 5000}),
        ("ALE/Nogame-v5", config(env_config={"obs_type": "ram"}), NOTHING | {"scale_bytes": True, "fresh_after": 5000}),
    ],
)  # fmt: skip
def test_plan_of(env_id, given, expected):
    plan = preprocessors.plan(given, env_id)
    assert plan == expected
    assert preprocessors.from_facts(json.loads(json.dumps(plan))) == plan


def test_plan_for_scoring_plays_whole_games_and_leaves_the_other_alone():
    plan = json.loads(json.dumps(ATARI))
    assert preprocessors.for_scoring(plan) == ATARI | {"atari": DEEPMIND | {"lives": False}}
    assert plan == ATARI
    assert preprocessors.for_scoring(NOTHING) == NOTHING and preprocessors.for_scoring(None) is None


@pytest.mark.parametrize(
    ("rule", "plan", "expected"),
    [
        (None, ATARI, True),
        (False, ATARI, False),
        (1.0, ATARI, 1.0),
        (None, NOTHING, None),
        (None, None, None),
        (True, None, True),
    ],
)
def test_null_clips_rewards_to_signs_for_deepmind_games_only(rule, plan, expected):
    assert preprocessors.reward_rule(rule, plan) is expected


@pytest.mark.parametrize(
    "data",
    [
        [], "x", {}, NOTHING | {"more": 1}, NOTHING | {"frames": 0}, NOTHING | {"frames": True}, NOTHING | {"frames": 17},
        NOTHING | {"dim": 10**6}, NOTHING | {"dim": "84"}, NOTHING | {"grayscale": 1}, NOTHING | {"fresh_after": -1},
        ATARI | {"dim": None}, ATARI | {"atari": {}}, ATARI | {"atari": DEEPMIND | {"noop_max": 10**9}},
        ATARI | {"atari": DEEPMIND | {"lives": None}}, ATARI | {"atari": 3},
    ],
)  # fmt: skip
def test_plan_from_elsewhere_that_is_none_is_refused(data):
    with pytest.raises(CheckpointError, match="The preprocessing in the manifest cannot be read"):
        preprocessors.from_facts(data)


def test_older_manifest_without_a_plan_is_a_plan_of_nothing():
    assert preprocessors.from_facts(None) is None and preprocessors.frames_of(None) == 1


# -- vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("number", [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]),
        ("numbers", [1, 0, 1, 0, 0], [0, 1, 0, 1, 0]),
        ("bits", [1, 0, 0], [1, 0, 1]),
        ("dict", [0.5, 0.5, 0, 1], [0.5, 0.5, 0, 1]),
        ("tuple", [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]),
        ("table", [0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6], [0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]),
        ("scalar", [0], [1]),
        ("double", [1 / 3, 1 / 3], [1 / 3, 1 / 3]),
        ("bytes", [0, 51, 204, 255], [0, 51, 204, 255]),
    ],
)  # fmt: skip
def test_observation_becomes_a_vector(name, first, second):
    env = made(name)
    assert np.asarray(env.reset(seed=0)[0], np.float32).tolist() == np.float32(first).tolist()
    assert np.asarray(env.step(1)[0], np.float32).tolist() == np.float32(second).tolist()
    described = make.describe(env)["obs"]
    assert (described["kind"], described["shape"], described["dtype"]) == ("Box", [len(first)], "float32")


def test_observations_are_flattened_without_a_plan_too():
    assert make.make("Odd-number-v0", {}).reset()[0].tolist() == [1, 0, 0, 0, 0]


def test_bytes_of_a_games_memory_are_stretched():
    env = made("bytes", scale_bytes=True)
    np.testing.assert_allclose(env.reset(seed=0)[0], [-1.0, -0.6, 0.6, 1.0], atol=1e-6)


# -- images -------------------------------------------------------------------------------------------------------


def test_image_of_bytes_stays_as_it_is():
    env = made("image")
    obs = env.reset(seed=0)[0]
    assert obs.dtype == np.uint8 and obs.shape == (16, 16, 3) and obs[0, 0].tolist() == [100, 100, 100]
    assert make.describe(env)["obs"] == {"kind": "Box", "shape": [16, 16, 3], "dtype": "uint8", "low": 0, "high": 255}


def test_image_of_two_dimensions_gets_a_channel():
    obs = made("gray").reset(seed=0)[0]
    assert obs.dtype == np.uint8 and obs.shape == (16, 12, 1) and obs[:2, 0, 0].tolist() == [100, 0]


def test_float_image_stays_float():
    env = made("float")
    assert make.describe(env)["obs"]["dtype"] == "float32" and env.reset(seed=0)[0].shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("name", "plan", "shape"),
    [
        ("image", {"dim": 8}, (8, 8, 3)),
        ("image", {"grayscale": True}, (16, 16, 1)),
        ("image", {"dim": 8, "grayscale": True}, (8, 8, 1)),
        ("image", {"dim": 16}, (16, 16, 3)),
        ("gray", {"dim": 8, "grayscale": True}, (8, 8, 1)),
        ("onechannel", {"dim": 8}, (8, 8, 1)),
        ("onechannel", {"grayscale": True}, (16, 12, 1)),
        ("four", {"dim": 32}, (32, 32, 4)),
    ],
)
def test_image_is_resized_and_grayed(name, plan, shape):
    pytest.importorskip("cv2")
    env = made(name, **plan)
    for obs in (env.reset(seed=0)[0], env.step(0)[0]):
        assert obs.shape == shape == env.observation_space.shape and obs.dtype == np.uint8
    assert obs[-1, -1].tolist() == [1] * shape[2]


def test_resizing_averages_over_pixels():
    pytest.importorskip("cv2")
    assert made("image", dim=8).reset(seed=0)[0][0, 0].tolist() == [25, 25, 25]  # one pixel of four has 100


@pytest.mark.parametrize(
    ("name", "plan", "text"),
    [
        ("float", {"dim": 16}, "Odd-float-v0: model.dim and model.grayscale are for images of bytes from 0 to 255"),
        ("four", {"grayscale": True}, "model.grayscale is for images with three colours"),
        ("number", {"dim": 8}, "model.dim, grayscale and framestack are for images; the observations are Discrete(5)."),
        ("double", {"frames": 4}, "model.dim, grayscale and framestack are for images"),
    ],
)
def test_plan_that_does_not_fit_the_observations_is_refused(name, plan, text):
    with pytest.raises(EnvError) as refused:
        made(name, **plan)
    assert text in str(refused.value)


def test_missing_opencv_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(
        EnvError, match=r"Odd-image-v0 needs a package that is not installed: pip install 'drl-cli\[atari\]'"
    ):
        made("image", dim=8)


# -- lives and FIRE -----------------------------------------------------------------------------------------------


def game(lives):
    odd_envs.Lives.resets.clear()
    return preprocessors.AtariGame(odd_envs.Lives(), lives, True)


def test_life_ends_an_episode_and_the_next_reset_goes_on_with_the_game():
    env = game(True)
    assert env.reset(seed=5)[0][0, 0, 0] == 2  # FIRE and the action behind it
    lengths = []
    for _ in range(3):
        outcomes = [env.step(0)]
        while not outcomes[-1][2]:
            outcomes.append(env.step(0))
        lengths.append((len(outcomes), sum(outcome[1] for outcome in outcomes), preprocessors.goes_on(env)))
        obs = env.reset()[0]
    assert lengths == [(4, 4.0, True), (4, 4.0, True), (4, 4.0, False)]
    assert odd_envs.Lives.resets == [5, None]
    assert obs[0, 0, 0] == 12 + 2 + 2 * 3 + 2  # 12 steps of ours; FIRE and 2; twice a no-op before these; a new game's


def test_seed_begins_a_new_game_though_the_old_one_goes_on():
    env = game(True)
    env.reset(seed=5)
    while not env.step(0)[2]:
        pass
    assert env.reset(seed=6)[0][0, 0, 0] == 2
    assert odd_envs.Lives.resets == [5, 6] and not preprocessors.goes_on(env)


def test_scoring_plays_through_all_lives_and_presses_fire_between_them():
    env = game(False)
    env.reset(seed=5)
    outcomes = [env.step(0)]
    while not outcomes[-1][2]:
        outcomes.append(env.step(0))
    assert (len(outcomes), sum(outcome[1] for outcome in outcomes)) == (12, 12.0)
    assert env.unwrapped.steps == 12 + 2 + 2 * 3
    assert odd_envs.Lives.resets == [5] and not preprocessors.goes_on(env)


def test_end_of_the_game_on_the_last_life_is_no_life_to_go_on_with():
    env = game(True)
    env.reset(seed=5)
    assert env.step(3)[2] and not preprocessors.goes_on(env)
