"""The gradient learner: it applies what it is given, pushes each time, and refuses what is not finite."""

import numpy as np
import pytest
from actor_critics import config, parts

from drl_cli.actors.gradient_learner import GradientLearner
from drl_cli.errors import CheckpointError, Diverged

pytestmark = pytest.mark.tensorflow


def _learner(**keys):
    """A learner that is ready, the weights it began with, and its parameter server."""
    made = config(**({"lr": 0.1, "adam_epsilon": 1e-8, "grad_clip": None} | keys))
    spec, weights, server = parts(made)
    learner = GradientLearner(
        made, spec, "drl_cli.algorithms.a3c_graph", weights, {"seed": 3, "with_ray": False}, server
    )
    assert learner.prepare() > 0
    return learner, weights, server


def _found(weights, seed=0):
    rng = np.random.default_rng(seed)
    gradients = {name: rng.normal(0, 1, value.shape).astype(np.float32) for name, value in weights.items()}
    return {"gradients": gradients, "stats": {"entropy": 0.5}}


@pytest.mark.parametrize("xla", [False, True])
def test_prepare_touches_no_weight(xla):
    learner, weights, server = _learner(xla=xla)
    state = learner.state()
    for name, value in weights.items():
        np.testing.assert_array_equal(state[f"default_policy/{name}"], value)
    assert state["default_policy/num_updates"] == 0 == state["default_policy/a3c_adam/count"]
    assert server.call("pull", 0).result()[0] == 1


def test_each_gradient_is_a_step_and_a_push():
    learner, weights, server = _learner()
    found = _found(weights)
    result = learner.apply(0, None, found)
    norm = np.sqrt(sum(np.square(gradient).sum() for gradient in found["gradients"].values()))
    assert (result["updates"], result["version"]) == (1, 2)
    assert result["stats"]["entropy"] == 0.5
    np.testing.assert_allclose(result["stats"]["grad_norm"], norm, rtol=1e-5)
    version, pushed = server.call("pull", 1).result()
    assert version == 2 and set(pushed["default_policy"]) == set(weights)
    for name, value in weights.items():  # Adam's first step has the length of its rate
        expected = value - 0.1 * np.sign(found["gradients"][name])
        np.testing.assert_allclose(pushed["default_policy"][name], expected, atol=1e-4)
    assert learner.apply(0, None, _found(weights, 1))["version"] == 3
    assert learner.state()["default_policy/num_updates"] == 2


def test_rate_follows_its_schedule():
    learner, weights, _ = _learner(lr=((0, 0.1), (100, 0.2)))
    found, name = _found(weights), "policy/logits/bias"
    learner.apply(50, None, found)
    moved = learner.state()[f"default_policy/{name}"] - weights[name]
    np.testing.assert_allclose(np.abs(moved), 0.15, rtol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradient_that_is_not_finite_is_refused_and_not_pushed(bad):
    learner, weights, server = _learner()
    found = _found(weights)
    found["gradients"]["value/value/bias"][0] = bad
    with pytest.raises(Diverged, match="Update 1 gave"):
        learner.apply(0, None, found)
    np.testing.assert_array_equal(learner.state()["default_policy/value/value/bias"], weights["value/value/bias"])
    assert server.call("pull", 1).result() is None


@pytest.mark.parametrize("opt_type", ["adam", "rmsprop"])
def test_learner_goes_on_from_its_state_with_the_same_steps(opt_type):
    learner, weights, _ = _learner(opt_type=opt_type, momentum=0.5, grad_clip=1.0)
    learner.apply(0, None, _found(weights))
    state = learner.state()
    learner.apply(0, None, _found(weights, 1))
    other, _, server = _learner(opt_type=opt_type, momentum=0.5, grad_clip=1.0)
    server.call("load", {"default_policy": weights}, 2)
    other.load(state, 2)
    assert other.apply(0, None, _found(weights, 1))["version"] == 3
    mine, its = learner.state(), other.state()
    assert sorted(mine) == sorted(its)
    for name, value in mine.items():
        np.testing.assert_array_equal(value, its[name])


def test_state_of_another_optimiser_is_refused():
    learner, _, _ = _learner(opt_type="rmsprop")
    other, _, _ = _learner()
    with pytest.raises(CheckpointError, match="do not fit"):
        learner.load(other.state(), 1)
