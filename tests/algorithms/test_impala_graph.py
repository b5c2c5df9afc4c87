"""IMPALA and APPO: one step against a slow copy in NumPy, policies kept apart, what padding and nonsense may not do."""

import numpy as np
import pytest
from batch_machine import BatchMachine, config

from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

PLAIN = {"opt_type": "rmsprop", "decay": 1 - 1e-6, "epsilon": 0.1, "num_sgd_iter": 1, "entropy_coeff": 0.02}
"""A step of RMSProp that is almost one of gradient descent: its mean starts at 1 and stays there, ε adds a tenth."""
STEP = 1e-2 / np.sqrt(1.1)
RECURRENT = {"model": {"use_lstm": True, "lstm_cell_size": 3, "max_seq_len": 2}}


def paper(ratio, batch, values, next_values, clips):
    """v_s and advantages of eq. 1, from the last step back; ``clips``: (ρ̄, ρ̄ of the policy, λ)."""
    target, advantage = np.zeros(values.shape), np.zeros(values.shape)
    for stream in range(len(values)):
        beyond, after = 0.0, 0.0
        for step in reversed(range(values.shape[1])):
            if not batch["mask"][stream, step]:
                continue
            reward, discount = batch["reward"][stream, step], batch["discount"][stream, step]
            trace, value = batch["trace"][stream, step], values[stream, step]
            error = reward + discount * next_values[stream, step] - value
            bootstrapped = next_values[stream, step] + trace * after
            rho = ratio[stream, step]
            advantage[stream, step] = min(rho, clips[1]) * (reward + discount * bootstrapped - value)
            beyond = min(rho, clips[0]) * error + discount * trace * clips[2] * min(rho, 1.0) * beyond
            target[stream, step], after = value + beyond, beyond
    return target, advantage


class Slow:
    """The loss of a batch, written out: estimates are made once with the weights of the beginning, the rest with others."""

    def __init__(self, machine, batch):
        self.machine, self.batch = machine, batch
        self.mask = batch["mask"]
        self.config = machine.config

    def looked(self, weights):
        spec, batch = self.machine.spec, self.batch
        policy = NumpyPolicy(spec, {name: weights[name] for name in spec.weight_names()})
        flat = batch["obs"].reshape(-1, batch["obs"].shape[-1])
        heads = policy.heads(flat)
        action = batch["action"].reshape(len(flat), *batch["action"].shape[2:])
        logp = policy._distribution.logp(heads, action).reshape(self.mask.shape)
        value = policy.value(flat, ()).reshape(self.mask.shape)
        next_value = np.zeros(self.mask.shape)
        next_value[:, :-1] = value[:, 1:]
        for at, end in zip(batch["end_at"], policy.value(batch["end_obs"], ()), strict=True):
            if at < next_value.size:
                next_value.flat[at] = end
        return logp.astype(np.float64), value.astype(np.float64), next_value, heads

    def entropy(self, heads):
        if "logits" in heads:
            chances = np.exp(heads["logits"] - heads["logits"].max(-1, keepdims=True))
            chances /= chances.sum(-1, keepdims=True)
            return -(chances * np.log(chances)).sum(-1)
        return (heads["log_std"] + 0.5 * np.log(2 * np.pi * np.e)).sum(-1)

    def estimated(self, weights, rho):
        _, value, next_value, _ = self.looked(weights)
        config = self.config
        clips = (config.vtrace_clip_rho_threshold, config.vtrace_clip_pg_rho_threshold, config.lambda_)
        if not config.vtrace:
            rho, clips = np.ones_like(rho), (np.inf, np.inf, config.lambda_)
        target, advantage = paper(rho, self.batch, value, next_value, clips)
        return target, advantage if config.vtrace else target - value * (self.mask > 0)

    def total(self, policy_rows, value, target, heads):
        mean = lambda rows: (rows * self.mask).sum() / self.mask.sum()  # noqa: E731
        entropy = self.entropy(heads).reshape(self.mask.shape)
        return mean(policy_rows + 0.5 * self.config.vf_loss_coeff * (target - value) ** 2 - 0.02 * entropy)

    def loss(self, weights, target, advantage):
        """IMPALA's."""
        logp, value, _, heads = self.looked(weights)
        return self.total(-logp * advantage, value, target, heads)


def moved(machine, batch, **rates):
    """The gradient that a plain step took, {name: array}, and what the step returned."""
    before = machine.values()
    learnt = machine.learn(batch, **rates)
    after = machine.values()
    names = [name for name in before if name.startswith(("policy/", "value/"))]
    return {name: (before[name] - after[name]) / STEP for name in names}, learnt, before


def slope(loss, weights, name, index, by=2e-3):
    ends = []
    for sign in (1, -1):
        changed = weights[name].copy()
        changed[index] += sign * by
        ends.append(loss(weights | {name: changed}))
    return (ends[0] - ends[1]) / (2 * by)


def assert_gradient_is(gradients, loss, weights, seed=0):
    rng = np.random.default_rng(seed)
    for name, gradient in gradients.items():
        index = tuple(rng.integers(size) for size in gradient.shape)
        assert gradient[index] == pytest.approx(slope(loss, weights, name, index), rel=3e-2, abs=3e-4), name
    assert max(np.abs(g).max() for g in gradients.values()) > 1e-2


@pytest.mark.parametrize("kind", ["Discrete", "Box"])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"vtrace_clip_rho_threshold": 0.7, "vtrace_clip_pg_rho_threshold": 1.3, "lambda": 0.8},
        {"vtrace": False, "lambda": 0.8},
    ],
    ids=["plain", "clips", "without V-trace"],
)
def test_step_of_impala_is_that_of_the_loss_written_out(kind, keys):
    with BatchMachine("IMPALA", config("IMPALA", **PLAIN, **keys), kind, shape=(3, 4, 12)) as machine:
        batch = machine.batch(1)
        slow = Slow(machine, batch)
        gradients, learnt, before = moved(machine, batch)
        rho = np.exp(slow.looked(before)[0] - batch["logp"])
        target, advantage = slow.estimated(before, rho)
        assert learnt.stats["total_loss"] == pytest.approx(slow.loss(before, target, advantage), rel=1e-4)
        assert learnt.stats["mean_rho"] == pytest.approx((rho * slow.mask).sum() / slow.mask.sum(), rel=1e-4)
        assert (learnt.updates, learnt.finite) == (1, True)
        assert_gradient_is(gradients, lambda weights: slow.loss(weights, target, advantage), before)


def appo_loss(slow, target_logp, target_heads, target, advantage):
    """Function (weights) → APPO's loss, the surrogate's ratio as RLlib's."""
    config, batch = slow.config, slow.batch

    def loss(weights):
        logp, value, _, heads = slow.looked(weights)
        scale = np.minimum(np.exp(batch["logp"] - target_logp), 2.0) if config.vtrace else 1.0
        ratio = scale * np.exp(logp - batch["logp"])
        within = np.clip(ratio, 1 - config.clip_param, 1 + config.clip_param)
        rows = -np.minimum(ratio * advantage, within * advantage)
        if config.use_kl_loss:
            old, new = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (target_heads, heads["logits"]))
            rows = rows + config.kl_coeff * (np.exp(old) * (old - new)).sum(-1).reshape(rows.shape)
        return slow.total(rows, value, target, heads)

    return loss


@pytest.mark.parametrize("vtrace", [True, False])
def test_step_of_appo_keeps_the_policy_its_target_and_who_acted_apart(vtrace):
    keys = {"use_kl_loss": True, "kl_coeff": 0.3, "target_update_frequency": 100, "vtrace": vtrace}
    with BatchMachine("APPO", config("APPO", **PLAIN, **keys), "Discrete", shape=(3, 4, 12)) as machine:
        rng, values = np.random.default_rng(3), machine.values()
        names = [name for name in values if name.startswith("target_")]
        other = {name: values[name] + rng.normal(0, 0.4, values[name].shape).astype(np.float32) for name in names}
        machine.set(**other)
        batch = machine.batch(1)
        slow = Slow(machine, batch)
        gradients, learnt, before = moved(machine, batch)
        targets = before | {name.removeprefix("target_"): value for name, value in other.items()}
        target_logp, _, _, heads = slow.looked(targets)
        assert np.abs(target_logp - slow.looked(before)[0]).max() > 0.1
        rho = np.exp(target_logp - batch["logp"])
        loss = appo_loss(slow, target_logp, heads["logits"], *slow.estimated(before, rho))
        assert learnt.stats["total_loss"] == pytest.approx(loss(before), rel=1e-4)
        assert learnt.stats["kl_coeff"] == pytest.approx(0.3)
        assert_gradient_is(gradients, loss, before)
        assert all(np.array_equal(machine.values()[name], other[name]) for name in names)


def test_target_is_copied_behind_its_batches_and_the_weight_of_the_divergence_adapts():
    keys = {"use_kl_loss": True, "kl_coeff": 1.0, "num_sgd_iter": 2, "target_update_frequency": 2}
    for aim, factor in ((1e-9, 1.5), (1e3, 0.5)):
        with BatchMachine("APPO", config("APPO", **keys, kl_target=aim), "Discrete") as machine:
            batch, weights = machine.batch(2), []
            for _ in range(4):
                assert machine.learn(batch).updates == 2
                now = machine.values()
                apart = any(
                    not np.array_equal(now[name], now["target_" + name])
                    for name in machine.initial
                    if "target_" + name in now
                )
                weights.append((apart, float(now["kl_coeff"])))
            assert weights == [(True, 1.0), (False, factor), (True, factor), (False, factor**2)]


@pytest.mark.parametrize("row", ["IMPALA", "APPO"])
@pytest.mark.parametrize("keys", [{}, RECURRENT, {"vf_share_layers": True}], ids=["feed-forward", "LSTM", "shared"])
@pytest.mark.parametrize("kind", ["Box", "Discrete", "MultiDiscrete", "MultiBinary"])
def test_first_pass_over_what_the_policy_itself_did_has_ratio_one(row, keys, kind):
    with BatchMachine(row, config(row, num_sgd_iter=1, **keys), kind, shape=(3, 4, 12)) as machine:
        batch = machine.batch(4)
        batch["logp"] = recorded(machine, batch)
        stats = machine.learn(batch).stats
        assert stats["mean_rho"] == pytest.approx(1.0, abs=1e-5)
        assert stats["max_rho"] == pytest.approx(1.0, abs=1e-5)
        assert stats["behaviour_kl"] == pytest.approx(0.0, abs=1e-6)
        if row == "APPO":
            assert stats["mean_ratio"] == pytest.approx(1.0, abs=1e-5)
            assert (stats["clip_fraction"], stats["kl"]) == (0.0, pytest.approx(0.0, abs=1e-6))
        assert machine.learn(batch).stats["behaviour_kl"] > 1e-7


def recorded(machine, batch):
    """The log-probabilities of the batch's actions as a worker would have recorded them, step by step."""
    spec = machine.spec
    policy = NumpyPolicy(spec, {name: machine.values()[name] for name in spec.weight_names()})
    logp = np.zeros_like(batch["mask"])
    for step in range(batch["mask"].shape[1]):
        if spec.state:
            if step % machine.sequence == 0:
                state = tuple(batch[f"state_{i}"][:, step // machine.sequence] for i in range(len(spec.state)))
            state = tuple(np.where(batch["begins"][:, step, None] > 0, 0, part) for part in state)
            heads, state = policy.stepped(batch["obs"][:, step], state)
        else:
            heads = policy.heads(batch["obs"][:, step])
        logp[:, step] = policy._distribution.logp(heads, batch["action"][:, step])
    return logp


@pytest.mark.parametrize("row", ["IMPALA", "APPO"])
def test_padding_may_hold_anything(row):
    for keys in ({}, RECURRENT):
        with BatchMachine(row, config(row, **keys), "Box", shape=(3, 4, 12)) as machine:
            batch, start = machine.batch(5), machine.values()
            machine.learn(batch)
            expected = machine.values()
            machine.set(**start)
            empty = batch["mask"] == 0
            assert empty.any()
            batch["obs"][empty], batch["action"][empty], batch["logp"][empty] = 3.0, -9.0, -200.0
            machine.learn(batch)
            found = machine.values()
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("row", ["IMPALA", "APPO"])
def test_an_empty_batch_changes_nothing_and_one_that_is_not_finite_neither(row):
    with BatchMachine(row, config(row, num_sgd_iter=3), "Discrete") as machine:
        start = machine.values()
        batch = machine.batch(6)
        nothing = machine.learn({name: np.zeros_like(column) for name, column in batch.items()})
        assert (nothing.updates, nothing.finite) == (0, True)
        batch["reward"][0, 0] = np.inf
        spoilt = machine.learn(batch)
        assert (spoilt.updates, spoilt.finite) == (0, False)
        after = machine.values()
        assert all(np.array_equal(after[name], value) for name, value in start.items())


def test_every_pass_is_a_step_and_with_several_batches_in_turn_a_call_is_one_pass():
    for keys, updates in (({"num_sgd_iter": 3}, 3), ({"num_sgd_iter": 3, "minibatch_buffer_size": 2}, 1)):
        with BatchMachine("IMPALA", config("IMPALA", **keys), "Discrete") as machine:
            assert machine.learn(machine.batch(7)).updates == updates
            assert machine.values()["num_updates"] == updates


def test_optimiser_is_the_one_that_was_asked_for():
    for opt_type, slots in (("adam", {"m", "v", "count"}), ("rmsprop", {"ms", "mom"})):
        with BatchMachine("IMPALA", config("IMPALA", opt_type=opt_type), "Discrete") as machine:
            names = [name for name in machine.values() if name.startswith(f"policy_{opt_type}/")]
            assert {name.rpartition("/")[2] for name in names} == slots
