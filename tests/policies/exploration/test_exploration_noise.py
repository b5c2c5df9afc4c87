"""Noise on Box actions: its distribution, its scale over the run, its bounds."""

import numpy as np
import pytest
from exploring import HIGH, LOW, acted, constant, explorer, policy, spec
from scipy import stats

BOX = spec("deterministic")
OWN_UNITS = spec("deterministic", normalize=False)
FIXED = {"scale_schedule": [[0, 1.0]]}


def test_gaussian_noise_is_normal_around_the_greedy_action():
    explored = explorer(BOX, type="GaussianNoise", stddev=0.05, **FIXED)
    noise = acted(explored, constant(BOX, mean=(0.5, -0.5)), 2000) - np.float32([0.46211716, -0.46211716])
    for dimension in range(2):
        assert stats.kstest(noise[..., dimension].ravel(), "norm", (0.0, 0.05)).pvalue > 0.01
    assert abs(np.corrcoef(noise[:, 0, 0], noise[:, 1, 0])[0, 1]) < 0.06
    assert abs(np.corrcoef(noise[1:, 0, 0], noise[:-1, 0, 0])[0, 1]) < 0.06


def test_stddev_is_a_share_of_half_the_range_in_either_unit():
    explored = explorer(OWN_UNITS, type="GaussianNoise", stddev=0.1, **FIXED)
    action = acted(explored, constant(OWN_UNITS), 3000)
    np.testing.assert_allclose(action.mean((0, 1)), [1.0, 0.5], atol=0.02)
    np.testing.assert_allclose(action.std((0, 1)), [0.3, 0.05], rtol=0.03)  # half ranges 3 and 0.5


@pytest.mark.parametrize("kind", ["GaussianNoise", "OrnsteinUhlenbeckNoise", "StateDependentNoise"])
def test_actions_stay_within_the_bounds_and_reach_them(kind):
    strong = {"ou_base_scale": 50.0} if kind.startswith("Orn") else {"stddev": 50.0}
    action = acted(explorer(OWN_UNITS, type=kind, **strong, **FIXED), policy(OWN_UNITS), 300)
    assert action.dtype == np.float32
    assert action.min((0, 1)).tolist() == list(LOW) and action.max((0, 1)).tolist() == list(HIGH)


def test_scale_falls_behind_the_random_phase():
    keys = {"initial_scale": 1.0, "final_scale": 0.2, "scale_timesteps": 1000, "random_timesteps": 400}
    explored = explorer(BOX, place={"streams": 4, "base": 100}, type="GaussianNoise", stddev=0.5, **keys)
    found = [explored.describe(steps)["stddev"] for steps in (0, 75, 200, 325, 1000)]
    assert found == pytest.approx([0.5, 0.5, 0.3, 0.1, 0.1])


def test_scale_changes_the_noise():
    points = {"scale_schedule": [[0, 1.0], [8000, 0.0]]}
    explored = explorer(BOX, type="GaussianNoise", stddev=0.1, **points)
    spread = acted(explored, constant(BOX), 2000).std((1, 2))
    assert spread[:200].mean() > 0.08 and spread[900:1100].mean() == pytest.approx(0.05, rel=0.1)
    assert spread[-1] < 0.001


def test_a_ladder_of_noise_has_the_scales_of_the_epsilons():
    explored = explorer(BOX, type="PerWorkerGaussianNoise", stddev=0.5, place={"stream": 4, "streams": 8})
    expected = np.float64([0.01024, 0.004096, 0.0016384, 0.00065536])
    np.testing.assert_allclose(acted(explored, constant(BOX), 4000).std((0, 2)), expected / 2, rtol=0.05)
    ou = explorer(BOX, type="PerWorkerOrnsteinUhlenbeckNoise", place={"stream": 0, "streams": 4})
    # 0.4^(1 + 7·i/3)
    assert ou.describe(0)["scale"] == pytest.approx(np.mean([0.4, 0.04715, 0.005559, 0.00065536]), rel=1e-3)


# -- Ornstein–Uhlenbeck ---------------------------------------------------------------------------------------------


def _processes(normals, theta, sigma, ends):
    """The slow reference: Lillicrap's process for each environment and dimension, begun anew with every episode."""
    found = np.zeros(normals.shape)
    for env in range(normals.shape[1]):
        for dimension in range(normals.shape[2]):
            x = 0.0
            for step in range(len(normals)):
                x = x - theta * x + sigma * normals[step, env, dimension]
                found[step, env, dimension] = x
                if (step, env) in ends:
                    x = 0.0
    return found


def test_ou_noise_follows_the_process_and_begins_anew_with_every_episode():
    ends = [(20, 1), (20, 2), (33, 1)]
    explored = explorer(BOX, type="OrnsteinUhlenbeckNoise", ou_theta=0.3, ou_sigma=0.5, ou_base_scale=0.05, **FIXED)
    found = acted(explored, constant(BOX), 60, seed=5, ends=ends)
    rng = np.random.default_rng(5)
    normals = np.stack([rng.standard_normal((4, 2), dtype=np.float32) for _ in range(60)])
    np.testing.assert_allclose(found, 0.05 * 2 * _processes(normals, 0.3, 0.5, ends), atol=1e-6)


def test_ou_noise_has_its_stationary_spread_and_memory():
    explored = explorer(BOX, type="OrnsteinUhlenbeckNoise", **FIXED)
    noise = acted(explored, constant(BOX), 20_000)[100:]
    # σ/√(1 − (1 − θ)²) = 0.3797, times 0.1 and the range 2
    assert noise.std() == pytest.approx(0.07593, rel=0.03)
    assert np.corrcoef(noise[1:, 0, 0], noise[:-1, 0, 0])[0, 1] == pytest.approx(0.85, abs=0.01)
    assert abs(np.corrcoef(noise[:, 0, 0], noise[:, 1, 0])[0, 1]) < 0.1
