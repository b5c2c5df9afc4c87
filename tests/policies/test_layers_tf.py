"""The LSTM: against its equations written out, NumPy against the graph, sequences against single steps, resets."""

import json

import numpy as np
import pytest

from drl_cli.errors import CheckpointError
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.forward import Forward
from drl_cli.policies.forward_tf import TFNet, variables_of
from drl_cli.policies.policy_spec import Conv, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

HEADS = (("value", 1), ("advantage", 2))
NET = NetSpec("q", (("obs", 3),), (Dense(5, "tanh"),), HEADS, head_layers=(Dense(4),), lstm=6)
PICTURES = NetSpec("q", (("obs", 64),), (Dense(5),), HEADS, image=(8, 8, 1), convs=(Conv(2, 3, 2),), lstm=4)
ROWS, STEPS = 4, 7
RNG = np.random.default_rng(2)
OBS = RNG.normal(0, 2, (ROWS, STEPS, 3)).astype(np.float32)
STATE = tuple(RNG.normal(0, 1, (ROWS, 6)).astype(np.float32) for _ in range(2))
BEGINS = np.float32([[0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0, 1]])


def weights_of(net):
    rng = np.random.default_rng(0)
    drawn = net.initial_weights(np.random.default_rng(1))
    return {name: value + rng.normal(0, 0.3, value.shape).astype("f4") for name, value in drawn.items()}


WEIGHTS = weights_of(NET)


def stepwise(net, weights, obs, state, begins):
    """The heads {head: [B, S, size]} and last state by single steps in NumPy."""
    forward, heads = Forward(net, weights), []
    for step in range(obs.shape[1]):
        state = tuple(part * (1 - begins[:, step, None]) for part in state)
        out, state = forward.run(obs[:, step], state)
        heads.append(out)
    return {head: np.stack([out[head] for out in heads], axis=1) for head in heads[0]}, state


def in_graph(net, weights, obs, state, begins, **how):
    with tf.Graph().as_default(), tf.Session() as session:
        variables = variables_of(net.weight_shapes(), weights)
        state = tuple(map(tf.constant, state))
        found = TFNet(net, variables).sequence(
            tf.constant(obs), state, None if begins is None else tf.constant(begins), **how
        )
        session.run(tf.variables_initializer(list(variables.values())))
        return session.run(found)


def assert_agree(found, expected, skip=0):
    for head in expected[0]:
        assert found[0][head].shape == expected[0][head][:, skip:].shape
        np.testing.assert_allclose(found[0][head], expected[0][head][:, skip:], atol=1e-5, rtol=1e-5)
    for mine, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_one_step_follows_the_equations_of_gers():
    weights = {name: value.astype(np.float64) for name, value in WEIGHTS.items()}
    x = np.tanh(OBS[:, 0] @ weights["q/dense_0/kernel"] + weights["q/dense_0/bias"])
    output, cell = STATE
    gates = np.concatenate([x, output], axis=1) @ weights["q/lstm/kernel"] + weights["q/lstm/bias"]
    into, keep, out, candidate = gates[:, :6], gates[:, 6:12], gates[:, 12:18], gates[:, 18:]
    cell = sigmoid(keep) * cell + sigmoid(into) * np.tanh(candidate)
    output = sigmoid(out) * np.tanh(cell)
    heads, state = Forward(NET, WEIGHTS).run(OBS[:, 0], STATE)
    np.testing.assert_allclose(state[0], output, atol=1e-5)
    np.testing.assert_allclose(state[1], cell, atol=1e-5)
    hidden = np.maximum(output @ weights["q/value/dense_0/kernel"] + weights["q/value/dense_0/bias"], 0)
    value = hidden @ weights["q/value/kernel"] + weights["q/value/bias"]
    np.testing.assert_allclose(heads["value"], value, atol=1e-5)


def test_one_step_in_the_graph_equals_one_in_numpy_for_any_number_of_rows():
    heads, state = Forward(NET, WEIGHTS).run(OBS[:, 0], STATE)
    with tf.Graph().as_default(), tf.Session() as session:
        obs = tf.placeholder(tf.float32, [None, 3])
        given = tuple(tf.placeholder(tf.float32, [None, 6]) for _ in STATE)
        made = TFNet(NET, {name: tf.constant(value) for name, value in WEIGHTS.items()}).step([obs], given)
        found = session.run(made, {obs: OBS[:, 0], given[0]: STATE[0], given[1]: STATE[1]})
    assert set(found[0]) == set(heads) == {"value", "advantage"}
    for head in heads:
        np.testing.assert_allclose(found[0][head], heads[head], atol=1e-5)
    np.testing.assert_allclose(np.stack(found[1]), np.stack(state), atol=1e-5)


def test_numpy_step_leaves_the_state_that_it_is_given_alone():
    before = [part.copy() for part in STATE]
    _, after = Forward(NET, WEIGHTS).run(OBS[:, 0], STATE)
    assert all(np.array_equal(mine, other) for mine, other in zip(STATE, before, strict=True))
    assert not any(np.shares_memory(mine, other) for mine in STATE for other in after)


@pytest.mark.parametrize("looped", [False, True])
def test_sequence_in_the_graph_equals_single_steps_in_numpy(looped):
    assert_agree(
        in_graph(NET, WEIGHTS, OBS, STATE, None, looped=looped), stepwise(NET, WEIGHTS, OBS, STATE, 0 * BEGINS)
    )


@pytest.mark.parametrize("skip", [0, 2, 3])
@pytest.mark.parametrize("looped", [False, True])
def test_state_is_forgotten_inside_a_sequence_where_an_episode_begins(looped, skip):
    found = in_graph(NET, WEIGHTS, OBS, STATE, BEGINS, looped=looped, skip=skip)
    assert_agree(found, stepwise(NET, WEIGHTS, OBS, STATE, BEGINS), skip)


def test_what_came_before_an_episodes_beginning_changes_nothing():
    other = OBS.copy()
    other[2, :3] = 99.0
    found, changed = (in_graph(NET, WEIGHTS, obs, STATE, BEGINS)[0]["value"] for obs in (OBS, other))
    np.testing.assert_array_equal(found[2, 3:], changed[2, 3:])
    assert not np.array_equal(found[2, :3], changed[2, :3])


def test_sequences_of_images_equal_single_steps():
    images = np.random.default_rng(4).integers(0, 256, (2, 3, 8, 8, 1), dtype=np.uint8)
    state = tuple(np.zeros((2, 4), np.float32) for _ in range(2))
    begins, weights = np.zeros((2, 3), np.float32), weights_of(PICTURES)
    assert_agree(in_graph(PICTURES, weights, images, state, begins), stepwise(PICTURES, weights, images, state, begins))


def test_compiled_sequence_and_its_gradient_equal_the_plain_ones():
    with tf.Graph().as_default(), tf.Session() as session:
        constants = {name: tf.constant(value) for name, value in WEIGHTS.items()}

        def run(looped):
            state = tuple(map(tf.constant, STATE))
            heads, _ = TFNet(NET, constants).sequence(tf.constant(OBS), state, tf.constant(BEGINS), 2, looped)
            loss = tf.reduce_sum(tf.square(heads["advantage"]))
            return [loss, *tf.gradients(loss, [constants["q/lstm/kernel"], constants["q/dense_0/kernel"]])]

        compiled = function(lambda: run(True), jit_compile=True, autograph=False)()
        plain = function(lambda: run(False), autograph=False)()
        found, expected = session.run([compiled, plain])
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-3)


def test_no_gradient_flows_through_skipped_steps():
    with tf.Graph().as_default(), tf.Session() as session:
        constants = {name: tf.constant(value) for name, value in WEIGHTS.items()}
        obs, state = tf.constant(OBS), tuple(map(tf.constant, STATE))
        heads, _ = TFNet(NET, constants).sequence(obs, state, None, skip=3)
        value = tf.reduce_sum(heads["value"])
        (to_obs,) = session.run(tf.gradients(value, [obs]))
        assert tf.gradients(value, [state[0]]) == [None]
    assert np.abs(to_obs[:, 3:]).min() > 0
    assert (to_obs[:, :3] == 0).all()


def test_weights_of_an_lstm_have_these_shapes_and_open_forget_gates():
    shapes = NET.weight_shapes()
    assert (shapes["q/lstm/kernel"], shapes["q/lstm/bias"]) == ((11, 24), (24,))
    assert shapes["q/value/dense_0/kernel"] == (6, 4)
    initial = NET.initial_weights(np.random.default_rng(0))
    assert initial["q/lstm/bias"].tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    assert 0.3 < np.abs(initial["q/lstm/kernel"]).max() <= np.float32((6 / 35) ** 0.5)
    assert (NET.state_shapes, NetSpec("q", (), (), ()).state_shapes) == (((6,), (6,)), ())


SPEC = PolicySpec((NET,), "q", (3,), DiscreteSpec(2), state=((6,), (6,)), value=ValueSpec())


def test_recurrent_spec_through_json_comes_back_equal():
    assert policy_from_manifest.policy_spec(json.loads(json.dumps(SPEC.to_dict()))) == SPEC


@pytest.mark.parametrize(
    ("state", "cells"), [([], 6), ([[6]], 6), ([[6], [5]], 6), ([[6], [6]], 0), ([[6], [6]], -1), ([[6], ["6"]], 6)]
)
def test_spec_whose_state_does_not_fit_its_net_is_refused(state, cells):
    data = json.loads(json.dumps(SPEC.to_dict()))
    data["state"], data["nets"][0]["lstm"] = state, cells
    with pytest.raises(CheckpointError, match="^(The|This version does not support the) policy's description"):
        policy_from_manifest.policy_spec(data)
