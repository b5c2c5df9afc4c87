"""How likely an exploring policy's actions were: against frequencies, and where there is no such number."""

import numpy as np
import pytest
from exploring import LOW, constant, explorer, policy, spec
from scipy import stats

from drl_cli.policies.policy_spec import Dense, NetSpec

VALUES, DRAWN, NAMED = spec("q"), spec("squashed_gaussian"), spec("deterministic")
OBS = np.ones((4, 3), np.float32)


def _told(explored, by, steps=1, first=0):
    """The actions [steps, 4, …] and their log-probabilities [steps, 4] on ones."""
    rng, actions, found = np.random.default_rng(0), [], []
    for step in range(first, first + steps):
        action, _, _ = explored.act(by, OBS, (), rng, step)
        actions.append(action)
        found.append(explored.logp(by, OBS, (), action, step))
    return np.stack(actions), np.stack(found)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"type": "EpsilonGreedy", "initial_epsilon": 0.6, "final_epsilon": 0.6}, {}),
        ({"type": "SoftQ", "temperature": 0.5}, {}),
        ({"type": "Random"}, {}),
        ({"type": "SoftQ"}, {"random_steps": 10**6}),
    ],
)
def test_probabilities_of_discrete_actions_are_their_frequencies(settings, place):
    actions, found = _told(explorer(VALUES, place=place, **settings), constant(VALUES, q=[0.1, 0.5, 0.3]), 3000)
    assert found.dtype == np.float32
    for action in range(3):
        chosen = actions == action
        assert np.exp(found[chosen]) == pytest.approx(chosen.mean(), abs=0.02)


def test_epsilon_is_that_of_the_step():
    explored = explorer(VALUES, type="EpsilonGreedy", initial_epsilon=1.0, final_epsilon=0.0, epsilon_timesteps=100)
    by, action = constant(VALUES, q=[0, 1, 0]), np.int32([1, 1, 0, 0])
    # 4 environments: step 15 is env step 60, where epsilon is 0.4
    np.testing.assert_allclose(
        np.exp(explored.logp(by, OBS, (), action, 15)), [0.6 + 0.4 / 3] * 2 + [0.4 / 3] * 2, rtol=1e-6
    )
    assert explored.logp(by, OBS, (), action, 25) is None  # epsilon has come to 0: greedy


def test_epsilon_of_a_ladder_is_each_environments_own():
    explored, by = explorer(VALUES, type="PerWorkerEpsilonGreedy"), constant(VALUES, q=[0, 1, 0])
    epsilon = 0.4 ** (1 + 7 * np.arange(4) / 3)
    found = explored.logp(by, OBS, (), np.zeros(4, np.int32), 0)
    np.testing.assert_allclose(np.exp(found), epsilon / 3, rtol=1e-5)
    one = explored.logp(by, OBS[:1], (), np.zeros(1, np.int32), 0, env=2)
    np.testing.assert_allclose(np.exp(one), epsilon[2:3] / 3, rtol=1e-5)


def test_density_of_a_drawn_box_action_is_in_the_environments_units():
    by = constant(DRAWN, mean=[0.3, -0.2], log_std=[-1.0, -0.5])
    actions, found = _told(explorer(DRAWN), by, 20)
    raw = np.arctanh(actions.astype(np.float64))
    expected = stats.norm.logpdf(raw, [0.3, -0.2], np.exp([-1.0, -0.5])) - np.log1p(-(np.tanh(raw) ** 2))
    # half ranges 3 and 0.5
    np.testing.assert_allclose(found, expected.sum(axis=-1) - np.log(3.0) - np.log(0.5), atol=1e-4)


def test_density_of_the_random_phase_is_one_over_the_environments_range():
    _, found = _told(explorer(DRAWN, place={"random_steps": 5}), policy(DRAWN))
    assert found == pytest.approx(-np.log(6.0)) and LOW == (-2.0, 0.0)  # 6 · 1


def test_noisy_weights_are_those_that_the_episode_acted_with():
    sub = {"type": "EpsilonGreedy", "initial_epsilon": 0.3, "final_epsilon": 0.3}
    explored = explorer(VALUES, type="ParameterNoise", initial_stddev=2.0, sub_exploration=sub)
    actions, found = _told(explored, policy(VALUES), 60)
    greedy = np.isclose(np.exp(found), 0.8)
    assert (greedy | np.isclose(np.exp(found), 0.1)).all() and greedy.mean() > 0.65
    for env in range(4):  # every environment has one best action of its own
        assert len(np.unique(actions[:, env][greedy[:, env]])) == 1


@pytest.mark.parametrize(
    ("of_spec", "settings"),
    [
        (VALUES, {"type": "EpsilonGreedy", "hold_steps": 4}),
        (VALUES, {"type": "EpsilonGreedy", "initial_epsilon": 0.0, "final_epsilon": 0.0}),
        (VALUES, {"type": "Random", "hold_steps": 2}),
        (VALUES, {"type": "SoftQ", "explore": False}),
        (DRAWN, {"explore": False}),
        (DRAWN, {"type": "GaussianNoise"}),
        (DRAWN, {"type": "OrnsteinUhlenbeckNoise"}),
        (NAMED, {"type": "OrnsteinUhlenbeckNoise"}),
        (NAMED, {"type": "ParameterNoise"}),
        (spec("squashed_gaussian", sde=True), {"use_sde": True, "sde_sample_freq": 8}),
        (DRAWN, {"place": {"random_steps": 5}, "hold_steps": 3}),
    ],
)
def test_what_is_not_drawn_anew_at_every_step_has_no_probability(of_spec, settings):
    explored, by = explorer(of_spec, **settings), policy(of_spec)
    action, _, _ = explored.act(by, OBS, (), np.random.default_rng(0), 0)
    assert explored.logp(by, OBS, (), action, 0) is None


@pytest.mark.parametrize("settings", [{"type": "SoftQ"}, {"type": "EpsilonGreedy"}])
def test_noisy_nets_have_no_probability(settings):
    net = NetSpec("policy", (("obs", 3),), (Dense(4, "tanh", noisy=True),), (("q", 3),))
    noisy = VALUES.__class__((net,), "q", (3,), VALUES.action, value=VALUES.value)
    explored, by = explorer(noisy, **settings), policy(noisy)
    action, _, _ = explored.act(by, OBS, (), np.random.default_rng(0), 0)
    assert explored.logp(by, OBS, (), action, 0) is None


def test_directions_drawn_at_every_step_have_the_density_of_the_head():
    of_spec = spec("squashed_gaussian", sde=True)
    explored, by = explorer(of_spec, use_sde=True, sde_sample_freq=1), policy(of_spec)
    action, _, _ = explored.act(by, OBS, (), np.random.default_rng(0), 0)
    expected = by.logp(by.heads(OBS), by.recorded(action))
    np.testing.assert_allclose(explored.logp(by, OBS, (), action, 0), expected, rtol=1e-6)
