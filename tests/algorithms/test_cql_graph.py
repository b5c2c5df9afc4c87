"""CQL: what it makes of actions that nobody took, the clone that it starts as, and the bounds of its multiplier."""

import math

import numpy as np
import pytest
from machine import RATES
from max_entropy_machine import N, block, config, machine

from drl_cli.algorithms import sac
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

MULTIPLIER = "critic/log_alpha_prime"


def greedy(started, obs):
    values, spec = started.values(), started.spec
    policy = NumpyPolicy(spec, {name: values[name] for name in spec.weight_names()})
    return policy.act(obs, (), np.random.default_rng(0), False)[0]


@pytest.mark.parametrize(("weight", "taken"), [(0.0, 2), (1.0, 1)], ids=["SAC", "CQL"])
def test_choice_that_was_never_recorded_is_not_taken_for_a_promise_of_the_critics(weight, taken):
    """Choices 0 and 1 gave a reward of 0 and 1; of the third the critics say 5, which no reward contradicts."""
    made = config("cql discrete", min_q_weight=weight, train_batch_size=32, initial_alpha=0.01, hiddens=(8,))
    given = block("cql discrete", made)
    given["obs"][:], given["discount"][:] = 0.5, 0.0
    given["action"][:] = np.arange(32) % 2
    given["reward"] = given["action"].astype(np.float32)
    with machine("cql discrete", made) as started:
        started.set(**{"critic/q/bias": np.tile(np.float32([0, 0, 5]), (2, 1))})
        for _ in range(100):
            started.run(given, 8, entropy_learning_rate=0.0)
        q = Forward(sac.critic_spec(made, started.spec), started.values())(given["obs"][0])["q"]  # [2, 32, 3]
        assert (greedy(started, given["obs"][0]) == taken).all()
    assert (q[..., 2].max() < q[..., 1].min()) == (weight > 0)


@pytest.mark.slow
def test_policy_stays_with_recorded_actions_where_sac_follows_its_critics_to_the_bound():
    """Actions from -0.3 to 0.3 were recorded, the reward is the action: beyond them lies what the critics make up."""
    found, rng = {}, np.random.default_rng(0)
    for weight in (0.0, 3.0):
        made = config("cql", min_q_weight=weight, train_batch_size=32, initial_alpha=0.01, hiddens=(16,), num_actions=4)
        given = block("cql", made)
        given["action"] = rng.uniform(-0.3, 0.3, given["action"].shape).astype(np.float32)
        given["reward"], given["discount"] = given["action"].sum(axis=-1), np.zeros_like(given["discount"])
        with machine("cql", made) as started:
            for _ in range(150):
                started.run(given, 8, entropy_learning_rate=0.0)
            found[weight] = greedy(started, given["obs"][0])
    assert found[0.0].mean() > 0.8
    assert -0.1 < found[3.0].mean() < 0.5


@pytest.mark.parametrize("kind", ["cql", "cql discrete"])
def test_policy_begins_as_a_clone_of_the_recorded_actions_at_the_bounds_too(kind):
    made = config(kind, bc_iters=10_000, train_batch_size=32, initial_alpha=0.01, hiddens=(16,))
    given = block(kind, made)
    if kind == "cql":
        given["action"] = np.sign(given["obs"])
    else:
        given["action"] = (given["obs"].sum(axis=-1) > 0).astype(np.int32) * (N - 1)
    with machine(kind, made) as started:
        for _ in range(100):
            out = started.run(given, 8, entropy_learning_rate=0.0)
        acted = greedy(started, given["obs"][0])
    assert out["finite"]
    if kind == "cql":
        assert np.mean(np.abs(acted - given["action"][0]) < 0.1) > 0.9
    else:
        assert np.mean(acted == given["action"][0]) > 0.9


def test_multiplier_grows_up_to_its_bound_and_comes_back():
    made = config("cql", lagrangian=True, lagrangian_thresh=-1e6)
    most = math.log(1e6)
    with machine("cql", made) as started:
        assert started.values()[MULTIPLIER] == 0.0
        started.run(block("cql", made), 1)
        assert started.values()[MULTIPLIER] == pytest.approx(RATES["critic_learning_rate"], rel=1e-3)
        started.set(**{MULTIPLIER: np.float32(most - 1e-3)})
        out = started.run(block("cql", made), 3)
        assert started.values()[MULTIPLIER] == pytest.approx(most, abs=1e-5)
        assert out["finite"]
    made = config("cql", lagrangian=True, lagrangian_thresh=1e6)
    with machine("cql", made) as started:
        started.set(**{MULTIPLIER: np.float32(most)})
        started.run(block("cql", made), 3)
        assert started.values()[MULTIPLIER] < most - 2e-2
        started.set(**{MULTIPLIER: np.float32(-most)})
        started.run(block("cql", made), 1)
        assert started.values()[MULTIPLIER] == pytest.approx(-most, abs=1e-5)


def test_multiplier_holds_the_weighted_gap_at_its_threshold():
    made = config(
        "cql discrete", lagrangian=True, lagrangian_thresh=1.5, min_q_weight=2.0, train_batch_size=32, tau=0.1
    )
    given = block("cql discrete", made)
    given["obs"][:], given["discount"][:] = 0.5, 0.0
    given["reward"][:] = 0.3
    with machine("cql discrete", made) as started:
        for _ in range(400):
            out = started.run(given, 8, entropy_learning_rate=0.0)
        value = started.values()[MULTIPLIER]
    # Of three choices that are recorded alike the gap is no smaller than log 3 = 1.0986: 2.2 with its weight, above 1.5.
    assert out["stats"]["cql_gap"] == pytest.approx(math.log(3.0), abs=0.02) and value > 1.0
    made = made.model_copy(update={"lagrangian_thresh": 4.0})
    with machine("cql discrete", made) as started:
        for _ in range(400):
            out = started.run(given, 8, entropy_learning_rate=0.0)
        assert started.values()[MULTIPLIER] < -1.0


def test_statistics_tell_gap_and_multiplier():
    made = config("cql", lagrangian=True)
    with machine("cql", made) as started:
        stats = started.run(block("cql", made), 1)["stats"]
    assert stats["alpha_prime_value"] == 1.0 and stats["alpha_prime_loss"] == 0.0  # log 1 is 0
    assert 0.0 < stats["cql_gap"] < 3.0  # of a new net: log of the volume 4, about
