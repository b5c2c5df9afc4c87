"""The updates of ES and ARS against slow references written after the papers, and what a step leaves alone."""

import numpy as np
import pytest
from scipy import stats

from drl_cli.errors import ConfigError
from drl_cli.evolution import ars_update, es_update, net
from drl_cli.evolution.keys import ARSConfig, ESConfig
from drl_cli.policies.policy_spec import ActionSpec, DiscreteSpec

SPACES = {
    "Discrete": {
        "obs": {"kind": "Box", "shape": [4], "dtype": "float32"},
        "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"},
    },
    "Box": {
        "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
        "action": {"kind": "Box", "shape": [2], "dtype": "float32", "low": [-2.0, -1.0], "high": [2.0, 3.0]},
    },
}


def _round(seed, directions=6, size=4, tied=False):
    rng = np.random.default_rng(seed)
    returns = rng.integers(0, 4, (directions, 2)).astype(float) if tied else rng.normal(0, 50, (directions, 2))
    return returns, rng.standard_normal((directions, size))


class SlowES:
    """Salimans et al. 2017, algorithm 2, number by number; Kingma & Ba 2015, algorithm 1, as it is printed."""

    def __init__(self, theta, stepsize, l2):
        self.theta, self.stepsize, self.l2 = [float(x) for x in theta], stepsize, l2
        self.m, self.v, self.t = [0.0] * len(theta), [0.0] * len(theta), 0

    def step(self, returns, noise):
        everything = [value for pair in returns for value in pair]
        ranks = [(rank - 1) / (len(everything) - 1) - 0.5 for rank in stats.rankdata(everything, "average")]
        self.t += 1
        for i in range(len(self.theta)):
            plus = sum(ranks[2 * k] * noise[k][i] for k in range(len(noise)))
            minus = sum(ranks[2 * k + 1] * -noise[k][i] for k in range(len(noise)))
            g = -(plus + minus) / len(everything) + self.l2 * self.theta[i]
            self.m[i] = 0.9 * self.m[i] + 0.1 * g
            self.v[i] = 0.999 * self.v[i] + 0.001 * g * g
            m, v = self.m[i] / (1 - 0.9**self.t), self.v[i] / (1 - 0.999**self.t)
            self.theta[i] -= self.stepsize * m / (v**0.5 + 1e-8)


@pytest.mark.parametrize("tied", [False, True])
def test_es_steps_like_the_slow_reference(tied):
    config, theta = ESConfig(stepsize=0.3, l2_coeff=0.01), np.float32([0.5, -1.0, 0.0, 2.0])
    update, slow = es_update.Update(config, 4), SlowES(theta, 0.3, 0.01)
    for seed in range(6):
        returns, noise = _round(seed, tied=tied)
        theta = update.stepped(theta, update.weigh(returns) @ noise)
        slow.step(returns, noise)
        assert theta.dtype == np.float32
        np.testing.assert_allclose(theta, slow.theta, rtol=2e-4, atol=2e-5)


def slow_ars(theta, returns, noise, used, stepsize):
    """Mania et al. 2018, algorithm 2, lines 6 and 7."""
    order = sorted(range(len(returns)), key=lambda k: max(returns[k]), reverse=True)[:used]
    chosen = [value for k in order for value in returns[k]]
    mean = sum(chosen) / len(chosen)
    deviation = (sum((value - mean) ** 2 for value in chosen) / len(chosen)) ** 0.5
    return [
        x + stepsize / (used * deviation) * sum((returns[k][0] - returns[k][1]) * noise[k][i] for k in order)
        for i, x in enumerate(theta)
    ]


@pytest.mark.parametrize("used", [1, 3, 6])
@pytest.mark.parametrize("tied", [False, True])
def test_ars_steps_like_the_slow_reference(used, tied):
    update, theta = (
        ars_update.Update(ARSConfig(sgd_stepsize=0.3, rollouts_used=used), 4),
        np.float32([0.5, -1.0, 0.0, 2.0]),
    )
    for seed in range(6):
        returns, noise = _round(seed, tied=tied)
        weights = update.weigh(returns)
        if weights is None:  # the one direction used has equal sides
            assert tied and used == 1
            continue
        after = update.stepped(theta, weights @ noise)
        np.testing.assert_allclose(after, slow_ars(theta, returns.tolist(), noise, used, 0.3), rtol=1e-5, atol=1e-6)
        theta = after


def test_weight_decay_pulls_towards_zero_where_noise_says_nothing():
    update = es_update.Update(ESConfig(stepsize=0.1, l2_coeff=0.5), 2)
    np.testing.assert_allclose(update.stepped(np.float32([4.0, -2.0]), np.zeros(2)), [3.9, -1.9], rtol=1e-6)


def test_es_goes_on_from_its_state_with_the_same_steps():
    config, theta = ESConfig(), np.zeros(4, np.float32)
    one, other = es_update.Update(config, 4), es_update.Update(config, 4)
    for seed in range(3):
        returns, noise = _round(seed)
        theta = one.stepped(theta, one.weigh(returns) @ noise)
    state = one.state()
    returns, noise = _round(3)
    expected = one.stepped(theta, one.weigh(returns) @ noise)
    assert state["es_adam/count"] == 3
    other.load(state)
    np.testing.assert_array_equal(other.stepped(theta, other.weigh(returns) @ noise), expected)
    assert ars_update.Update(ARSConfig(), 4).state() == {}


@pytest.mark.parametrize(
    ("kind", "distribution", "head", "action"),
    [
        ("Discrete", "categorical", ("logits", 2), DiscreteSpec(2, 0)),
        ("Box", "deterministic", ("mean", 2), ActionSpec((-2.0, -1.0), (2.0, 3.0), True, True)),
    ],
)
def test_policy_is_one_net_that_begins_at_zero(kind, distribution, head, action):
    config = ARSConfig()
    spec = net.policy_spec(config, SPACES[kind])
    assert (spec.distribution, spec.action, len(spec.nets), spec.filter, spec.misfit()) == (
        distribution,
        action,
        1,
        True,
        None,
    )
    assert spec.nets[0].heads == (head,) and spec.nets[0].layers == ()
    assert all((value == 0).all() for value in net.initial_weights(config, spec, 3).values())


def test_hidden_layers_begin_random_behind_an_output_of_zero():
    config = ESConfig(model={"fcnet_hiddens": (5,)})
    spec = net.policy_spec(config, SPACES["Box"])
    weights = net.initial_weights(config, spec, 3)
    assert weights["policy/dense_0/kernel"].std() > 0.1 and (weights["policy/mean/kernel"] == 0).all()


def test_noise_table_smaller_than_the_policy_is_refused():
    with pytest.raises(ConfigError, match="noise_size: 7 is less than the policy's 10 weights"):
        net.policy_spec(ESConfig(noise_size=7), SPACES["Discrete"])
    assert net.policy_spec(ESConfig(noise_size=10), SPACES["Discrete"]).nets
