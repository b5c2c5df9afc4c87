"""An actor-critic in the graph says what the policy that acts says, feed-forward and recurrent, over every kind of action."""

import dataclasses
import json

import numpy as np
import pytest
from scored_policies import ACTIONS, MASK, OBS, made

from drl_cli.policies import policy_from_manifest
from drl_cli.policies.actor_critic_tf import ActorCritic, look_at
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

E, T, L = 2, 6, 3
NETS = {
    "apart": {},
    "shared": {"share": True},
    "free": {"free": True},
    "recurrent": {"lstm": 4},
    "recurrent and free": {"lstm": 4, "free": True},
}


def _obs(seed, *lead):
    rng = np.random.default_rng(seed)
    obs = rng.normal(0, 1, (*lead, OBS)).astype(np.float32)
    mask = obs[..., MASK[0] : sum(MASK)]
    mask[...] = rng.random(mask.shape) < 0.5
    return obs


def _acted(spec, weights, ends=()):
    """Act E environments for T steps; an episode ends behind the steps ``ends`` of every one. Returns the batch."""
    policy, rng, obs = NumpyPolicy(spec, weights), np.random.default_rng(0), _obs(1, E, T)
    state, steps, states = policy.initial_state(E), [], []
    for step in range(T):
        if step - 1 in ends:
            state = policy.initial_state(E)
        value = policy.value(obs[:, step], state)
        states.append(state)
        action, state, columns = policy.act(obs[:, step], state, rng, True)
        assert list(columns) == ["logp"]
        steps.append((action, columns["logp"], value))
    action, logp, value = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    begins = np.zeros((E, T), np.float32)
    begins[:, [end + 1 for end in ends]] = 1.0
    end_obs = _obs(2, 4)
    batch = {"obs": obs, "action": action, "begins": begins, "end_obs": end_obs}
    batch["end_at"] = np.int32([2, T - 1, 2 * T - 1, 2 * T])  # a truncation, both last steps, padding
    last = tuple(np.concatenate([part, part]) for part in state)
    for index, part in enumerate(last):
        batch[f"state_{index}"] = np.stack([states[step][index] for step in range(0, T, L)], axis=1)
        batch[f"end_state_{index}"] = part
    return batch, logp, value, policy.value(end_obs, last)


def _looked(spec, weights, batch):
    with tf.Graph().as_default(), tf.Session() as session:
        net = ActorCritic(spec, weights, "here/")
        session.run(tf.variables_initializer(list(net.variables.values())))
        heads, value, next_value = look_at(net, net.values(), {n: tf.constant(v) for n, v in batch.items()})
        action = tf.constant(batch["action"].reshape(E * T, *spec.action.shape))
        logp = net.distribution.logp(heads, action)
        kl = net.distribution.kl(heads, heads)
        return session.run([logp, value, next_value, kl])


@pytest.mark.parametrize("nets", NETS)
@pytest.mark.parametrize("name", ACTIONS)
def test_first_look_has_ratio_one_and_the_values_of_the_policy_that_acted(name, nets):
    spec, weights = made(name, **NETS[nets])
    assert spec.misfit() is None
    ends = (3,) if spec.state else ()
    batch, logp, value, end_value = _acted(spec, weights, ends)
    found_logp, found, following, kl = _looked(spec, weights, batch)
    np.testing.assert_allclose(np.exp(found_logp.reshape(E, T) - logp), 1.0, atol=2e-5)
    assert kl.tolist() == [0.0] * (E * T)
    np.testing.assert_allclose(found, value, atol=1e-5)
    expected = np.concatenate([value[:, 1:], np.zeros((E, 1))], axis=1)
    expected[0, 2], expected[0, -1], expected[1, -1] = end_value[:3]
    np.testing.assert_allclose(following, expected, atol=1e-5)


def test_forgotten_states_are_forgotten_in_the_middle_of_a_sequence():
    spec, weights = made("categorical", lstm=4)
    batch, logp, _, _ = _acted(spec, weights, ends=(3,))
    assert batch["begins"][:, 4].tolist() == [1.0, 1.0]  # within the second sequence
    without = _looked(spec, weights, batch | {"begins": np.zeros((E, T), np.float32)})[0].reshape(E, T)
    np.testing.assert_allclose(without[:, :4], logp[:, :4], atol=1e-5)
    assert np.abs(without[:, 4:] - logp[:, 4:]).max() > 1e-3


def test_looped_and_step_by_step_are_the_same():
    spec, weights = made("categorical", lstm=4)
    obs = _obs(5, 2, 4)
    found = []
    for looped in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            net = ActorCritic(spec, weights, looped=looped)
            session.run(tf.variables_initializer(list(net.variables.values())))
            seen = net.look(net.values(), tf.constant(obs), (tf.ones([2, 4]), tf.ones([2, 4])))
            found.append(session.run(seen.value))
    np.testing.assert_allclose(*found, atol=1e-6)
    assert found[0].shape == (8,)


def test_names_of_policy_and_value_are_apart_where_the_nets_are():
    for share, values in ((False, True), (True, False)):
        spec, weights = made("categorical", share=share)
        with tf.Graph().as_default():
            net = ActorCritic(spec, weights, "here/")
        assert all(name.startswith("policy/") for name in net.policy_names)
        assert ("policy/value/kernel" in net.policy_names) == share
        assert bool(net.value_names) == values and all(name.startswith("value/") for name in net.value_names)
        assert net.published == tuple("here/" + name for name in spec.weight_names())
        assert set(net.trained) == set(net.variables) == set(weights)


def test_filtered_observations_are_seen_alike_and_masks_pass_through():
    spec, weights = made("masked")
    spec = dataclasses.replace(spec, filter=True)
    mean, var = np.full(OBS, 0.5, np.float32), np.full(OBS, 4.0, np.float32)
    mean[MASK[0] : sum(MASK)], var[MASK[0] : sum(MASK)] = 0.0, 1.0
    weights |= {"filter/mean": mean, "filter/var": var}
    batch, logp, value, _ = _acted(spec, weights)
    with tf.Graph().as_default(), tf.Session() as session:
        net = ActorCritic(spec, weights)
        session.run(tf.variables_initializer(list(net.variables.values())))
        session.run([net.variables[name].assign(weights[name]) for name in ("filter/mean", "filter/var")])
        seen = net.look(net.values(), tf.constant(batch["obs"].reshape(E * T, OBS)))
        found = session.run([net.distribution.logp(seen.heads, batch["action"].ravel()), seen.value])
    np.testing.assert_allclose(found[0].reshape(E, T), logp, atol=1e-5)
    np.testing.assert_allclose(found[1].reshape(E, T), value, atol=1e-5)
    assert "filter/mean" not in net.trained and "filter/mean" in net.published


@pytest.mark.parametrize("nets", NETS)
@pytest.mark.parametrize("name", ACTIONS)
def test_description_survives_the_manifest(name, nets):
    spec, _ = made(name, **NETS[nets])
    assert policy_from_manifest.policy_spec(json.loads(json.dumps(spec.to_dict()))) == spec
