"""What every row that learns from trajectories owes the runtime, on what a real worker did with every kind of actions."""

import json

import numpy as np
import pytest
from machine import SCOPE
from trajectory_rows import CASES, Played, machine_of

from drl_cli.policies import policy_from_manifest
from drl_cli.policies.actor_critic_tf import ActorCritic, look_at
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

FIRST = {
    "PPO": {"first_ratio_deviation": 0.0, "first_kl": 0.0, "first_clip_fraction": 0.0},
    "DDPPO": {"first_ratio_deviation": 0.0, "first_kl": 0.0, "first_clip_fraction": 0.0},
    "IMPALA": {"mean_rho": 1.0, "max_rho": 1.0, "behaviour_kl": 0.0},
    "APPO": {"mean_rho": 1.0, "max_rho": 1.0, "mean_ratio": 1.0, "clip_fraction": 0.0, "kl": 0.0},
}
"""What rows say of their first look at what the present policy did."""
RESTS = {"PPO": {"kl_coeff"}, "DDPPO": {"kl_coeff"}, "APPO": {"kl_coeff"}}
"""What one batch leaves alone besides targets and what belongs to filters: penalties that were not asked for."""


@pytest.fixture(params=CASES.values(), ids=CASES, scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def played(case):
    return Played(case)


@pytest.fixture(scope="module")
def started(case, played):
    """The case's machine, made once, and the values of its variables at the start."""
    with machine_of(case, played) as made:
        yield made, made.values()


@pytest.fixture
def running(started):
    """The machine as it was at its start."""
    machine, values = started
    machine.set(**values)
    return machine


def differing(one, other):
    assert sorted(one) == sorted(other)
    return {name for name in one if not np.array_equal(one[name], other[name])}


def test_worker_brings_what_the_graph_asks_for_with_ends_of_both_kinds(case, played, running):
    batch = played.batch
    ends = batch["trace"] == 0
    assert (ends & (batch["discount"] == 0)).sum() > 0 < (ends & (batch["discount"] > 0)).sum()
    assert sorted(running.graph.published) == sorted(SCOPE + name for name in running.spec.weight_names())
    if case.row != "A3C":
        for name, (trailing, dtype, kind) in running.graph.columns.items():
            lead = running.lead(kind)
            assert (batch[name].shape, str(batch[name].dtype)) == ((*lead, *trailing), dtype), name
    assert played.spec.filter == ("observation_filter" in case.keys) and bool(played.spec.mask) == case.masked
    assert policy_from_manifest.policy_spec(json.loads(json.dumps(running.spec.to_dict()))) == running.spec


def test_graph_scores_what_the_worker_did_as_the_worker_did(case, played, running):
    """Ratio 1 and no divergence, whatever a row makes of them; values are those of the NumPy policy."""
    batch, spec = played.batch, running.spec
    if spec.distribution == "q":  # ``test_pqn_graph`` compares these values with the NumPy policy's
        assert "logp" not in batch
        return
    with tf.Graph().as_default(), tf.Session() as session:
        net = ActorCritic(spec, running.initial, SCOPE)
        values = {name: tf.constant(value) for name, value in played.weights.items()}
        given = {name: tf.constant(value) for name, value in batch.items()}
        heads, value, _ = look_at(net, values, given)
        action = tf.reshape(given["action"], [-1, *spec.action.shape])
        found = net.distribution.logp(heads, action), net.distribution.kl(heads, heads), value
        logp, kl, value = session.run(found)
    np.testing.assert_allclose(logp.reshape(batch["logp"].shape), batch["logp"], atol=2e-5)
    assert np.ptp(batch["logp"]) > 0.1
    np.testing.assert_allclose(kl, 0.0, atol=1e-6)
    if not spec.state:
        policy = NumpyPolicy(spec, {name: played.weights[name] for name in spec.weight_names()})
        flat = batch["obs"].reshape(-1, *spec.obs_shape)
        np.testing.assert_allclose(value.ravel(), policy.value(flat, ()), atol=1e-4)


def test_first_look_at_what_the_present_policy_did_finds_no_difference(case, played, running):
    if case.row not in FIRST:
        return
    made = running.learn(played.batch, lr=0.0)  # passes that move nothing are first looks all
    for name, value in FIRST[case.row].items():
        assert made.stats[name] == pytest.approx(value, abs=2e-5), name
    later = running.learn(played.batch, lr=0.1).stats
    if case.row == "APPO":
        assert later["kl"] > 1e-6 and later["mean_ratio"] != 1.0
    else:
        assert later["kl" if case.row in ("PPO", "DDPPO") else "behaviour_kl"] > 1e-6


def test_one_batch_moves_all_that_is_learnt_and_nothing_else(case, played, running):
    before = running.values()
    out = running.learn(played.batch)
    after = running.values()
    rests = RESTS.get(case.row, set()) | {n for n in before if n.startswith(("filter/", "target_"))}
    assert differing(before, after) == set(before) - rests
    assert all(np.isfinite(value).all() for value in after.values())
    assert after["num_updates"] == (1 if case.row == "A3C" else out.updates) > 0
    running.learn(played.batch)
    moved = differing(before, running.values())
    assert {name for name in before if name.startswith("target_")} <= moved  # with APPO's second batch
    assert not {name for name in moved if name.startswith("filter/")}


def test_batch_without_a_valid_step_changes_nothing(case, played, running):
    running.learn(played.batch)
    before = running.values()
    empty = played.batch | {name: np.zeros_like(played.batch[name]) for name in ("mask", "reward", "discount", "trace")}
    if case.row == "A3C":  # whose workers never send such a gradient
        assert all(not gradient.any() for gradient in running.gradients(empty)[0].values())
        return
    out = running.learn(empty)
    assert (out.updates, out.finite) == (0, True)
    assert differing(before, running.values()) == set()


def test_what_stands_in_padding_changes_nothing(case, played, running):
    """The last two steps of a third of the streams are taken for padding, full of nonsense."""
    found = []
    for nonsense in (0.0, 50.0):
        batch = {name: column.copy() for name, column in played.batch.items()}
        # Their last real step is a real end: nothing is looked at behind it.
        batch["mask"][::3, -2:] = batch["discount"][::3, -3:] = batch["trace"][::3, -3:] = 0.0
        for name in {"obs", "reward", "logp"} & set(batch):
            batch[name][::3, -2:] = nonsense
        if played.spec.mask:
            batch["obs"][::3, -2:, played.spec.mask[0] : sum(played.spec.mask)] = 1.0
        if batch["action"].dtype == np.float32:
            batch["action"][::3, -2:] = nonsense
        stream, step = np.divmod(batch["end_at"], batch["mask"].shape[1])
        batch["end_at"][(stream % 3 == 0) & (step > 3)] = batch["mask"].size
        running.set(**started_values(running, played))
        running.learn(batch)
        found.append(running.values())
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def started_values(machine, played):
    """Every variable as it was at first: slots and counters 0, nets as ``played`` has them."""
    values = machine.values()
    return {n: np.zeros_like(v) for n, v in values.items() if "_adam/" in n or n == "num_updates"} | played.weights


def test_learning_goes_on_bit_for_bit_from_its_values(case, played, running):
    running.learn(played.batch)
    state = running.values()
    running.learn(played.batch)
    after = running.values()
    running.set(**{name: np.full_like(value, 0.5) for name, value in state.items()})
    running.set(**state)
    running.learn(played.batch)
    assert differing(after, running.values()) == set()
    assert after["num_updates"] == 2 * state["num_updates"]
