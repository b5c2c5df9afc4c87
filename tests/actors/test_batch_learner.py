"""The learner of whole trajectory batches: shapes, pushes, what it reports, how it goes on."""

import numpy as np
import pytest
from parts import server

from drl_cli import events
from drl_cli.actors.aggregator import Aggregator
from drl_cli.actors.batch_learner import BatchLearner
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.a2c import A2CConfig
from drl_cli.errors import Diverged

pytestmark = pytest.mark.tensorflow

SPACES = {
    "obs": {"kind": "Box1d", "shape": (3,), "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": ()},
    "frames": 1,
}
SMALL = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 6,
    "train_batch_size": 24,
    "xla": False,
    "model": {"fcnet_hiddens": [5]},
}
LSTM = {"model": {"fcnet_hiddens": [5], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4}}
WHOLE = {"batch_mode": "complete_episodes"}


def _learner(**keys):
    """A learner that is ready for two fragments, and the handle of its parameter server, which holds version 1."""
    config = A2CConfig.model_validate(SMALL | keys)
    spec = actor_critic_nets.policy_spec(config, SPACES)
    initial = actor_critic_nets.initial_weights(config, spec, 3)
    started = server()
    started.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}})
    learner = BatchLearner(
        config, spec, "drl_cli.algorithms.a2c_graph", initial, {"seed": 3, "with_ray": False}, started
    )
    assert learner.prepare(4, 6) > 0
    return learner, started


def _fragment(seed=0, cuts=(), lengths=None, states=0):
    rng = np.random.default_rng(seed)
    steps = 6 if lengths is None else max(lengths)
    columns = {
        "obs": rng.normal(0, 1, (steps, 2, 3)).astype(np.float32),
        "action": rng.integers(0, 2, (steps, 2)).astype(np.int32),
        "reward": rng.normal(0, 1, (steps, 2)).astype(np.float32),
        "logp": np.full((steps, 2), -0.7, np.float32),
        "terminated": np.zeros((steps, 2), bool),
        "truncated": np.zeros((steps, 2), bool),
        "tail_obs": rng.normal(0, 1, (2, 3)).astype(np.float32),
        "position": np.arange(steps)[:, None].repeat(2, 1).astype(np.int32),
    }
    for at in cuts:
        columns["truncated"][at] = True
    if lengths is not None:
        columns["length"] = np.array(lengths)
        columns["terminated"][columns["length"] - 1, [0, 1]] = True
    ends = int((columns["terminated"] | columns["truncated"]).sum())
    columns["end_obs"] = rng.normal(0, 1, (ends, 3)).astype(np.float32)
    for index in range(states):
        columns[f"state_{index}"] = rng.normal(0, 1, (steps, 2, 4)).astype(np.float32)
        columns[f"end_state_{index}"] = rng.normal(0, 1, (ends, 4)).astype(np.float32)
        columns[f"tail_state_{index}"] = rng.normal(0, 1, (2, 4)).astype(np.float32)
    return columns


@pytest.mark.parametrize("xla", [False, True])
def test_prepare_compiles_without_touching_a_variable(xla):
    learner, started = _learner(xla=xla)
    config = A2CConfig.model_validate(SMALL)
    initial = actor_critic_nets.initial_weights(config, actor_critic_nets.policy_spec(config, SPACES), 3)
    state = learner.state()
    assert all(np.array_equal(state[f"default_policy/{name}"], value) for name, value in initial.items())
    slots = [name for name in state if name.removeprefix("default_policy/") not in initial]
    assert state["default_policy/num_updates"] == 0 and len(slots) > len(initial)
    assert not any(state[name].any() for name in slots if "square" not in name and "beta" not in name)
    assert started.call("pull", 0).result()[0] == 1


def test_learn_reports_what_it_did_and_pushes_every_time():
    learner, started = _learner()
    for number in (1, 2):
        result = learner.learn(0, None, _fragment(number), _fragment(10 + number))
        assert (result["updates"], result["version"], result["steps"]) == (1, 1 + number, 24)
    assert all(type(value) is float and np.isfinite(value) for value in result["stats"].values())
    assert result["seconds"] > 0
    version, pushed = started.call("pull", 1).result()
    assert version == 3
    state = learner.state()
    assert all(np.array_equal(value, state[f"default_policy/{n}"]) for n, value in pushed["default_policy"].items())


@pytest.mark.parametrize(
    ("keys", "prepared", "fragments", "shape"),
    [
        ({}, (4, 6, 8), [_fragment(), _fragment(1)], (4, 6, 8)),
        ({}, (4, 6, 8), [_fragment(), _fragment(1, cuts=[(t, n) for t in (0, 1, 2) for n in (0, 1)])], (4, 6, 16)),
        (LSTM, (4, 8, 8), [_fragment(states=2), _fragment(1, states=2)], (4, 8, 8)),
        (WHOLE, (8, 4, 64), [_fragment(lengths=(6, 9)), _fragment(lengths=(20, 7))], (8, 32, 64)),
    ],
)
def test_the_expected_shape_is_prepared_and_a_batch_of_another_is_compiled_once(keys, prepared, fragments, shape):
    learner, _ = _learner(**keys)
    assert list(learner._calls) == [prepared]
    steps = learner.learn(0, None, *fragments)["steps"]
    learner.learn(0, None, *fragments)
    assert set(learner._calls) == {prepared, shape}
    assert steps == sum(f["length"].sum() if "length" in f else 12 for f in fragments)


def test_padding_changes_nothing_that_is_learnt():
    """The same whole episodes, once with twice as many rows' worth of padding behind them."""
    learner, _ = _learner(**WHOLE)
    start, results, states = learner.state(), [], []
    short, long = _fragment(lengths=(3, 4)), _fragment(lengths=(3, 4))
    for name in ("obs", "action", "reward", "logp", "terminated", "truncated", "position"):
        long[name] = np.concatenate([long[name], np.zeros((20, *long[name].shape[1:]), long[name].dtype)])
    for part in (short, long):
        learner.load(start, 1)
        results.append(learner.learn(0, None, part))
        states.append(learner.state())
    assert results[0]["stats"] == results[1]["stats"] and results[0]["steps"] == results[1]["steps"] == 7
    assert all(np.array_equal(states[0][name], states[1][name]) for name in start)
    assert not all(np.array_equal(states[0][name], start[name]) for name in start)


def test_an_update_that_is_not_finite_is_named_and_not_applied():
    learner, _ = _learner()
    learner.learn(0, None, _fragment(), _fragment(1))
    before, part = learner.state(), _fragment(2)
    part["reward"][2, 1] = np.inf
    with pytest.raises(Diverged, match="^Update 2 gave a loss or gradient that is not finite; it was not applied"):
        learner.learn(0, None, part, _fragment(3))
    after = learner.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_state_goes_on_in_another_learner_bit_for_bit():
    learner, _ = _learner()
    learner.learn(0, None, _fragment(), _fragment(1))
    other, _ = _learner()
    other.load(learner.state(), 7)
    for seed in (2, 4):
        results = [one.learn(0, None, _fragment(seed), _fragment(seed + 1)) for one in (learner, other)]
        assert results[0]["stats"] == results[1]["stats"]
    state, mine = learner.state(), other.state()
    assert all(np.array_equal(state[name], mine[name]) for name in state)
    assert results[1]["version"] == 9


def test_rates_follow_their_schedules_in_env_steps():
    learner, _ = _learner(lr=[[100, 0.0], [200, 0.01]])
    before = learner.state()
    learner.learn(100, None, _fragment(), _fragment(1))
    still = learner.state()
    learner.learn(150, None, _fragment(), _fragment(1))
    moved, name = learner.state(), "default_policy/policy/logits/kernel"
    assert np.array_equal(before[name], still[name]) and not np.array_equal(still[name], moved[name])


@pytest.mark.parametrize(("xla", "text"), [(True, "compiling the update (XLA)"), (False, "preparing the first update")])
def test_what_the_learner_is_at_before_it_can_learn_is_reported_and_that_it_can(xla, text):
    heard = []
    stop = events.subscribe(lambda kind, fields: heard.append(fields["text"]) if kind == "learner" else None)
    try:
        learner, _ = _learner(xla=xla)
        assert heard == ["building the graph", text, ""]
        learner.learn(0, None, _fragment(0), _fragment(1))
        learner.learn(0, None, _fragment(2))
    finally:
        stop()
    later = ["compiling the update (XLA) for batches of 2 by 6 steps", ""] if xla else []
    assert heard[3:] == later


@pytest.mark.parametrize(
    ("keys", "kinds"),
    [
        ({}, [{}, {"cuts": [2]}]),
        (LSTM, [{"states": 2}, {"states": 2}]),
        (WHOLE, [{"lengths": [6, 3]}, {"lengths": [2, 4]}]),
    ],
    ids=["cut", "lstm", "whole"],
)
def test_a_batch_that_an_aggregator_joined_is_learnt_from_bit_for_bit_as_its_fragments(keys, kinds):
    fragments = [_fragment(seed, **kind) for seed, kind in enumerate(kinds)]
    (alone, _), (given, _) = _learner(**keys), _learner(**keys)
    seconds, batch = Aggregator().join(given.joining(), *fragments)
    assert seconds > 0
    for array in batch.values():
        array.flags.writeable = False  # as what comes from Ray's object store
    first, second = alone.learn(24, None, *fragments), given.learn_joined(24, None, batch)
    assert first["stats"] == second["stats"] and first["steps"] == second["steps"]
    state, other = alone.state(), given.state()
    assert all(np.array_equal(state[name], other[name]) for name in state)
