"""Real games of ale_py: shapes, frames, lives, FIRE, exact resume, pictures."""

import gc
import json
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli.analysis.play import Limits, Player
from drl_cli.config.sections.model import Vision
from drl_cli.envs import make, preprocessors
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.video import Video
from drl_cli.errors import EnvError

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

DQN = SimpleNamespace(name="DQN", actions=("Discrete",), team=False, observations=("Box1d", "Image"))


def plan_of(env_id, pref="deepmind", env_config=None, **model):
    make.resolve(env_id)
    given = SimpleNamespace(env_wrappers=(), model=Vision(**model), preprocessor_pref=pref, env_config=env_config or {})
    return preprocessors.plan(given, env_id)


def made(env_id, env_config=None, scoring=False, **keys):
    plan = plan_of(env_id, env_config=env_config, **keys)
    return make.make(env_id, env_config or {}, preprocessing=preprocessors.for_scoring(plan) if scoring else plan)


def batch_of(env_id, **keys):
    return EnvBatch({"id": env_id, "env_config": {}, "preprocessing": plan_of(env_id, **keys)}, 1, (0, 0))


def test_games_are_found_without_an_import():
    code = (
        "from drl_cli.envs import make\n"
        "print(make.resolve('ALE/Pong-v5').id, make.make('PongNoFrameskip-v4', {}).observation_space.shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ALE/Pong-v5 (210, 160, 3)\n", "")


def test_file_may_name_the_package_of_the_games():
    name = make.resolve("ale_py:ALE/Pong-v5", trusted=False)
    assert (name.id, name.notice) == ("ale_py:ALE/Pong-v5", None)
    assert made(name.id).observation_space.shape == made("ALE/Pong-v5").observation_space.shape


@pytest.mark.parametrize(("asked", "text"), [("ALE/Pongg-v5", "'ALE/Pong-v5'"), ("Pong-v5", "Pong")])
def test_wrong_game_is_refused_with_the_nearest(asked, text):
    with pytest.raises(EnvError, match=f"Did you mean .*{text}"):
        make.resolve(asked)


@pytest.mark.parametrize(
    ("env_id", "keys", "shape", "frames"),
    [
        ("ALE/Pong-v5", {}, [84, 84, 1], 4),
        ("PongNoFrameskip-v4", {}, [84, 84, 1], 4),
        ("PongNoFrameskip-v4", {"dim": 42, "grayscale": False, "framestack": 2}, [42, 42, 3], 2),
        ("ALE/Pong-v5", {"pref": "rllib"}, [84, 84, 3], 1),
        ("ALE/Pong-v5", {"pref": None}, [210, 160, 3], 1),
        ("ALE/Pong-v5", {"pref": None, "grayscale": True, "framestack": True}, [210, 160, 1], 4),
    ],
)
def test_spaces_after_preprocessing(env_id, keys, shape, frames):
    plan = plan_of(env_id, **keys)
    assert make.check(env_id, {}, DQN, plan) == {
        "obs": {"kind": "Box", "shape": shape, "dtype": "uint8", "low": 0, "high": 255},
        "action": {"kind": "Discrete", "n": 6, "start": 0, "shape": [], "dtype": "int64"},
        "frames": frames,
    }


def test_memory_of_a_game_is_a_vector_in_minus_one_to_one():
    env = made("ALE/Pong-v5", {"obs_type": "ram"})
    obs = env.reset(seed=0)[0]
    assert obs.shape == (128,) and obs.dtype == np.float32 and -1 <= obs.min() < -0.9 and 0 < obs.max() <= 1


@pytest.mark.parametrize(
    ("env_id", "env_config"), [("ALE/Pong-v5", {}), ("PongNoFrameskip-v4", {}), ("ALE/Pong-v5", {"frameskip": 1})]
)
def test_a_step_is_four_frames_however_the_game_counts(env_id, env_config):
    env = made(env_id, env_config)
    env.reset(seed=0)
    assert np.diff([env.step(0)[4]["frame_number"] for _ in range(3)]).tolist() == [4, 4]


def test_start_is_up_to_thirty_no_ops_then_fire():
    """Breakout has no ball before FIRE; with it, there is something that moves."""
    env = made("BreakoutNoFrameskip-v4")
    starts = set()
    for seed in range(5):
        obs, info = env.reset(seed=seed)
        starts.add(env.step(0)[4]["frame_number"])
    assert len(starts) > 1 and all(1 + 2 * 4 + 4 <= start <= 30 + 2 * 4 + 4 for start in starts)
    assert not np.array_equal(env.step(0)[0], env.step(0)[0])


def test_life_ends_the_episode_in_training_and_not_in_scoring():
    env = made("BreakoutNoFrameskip-v4")
    lives = [env.reset(seed=1)[1]["lives"]]
    for _ in range(4):
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(0)
        lives.append(info["lives"])
        env.reset()
    assert lives == [5, 4, 3, 2, 1]
    whole = made("BreakoutNoFrameskip-v4", scoring=True)
    whole.reset(seed=1)
    seen, terminated = [], False
    while not terminated:
        _, _, terminated, _, info = whole.step(0)
        seen.append(info["lives"])
    assert sorted(set(seen), reverse=True) == [5, 4, 3, 2, 1, 0] and not preprocessors.goes_on(whole)


def test_resume_over_lives_and_games_is_exact():
    batch, rng = batch_of("BreakoutNoFrameskip-v4"), np.random.default_rng(0)
    batch.reset()
    ended = [batch.step(0, rng.integers(4))[1] for _ in range(260)]
    assert sum(ended) > 5 and batch.state()[1]["episode"] == [1]  # a second game, in the first one's environment
    arrays, facts = batch.state()
    other = batch_of("BreakoutNoFrameskip-v4")
    other.load(arrays, json.loads(json.dumps(facts)))
    assert np.array_equal(other.stacked(), batch.stacked()) and batch.stacked().shape == (1, 84, 84, 4)
    for action in rng.integers(4, size=100):
        first, second = batch.step(0, action), other.step(0, action)
        assert first[:3] == second[:3] and np.array_equal(first[3], second[3])
    assert other.is_mid_game(0) == batch.is_mid_game(0)


def test_continuous_actions_play_too():
    env = made("BreakoutNoFrameskip-v4", {"continuous": True})
    assert env.reset(seed=0)[0].shape == (84, 84, 1)
    assert env.step(np.float32([1.0, 0.0, 1.0]))[0].dtype == np.uint8


def test_video_shows_the_game_in_its_own_size(tmp_path):
    class Still:
        def initial_state(self, rows):
            return ()

        def rewarded(self, state, reward, rows=0):
            pass

        def act(self, obs, state, rng, explore):
            assert obs.shape == (1, 84, 84, 4) and obs.dtype == np.uint8
            return np.zeros(1, np.int32), state, {}

        def to_env(self, action):
            return action

    plan = preprocessors.for_scoring(plan_of("ALE/Pong-v5"))
    player = Player(
        Still(),
        lambda: make.make("ALE/Pong-v5", {}, "rgb_array", plan),
        recorder=lambda number: Video(tmp_path / "pong.mp4", 15),
        frames=4,
    )
    episode = next(player.play(Limits(steps=5), 3))
    assert episode.length == 5 and (tmp_path / "pong.mp4").stat().st_size > 1000


@pytest.mark.parametrize(
    ("asked", "kwargs"),
    [
        ("PongDeterministic-v4", {"frameskip": 4, "repeat_action_probability": 0.0}),
        ("PongDeterministic-v0", {"frameskip": 4, "repeat_action_probability": 0.25}),
        ("Breakout-ram-v4", {"frameskip": (2, 5), "repeat_action_probability": 0.0, "obs_type": "ram"}),
        ("Pong-ramNoFrameskip-v4", {"frameskip": 1, "repeat_action_probability": 0.0, "obs_type": "ram"}),
    ],
)
def test_id_that_ale_py_no_longer_registers_runs_as_what_it_was(asked, kwargs):
    name = make.resolve(asked)
    assert name.id == asked and "runs as what it was: ALE/" in name.notice and "frameskip" in name.notice
    env = make.make_raw(asked, {})
    assert kwargs.items() <= env.spec.kwargs.items()
    assert env.observation_space.shape == ((128,) if "obs_type" in kwargs else (210, 160, 3))
    env.close()


def test_deterministic_game_gets_the_same_wrappers_as_v5():
    assert plan_of("PongDeterministic-v4") == plan_of("ALE/Pong-v5")


def test_games_of_a_closed_batch_are_not_reported_as_leaked_at_exit():
    batch = batch_of("ALE/Pong-v5")
    batch.reset()
    game = weakref.ref(batch.objects()[0].unwrapped)
    batch.close()
    gc.collect()
    assert game() is None
