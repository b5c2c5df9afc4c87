"""The learner of evolution strategies: it steps along the workers' own directions, or not at all, and pushes each time."""

import numpy as np
import pytest
from evolved import UPDATES, config, parts

from drl_cli.actors.evolution_learner import EvolutionLearner
from drl_cli.errors import CheckpointError, Diverged
from drl_cli.evolution import noise_table
from drl_cli.policies.filters import moments

SCOPE = "default_policy/"
KERNEL = "policy/logits/kernel"
IDENTITY = {"seed": 7, "with_ray": False}


def _learner(name="ARS", **keys):
    """A learner, the weights it began with, its parameter server and its config."""
    made = config(name, **({"num_rollouts": 4, "rollouts_used": 2} if name == "ARS" else {}) | keys)
    spec, weights, server = parts(made)
    learner = EvolutionLearner(made, spec, UPDATES[name], weights, IDENTITY, server)
    assert learner.prepare() >= 0
    return learner, weights, server, made


def _block(first, returns):
    returns = np.asarray(returns, float)
    index = np.arange(first, first + len(returns))
    return {"index": index, "fitness": returns, "length": np.full((len(returns), 2), 5)}


def _vector(weights):
    return np.concatenate([weights[name].ravel() for name in (KERNEL, "policy/logits/bias")])


@pytest.mark.parametrize("keys", [{}, {"noise_size": 99}])
def test_step_is_along_the_directions_that_workers_tried(keys):
    learner, weights, server, made = _learner(sgd_stepsize=0.5, **keys)
    result = learner.learn(40, [None], _block(0, [[3, 1], [0, 0]]), _block(2, [[2, 9], [1, 1]]))
    source = noise_table.make(made, 10)
    first, third = (source.direction(0, index) for index in (0, 2))
    step = 0.5 / (2 * np.std([3, 1, 2, 9])) * (2 * first - 7 * third)
    version, pushed = server.call("pull", 1).result()
    np.testing.assert_allclose(_vector(pushed["default_policy"]), _vector(weights) + step, rtol=1e-4, atol=1e-5)
    assert (version, result["version"], result["updates"], result["steps"]) == (2, 2, 1, 40)
    stats = result["stats"]
    assert (stats["return_mean"], stats["max_return"], stats["min_return"]) == (17 / 8, 9.0, 0.0)
    assert (stats["directions"], stats["without_step"]) == (4, 0.0) and stats["grad_norm"] > 0
    np.testing.assert_allclose(stats["update_ratio"] * stats["weights_norm"], np.linalg.norm(step), rtol=1e-4)
    learner.close()


def test_each_round_has_directions_of_its_own():
    learner, weights, _, _ = _learner(sgd_stepsize=0.5)
    moved, before = [], _vector(weights)
    for _ in range(2):
        learner.learn(0, [None], _block(0, [[3, 1], [0, 0], [2, 9], [1, 1]]))
        after = _vector({name.removeprefix(SCOPE): value for name, value in learner.state().items()})
        moved.append(after - before)
        before = after
    assert abs(np.corrcoef(moved)[0, 1]) < 0.9


@pytest.mark.parametrize("name", ["ES", "ARS"])
def test_equal_returns_move_nothing_also_behind_other_steps(name):
    learner, _, server, _ = _learner(name)
    learner.learn(0, [None], _block(0, [[3, 1], [0, 0]]))
    before = learner.state()
    result = learner.learn(0, [None], _block(0, [[4, 4], [4, 4]]))
    after = learner.state()
    assert [name for name in before if not np.array_equal(before[name], after[name])] == [SCOPE + "num_updates"]
    assert after[SCOPE + "num_updates"] == 2
    stats = result["stats"]
    assert (stats["without_step"], stats["grad_norm"], stats["update_ratio"]) == (1.0, 0.0, 0.0)
    assert server.call("pull", 2).result()[0] == 3  # the next round is asked for with a newer version all the same


def test_filter_is_of_all_that_was_seen_and_published_with_the_weights():
    learner, _, server, _ = _learner()
    rows = np.random.default_rng(0).normal([1, 2, 3, 4], [1, 2, 3, 4], (50, 4)).astype(np.float32)
    seen = [{"obs": moments(rows[:20])}, None, {"obs": moments(rows[20:])}]
    learner.learn(0, seen, _block(0, [[3, 1], [0, 0]]))
    pushed = server.call("pull", 1).result()[1]["default_policy"]
    np.testing.assert_allclose(pushed["filter/mean"], rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(pushed["filter/var"], rows.var(axis=0), rtol=1e-4)
    assert learner.state()[SCOPE + "filter/count"] == 50


@pytest.mark.parametrize("name", ["ES", "ARS"])
def test_learner_goes_on_from_its_state_with_the_same_steps(name):
    blocks = [_block(0, np.random.default_rng(seed).normal(0, 9, (4, 2))) for seed in range(3)]
    seen = [{"obs": moments(np.random.default_rng(1).normal(0, 2, (30, 4)))}]
    learner, _, _, _ = _learner(name)
    for block in blocks[:2]:
        learner.learn(0, seen, block)
    state = learner.state()
    learner.learn(0, seen, blocks[2])
    other, _, server, _ = _learner(name)
    server.call("load", {}, 9)
    other.load(state, 9)
    assert other.learn(0, seen, blocks[2])["version"] == 10
    expected, found = learner.state(), other.state()
    assert [name for name in expected if not np.array_equal(expected[name], found[name])] == []


def test_state_is_a_copy():
    learner, weights, _, _ = _learner()
    version, state = learner.publish()
    learner.learn(0, [None], _block(0, [[3, 1], [0, 0]]))
    np.testing.assert_array_equal(state[SCOPE + KERNEL], weights[KERNEL])
    assert version == 2 and learner.push() == 4


def test_published_version_is_kept_for_the_tester():
    learner, weights, server, _ = _learner()
    version, _ = learner.publish()
    for _ in range(3):
        learner.learn(0, [None], _block(0, [[3, 1], [0, 0]]))
    np.testing.assert_array_equal(
        server.call("pull_exact", version).result()["default_policy"][KERNEL], weights[KERNEL]
    )


def test_state_of_another_net_or_algorithm_is_refused():
    state = _learner("ES")[0].state()
    with pytest.raises(CheckpointError, match="do not fit this run's nets: default_policy/es_adam/count"):
        _learner("ARS")[0].load(state, 2)
    with pytest.raises(CheckpointError, match="policy/logits/kernel"):
        _learner("ES")[0].load(state | {SCOPE + KERNEL: np.zeros((5, 2), np.float32)}, 2)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_return_that_is_not_finite_is_refused_and_nothing_is_pushed(bad):
    learner, weights, server, _ = _learner()
    with pytest.raises(Diverged, match="A return of round 1 is not finite"):
        learner.learn(0, [None], _block(0, [[3, bad], [0, 0]]))
    assert server.call("pull", 1).result() is None
    np.testing.assert_array_equal(learner.state()[SCOPE + KERNEL], weights[KERNEL])


def test_step_beyond_all_numbers_is_not_taken():
    learner, weights, server, _ = _learner(sgd_stepsize=1e3)
    learner._theta = np.full(10, np.finfo(np.float32).max, np.float32)
    learner._update.stepped = lambda theta, ascent, factor: theta * np.float32(2)
    with np.errstate(over="ignore"), pytest.raises(Diverged, match="Step 1 made weights that are not finite"):
        learner.learn(0, [None], _block(0, [[3, 1], [0, 0]]))
    assert server.call("pull", 1).result() is None
