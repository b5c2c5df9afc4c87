"""PPO's graph: what the first minibatch sees, what a batch may not touch, towers, XLA."""

import numpy as np
import pytest
from batch_machine import ACTIONS, BatchMachine, config

from drl_cli.policies import exploration
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

KEYS = {"train_batch_size": 12, "sgd_minibatch_size": 4, "num_sgd_iter": 2}
LSTM = {"model": {"use_lstm": True, "lstm_cell_size": 3, "max_seq_len": 2}}
PREVIOUS = {"model": LSTM["model"] | {"lstm_use_prev_action_reward": True}}
KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
FIRST = ("first_ratio_deviation", "first_kl", "first_clip_fraction")


def scored(machine, seed=0):
    """Return a batch whose actions the machine's policy has drawn and scored in NumPy, as a worker does."""
    batch, policy = machine.batch(seed), NumpyPolicy(machine.spec)
    policy.set_weights({name: machine.values()[name] for name in machine.spec.weight_names()})
    rng, (streams, steps) = np.random.default_rng(seed), batch["mask"].shape
    state = policy.initial_state(streams)
    for t in range(steps):
        for part in state:
            part[batch["begins"][:, t] > 0] = 0.0
        for index, part in enumerate(state):
            if f"state_{index}" in machine.spec.stepwise:
                batch[f"state_{index}"][:, t] = part
            elif t % machine.sequence == 0:
                batch[f"state_{index}"][:, t // machine.sequence] = part
        batch["action"][:, t], state, columns = policy.act(batch["obs"][:, t], state, rng, True)
        policy.rewarded(state, batch["reward"][:, t])
        batch["logp"][:, t] = columns["logp"]
    for name in ("action", "logp"):
        mask = batch["mask"].reshape(*batch["mask"].shape, *[1] * (batch[name].ndim - 2))
        batch[name] = (batch[name] * mask).astype(batch[name].dtype)
    return batch


@pytest.mark.parametrize(
    "keys", [{}, LSTM, PREVIOUS, {"vf_share_layers": True}], ids=["dense", "lstm", "lstm-previous", "shared"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_first_minibatch_has_ratio_1_kl_0_and_clip_fraction_0(kind, keys):
    with BatchMachine("PPO", config("PPO", **(KEYS | keys)), kind) as machine:
        for seed in range(2):
            out = machine.learn(scored(machine, seed), lr=0.1)
            assert [out.stats[name] for name in FIRST] == [pytest.approx(0.0, abs=5e-6)] * 3
        # and it is no constant: ten times the usual step size moves the policy
        assert out.stats["kl"] > 1e-4


def test_first_minibatch_has_ratio_1_under_state_dependent_noise():
    made = config("PPO", use_sde=True, **KEYS)
    with BatchMachine("PPO", made) as machine:
        place = {"random_steps": 0, "stream": 0, "streams": 3, "base": 0}
        explored = exploration.make(made.model_copy(update={"num_envs_per_worker": 3}), machine.spec, place)
        batch, policy = machine.batch(short=False), NumpyPolicy(machine.spec)
        policy.set_weights({name: machine.values()[name] for name in machine.spec.weight_names()})
        for t in range(4):
            action, _, columns = explored.act(policy, batch["obs"][:, t], (), np.random.default_rng(t), t)
            batch["action"][:, t], batch["logp"][:, t] = action, columns["logp"]
        before, out = machine.values(), machine.learn(batch, lr=0.1)
        after = machine.values()
    assert [out.stats[name] for name in FIRST] == [pytest.approx(0.0, abs=5e-6)] * 3
    assert np.all(before["policy/log_std/kernel"] == -2.0) and np.any(after["policy/log_std/kernel"] != -2.0)


def test_batch_without_a_valid_step_changes_nothing():
    with BatchMachine("PPO", config("PPO", kl_coeff=0.2, **KEYS)) as machine:
        machine.learn(machine.batch())
        before, batch = machine.values(), machine.batch(1)
        out = machine.learn(batch | {"mask": np.zeros_like(batch["mask"])})
        after = machine.values()
    assert (out.updates, out.finite) == (0, True)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == []


def test_what_stands_in_padding_changes_nothing():
    made = config("PPO", kl_coeff=0.2, entropy_coeff=0.1, **KEYS)
    found = []
    for filled in (False, True):
        with BatchMachine("PPO", made) as machine:
            batch = machine.batch()
            padding = batch["mask"] == 0
            assert padding.any()
            for name, value in (("obs", 7.0), ("action", -9.0), ("logp", 500.0), ("reward", 1e6), ("trace", 1.0)):
                batch[name][padding] = value if filled else 0.0
            machine.learn(batch)
            found.append(machine.values())
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


def test_update_that_is_not_finite_is_not_taken_and_ends_learning():
    with BatchMachine("PPO", config("PPO", kl_coeff=0.2, **KEYS)) as machine:
        before, batch = machine.values(), machine.batch()
        batch["reward"][0, 0] = np.inf
        out = machine.learn(batch)
        after = machine.values()
    assert (out.updates, out.finite) == (0, False)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == []


@pytest.mark.parametrize("keys", [{}, LSTM], ids=["dense", "lstm"])
@pytest.mark.parametrize("towers", [2, 3])
def test_split_over_towers_learns_what_one_learns(towers, keys):
    """Streams of 4, 3 and 2 steps leave the towers unequal numbers of valid ones, and 5 rows are split by 2 or by 3."""
    keys = KEYS | keys | {"grad_clip": 0.3, "entropy_coeff": 0.05, "sgd_minibatch_size": 5}
    found = []
    for more in ({}, {"num_gpus": float(towers), "_fake_gpus": True}):
        with BatchMachine("PPO", config("PPO", **keys, **more)) as machine:
            out = machine.learn(machine.batch())
            found.append((machine.values(), out.stats, int(out.updates)))
    (one, one_stats, updates), (split, split_stats, split_updates) = found
    assert updates == split_updates > 2
    for name, value in one.items():
        np.testing.assert_allclose(split[name], value, atol=1e-6, err_msg=name)
    for name, value in one_stats.items():
        np.testing.assert_allclose(split_stats[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_towers_of_one_place_compile_as_a_whole():
    whole = {}
    for count, fake in ((1.0, True), (2.0, True), (0.0, False)):
        with BatchMachine("PPO", config("PPO", num_gpus=count, _fake_gpus=fake, **KEYS)) as machine:
            whole[count, fake] = machine.graph.in_one_place
    assert set(whole.values()) == {True}


@pytest.mark.parametrize("keys", [{"kl_coeff": 0.2}, LSTM], ids=["dense", "lstm"])
def test_xla_learns_the_same(keys):
    found = []
    for xla in (False, True):
        with BatchMachine("PPO", config("PPO", **(KEYS | keys | {"xla": xla})), "Discrete") as machine:
            machine.learn(machine.batch())
            found.append(machine.values())
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, atol=1e-5, err_msg=name)


def test_seed_makes_the_shuffle_and_nothing_else_does():
    found = []
    for shuffle, seed in ((True, 5), (True, 5), (False, 5)):
        made = config("PPO", shuffle_sequences=shuffle, **KEYS)
        with BatchMachine("PPO", made, seed=seed) as machine:
            machine.learn(machine.batch())
            found.append(machine.values()["policy/dense_0/kernel"])
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


def test_published_are_the_policys_weights():
    with BatchMachine("PPO", config("PPO", **KEYS)) as machine:
        names = {name.removeprefix("default_policy/") for name in machine.graph.published}
        assert names == set(machine.spec.weight_names())
        assert machine.graph.columns["action"] == ((ACTIONS,), "float32", "step")
