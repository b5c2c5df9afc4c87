"""Recurrent policies that see their previous action and reward: in what workers send, in the graph, wherever they act."""

import json

import numpy as np
import pytest
from parts import identity, server
from scored_policies import SPACES, made
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.experience.trajectories import join
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.actor_critic_tf import ActorCritic, look_at
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.graph import trajectory_columns
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

BOX = {"kind": "Box", "shape": (1,), "low": (LOW,), "high": (HIGH,)}
OF_WORKER = {"obs": {"kind": "Box1d", "shape": (2,), "dtype": "float32"}, "action": BOX, "frames": 1}
MODEL = {
    "fcnet_hiddens": [4],
    "use_lstm": True,
    "lstm_cell_size": 3,
    "max_seq_len": 2,
    "lstm_use_prev_action_reward": True,
}
LSTM = {"lstm": 4, "lstm_use_prev_action_reward": True}


def _worker(*plan, **keys):
    sizes = {"num_envs_per_worker": 2, "rollout_fragment_length": 6, "train_batch_size": 12, "sgd_minibatch_size": 12}
    config = PPOConfig.model_validate(sizes | {"model": MODEL} | keys)
    spec = actor_critic_nets.policy_spec(config, OF_WORKER)
    weights = actor_critic_nets.initial_weights(config, spec, 5)
    weights = {name: array * 3 + 0.1 for name, array in weights.items()}
    handle = server()
    handle.call("push", {"default_policy": weights})
    Scripted.begin(*plan)
    return RolloutWorker(config, ENV, spec, identity(3, 0), handle), config, NumpyPolicy(spec, weights)


def test_state_holds_the_action_and_the_reward_before_each_step_and_nothing_where_an_episode_begins():
    worker, _, _ = _worker({"ends": (3, "truncated")}, {}, clip_rewards=0.01)
    columns = worker.collect(1)[1]
    previous, action = columns["state_2"], np.clip(columns["action"], -1, 1)
    assert previous.shape == (6, 2, 2)
    assert previous[0].tolist() == [[0, 0], [0, 0]] and previous[3, 0].tolist() == [0, 0]
    for env, steps in ((0, (1, 2, 4, 5)), (1, (1, 2, 3, 4, 5))):
        for step in steps:
            np.testing.assert_allclose(previous[step, env, 0], action[step - 1, env, 0])
    # What is seen is the environment's own reward; what is learnt from may be clipped.
    seen, learnt = previous[1:, 1, 1], columns["reward"][:-1, 1]
    np.testing.assert_allclose(np.clip(seen, -0.01, 0.01), learnt)
    assert np.abs(seen).max() > 0.01
    np.testing.assert_allclose(columns["end_state_2"][0, 0], action[2, 0, 0])
    np.testing.assert_allclose(columns["tail_state_2"][:, 0], action[5, :, 0])
    assert columns["end_state_2"][0, 1] != 0 and (columns["tail_state_2"][:, 1] != 0).all()


def test_graph_sees_what_the_worker_saw():
    worker, config, policy = _worker({"ends": (3, "truncated")}, {})
    batch = join([worker.collect(1)[1]], config.gamma, 2, policy.spec.stepwise)
    columns = trajectory_columns(config, policy.spec)
    lead = {"step": (2, 6), "sequence": (2, 3), "end": batch["end_at"].shape}
    assert {n: (*lead[kind], *shape) for n, (shape, _, kind) in columns.items()} == {
        name: array.shape for name, array in batch.items()
    }
    with tf.Graph().as_default(), tf.Session() as session:
        net = ActorCritic(policy.spec, policy.weights)
        session.run(tf.variables_initializer(list(net.variables.values())))
        heads, value, following = look_at(net, net.values(), {n: tf.constant(x) for n, x in batch.items()})
        logp = net.distribution.logp(heads, batch["action"].reshape(12, 1))
        logp, value, following = session.run([logp, value, following])
    np.testing.assert_allclose(logp.reshape(2, 6), batch["logp"], atol=1e-5)
    ends = policy.value(batch["end_obs"], tuple(batch[f"end_state_{index}"] for index in range(3)))
    for end, at in zip(ends, batch["end_at"], strict=True):
        if at < 12:
            np.testing.assert_allclose(following.ravel()[at], end, atol=1e-5)
    inside = batch["trace"][:, :-1] == 1
    np.testing.assert_allclose(following[:, :-1][inside], value[:, 1:][inside], atol=1e-6)


def test_worker_goes_on_with_what_it_had_seen():
    worker, _, _ = _worker({}, {})
    worker.collect(1)
    arrays, facts = worker.state()
    assert arrays["state_2"].any()
    expected = worker.collect(1)[1]
    again, _, _ = _worker({}, {})
    again.load({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(facts)))
    found = again.collect(1)[1]
    for name in ("action", "logp", "state_0", "state_2", "tail_state_2"):
        np.testing.assert_array_equal(found[name], expected[name])


ENCODED = {
    "gaussian": (np.float32([[0.5, -3.0]]), [0.5, -1.0]),
    "categorical": (np.int32([2]), [0, 0, 1]),
    "multi_categorical": (np.int32([[1, 0, 2]]), [0, 1, 1, 0, 0, 0, 0, 0, 1]),
    "multi_bernoulli": (np.int32([[0, 1, 1]]), [0, 1, 1]),
    "composite": (
        np.float32([[2, 0.5, -3, 1, 0, 2, 0, 1, 1]]),
        [0, 0, 1, 0.5, -1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1],
    ),
}


@pytest.mark.parametrize("name", ENCODED)
def test_every_kind_of_action_is_seen_again_one_hot_or_within_one(name):
    spec, weights = made(name, **LSTM)
    assert spec.misfit() is None and spec.state == ((4,), (4,), (spec.action.size + 1,)) and name in SPACES
    assert policy_from_manifest.policy_spec(json.loads(json.dumps(spec.to_dict()))) == spec
    policy, (action, expected) = NumpyPolicy(spec, weights), ENCODED[name]
    state = policy.noted(policy.initial_state(1), action)
    policy.rewarded(state, np.array([7.0]))
    assert state[2].tolist() == [[*expected, 7.0]] and state[2].dtype == np.float32
    obs = np.zeros((1, 6), np.float32)
    before, after = (policy.act(obs, each, None, False)[1] for each in (policy.initial_state(1), state))
    assert np.abs(before[0] - after[0]).max() > 1e-3


def test_a_policy_that_sees_no_past_keeps_none():
    policy = NumpyPolicy(*made("categorical", lstm=4))
    state = policy.initial_state(1)
    assert policy.noted(state, np.int32([1])) is state and policy.spec.stepwise == ()
    policy.rewarded(state, 3.0)
    assert not any(part.any() for part in state)
