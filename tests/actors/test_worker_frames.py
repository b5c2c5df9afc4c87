"""Workers on images and Discrete actions: stacks to act on, single frames in the fragment, first priorities."""

import copy
import json

import gymnasium
import numpy as np
import pytest
from parts import identity, server

from drl_cli.actors import fragment
from drl_cli.actors.initial_priorities import first_priorities
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.envs import preprocessors
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import DiscreteSpec, NetSpec, PolicySpec, ValueSpec

SHAPE = (8, 8, 1)
STACKED = (8, 8, 3)


class Counting(gymnasium.Env):
    """Every frame is full of its number, counted over all episodes of the object's class; breaks where it is told to."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(4, start=2)
    number, length, breaks_at, taken = 0, 4, -1, []

    def __init__(self, render_mode=None):
        self.steps = 0

    def _frame(self):
        type(self).number += 1
        return np.full(SHAPE, Counting.number, np.uint8)

    def reset(self, *, seed=None, options=None):
        return self._frame(), {}

    def step(self, action):
        assert type(action) is int and 2 <= action <= 5
        Counting.taken.append(action)
        if Counting.number == Counting.breaks_at:
            raise RuntimeError("broken")
        self.steps += 1
        return self._frame(), float(Counting.number), self.steps == self.length, False, {}


gymnasium.register("Counting-v0", entry_point=Counting)
ENV = {"id": "Counting-v0", "env_config": {}, "imports": (), "preprocessing": preprocessors.NOTHING | {"frames": 3}}
NET = NetSpec("q", (("obs", 192),), (), (("q", 4),), image=STACKED)
SPEC = PolicySpec((NET,), "q", SHAPE, DiscreteSpec(4, start=2), obs_dtype="uint8", frames=3, value=ValueSpec("scalar"))


def _worker(started=None, env=ENV, length=4, breaks_at=-1, **keys):
    Counting.number, Counting.length, Counting.breaks_at, Counting.taken = 0, length, breaks_at, []
    made = {"num_envs_per_worker": 1, "rollout_fragment_length": 6, "exploration_config": {"random_timesteps": 0}}
    made = DQNConfig(buffer_size=1000, learning_starts=100, **(made | keys))
    return RolloutWorker(made, env, SPEC, identity(0, 0), started or server())


def _with_weights():
    started = server()
    started.call("push", {"default_policy": NET.initial_weights(np.random.default_rng(0))})
    return started


def _numbers(frames):
    """The number in each frame, channels kept apart."""
    assert (frames == frames[..., :1, :1, :]).all()
    return frames[..., 0, 0, :].tolist()


def test_fragment_holds_single_frames_and_counts_actions_from_zero():
    _, columns = _worker().collect()
    assert _numbers(columns["obs"][:, 0]) == [[1], [2], [3], [4], [6], [7]]
    assert _numbers(columns["end_obs"]) == [[5]] and _numbers(columns["tail_obs"]) == [[8]]
    assert {name: (array.dtype.name, array.shape) for name, array in columns.items()} == {
        "obs": ("uint8", (6, 1, *SHAPE)),
        "action": ("int32", (6, 1)),
        "reward": ("float32", (6, 1)),
        "terminated": ("bool", (6, 1)),
        "truncated": ("bool", (6, 1)),
        "cut": ("bool", (1,)),
        "end_obs": ("uint8", (1, *SHAPE)),
        "tail_obs": ("uint8", (1, *SHAPE)),
    }
    assert (columns["action"][:, 0] + 2).tolist() == Counting.taken


def test_policy_acts_on_stacks(monkeypatch):
    seen, act = [], NumpyPolicy.act

    def watched(policy, obs, state, rng, explore):
        seen.append(obs.copy())
        return act(policy, obs, state, rng, explore)

    monkeypatch.setattr(NumpyPolicy, "act", watched)
    _worker(_with_weights()).collect()
    expected = [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4], [6, 6, 6], [6, 6, 7]]
    assert [_numbers(obs)[0] for obs in seen] == expected
    assert seen[0].dtype == np.uint8 and seen[0].shape == (1, *STACKED)


def test_a_broken_step_acts_again_on_the_stack_of_the_new_episode():
    token, columns = _worker(_with_weights(), breaks_at=3).collect()
    assert token.bad_transitions == 1
    assert _numbers(columns["obs"][:, 0]) == [[1], [2], [4], [5], [6], [7]]
    assert columns["truncated"][:, 0].tolist() == [False, True, False, False, False, False]
    assert _numbers(columns["end_obs"]) == [[3], [8]]
    assert (columns["action"][:, 0] + 2).tolist() == Counting.taken[:2] + Counting.taken[3:]


JUDGED = {"prioritized_replay": True, "worker_side_prioritization": True, "n_step": 3, "gamma": 0.5}


def test_priorities_are_those_of_stacked_windows_that_end_with_episodes_and_the_fragment(monkeypatch):
    given = []

    def watched(policy, *columns):
        given.append([column.copy() for column in columns])
        return first_priorities(policy, *columns)

    monkeypatch.setattr(fragment, "first_priorities", watched)
    worker = _worker(_with_weights(), **JUDGED)
    _, columns = worker.collect()
    obs, action, reward, discount, next_obs = given[0]
    assert _numbers(obs) == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4], [6, 6, 6], [6, 6, 7]]
    # Windows of 3 from frames 1, 2 and 3, then to the real end behind 5; then to the fragment's end, 2 and 1 steps.
    assert _numbers(next_obs) == [[2, 3, 4], [3, 4, 5], [3, 4, 5], [3, 4, 5], [6, 7, 8], [6, 7, 8]]
    assert discount.tolist() == [0.125, 0.0, 0.0, 0.0, 0.25, 0.5]
    assert reward.tolist() == [2 + 3 / 2 + 4 / 4, 3 + 4 / 2 + 5 / 4, 4 + 5 / 2, 5, 7 + 8 / 2, 8]
    assert action.tolist() == columns["action"][:, 0].tolist()
    by = worker._policy
    expected = [
        abs(r + d * by.q_values(n[None]).max() - by.q_values(o[None])[0, a])
        for o, a, r, d, n in zip(obs, action, reward, discount, next_obs, strict=True)
    ]
    np.testing.assert_allclose(columns["priority"][:, 0], expected, rtol=1e-4)
    assert columns["priority"].dtype == np.float32 and min(expected) > 0


def test_priorities_behind_a_broken_step_are_those_of_the_cut_episode(monkeypatch):
    given = []
    monkeypatch.setattr(
        fragment, "first_priorities", lambda policy, *columns: given.append(columns) or np.zeros(6, np.float32)
    )
    _worker(_with_weights(), breaks_at=3, **JUDGED).collect()
    obs, _, _, discount, next_obs = given[0]
    assert _numbers(obs) == [[1, 1, 1], [1, 1, 2], [4, 4, 4], [4, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert _numbers(next_obs)[:2] == [[1, 2, 3], [1, 2, 3]]
    assert discount.tolist()[:2] == [0.25, 0.5]


def test_priorities_of_several_environments_stay_with_theirs():
    worker = _worker(_with_weights(), num_envs_per_worker=3, length=5, **JUDGED | {"n_step": 1})
    _, columns = worker.collect()
    assert columns["priority"].shape == (6, 3)
    by, stacks = worker._policy, np.concatenate([columns["obs"][at, 1] for at in (0, 1, 2)], axis=-1)
    _, reward, action = (columns[name][2, 1] for name in ("obs", "reward", "action"))
    following = np.concatenate([stacks[..., 1:], columns["obs"][3, 1]], axis=-1)
    expected = abs(reward + 0.5 * by.q_values(following[None]).max() - by.q_values(stacks[None])[0, action])
    assert columns["priority"][2, 1] == pytest.approx(expected, rel=1e-4)


def test_without_weights_nothing_is_judged():
    worker = _worker(**JUDGED)
    assert "priority" not in worker.collect()[1]


def test_rewards_of_atari_games_are_signs_unless_a_rule_is_given():
    plan = ENV["preprocessing"] | {"atari": {"noop_max": 0, "frame_skip": 1, "fire": False, "lives": True}}
    env = ENV | {"preprocessing": plan}
    token, columns = _worker(env=env).collect()
    assert columns["reward"][:, 0].tolist() == [1.0] * 6
    assert token.episodes == ((14.0, 4),)  # 2 + 3 + 4 + 5: raw
    assert _worker(env=env, clip_rewards=False).collect()[1]["reward"][:, 0].tolist() == [2, 3, 4, 5, 7, 8]
    assert _worker().collect()[1]["reward"][:, 0].tolist() == [2, 3, 4, 5, 7, 8]


def test_load_goes_on_with_the_same_fragments_bit_for_bit():
    env = {"id": "CartPole-v1", "env_config": {}, "imports": ()}
    net = NetSpec("q", (("obs", 4),), (), (("q", 2),))
    of_spec = PolicySpec((net,), "q", (4,), DiscreteSpec(2), value=ValueSpec())
    settings = {"type": "EpsilonGreedy", "hold_steps": 3, "epsilon_timesteps": 200, "random_timesteps": 0}
    made = DQNConfig(num_envs_per_worker=3, rollout_fragment_length=7, exploration_config=settings)
    started = server()
    started.call("push", {"default_policy": net.initial_weights(np.random.default_rng(0))})
    who = identity(0, 0) | {"streams": 12, "stream": 3, "base": 40}
    worker = RolloutWorker(made, env, of_spec, who, started)
    for _ in range(3):
        worker.collect()
    arrays, facts = copy.deepcopy(worker.state())
    # A restored worker is told another place in the run; that of the state counts.
    other = RolloutWorker(made, env, of_spec, who | {"base": 124, "random_steps": 5}, started)
    other.load(arrays, json.loads(json.dumps(facts)))
    for _ in range(9):
        (token, columns), (token_2, columns_2) = worker.collect(), other.collect()
        assert (token[:5], token.exploration) == (token_2[:5], token_2.exploration)
        assert all(columns[name].tobytes() == columns_2[name].tobytes() for name in columns)
