"""Epsilon-greedy, softmax over values, the levels of all kinds, noisy nets."""

import dataclasses

import numpy as np
import pytest
from exploring import acted, constant, explorer, policy, spec
from scipy import stats

VALUES = spec("q")
BEST = constant(VALUES, q=(0.0, 1.0, 0.5))


def test_epsilon_is_the_share_of_random_actions_which_are_uniform_over_all():
    explored = explorer(VALUES, type="EpsilonGreedy", epsilon_schedule=[[0, 0.3]])
    counts = np.bincount(acted(explored, BEST, 5000).ravel(), minlength=3)
    assert stats.chisquare(counts, np.array([0.1, 0.8, 0.1]) * 20_000).pvalue > 0.01


def test_epsilon_zero_is_greedy_and_one_is_uniform():
    greedy = explorer(VALUES, type="EpsilonGreedy", initial_epsilon=0.0, final_epsilon=0.0)
    assert (acted(greedy, BEST, 500) == 1).all()
    uniform = explorer(VALUES, type="EpsilonGreedy", epsilon_schedule=[[0, 1.0]])
    assert stats.chisquare(np.bincount(acted(uniform, BEST, 3000).ravel())).pvalue > 0.01


@pytest.mark.parametrize(("epsilon", "hold"), [(0.2, 8), (0.7, 3), (1.0, 5)])
def test_held_random_actions_keep_their_share(epsilon, hold):
    many = spec("q", n=50)
    explored = explorer(many, type="EpsilonGreedy", epsilon_schedule=[[0, epsilon]], hold_steps=hold)
    action = acted(explored, constant(many, q=np.eye(50)[7]), 20_000)
    assert np.mean(action != 7) == pytest.approx(epsilon * 49 / 50, abs=0.02)
    # A random action is repeated hold − 1 times: of 1 in hold steps the next one differs.
    changes = np.mean((action[1:] != action[:-1])[(action[:-1] != 7)])
    assert changes == pytest.approx(1 / hold, abs=0.03)


def test_epsilon_falls_from_the_first_env_step_of_the_run_on():
    settings = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.1, "epsilon_timesteps": 1000}
    explored = explorer(VALUES, place={"streams": 8, "base": 100}, **settings)
    found = [explored.describe(steps)["epsilon"] for steps in (0, 50, 112, 113, 10**6)]
    assert found == pytest.approx([0.91, 0.55, 0.1036, 0.1, 0.1])


def test_an_epsilon_schedule_is_piecewise_linear():
    points = [[100, 1.0], [200, 0.5], [400, 0.1]]
    explored = explorer(VALUES, count=1, type="EpsilonGreedy", epsilon_schedule=points)
    found = [explored.describe(steps)["epsilon"] for steps in (0, 100, 150, 200, 300, 400, 500)]
    assert found == pytest.approx([1.0, 1.0, 0.75, 0.5, 0.3, 0.1, 0.1])


def test_a_ladder_runs_over_all_environments_of_the_run():
    # 0.4^(1 + 7·i/7), i = 0 … 7: two workers with four environments each.
    first = explorer(VALUES, type="PerWorkerEpsilonGreedy", place={"stream": 0, "streams": 8})
    second = explorer(VALUES, type="PerWorkerEpsilonGreedy", place={"stream": 4, "streams": 8})
    for explored, expected in (
        (first, [0.4, 0.16, 0.064, 0.0256]),
        (second, [0.01024, 0.004096, 0.0016384, 0.00065536]),
    ):
        assert explored.describe(0)["epsilon"] == pytest.approx(np.mean(expected))
        found = np.mean(acted(explored, BEST, 20_000) != 1, axis=0)
        np.testing.assert_allclose(found, np.float64(expected) * 2 / 3, atol=0.01)


def test_a_ladder_of_one_environment_is_its_largest_step():
    assert explorer(VALUES, count=1, type="PerWorkerEpsilonGreedy").describe(0) == {"epsilon": 0.4}
    found = explorer(spec("deterministic"), count=1, type="PerWorkerGaussianNoise", stddev=0.5).describe(0)
    assert found == {"stddev": 0.2}


def test_soft_q_draws_by_the_softmax_of_the_values():
    explored = explorer(VALUES, type="SoftQ", temperature=0.5)
    counts = np.bincount(acted(explored, BEST, 5000).ravel(), minlength=3)
    # exp(0, 2, 1) / Σ
    assert stats.chisquare(counts, np.array([0.09003057, 0.66524096, 0.24472847]) * 20_000).pvalue > 0.01
    assert explored.describe(0) == {"temperature": 0.5}


def test_noisy_nets_draw_their_weights_at_every_act_and_are_greedy_in_the_mean():
    net = dataclasses.replace(VALUES.nets[0], noisy_heads=True)
    noisy = policy(dataclasses.replace(VALUES, nets=(net,)), head_scale=0.01)
    obs = np.ones((1, 3), np.float32)
    explored = explorer(VALUES, count=1, type="EpsilonGreedy", initial_epsilon=0.0, final_epsilon=0.0)
    rng = np.random.default_rng(0)
    found = {int(explored.act(noisy, obs, (), rng, 0)[0][0]) for _ in range(100)}
    assert found == {0, 1, 2}
    greedy = explorer(VALUES, count=1, explore=False, type="EpsilonGreedy")
    assert len({int(greedy.act(noisy, obs, (), rng, 0)[0][0]) for _ in range(20)}) == 1
