"""What the soft actor-critics share: when parts move, importance weights, compilation, what is published."""

import numpy as np
import pytest
from machine import SCOPE
from max_entropy_machine import ACTION, JOINT, KINDS, OBS, N, block, config, machine
from slow import trained

from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

STATISTICS = {
    *("mean_q", "min_q", "max_q", "mean_td_error", "actor_loss", "critic_loss", "alpha_loss", "alpha_value"),
    *("target_entropy", "policy_entropy", "grad_norm_critic", "grad_norm_actor"),
}
STILL = {"xqc": {"policy/norm_1/mean"}}
"""What an update need not change: outputs of XQC's first kernel, whose inputs have mean 0, have mean 0 but for rounding."""
each_kind = pytest.mark.parametrize("kind", KINDS)


def _slots(part, names):
    return {f"{part}_adam/{name}/{slot}" for name in names for slot in "mv"} | {f"{part}_adam/count"}


def _parts(values):
    """{part: the names that move with it}, running statistics and targets included."""
    groups = {"critic": ("critic/", "target_critic/"), "actor": ("policy/", "log_alpha")}
    parts = {part: {name for name in values if name.startswith(prefixes)} for part, prefixes in groups.items()}
    parts["critic"] |= _slots("critic", trained(values, "critic")) | {"num_updates"}
    parts["actor"] |= _slots("actor", trained(values, "actor")) | _slots("entropy", ["log_alpha"])
    return parts


@each_kind
def test_one_update_changes_every_variable_and_reports_these_statistics(kind):
    made = config(kind)
    with machine(kind, made) as started:
        parts = _parts(started.values())
        assert set(started.values()) == parts["critic"] | parts["actor"]
        transitions = block(kind, made)
        assert started.changed(transitions, 1) | STILL.get(kind, set()) == parts["critic"] | parts["actor"]
        own = {"cql_gap"} if kind.startswith("cql") else {"edge_mass"} if kind == "xqc" else set()
        own |= {"alpha_choices", "target_entropy_choices"} if kind == "hybrid" else set()
        assert set(started.run(transitions, 1)["stats"]) == STATISTICS | own


@each_kind
def test_a_rate_of_zero_keeps_its_part_and_leaves_the_others(kind):
    made = config(kind)
    with machine(kind, made) as started:
        transitions = block(kind, made)
        without_actor = started.changed(transitions, 1, actor_learning_rate=0.0)
        without_critic = started.changed(transitions, 1, critic_learning_rate=0.0)
        values = started.values()
    assert not set(trained(values, "actor")) & without_actor and set(trained(values, "critic")) <= without_actor
    assert not set(trained(values, "critic")) & without_critic and set(trained(values, "actor")) <= without_critic


@each_kind
def test_policy_delay_of_three_keeps_its_phase_over_calls_of_any_length(kind):
    made = config(kind, policy_delay=3)
    transitions = block(kind, made)
    with machine(kind, made) as started:
        parts = _parts(started.values())
        start = started.values()
        found = [started.changed({n: v[i:].repeat(8, 0)[:8] for n, v in transitions.items()}, 1) for i in range(5)]
        apart = started.values()
        started.set(**start)
        for first, count in ((0, 2), (2, 3)):
            started.run({name: np.roll(values, -first, axis=0) for name, values in transitions.items()}, count)
        together = started.values()
    assert [parts["actor"] - STILL.get(kind, set()) <= changed for changed in found] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert all(not parts["actor"] & found[index] for index in (1, 2, 4))
    assert apart["actor_adam/count"] == apart["entropy_adam/count"] == 2 and apart["critic_adam/count"] == 5
    assert all(np.array_equal(apart[name], together[name]) for name in apart)


@each_kind
def test_compiled_and_plain_updates_agree(kind):
    made = config(kind, prioritized_replay=True)
    transitions, found = block(kind, made), []
    for xla in (False, True):
        with machine(kind, made, xla=xla) as started:
            out = started.run(transitions, 3)
            found.append((started.values(), out["stats"], out["rows"]["priority"]))
    for plain, compiled in zip(found[0][:2], found[1][:2], strict=True):
        for name in plain:
            np.testing.assert_allclose(plain[name], compiled[name], rtol=2e-3, atol=2e-4, err_msg=name)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-3, atol=1e-4)
    assert (found[0][2][:3] > 0).all() and (found[0][2][3:] == 0).all()


@each_kind
def test_a_row_of_weight_zero_moves_no_weight(kind):
    made = config(kind, prioritized_replay=True)
    transitions = block(kind, made)
    transitions["weight"][:, 0] = 0.0
    # Batch statistics see every row's states and actions: there the reward alone may differ.
    other = {name: value.copy() for name, value in transitions.items()}
    for name in ("reward",) if kind in ("crossq", "xqc") else ("reward", "obs", "next_obs", "action"):
        other[name][:, 0] = (other[name][:, 0] + 1) % N if other[name].dtype == np.int32 else other[name][:, 0] * -0.5
    found = []
    for given in (transitions, other):
        with machine(kind, made) as started:
            out = started.run(given, 2)
            found.append((started.values(), out["rows"]["priority"]))
    for name, value in found[0][0].items():
        np.testing.assert_array_equal(value, found[1][0][name], err_msg=name)
    assert (found[0][1][:2, 0] != found[1][1][:2, 0]).all()


@each_kind
def test_equal_weights_scale_all_three_losses(kind):
    made = config(kind, prioritized_replay=True)
    transitions, found = block(kind, made), []
    for weight in (1.0, 0.25):
        transitions["weight"][:] = weight
        with machine(kind, made) as started:
            found.append(started.run(transitions, 1)["stats"])
    with machine(kind, config(kind)) as started:
        found.append(started.run({n: v for n, v in transitions.items() if n != "weight"}, 1)["stats"])
    for name in ("critic_loss", "actor_loss", "alpha_loss", "grad_norm_critic", "grad_norm_actor"):
        assert found[1][name] == pytest.approx(0.25 * found[0][name], rel=1e-5)
        assert found[2][name] == pytest.approx(found[0][name], rel=1e-5)
    assert found[1]["mean_q"] == found[0]["mean_q"] and found[1]["policy_entropy"] == found[0]["policy_entropy"]


@each_kind
def test_published_weights_are_the_policys_and_act_as_the_learnt_net_does(kind):
    made = config(kind)
    with machine(kind, made) as started:
        started.run(block(kind, made), 2)
        values, spec = started.values(), started.spec
        assert set(started.graph.published) == {SCOPE + name for name in spec.weight_names()}
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    obs = np.random.default_rng(1).normal(0, 1, (6, OBS)).astype(np.float32)
    heads = Forward(spec.nets[0], {name: values[name] for name in spec.weight_names()})(obs)
    greedy, _, _ = policy.act(obs, (), np.random.default_rng(0), False)
    if KINDS[kind][2] == "Discrete":
        np.testing.assert_array_equal(greedy, heads["logits"].argmax(axis=1))
    elif KINDS[kind][2] == "Composite":
        first, last = np.unravel_index(heads["logits"].argmax(axis=1), JOINT)
        expected = np.column_stack([first, np.tanh(heads["mean"]), last])
        np.testing.assert_allclose(greedy, expected, atol=1e-6)
    else:
        assert greedy.shape == (6, ACTION)
        np.testing.assert_allclose(greedy, np.tanh(heads["mean"]), atol=1e-6)


@each_kind
def test_a_bad_reward_stops_before_its_update(kind):
    made = config(kind)
    transitions = block(kind, made)
    transitions["reward"][2, 0] = np.inf
    with machine(kind, made) as started:
        out = started.run(transitions, 5)
        assert out["done"] == 2 and not out["finite"]
        assert all(np.isfinite(value).all() for value in started.values().values())


@each_kind
def test_policy_average_keeps_a_share_of_the_past_in_what_acts(kind):
    made = config(kind, policy_average=0.75)
    with machine(kind, made) as started:
        names = trained(started.values(), "actor")
        expected = {name: started.values()[name] for name in names}
        for index in range(2):
            started.run({n: np.roll(v, -index, axis=0) for n, v in block(kind, made).items()}, 1)
            learnt = started.values()
            expected = {name: 0.75 * value + 0.25 * learnt["learnt_" + name] for name, value in expected.items()}
        acting = started.values()
    for name in names:
        np.testing.assert_allclose(acting[name], expected[name], rtol=1e-5, atol=1e-7)
        assert not np.array_equal(acting[name], acting["learnt_" + name])


@each_kind
@pytest.mark.parametrize("counted", [True, False])
def test_temperature_reaches_the_critics_only_where_their_targets_count_entropy(kind, counted):
    made = config(kind, backup_entropy=counted)
    transitions = block(kind, made)
    with machine(kind, made) as started:
        begin, found = started.values(), []
        for log_alpha in (-5.0, 1.0):
            started.set(**(begin | {"log_alpha": np.full_like(begin["log_alpha"], log_alpha)}))
            started.run(transitions, 1)
            found.append(started.values())
    same = [np.array_equal(found[0][name], found[1][name]) for name in trained(found[0], "critic")]
    assert not any(same) if counted else all(same)
