import json
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli.analysis.play import STEPS, Limits, PlayedEpisode, Player
from drl_cli.analysis.rollout_files import EpisodeFile
from drl_cli.errors import InputError, RunFailed


class Env:
    """Ends after ``length`` steps; the reward is the action, the observation (seed, step)."""

    action_space = SimpleNamespace(dtype=np.dtype(np.float32), shape=(1,))
    observation_space = SimpleNamespace(dtype=np.dtype(np.float32), shape=(2,))
    metadata = {}
    spec = None

    def __init__(self, length=3, truncates=False):
        self.length, self.truncates, self.closed, self.rendered = length, truncates, False, 0

    def reset(self, seed):
        self.seed, self.step_number = seed, 0
        return np.array([seed, 0.0], np.float32), {}

    def step(self, action):
        assert action.shape == (1,) and action.dtype == np.float32
        self.step_number += 1
        over = self.step_number == self.length
        obs = np.array([self.seed, self.step_number], np.float64)  # played as float32 all the same
        return obs, float(action[0]), over and not self.truncates, over and self.truncates, {}

    def render(self):
        self.rendered += 1
        return self.step_number

    def close(self):
        self.closed = True


class Policy:
    """Greedy: the action is 2; exploring: drawn from the generator."""

    def initial_state(self, rows):
        assert rows == 1
        return ()

    def rewarded(self, state, reward, rows=0):
        pass

    def act(self, obs, state, rng, explore):
        assert obs.shape == (1, 2) and obs.dtype == np.float32
        return (rng.uniform(size=(1, 1)) if explore else np.full((1, 1), 2.0)), state, {}

    def to_env(self, action):
        return action * 10


def played(env_length=3, limits=None, seed=5, **options):
    made = []

    def make():
        made.append(Env(env_length))
        return made[-1]

    episodes = list(Player(Policy(), make, **options).play(limits or Limits(episodes=2), seed))
    return episodes, made


def test_episodes_are_played_and_seeded_one_after_the_other():
    episodes, _ = played()
    assert [(e.number, e.seed, e.reward, e.length, e.terminated, e.complete) for e in episodes] == [
        (0, 5, 60.0, 3, True, True),
        (1, 6, 60.0, 3, True, True),
    ]


def test_one_environment_plays_all_episodes_and_is_closed():
    _, made = played()
    assert [env.closed for env in made] == [True]


def test_fresh_makes_one_for_every_episode_and_closes_it():
    _, made = played(fresh=True)
    assert [env.closed for env in made] == [True, True]


def test_steps_cut_the_last_episode():
    episodes, _ = played(limits=Limits(steps=4))
    assert [(e.length, e.complete) for e in episodes] == [(3, True), (1, False)]


def test_whichever_limit_comes_first_ends_it():
    episodes, _ = played(limits=Limits(episodes=1, steps=100))
    assert [e.length for e in episodes] == [3]


def test_horizon_truncates():
    episodes, _ = played(env_length=9, limits=Limits(episodes=1, horizon=2))
    assert [(e.length, e.terminated, e.truncated) for e in episodes] == [(2, False, True)]


def test_steps_limit_below_the_horizon_is_no_end():
    episodes, _ = played(env_length=9, limits=Limits(steps=2, horizon=5))
    assert [(e.length, e.complete) for e in episodes] == [(2, False)]


def test_exploring_is_repeatable_and_differs_between_episodes():
    first, again = played(explore=True)[0], played(explore=True)[0]
    assert [e.reward for e in first] == [e.reward for e in again]
    assert first[0].reward != first[1].reward


def test_transitions_are_kept_when_asked():
    kept, unkept = played(keep=STEPS)[0][0], played()[0][0]
    assert [obs.tolist() for obs in kept.obs] == [[5, 0], [5, 1], [5, 2], [5, 3]]
    assert ([a.tolist() for a in kept.action], kept.rewards) == ([[20.0]] * 3, [20.0] * 3)
    assert (unkept.obs, unkept.action) == ([], [])


class Recorder:
    def __init__(self):
        self.frames, self.ended = [], None

    def add(self, frame):
        self.frames.append(frame)

    def close(self):
        self.ended = "closed"

    def abort(self):
        self.ended = "aborted"


def test_policy_acts_on_stacks_and_single_frames_are_kept():
    class Seeing(Policy):
        seen = []

        def act(self, obs, state, rng, explore):
            self.seen.append(obs.copy())
            return np.array([1]), state, {}

        def to_env(self, action):
            return action + 3

    env = Env()
    env.observation_space = SimpleNamespace(dtype=np.dtype(np.uint8), shape=(8, 8, 1))
    env.action_space = SimpleNamespace(dtype=np.dtype(np.int64), shape=())
    frames, taken = iter(np.full((8, 8, 1), number, np.uint8) for number in range(9)), []
    env.reset = lambda seed: (next(frames), {})

    def step(action):
        taken.append(action)
        return next(frames), 1.0, len(taken) == 3, False, {}

    env.step = step
    policy = Seeing()
    episode = next(Player(policy, lambda: env, keep=STEPS, frames=2).play(Limits(episodes=1), 5))
    assert [obs[0, 0, 0].tolist() for obs in policy.seen] == [[0, 0], [0, 1], [1, 2]]
    assert policy.seen[0].shape == (1, 8, 8, 2) and policy.seen[0].dtype == np.uint8
    assert taken == [4, 4, 4] and type(taken[0]) is int
    assert [obs[0, 0, 0] for obs in episode.obs] == [0, 1, 2, 3] and episode.obs[0].shape == (8, 8, 1)
    lines = []
    EpisodeFile(None, "Test-v0", lines.append).add(episode)
    assert json.loads(lines[0])["action"] == [4, 4, 4]


def test_recorder_gets_the_first_picture_and_one_after_each_step():
    recorder = Recorder()
    played(limits=Limits(episodes=1), recorder=lambda _number: recorder)
    assert (recorder.frames, recorder.ended) == ([0, 1, 2, 3], "closed")


def test_environment_that_raises_is_named_with_the_step_and_the_video_is_dropped():
    recorder, env = Recorder(), Env()
    env.step = lambda _action: 1 / 0
    with pytest.raises(
        RunFailed, match=r"Env raised in step 1 of episode #0 \(seed 5\): ZeroDivisionError: division by zero"
    ):
        list(Player(Policy(), lambda: env, recorder=lambda _number: recorder).play(Limits(episodes=1), 5))
    assert (recorder.ended, env.closed) == ("aborted", True)


def test_reward_that_is_not_finite_is_refused():
    env = Env()
    env.step = lambda _action: (np.zeros(2), float("nan"), False, False, {})
    with pytest.raises(RunFailed, match="gave the reward nan in step 1 of episode #0"):
        list(Player(Policy(), lambda: env).play(Limits(episodes=1), 5))


def test_leaving_early_closes_the_environment():
    env = Env()
    episodes = Player(Policy(), lambda: env).play(Limits(episodes=5), 5)
    next(episodes)
    episodes.close()
    assert env.closed


def test_episode_file_writes_one_documented_line_per_episode(tmp_path):
    path = tmp_path / "out.jsonl"
    file = EpisodeFile(path, "Test-v0")
    for episode in played(keep=STEPS)[0]:
        file.add(episode)
    file.close()
    first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert first == {
        "format": "drl-episodes-1",
        "env": "Test-v0",
        "episode": 0,
        "seed": 5,
        "obs": [[5.0, 0.0], [5.0, 1.0], [5.0, 2.0], [5.0, 3.0]],
        "action": [[20.0], [20.0], [20.0]],
        "reward": [20.0, 20.0, 20.0],
        "terminated": [False, False, True],
        "truncated": [False, False, False],
    }
    assert second["episode"] == 1


def test_float32_values_come_back_as_they_were(tmp_path):
    values = np.random.default_rng(0).normal(size=50).astype(np.float32)
    lines = []
    episode = PlayedEpisode(0, 1, obs=[values, values], action=[np.array(3)], rewards=[1.0], length=1)
    EpisodeFile(None, "Test-v0", lines.append).add(episode)
    assert np.asarray(json.loads(lines[0])["obs"][0], np.float32).tolist() == values.tolist()
    assert json.loads(lines[0])["action"] == [3]


def test_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="--out .*: No such file or directory"):
        EpisodeFile(tmp_path / "no" / "out.jsonl", "Test-v0")


def test_episode_without_end_is_cut_at_the_bound_and_counted():
    (episode,), _ = played(100, Limits(episodes=1, max_steps=7))
    assert (episode.length, episode.truncated, episode.is_cut, episode.complete) == (7, True, True, True)
    (episode,), _ = played(100, Limits(episodes=1, horizon=7, max_steps=9))
    assert (episode.length, episode.truncated, episode.is_cut) == (7, True, False)
    (episode,), _ = played(100, Limits(steps=5, max_steps=9))
    assert (episode.length, episode.complete, episode.is_cut) == (5, False, False)
