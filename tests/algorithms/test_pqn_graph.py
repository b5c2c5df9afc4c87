"""PQN's update against one in float64: λ-returns of the best allowed actions, and a step on the actions taken alone."""

import numpy as np
import pytest
from batch_machine import BatchMachine, config
from pydantic import ValidationError

from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

LINEAR = {"fcnet_hiddens": (), "layer_norm": True}
ONE_STEP = {"num_sgd_iter": 1, "sgd_minibatch_size": 12, "train_batch_size": 12, "gamma": 0.9, "lambda": 0.7}
ADAM_EPSILON = 1.0


def acting(machine):
    values = machine.values()
    return NumpyPolicy(machine.spec, {name: values[name] for name in machine.spec.weight_names()})


def q_of(policy, obs):
    flat = obs.reshape(-1, *policy.spec.obs_shape)
    return policy.q_values(flat).astype(np.float64).reshape(*obs.shape[: -len(policy.spec.obs_shape)], -1)


def slow_returns(policy, batch, lambda_):
    """The λ-return of every step, [E, T]: what follows the last step of a stream, or a cut, is read from ``end_obs``."""
    streams, steps = batch["mask"].shape
    best = q_of(policy, batch["obs"]).max(axis=-1)
    end = q_of(policy, batch["end_obs"]).max(axis=-1)
    behind = {int(at): value for at, value in zip(batch["end_at"], end, strict=True) if at < streams * steps}
    found = np.zeros((streams, steps))
    for e in range(streams):
        for t in reversed(range(steps)):
            later = behind.get(e * steps + t, best[e, t + 1] if t + 1 < steps else 0.0)
            if batch["trace"][e, t]:
                later = (1 - lambda_) * later + lambda_ * found[e, t + 1]
            found[e, t] = batch["reward"][e, t] + batch["discount"][e, t] * later
    return found


def test_one_step_is_that_of_the_squared_distance_from_the_lambda_returns():
    made = config("PQN", model=LINEAR, adam_epsilon=ADAM_EPSILON, **ONE_STEP)
    with BatchMachine("PQN", made, "Discrete") as machine:
        batch, before, policy = machine.batch(), machine.values(), acting(machine)
        rows = batch["mask"].ravel() > 0
        obs, action = batch["obs"].reshape(-1, 3)[rows], batch["action"].ravel()[rows]
        target = slow_returns(policy, batch, 0.7).ravel()[rows]
        error = target - q_of(policy, obs)[np.arange(len(action)), action]
        out = machine.learn(batch)
        after = machine.values()
    assert (out.updates, out.finite) == (1, True)
    np.testing.assert_allclose(out.stats["loss"], np.mean(error**2) / 2, rtol=1e-5)
    np.testing.assert_allclose(out.stats["mean_td_error"], error.mean(), rtol=1e-4, atol=1e-6)
    kernel, bias = np.zeros((3, 2)), np.zeros(2)
    for x, a, e in zip(obs, action, error, strict=True):
        kernel[:, a] -= x * e / len(error)
        bias[a] -= e / len(error)
    for name, gradient in {"q/q/kernel": kernel, "q/q/bias": bias}.items():
        root = np.sqrt(1 - 0.999)  # of Adam's first mean square, whose epsilon is not corrected for its bias
        step = made.lr * root * gradient / (root * np.abs(gradient) + ADAM_EPSILON)
        np.testing.assert_allclose(after[name], before[name] - step, rtol=1e-4, atol=1e-6, err_msg=name)


def test_passes_go_over_the_whole_batch_towards_the_returns_of_its_beginning():
    made = config("PQN", num_sgd_iter=60, sgd_minibatch_size=4, train_batch_size=12, grad_clip=None, gamma=0.5)
    with BatchMachine("PQN", made, "Discrete") as machine:
        batch = machine.batch()
        target = slow_returns(acting(machine), batch, made.lambda_)
        out = machine.learn(batch, lr=0.03)
        q = q_of(acting(machine), batch["obs"])
    real = batch["mask"] > 0
    assert out.updates == 60 * -(-int(real.sum()) // 4)
    taken = np.take_along_axis(q, batch["action"][..., None].astype(np.int64), axis=-1)[..., 0]
    assert np.abs(taken - target)[real].mean() < 0.2 * np.abs(target)[real].mean()


def test_average_is_published_and_the_newest_weights_sample():
    made = config("PQN", policy_average=0.5, **ONE_STEP)
    with BatchMachine("PQN", made, "Discrete") as machine:
        graph, before = machine.graph, machine.values()
        machine.learn(machine.batch())
        after = machine.values()
        assert len(graph.sampled) == len(machine.spec.nets[0].trainable())
    moved = np.abs(after["learnt_q/q/kernel"] - before["learnt_q/q/kernel"])
    assert moved.max() > 0
    np.testing.assert_allclose(
        after["q/q/kernel"], (before["q/q/kernel"] + after["learnt_q/q/kernel"]) / 2, rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": {"layer_norm": False}}, "nothing that keeps Q-learning without a target network stable"),
        ({"exploration_config": {"type": "GaussianNoise"}}, "that is for Box actions"),
    ],
    ids=["layer norm", "noise"],
)
def test_what_cannot_be_learnt_with_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        config("PQN", **keys)
