"""The learner around the graph: what it reports, when it pushes, how it goes on from a state."""

import numpy as np
import pytest
from parts import config, server, spec

from drl_cli.actors import session_state
from drl_cli.actors.learner import Learner
from drl_cli.algorithms import sac, sac_graph
from drl_cli.config.sections.max_entropy import Optimization
from drl_cli.errors import CheckpointError, Diverged
from drl_cli.schedules import value_at

pytestmark = pytest.mark.tensorflow

SPEC = spec(3, (-1.0, -1.0), (1.0, 1.0))
MODEL = {"fcnet_hiddens": (8, 8), "fcnet_activation": "tanh"}
KEYS = {
    "train_batch_size": 4,
    "updates_per_call": 6,
    "publish_every": 10,
    "xla": False,
    "policy_model": MODEL,
    "Q_model": MODEL,
}


def _block(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.normal(0, 1, (6, 4, 3)).astype(np.float32),
        "action": rng.uniform(-1, 1, (6, 4, 2)).astype(np.float32),
        "reward": rng.normal(0, 1, (6, 4)).astype(np.float32),
        "discount": np.full((6, 4), 0.9, np.float32),
        "next_obs": rng.normal(0, 1, (6, 4, 3)).astype(np.float32),
    }


def _learner(**keys):
    """A learner that is ready, and the handle of its parameter server, which holds version 1."""
    made, started = config(**(KEYS | keys)), server()
    initial = sac.initial_weights(made, SPEC, 3)
    started.call("push", {"default_policy": {name: initial[name] for name in SPEC.weight_names()}})
    learner = Learner(made, SPEC, "drl_cli.algorithms.sac_graph", initial, {"seed": 3, "with_ray": False}, started)
    assert learner.prepare() > 0
    return learner, started


def _equal(first, second):
    return set(first) == set(second) and all(np.array_equal(first[name], second[name]) for name in first)


def test_prepare_compiles_without_touching_a_weight():
    learner, started = _learner(xla=True)
    state, initial = learner.state(), sac.initial_weights(config(**KEYS), SPEC, 3)
    assert all(np.array_equal(state[f"default_policy/{name}"], value) for name, value in initial.items())
    assert state["default_policy/num_updates"] == 0
    assert started.call("pull", 0).result()[0] == 1


def test_share_of_a_gpus_memory_is_ignored_where_xla_compiles(monkeypatch):
    """TensorFlow takes a GPU's memory at its first look at the devices: a ``tf.function`` without options looks as well."""
    order = []
    session, build = session_state.new_session, sac_graph.build
    monkeypatch.setattr(session_state, "new_session", lambda *given: order.append("session") or session(*given))
    monkeypatch.setattr(sac_graph, "build", lambda *given: order.append("graph") or build(*given))
    _learner(xla=True)
    assert order == ["session", "graph"]


def test_learn_reports_its_updates_and_pushes_after_enough_of_them():
    learner, started = _learner()
    found = [learner.learn(_block(), 4, 0) for _ in range(5)]
    assert [result["updates"] for result in found] == [4] * 5
    assert [result["version"] for result in found] == [1, 1, 2, 2, 2]  # 12 updates are the first 10 or more
    version, pushed = started.call("pull", 1).result()
    assert version == 2 and set(pushed["default_policy"]) == set(SPEC.weight_names())
    assert all(type(value) is float and np.isfinite(value) for value in found[0]["stats"].values())
    assert learner.push() == 3
    kernel = started.call("pull", 2).result()[1]["default_policy"]["policy/mean/kernel"]
    assert np.array_equal(kernel, learner.state()["default_policy/policy/mean/kernel"])


def test_publish_keeps_the_version_and_returns_the_state_of_the_same_moment():
    learner, started = _learner()
    learner.learn(_block(), 6, 0)
    version, state = learner.publish()
    learner.learn(_block(1), 6, 0)
    learner.push()
    kept = started.call("pull_exact", version).result()["default_policy"]
    assert version == 2
    assert all(np.array_equal(kept[name], state[f"default_policy/{name}"]) for name in SPEC.weight_names())
    assert not _equal(state, learner.state())


def test_an_update_that_is_not_finite_is_named_and_not_applied():
    learner, _ = _learner()
    learner.learn(_block(), 6, 0)
    block = _block(1)
    block["reward"][2, 1] = np.inf
    with pytest.raises(Diverged, match="^Update 9 gave a loss or gradient that is not finite; it was not applied"):
        learner.learn(block, 6, 0)
    state = learner.state()
    assert state["default_policy/num_updates"] == 8
    assert all(np.isfinite(value).all() for value in state.values())


def test_a_state_goes_on_in_another_learner_bit_for_bit():
    learner, _ = _learner()
    learner.learn(_block(), 6, 0)
    other, started = _learner()
    other.load(learner.state(), 7)
    for seed in range(1, 4):
        first, second = learner.learn(_block(seed), 5, 0), other.learn(_block(seed), 5, 0)
        assert first["stats"] == second["stats"]
    assert _equal(learner.state(), other.state())
    assert second["version"] == 8


def test_load_into_nets_of_another_size_is_refused():
    learner, _ = _learner()
    other, _ = _learner(Q_model=MODEL | {"fcnet_hiddens": (8,)})
    with pytest.raises(CheckpointError, match="do not fit this run's nets: weights do not match: missing"):
        other.load(learner.state(), 2)


def test_rates_follow_their_schedules_in_env_steps():
    rates = Optimization(actor_learning_rate=((100, 0.0), (200, 0.01)), entropy_learning_rate=0.0)
    learner, _ = _learner(optimization=rates)
    assert value_at(rates.actor_learning_rate, 150) == 0.005
    before = learner.state()
    learner.learn(_block(), 6, 100)
    still = learner.state()
    learner.learn(_block(), 6, 150)
    moved = learner.state()
    name = "default_policy/policy/mean/kernel"
    assert np.array_equal(before[name], still[name]) and not np.array_equal(still[name], moved[name])
    assert np.abs(moved[name] - still[name]).max() < 6 * 0.005 * 2
    assert not np.array_equal(before["default_policy/critic/q/kernel"], still["default_policy/critic/q/kernel"])
    assert moved["default_policy/log_alpha"] == before["default_policy/log_alpha"]
