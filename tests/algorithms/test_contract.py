"""What every row of the table owes the runtime, on each kind of actions that it takes, plain and in its variants."""

import json
import operator

import numpy as np
import pytest
from machine import SCOPE
from rows import ACTIONS, CASES, IMAGE, block_of, machine_of

from drl_cli.algorithms import table
from drl_cli.extras import load
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.team_tf import acting_heads, acting_step, side_by_side
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

COLUMNS = {"obs", "action", "reward", "discount", "next_obs"}
IN_SEQUENCES = {"obs", "action", "reward", "discount", "begins", "ahead", "mask", "state_0", "state_1"}
WHOLE, LEARNT = 6, 3  # steps of a sequence: one of burn-in, three that are learnt from, two observations behind them
UPDATES = 6
# Which of six updates moves what, where the targets' frequency is three updates, TD3's that of its policy.
ALWAYS, SECOND, THIRD, FIRST_OF_2, FIRST_OF_3 = "111111", "010101", "001001", "101010", "100100"
SCHEDULES = {
    "SAC": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "RNNSAC": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "TQC": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "CROSSQ": {"critic": ALWAYS, "policy": FIRST_OF_3},
    "XQC": {"critic": ALWAYS, "policy": FIRST_OF_3, "target": THIRD},
    "TD3": {"critic": ALWAYS, "policy": SECOND, "target": SECOND},
    "RNNTD3": {"critic": ALWAYS, "policy": SECOND, "target": SECOND},
    "DDPG": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "APEX_DDPG": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "CQL": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
    "IQL": {"critic": ALWAYS, "policy": ALWAYS, "value": ALWAYS, "target": THIRD},
    "TD3BC": {"critic": ALWAYS, "policy": SECOND, "target": SECOND},
    "DQN": {"q": ALWAYS, "target": THIRD},
    "QRDQN": {"q": ALWAYS, "target": THIRD},
    "SimpleQ": {"q": ALWAYS, "target": THIRD},
    "APEX": {"q": ALWAYS, "target": THIRD},
    "R2D2": {"q": ALWAYS, "target": THIRD},
    "QMIX": {"q": ALWAYS, "target": THIRD},
    "VDN": {"q": ALWAYS, "target": THIRD},
    "MADDPG": {"critic": ALWAYS, "policy": ALWAYS, "target": THIRD},
}

OPTIMISERS = {name: {"actor", "critic", "entropy"} for name in ("SAC", "RNNSAC", "TQC", "CROSSQ", "XQC", "CQL")}
OPTIMISERS |= {name: {"actor", "critic"} for name in ("TD3", "RNNTD3", "DDPG", "APEX_DDPG", "TD3BC", "MADDPG")}
OPTIMISERS |= {"IQL": {"actor", "critic", "value"}}
OPTIMISERS |= {name: {"q"} for name in ("DQN", "QRDQN", "SimpleQ", "APEX", "R2D2", "QMIX", "VDN")}


@pytest.fixture(params=CASES.values(), ids=CASES, scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def started(case):
    """The case's machine, made once for all tests of the case, and the values of its variables at the start."""
    with machine_of(case, **frequency(case)) as made:
        yield made, made.values()


@pytest.fixture
def running(started):
    """The machine as it was at its start."""
    machine, values = started
    machine.set(**values)
    return machine


def frequency(case):
    """Every how many updates (of one env step each) the targets move."""
    if case.row == "CROSSQ":
        return {}
    return {"target_network_update_freq": 0 if case.row in ("TD3", "RNNTD3", "TD3BC") else 3}


def part_of(name):
    """Which part of an update changes a variable: its own group of weights, or what belongs to that."""
    if name.startswith("target_"):
        return "target"
    if name.startswith("learnt_"):
        return part_of(name.removeprefix("learnt_"))
    if name.startswith(("actor_adam", "entropy_adam", "log_alpha", "policy/")):
        return "policy"
    if name.startswith("mixer/"):
        return "q"
    if name.startswith("critic_memory/"):
        return "critic"
    for part in ("critic", "value", "q"):
        if name.startswith((f"{part}/", f"{part}_adam/")):
            return part
    return name


def delayed(case):
    """The case's schedule; an average of the policy moves at every update, the learnt policy when it is due."""
    schedule = dict(SCHEDULES[case.row])
    if case.keys.get("policy_delay") == 2:
        schedule["policy"] = FIRST_OF_2
    return schedule


def rolled(block, start):
    return {name: np.roll(values, -start, axis=0) for name, values in block.items()}


def test_graph_publishes_the_policy_s_variables_and_asks_for_the_replay_s_columns(case, running):
    expected = [SCOPE + name for name in running.spec.weight_names()]
    assert sorted(running.graph.published) == sorted(expected)
    columns, in_sequences = running.graph.columns, bool(running.spec.state)
    wanted = IN_SEQUENCES if in_sequences else COLUMNS
    if in_sequences and running.config.zero_init_states:
        wanted = wanted - {"state_0", "state_1"}
    assert set(columns) == wanted | ({"weight"} if running.config.prioritized_replay else set())
    image = (*IMAGE[:2], IMAGE[2] * case.frames)
    shown, dtype = (image, "uint8") if case.image else (running.spec.stacked_shape, "float32")
    assert columns["obs"] == (((WHOLE, *shown) if in_sequences else shown), dtype)
    assert in_sequences or columns["next_obs"] == columns["obs"]
    kinds = {"Discrete": ((), "int32"), "MultiDiscrete": ((2,), "int32"), "Composite": ((1 + ACTIONS,), "float32")}
    acted = kinds.get(case.actions, ((ACTIONS,), "float32"))
    acted = ((2 * ACTIONS,), "float32") if running.spec.team and case.actions == "Box" else acted
    assert columns["action"] == (((LEARNT, *acted[0]), acted[1]) if in_sequences else acted)
    values = running.values()
    assert all(np.array_equal(values[name], value) for name, value in running.initial.items())
    assert {name.partition("_adam/")[0] for name in values if "_adam/" in name} == OPTIMISERS[case.row]


def test_each_update_changes_what_its_schedule_says_and_results_count_the_target_updates(case, running):
    block, names, moved = block_of(running), set(running.values()), []
    for number in range(UPDATES):
        moved.append(running.changed(rolled(block, number), 1))
    schedule = delayed(case) | {"num_updates": ALWAYS}
    assert {part_of(name) for name in names} == set(schedule)
    # Averages move while there is a way to go; running statistics are not averaged once more.
    averages = {name for name in names if "learnt_" + name in names and not name.endswith(("/mean", "/var"))}
    for number, changed in enumerate(moved):
        expected = {name for name in names - averages if schedule[part_of(name)][number] == "1"}
        assert changed - averages == expected, f"update {number + 1}"
    assert all(averages <= changed for changed in moved[1:])
    targets = [sum(any(name.startswith("target_") for name in changed) for changed in moved[:n]) for n in range(1, 7)]
    reported = [load(table.find(case.row).nets).target_updates(running.config, n) for n in range(1, 7)]
    assert reported == targets


def test_nothing_is_learnt_at_rates_of_zero_which_are_keys_of_the_config(running):
    block, before = block_of(running), running.values()
    for name in running.graph.rates:
        assert operator.attrgetter(name)(running.config) > 0
    out = running.run(block, 3, **{name.rpartition(".")[2]: 0.0 for name in running.graph.rates})
    after = running.values()
    assert out["finite"] and out["done"] == 3
    slots = {name for name in before if "_adam/" in name or name == "num_updates"}
    statistics = {name for name in before if "norm_" in name and name.endswith(("/mean", "/var"))}
    for name in set(before) - slots - statistics:
        # An average or a target of what rests may move by the rounding of a float.
        np.testing.assert_allclose(after[name], before[name], rtol=1e-6, atol=1e-7, err_msg=name)


def test_state_goes_on_bit_for_bit_however_updates_are_split_over_calls(case, running):
    check_goes_on_bit_for_bit(running, running)


@pytest.mark.slow
def test_state_goes_on_bit_for_bit_in_a_new_graph(case, running):
    with machine_of(case, beginning=6, **frequency(case)) as other:
        check_goes_on_bit_for_bit(running, other)


def check_goes_on_bit_for_bit(running, other):
    """Assert that seven updates of ``running`` are three of them and four of ``other``, whose state is then another one."""
    block = block_of(running)
    first = running.run(block, 3)
    state = running.values()
    rest = running.run(rolled(block, 3), 4)
    whole = running.values()
    assert any(not np.array_equal(value, state[name]) for name, value in other.values().items())
    other.set(**state)
    parts = [other.run(rolled(block, start), count)["rows"] for start, count in ((3, 1), (4, 3))]
    split = other.values()
    assert whole["num_updates"] == split["num_updates"] == 7
    assert sorted(whole) == sorted(split)
    assert [name for name in whole if not np.array_equal(whole[name], split[name])] == []
    assert "priority" in rest["rows"] or not running.config.prioritized_replay
    if "priority" in rest["rows"]:
        together = np.concatenate([parts[0]["priority"][:1], parts[1]["priority"][:3]])
        assert np.array_equal(rest["rows"]["priority"][:4], together)
        assert together.min() >= 0 and together.std() > 0
    assert sorted(first["stats"]) == sorted(rest["stats"])


def test_numpy_policy_of_the_published_weights_acts_like_the_graph(running):
    block, spec = block_of(running), running.spec
    running.run(block, 6)
    values = running.values()
    published = {name: values[name] for name in (full.removeprefix(SCOPE) for full in running.graph.published)}
    policy, obs = NumpyPolicy(spec, published), block["obs"][7]
    obs, state = (obs[:, 0], policy.initial_state(8)) if spec.state else (obs, ())
    action, _, _ = policy.act(obs, state, np.random.default_rng(0), explore=False)
    with tf.Graph().as_default(), tf.Session() as session:
        weights = {name: tf.constant(value) for name, value in published.items()}
        net = TFNet(spec.nets[0], weights)
        if spec.team and spec.state:
            given = tuple(map(tf.constant, state))
            found, _ = acting_step(spec.team, spec.nets[0], weights, tf.constant(obs), given)
            heads = side_by_side(spec.team, found)
        elif spec.team:
            heads = side_by_side(spec.team, acting_heads(spec.team, spec.nets[0], weights, tf.constant(obs)))
        elif spec.state:
            heads, _ = net.sequence(tf.constant(obs[:, None]), tuple(map(tf.constant, state)))
            heads = {name: values[:, 0] for name, values in heads.items()}
        else:
            heads = net(tf.constant(obs))
        if spec.distribution == "q":
            chosen = TFActionValues(spec).greedy(TFActionValues(spec).atoms(heads), obs)
        elif spec.distribution in ("joint_q", "multi_categorical"):
            (values,) = heads.values()
            chosen = tf.argmax(tf.reshape(values, [8, *spec.action.shape, -1]), axis=-1)
        elif spec.distribution == "hybrid":
            joint = tf.cast(tf.argmax(heads["logits"], axis=-1), tf.float32)[:, None]  # of one Discrete part
            chosen = tf.concat([joint, tf.tanh(heads["mean"])], axis=-1)
        elif spec.distribution == "categorical":
            chosen = tf.argmax(heads["logits"], axis=-1)
        elif spec.distribution == "gaussian":
            chosen = heads["mean"]
        else:
            chosen = tf.tanh(heads["mean"])
        heads, chosen = session.run([heads, chosen])
    mine, _ = policy.stepped(obs, state)
    for name in mine:
        np.testing.assert_allclose(mine[name], heads[name], rtol=1e-4, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(action, chosen, rtol=1e-4, atol=1e-5)
    assert (action.shape, action.dtype) == ((8, *spec.action.shape), np.dtype(spec.action.dtype))


def test_description_of_the_policy_survives_json(case, running):
    spec = running.spec
    assert spec.misfit() is None
    assert policy_from_manifest.policy_spec(json.loads(json.dumps(spec.to_dict()))) == spec
    assert len(spec.nets) == (2 if case.row == "APEX_DDPG" else 1)  # workers judge by the critics
