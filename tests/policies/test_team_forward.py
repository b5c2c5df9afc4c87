"""Nets that act for each agent of a team: rows of one batch in NumPy and in a graph, masks, weights of one's own, draws."""

import json

import numpy as np
import pytest
from team_spaces import team_spaces

from drl_cli.algorithms import qmix
from drl_cli.errors import CheckpointError, ConfigError
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.distributions import FILL
from drl_cli.policies.exploration.draws import EpsilonGreedy, HeldActions
from drl_cli.policies.forward import Forward
from drl_cli.policies.greedy_tf import Greedy
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

SPACES = team_spaces((3, 2, 3), (2, 4, 3), 2)
ROWS = 5


def config(**keys):
    return qmix.QMIXConfig(**({"model": {"fcnet_hiddens": (6,), "fcnet_activation": "tanh"}} | keys))


def policy_of(**keys):
    made = config(**keys)
    spec = qmix.policy_spec(made, SPACES)
    return NumpyPolicy(spec, qmix.initial_weights(made, spec, 3))


def observations(seed=0, mask=None):
    """Random observations in which every agent may do what it has, or what ``mask`` [A, n] says."""
    size = SPACES["obs"]["shape"][0]
    obs = np.random.default_rng(seed).normal(0, 1, (ROWS, size)).astype(np.float32)
    own = np.arange(4) < np.array([2, 4, 3])[:, None]
    obs[:, 9:21] = (own if mask is None else np.asarray(mask)).ravel()
    return obs


@pytest.mark.parametrize("shared", [True, False])
def test_heads_are_those_of_the_net_on_each_agent_s_part(shared):
    policy, obs = policy_of(share_weights=shared), observations()
    heads = policy.heads(obs)["q"]
    assert heads.shape == (ROWS, 9)
    net = policy.spec.nets[0]
    assert net.copies == (1 if shared else 3)
    parts, ends = [slice(0, 2), slice(2, 6), slice(6, 9)], (3, 6, 9)
    for agent, (part, end) in enumerate(zip(parts, ends, strict=True)):
        values = Forward(net, policy.weights)(obs[:, end - 3 : end])["q"]
        expected = values if shared else values[agent]
        np.testing.assert_allclose(heads[:, part], expected[:, : part.stop - part.start], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_graph_and_numpy_act_alike(shared):
    policy = policy_of(share_weights=shared)
    obs = observations(mask=[[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]])
    with tf.Graph().as_default(), tf.Session() as session:
        action, _ = Greedy(policy.spec, policy.weights)(tf.constant(obs))
        found = session.run(action)
    mine, _, _ = policy.act(obs, (), None, False)
    assert (mine.shape, mine.dtype) == ((ROWS, 3), np.int32)
    assert found.tolist() == policy.to_env(mine).tolist()


def test_memory_in_a_graph_and_in_numpy_goes_on_alike():
    policy, obs = policy_of(model={"fcnet_hiddens": (6,), "use_lstm": True, "lstm_cell_size": 4}), observations()
    state = policy.initial_state(ROWS)
    assert [part.shape for part in state] == [(ROWS, 3, 4)] * 2
    mine, after, _ = policy.act(obs, state, None, False)
    again, last, _ = policy.act(observations(1), after, None, False)
    with tf.Graph().as_default(), tf.Session() as session:
        greedy = Greedy(policy.spec, policy.weights)
        first = greedy(tf.constant(obs), tuple(map(tf.constant, state)))
        action, carried = session.run([*greedy(tf.constant(observations(1)), first[1])])
        found = session.run(first[0])
    assert found.tolist() == policy.to_env(mine).tolist()
    assert action.tolist() == policy.to_env(again).tolist()
    for expected, part in zip(last, carried, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-6)
    # Agents do not share a memory: what one of them saw does not change another's.
    other = obs.copy()
    other[:, :3] += 1.0
    changed = policy.act(other, state, None, False)[1][0]
    assert np.array_equal(changed[:, 1:], after[0][:, 1:]) and not np.array_equal(changed[:, 0], after[0][:, 0])


def test_what_a_mask_forbids_is_never_chosen_and_a_mask_of_nothing_forbids_nothing():
    policy = policy_of()
    obs = observations(mask=[[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]])
    heads = policy.heads(obs)["q"]
    assert (heads == FILL).all(axis=0).tolist() == [True, False, False, False, False, False, False, True, False]
    drawn = np.concatenate([policy.random(obs, np.random.default_rng(seed)) for seed in range(60)])
    assert [sorted(set(drawn[:, agent].tolist())) for agent in range(3)] == [[1], [0, 1, 2, 3], [0, 2]]


def test_random_actions_are_drawn_for_each_agent_by_itself():
    policy, rng = policy_of(), np.random.default_rng(0)
    explore = EpsilonGreedy(lambda t, rows: 0.5, HeldActions(ROWS, 1, policy.spec.action))
    obs = observations()
    greedy = policy.act(obs, (), rng, False)[0]
    acted = np.stack([explore.act(policy, obs, (), rng, (0, slice(None)))[0] for _ in range(2000)])
    same = (acted == greedy).mean(axis=(0, 1))
    np.testing.assert_allclose(same, [0.5 + 0.5 / 2, 0.5 + 0.5 / 4, 0.5 + 0.5 / 3], atol=0.02)
    together = (acted == greedy).all(axis=2).mean()
    assert together == pytest.approx(np.prod(same), abs=0.02)


def test_description_survives_json_and_is_refused_where_its_parts_do_not_fit():
    spec = policy_of().spec
    data = json.loads(json.dumps(spec.to_dict()))
    assert policy_from_manifest.policy_spec(data) == spec
    for name, value in (("obs", 9), ("mask", [9, 11]), ("alive", [60, 3]), ("actions", [2, 4, 4]), ("agents", ["a"])):
        with pytest.raises(CheckpointError):
            policy_from_manifest.policy_spec(data | {"team": data["team"] | {name: value}})
    with pytest.raises(CheckpointError):
        policy_from_manifest.policy_spec(data | {"team": None})


def test_spaces_of_one_agent_and_stacks_make_no_team():
    with pytest.raises(ConfigError, match="trains a team of agents; the environment has one agent"):
        qmix.policy_spec(config(), {name: SPACES[name] for name in ("obs", "action")})
    with pytest.raises(ConfigError, match=r"model\.framestack: a team's observations are not stacked"):
        qmix.policy_spec(config(), SPACES | {"frames": 2})
