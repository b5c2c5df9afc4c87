"""ParameterNoise: weights of its own for every episode, and a deviation that adapts to what it does to the actions."""

import dataclasses
import math

import numpy as np
import pytest
from exploring import acted, explorer, policy, spec

from drl_cli.policies.policy_spec import Dense, NetSpec

BOX, VALUES = spec("deterministic"), spec("q")
QUIET = {"type": "GaussianNoise", "stddev": 0.0}


def _on(explored, by, obs, steps=1, seed=0):
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    return np.stack([explored.act(by, obs, (), rng, step)[0] for step in range(steps)])


def test_an_episode_acts_with_weights_of_its_own():
    explored = explorer(BOX, type="ParameterNoise", initial_stddev=0.3, sub_exploration=QUIET)
    by, obs, rng = policy(BOX), np.ones((4, 3), np.float32), np.random.default_rng(0)
    first = _on(explored, by, obs, 3, rng)
    assert (first == first[0]).all() and len(np.unique(first[0, :, 0])) == 4
    explored.ended(1)
    second = _on(explored, by, obs, 3, rng)[0]
    assert np.array_equal(second[[0, 2, 3]], first[0][[0, 2, 3]]) and (second[1] != first[0, 1]).all()


def test_noise_is_normal_on_kernels_and_biases_and_stays_through_new_weights():
    explored = explorer(BOX, count=1, type="ParameterNoise", initial_stddev=0.1, sub_exploration=QUIET)
    by, nets = policy(BOX), []
    made = by.net_of
    by.net_of = lambda weights: nets.append(weights) or made(weights)
    obs, rng = np.ones((1, 3), np.float32), np.random.default_rng(0)
    _on(explored, by, obs, 2, rng)
    noise = {name: array - by.weights[name] for name, array in nets[0].items()}
    assert np.concatenate([array.ravel() for array in noise.values()]).std() == pytest.approx(0.1, rel=0.2)
    by.set_weights(policy(BOX, seed=5).weights)
    _on(explored, by, obs, 2, rng)
    assert len(nets) == 2
    for name, array in nets[1].items():
        np.testing.assert_allclose(array - by.weights[name], noise[name], atol=1e-6)


def test_norms_and_noisy_deviations_stay_clean():
    layers = (Dense(4, "tanh", layer_norm=True), Dense(4, "tanh", noisy=True))
    net = NetSpec("policy", (("obs", 3),), layers, (("mean", 2),), batch_norm=True)
    of_spec = dataclasses.replace(BOX, nets=(net,))
    explored, by, nets = explorer(of_spec, count=1, type="ParameterNoise"), policy(of_spec), []
    made = by.net_of
    by.net_of = lambda weights: nets.append(weights) or made(weights)
    _on(explored, by, np.ones((1, 3), np.float32))
    changed = {name for name, array in nets[0].items() if not np.array_equal(array, by.weights[name])}
    assert changed == {f"policy/{part}/{of}" for part in ("dense_0", "dense_1", "mean") for of in ("kernel", "bias")}


def _stddevs(explored, by, steps, length, count):
    """The deviation after every step, on random observations; episodes have ``length`` steps."""
    rng, found = np.random.default_rng(0), []
    for step in range(steps):
        obs = rng.standard_normal((count, 3)).astype(np.float32)
        explored.act(by, obs, (), rng, step)
        found.append(explored.state()[0]["kind/stddev"][0])
        if step % length == length - 1:
            for env in range(count):
                explored.ended(env)
    return np.array(found)


def _distance(by, stddev, draws=300):
    """Root mean square distance of the actions of a policy whose weights have noise, from the clean one's."""
    rng = np.random.default_rng(1)
    obs = rng.standard_normal((50, 3)).astype(np.float32)
    clean, found = by.act(obs, (), None, False)[0], []
    for _ in range(draws):
        noise = {name: rng.standard_normal(array.shape, np.float32) for name, array in by.weights.items()}
        noisy = by.with_net(by.net_of({name: by.weights[name] + stddev * noise[name] for name in noise}))
        found.append(np.square(noisy.act(obs, (), None, False)[0] - clean).mean())
    return math.sqrt(np.mean(found))


@pytest.mark.parametrize("initial", [1.0, 0.001])
def test_deviation_adapts_until_actions_differ_by_the_target(initial):
    over = {"type": "GaussianNoise", "stddev": 0.1, "scale_schedule": [[0, 1.0]]}
    explored = explorer(BOX, count=8, type="ParameterNoise", initial_stddev=initial, sub_exploration=over)
    by = policy(BOX)
    found = _stddevs(explored, by, 4000, 10, 8)
    assert (found[0] > found[-1]) == (initial == 1.0)
    assert 0.07 < _distance(by, np.float32(found[-500:].mean())) < 0.14


def test_deviation_changes_by_a_hundredth_at_the_end_of_an_episode_and_after_50_steps():
    explored = explorer(BOX, count=1, type="ParameterNoise", initial_stddev=1.0)
    found = _stddevs(explored, policy(BOX), 171, 120, 1)
    assert [step for step in range(1, 171) if found[step] != found[step - 1]] == [50, 100, 120, 170]
    np.testing.assert_allclose(found[[0, 50, 100, 120, 170]], [1.0, 1 / 1.01, 1 / 1.01**2, 1 / 1.01**3, 1 / 1.01**4])


def test_values_have_the_divergence_of_the_epsilon_laid_over_as_their_target():
    over = {"type": "EpsilonGreedy", "initial_epsilon": 0.3, "final_epsilon": 0.3, "epsilon_timesteps": 1}
    explored = explorer(VALUES, count=8, type="ParameterNoise", initial_stddev=1.0, sub_exploration=over)
    by = policy(VALUES, head_scale=2.0)
    stddev = _stddevs(explored, by, 4000, 10, 8)[-500:].mean().astype(np.float32)
    rng, found = np.random.default_rng(1), []
    obs = rng.standard_normal((50, 3)).astype(np.float32)

    def chances(of):
        e = np.exp(of.q_values(obs))
        return e / e.sum(axis=1, keepdims=True)

    for _ in range(300):
        noisy = {name: w + stddev * rng.standard_normal(w.shape, np.float32) for name, w in by.weights.items()}
        p, q = chances(by), chances(by.with_net(by.net_of(noisy)))
        found.append((p * np.log(p / q)).sum(axis=1).mean())
    # −log(1 − 0.3 + 0.3/3) = 0.2231; half of the draws lie below it
    assert 0.1 < np.median(found) < 0.3


def test_the_exploration_laid_over_acts_on_noisy_actions_and_describes_itself():
    over = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0, "epsilon_timesteps": 1}
    explored = explorer(VALUES, type="ParameterNoise", sub_exploration=over)
    counts = np.bincount(acted(explored, policy(VALUES), 1000).ravel(), minlength=3)
    np.testing.assert_allclose(counts / 4000, 1 / 3, atol=0.03)
    assert explorer(VALUES, type="ParameterNoise", sub_exploration=over).describe(0) == {
        "epsilon": 1.0,
        "parameter_stddev": 1.0,
    }
