"""Scores: they depend on weights and seeds alone, come in order, and say what broke."""

from types import SimpleNamespace

import numpy as np
import odd_envs
import pytest
from parts import server, spec, weights
from scripted_envs import HIGH, LOW, Scripted

from drl_cli.actors import tester
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.actors.tester import SIDE_BY_SIDE, score
from drl_cli.envs.preprocessors import NOTHING
from drl_cli.errors import EnvError
from drl_cli.policies.numpy_policy import NumpyPolicy

SPEC = spec(2, (LOW,), (HIGH,))
LANDER = spec(8, (-1.0, -1.0), (1.0, 1.0), units=64)


def _score(*plan, seeds=(5,), **keys):
    Scripted.begin(*plan)
    return score(NumpyPolicy(SPEC, weights(SPEC)), "Scripted-v0", {}, list(seeds), **keys)


def test_scores_come_in_the_order_of_their_seeds_whoever_ends_first():
    plan = [{"ends": (3, "terminated")}, {"ends": (1, "truncated")}, {"ends": (2, "terminated truncated")}]
    assert _score(*plan, seeds=(9, 4, 9)) == [
        ScoredEpisode(0.0 + 1.0 + 2.0, 3, 9, True),
        ScoredEpisode(100.0, 1, 4, False),
        ScoredEpisode(200.0 + 201.0, 2, 9, True),
    ]
    assert Scripted.seeds == [9, 4, 9]


def test_more_episodes_than_go_side_by_side_are_all_played():
    count = 2 * SIDE_BY_SIDE + 3
    found = _score(*[{"ends": (1, "terminated")}] * count, seeds=range(count))
    assert [episode.seed for episode in found] == list(range(count))
    assert [episode.reward for episode in found] == [100.0 * index for index in range(count)]


def test_no_seeds_are_no_episodes():
    assert _score(seeds=()) == []


def test_horizon_ends_an_episode_that_would_go_on():
    assert _score({}, {"ends": (2, "terminated")}, seeds=(1, 2), horizon=4) == [
        ScoredEpisode(0.0 + 1 + 2 + 3, 4, 1, False),
        ScoredEpisode(100.0 + 101, 2, 2, True),
    ]


def _play(*plan, **keys):
    Scripted.begin(*plan)
    env = {"id": "Scripted-v0", "env_config": {}, "explore": False, "horizon": None} | keys
    return tester.play(NumpyPolicy(SPEC, weights(SPEC)), env, [1, 2], tester.kept_for(env))


def test_episode_without_end_is_cut_at_the_bound_and_counts_as_it_stands():
    assert _play({}, {"ends": (2, "terminated")}, max_steps=3) == [
        ScoredEpisode(0.0 + 1 + 2, 3, 1, False, is_cut=True),
        ScoredEpisode(100.0 + 101, 2, 2, True),
    ]


def test_environment_without_a_limit_has_a_bound_and_one_with_a_limit_only_its_own(monkeypatch):
    monkeypatch.setattr(tester.make, "UNBOUNDED_STEPS", 6)
    assert [episode.length for episode in _play({}, {})] == [6, 6]
    longer = score(NumpyPolicy(LANDER, weights(LANDER)), "LunarLanderContinuous-v3", {}, [1])
    assert longer[0].length > 6 and not longer[0].is_cut


def test_check_is_called_before_every_step():
    asked = []
    Scripted.begin({})
    env = {"id": "Scripted-v0", "env_config": {}, "explore": False, "horizon": 4}
    tester.play(NumpyPolicy(SPEC, weights(SPEC)), env, [1], tester.kept_for(env), check=lambda: asked.append(1))
    assert len(asked) == 4


@pytest.mark.parametrize("explore", [False, True])
def test_a_score_does_not_depend_on_who_plays_beside_it(explore):
    policy, seeds = NumpyPolicy(LANDER, weights(LANDER, 3)), [11, 12, 13, 14, 15]
    together = score(policy, "LunarLanderContinuous-v3", {}, seeds, explore, horizon=250)
    assert together == score(policy, "LunarLanderContinuous-v3", {}, seeds, explore, horizon=250)
    for index, seed in enumerate(seeds):
        assert score(policy, "LunarLanderContinuous-v3", {}, [seed], explore, horizon=250) == [together[index]]
    assert score(policy, "LunarLanderContinuous-v3", {}, seeds[::-1], explore, horizon=250) == together[::-1]


def test_exploring_scores_differ_from_greedy_ones():
    policy = NumpyPolicy(LANDER, weights(LANDER, 3))
    greedy, exploring = (score(policy, "LunarLanderContinuous-v3", {}, [1], e, 50)[0].reward for e in (False, True))
    assert greedy != exploring


@pytest.mark.parametrize("how", ["raise", "nan obs", "nan reward", "exit", "word"])
def test_an_episode_that_breaks_is_named_with_its_seed_and_step(how):
    with pytest.raises(EnvError, match="^Scripted-v0 failed in step 2 of an episode with seed 6: "):
        _score({}, {"breaks": (2, how)}, seeds=(5, 6), horizon=50)


@pytest.mark.parametrize("how", ["raise", "nan"])
def test_an_episode_that_cannot_begin_is_named_with_its_seed(how):
    with pytest.raises(EnvError, match="^Scripted-v0 failed in reset of an episode with seed 6: "):
        _score({}, {"reset": how}, seeds=(5, 6), horizon=50)


def test_a_reward_in_an_array_of_one_counts():
    assert _score({"ends": (3, "terminated"), "reward": "array"}) == [ScoredEpisode(3.0, 3, 5, True)]


class Discrete:
    """A policy over images: the action is the newest frame's first pixel, modulo 2; notes the stacks it saw."""

    spec = SimpleNamespace(obs_shape=(16, 12, 1))

    def __init__(self):
        self.seen = []

    def initial_state(self, rows):
        return ()

    def rewarded(self, state, reward, rows=0):
        pass

    def act(self, obs, state, rng, explore):
        self.seen.append(obs.copy())
        return (obs[:, 0, 0, -1] % 2).astype(np.int32), state, {}

    def to_env(self, action):
        return action.astype(np.int64)


@pytest.mark.parametrize("explore", [False, True])
def test_policy_of_images_and_discrete_actions_sees_stacks(explore):
    policy, plan = Discrete(), {**NOTHING, "frames": 3}
    odd_envs.Odd.given.clear()
    found = score(policy, "Odd-gray-v0", {}, [5, 6], explore, horizon=4, preprocessing=plan)
    assert found == [ScoredEpisode(2.0, 4, 5, False), ScoredEpisode(2.0, 4, 6, False)]  # the reward is the action
    assert odd_envs.Odd.given == [0, 0, 1, 1, 0, 0, 1, 1] and type(odd_envs.Odd.given[0]) is int
    rows = [obs for obs in policy.seen if not explore] or policy.seen[::2]
    assert [obs[0, 0, 0].tolist() for obs in rows] == [[100] * 3, [100, 100, 101], [100, 101, 102], [101, 102, 103]]
    assert {obs.dtype for obs in policy.seen} == {np.dtype(np.uint8)}


def test_observation_of_another_shape_than_the_policys_is_refused():
    with pytest.raises(
        EnvError, match=r"failed in reset of an episode with seed 1: ValueError: an observation of shape"
    ):
        score(Discrete(), "Odd-image-v0", {}, [1])


def test_tester_scores_the_version_it_is_asked_for():
    started, env = server(), {"id": "Scripted-v0", "env_config": {}, "horizon": 3, "explore": False}
    first, second = weights(SPEC, 0), weights(SPEC, 1)
    for version, value in ((1, first), (2, second)):
        assert started.call("push", {"default_policy": value}, True).result() == version
    made = tester.Tester(env, SPEC, started)
    for version, value in ((2, second), (1, first), (2, second)):
        Scripted.begin({})
        assert made.evaluate(version, [1]) == [ScoredEpisode(3.0, 3, 1, False)]
        policy = NumpyPolicy(SPEC, value)
        expected = policy.to_env(policy.act(np.float32([[0, 0]]), (), None, False)[0])[0]
        np.testing.assert_allclose(Scripted.actions[0], expected, rtol=1e-5)


# -- environments that are used again ---------------------------------------------------------------------------


def _tester(**env):
    started = server()
    started.call("push", {"default_policy": weights(SPEC)}, True).result()
    env = {"id": "Scripted-v0", "env_config": {}, "horizon": None, "explore": False} | env
    return tester.Tester(env, SPEC, started)


@pytest.mark.parametrize(("fresh", "made"), [(False, 2), (True, 6)])
def test_environments_are_used_again_in_the_next_evaluation_unless_fresh_ones_are_wanted(fresh, made):
    Scripted.begin(*[{"ends": (1, "terminated")}] * 6)
    one = _tester(fresh_envs=fresh)
    for _ in range(3):
        assert len(one.evaluate(1, [1, 2])) == 2
    assert (Scripted.made, Scripted.begun) == (made, 6)
    one.close()


def test_environments_of_an_evaluation_that_broke_are_made_anew_and_its_error_has_file_and_line():
    Scripted.begin({"breaks": (0, "raise")}, {"ends": (1, "terminated")})
    one = _tester()
    with pytest.raises(EnvError, match=r"motor of episode 0 burnt \(.*scripted_envs.py:\d+, in step\)"):
        one.evaluate(1, [1])
    assert one.evaluate(1, [1]) == [ScoredEpisode(100.0, 1, 1, True)]
    assert Scripted.made == 2
