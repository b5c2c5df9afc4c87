"""gSDE: its marginal distribution is the one that learns, and it is a smooth function of the observation for a while."""

import numpy as np
import pytest
from exploring import acted, explorer, policy, spec
from scipy import stats

SMOOTH, BOX = spec("squashed_gaussian", sde=True, units=16), spec("deterministic", units=16)


def _before_squashing(explored, by, obs, draws):
    """Noise [draws, A] in the pre-squashed action of the first environment, over draws of θ."""
    rng, heads = np.random.default_rng(0), by.heads(obs)
    found = [np.arctanh(explored.act(by, obs, (), rng, 0)[0].astype(np.float64))[0] for _ in range(draws)]
    return np.stack(found) - heads["mean"][0]


def _policy(log_std=-1.0):
    made = policy(SMOOTH, head_scale=0.3, log_std=log_std)
    spread = np.random.default_rng(4).normal(log_std, 0.5, (16, 2)).astype(np.float32)
    made.set_weights(made.weights | {"policy/log_std/kernel": spread})
    return made


def test_marginal_deviation_is_that_of_the_log_std_head():
    by, obs = _policy(), np.float32([[0.4, -1.0, 2.0]])
    explored = explorer(SMOOTH, count=1, use_sde=True, sde_sample_freq=1, type="StochasticSampling")
    noise = _before_squashing(explored, by, obs, 4000)
    std = np.exp(by.heads(obs)["log_std"][0])
    assert std.min() > 0.3
    for dimension in range(2):
        assert stats.kstest(noise[:, dimension], "norm", (0.0, std[dimension])).pvalue > 0.01


def test_deviations_beyond_the_bound_are_those_at_the_bound():
    by, obs = _policy(log_std=4.0), np.float32([[0.4, -1.0, 2.0]])
    assert by.heads(obs)["log_std"].min() > 2.5
    explored = explorer(SMOOTH, count=1, use_sde=True, sde_sample_freq=1, type="StochasticSampling")
    rng = np.random.default_rng(0)
    beyond = [np.abs(explored.act(by, obs, (), rng, 0)[0][0]) > np.tanh(np.exp(2.0)) for _ in range(2000)]
    # |N(0, 1)| > 1 in 31.7 % of the draws (the means are small beside exp(2)).
    np.testing.assert_allclose(np.mean(beyond, axis=0), 0.317, atol=0.04)


def test_noise_is_the_sum_over_features_of_deviations_and_directions():
    by, obs = _policy(), np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    explored = explorer(SMOOTH, use_sde=True, type="StochasticSampling")
    action, _, _ = explored.act(by, obs, (), np.random.default_rng(6), 0)
    theta = np.random.default_rng(6).standard_normal((4, 16, 2), dtype=np.float32)
    heads, deviations = by.heads(obs), np.exp(by.weights["policy/log_std/kernel"])
    for env in range(4):
        for a in range(2):
            noise = sum(heads["features"][env, j] * deviations[j, a] * theta[env, j, a] for j in range(16))
            assert action[env, a] == pytest.approx(np.tanh(heads["mean"][env, a] + noise), abs=1e-5)


def test_state_dependent_noise_has_its_deviation_for_every_observation():
    by, rng = policy(BOX, head_scale=0.1), np.random.default_rng(0)
    explored = explorer(
        BOX, count=1, type="StateDependentNoise", stddev=0.05, sde_sample_freq=1, scale_schedule=[[0, 1.0]]
    )
    for obs in (np.float32([[0.1, 0.0, 0.0]]), np.float32([[3.0, -2.0, 1.0]])):
        found = np.stack([explored.act(by, obs, (), rng, 0)[0][0] for _ in range(3000)])
        noise = found - by.act(obs, (), None, False)[0]
        assert stats.kstest(noise[:, 0], "norm", (0.0, 0.05)).pvalue > 0.01
        assert noise.std(axis=0) == pytest.approx([0.05, 0.05], rel=0.05)


@pytest.mark.parametrize(("of_spec", "kind"), [(SMOOTH, "StochasticSampling"), (BOX, "StateDependentNoise")])
def test_noise_stays_for_its_steps_and_changes_with_the_episode(of_spec, kind):
    explored = explorer(of_spec, use_sde=of_spec is SMOOTH, type=kind, sde_sample_freq=4)
    by = policy(of_spec, log_std=0.0)
    rng, obs, found = np.random.default_rng(0), np.ones((4, 3), np.float32), []
    for step in range(8):
        found.append(explored.act(by, obs, (), rng, 0)[0][:, 0])
        if step == 1:
            explored.ended(3)
    found = np.stack(found)
    assert [len(np.unique(found[:4, env])) for env in range(4)] == [1, 1, 1, 2]
    assert [len(np.unique(found[4:, env])) for env in range(4)] == [1, 1, 1, 2]
    assert len(np.unique(found[0])) == 4  # every environment has a noise of its own
    assert found[0, 0] != found[4, 0] and found[1, 3] != found[2, 3]
    assert found[2, 3] == found[5, 3] != found[6, 3]


def test_dead_features_have_no_noise():
    by = policy(BOX)
    by.set_weights({name: np.zeros_like(array) for name, array in by.weights.items()})
    explored = explorer(BOX, type="StateDependentNoise", stddev=0.5)
    assert not acted(explored, by, 5).any()
