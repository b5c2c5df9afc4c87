"""A whole learning step of PPO against a slow one in float64: estimates, passes, minibatches, the penalty that adapts."""

import numpy as np
import pytest
from batch_machine import BatchMachine, config
from slow_trajectories import Slow, compare

from drl_cli.tf1.epochs import Plan, orders
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

SEED = 5
KEYS = {"train_batch_size": 12, "sgd_minibatch_size": 4, "num_sgd_iter": 2, "adam_epsilon": 1e-5}
LSTM = {"model": {"use_lstm": True, "lstm_cell_size": 2, "max_seq_len": 2}}

CASES = {
    "Box": ("Box", {}),
    "Discrete": ("Discrete", {}),
    "shared layers, entropy, clipped gradient": (
        "Discrete",
        {"vf_share_layers": True, "entropy_coeff": 0.1, "grad_clip": 0.1},
    ),
    "clipped value, free deviation": ("Box", {"vf_clip_param": 0.02, "model": {"free_log_std": True}}),
    "Box, several": (
        "Box",
        {
            "vf_clip_param": 0.02,
            "model": {"free_log_std": True},
            "kl_coeff": 0.5,
            "kl_target": 1e-6,
            "clip_param": None,
            "use_gae": False,
        },
    ),
    "Discrete, several": (
        "Discrete",
        {
            "vf_share_layers": True,
            "entropy_coeff": 0.1,
            "grad_clip": 0.1,
            "kl_coeff": 0.5,
            "kl_target": 10.0,
            "shuffle_sequences": False,
        },
    ),
    "penalty that grows": ("Box", {"kl_coeff": 0.5, "kl_target": 1e-6, "clip_param": None}),
    "penalty that shrinks, in order": (
        "Discrete",
        {"kl_coeff": 0.5, "kl_target": 10.0, "shuffle_sequences": False},
    ),
    "whole returns less the value": ("Box", {"use_gae": False}),
    "no critic": ("Box", {"use_gae": False, "use_critic": False, "batch_mode": "complete_episodes"}),
    "LSTM, Box": ("Box", LSTM),
    "LSTM, Discrete, entropy": ("Discrete", LSTM | {"entropy_coeff": 0.1}),
}


def order_of(mask, made, machine, number):
    """The rows of every minibatch, from the same permutations."""
    length = machine.sequence
    rows = mask.reshape(-1, length).any(axis=1)
    size = made.sgd_minibatch_size // length
    plan = Plan(made.num_sgd_iter, size, size, made.shuffle_sequences)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(orders(tf.constant(rows), plan, SEED, tf.constant(number, tf.int64)))
    count = int(rows.sum())
    return [np.array_split(each[:count], -(-count // size)) for each in found]


def clip(x, low, high):
    return min(max(x, low), high)


def slow_ppo(made, slow, batch, passes, kl_coeff):
    """Algorithm 1; returns (kl_coeff afterwards, mean total loss of the last pass)."""
    judged = slow.judge(batch)
    slow.standardize(judged)
    for minibatches in passes:
        total, divergence = [], []
        for rows in minibatches:
            kls = []

            def loss(heads, value, action, logp, old, kls=kls):
                ratio, advantage = np.exp(slow.logp(heads, action) - logp), old["advantage"]
                bound = made.clip_param if made.clip_param else np.inf
                found = -min(ratio * advantage, clip(ratio, 1 - bound, 1 + bound) * advantage)
                kls.append(slow.kl(old["heads"], heads))
                found += kl_coeff * kls[-1] - made.entropy_coeff * slow.entropy(heads)
                if made.use_critic:
                    error = (value - old["target"]) ** 2
                    if made.vf_clip_param:
                        moved = clip(value - old["value"], -made.vf_clip_param, made.vf_clip_param)
                        error = max(error, (old["value"] + moved - old["target"]) ** 2)
                    found += made.vf_loss_coeff * error
                return found

            total.append(slow.descend(batch, rows, judged, loss))
            valid = sum(row * slow.sequence + k in judged for row in rows for k in range(slow.sequence))
            divergence.append(np.mean(kls[-valid:]))  # before the step: the last evaluation was at the old weights
    if np.mean(divergence) > 2 * made.kl_target:
        kl_coeff *= 1.5
    elif np.mean(divergence) < made.kl_target / 2:
        kl_coeff *= 0.5
    return kl_coeff, np.mean(total)


@pytest.mark.parametrize(("kind", "keys"), CASES.values(), ids=CASES)
def test_learning_from_a_batch_matches_the_papers_in_float64(kind, keys):
    made = config("PPO", **(KEYS | keys))
    with BatchMachine("PPO", made, kind) as machine:
        rng = np.random.default_rng(1)
        # outputs of size 1, so that ratios and values are not all alike
        names = [name for name in machine.spec.weight_names() if name.endswith("kernel")]
        machine.set(**{name: rng.normal(0, 0.6, machine.values()[name].shape).astype(np.float32) for name in names})
        slow, kl_coeff = Slow(machine), made.kl_coeff
        for number in range(2):
            batch = machine.batch(seed=number)
            batch["logp"] = np.float32(batch["logp"] * 0.2 - (2.5 if kind == "Box" else 0.7))
            passes = order_of(batch["mask"], made, machine, int(machine.values()["num_updates"]))
            out = machine.learn(batch)
            exact = {name: np.float64(values) for name, values in batch.items()}
            new, total = slow_ppo(made, slow, exact, passes, kl_coeff)
            kl_coeff = new if made.kl_coeff else 0.0
            np.testing.assert_allclose(out.stats["total_loss"], total, rtol=2e-3, atol=2e-4)
            assert (out.updates, out.finite) == (sum(map(len, passes)), True)
            assert machine.values()["kl_coeff"] == pytest.approx(kl_coeff)
        compare(machine, slow)
    if made.kl_coeff:
        assert kl_coeff in (0.5 * 1.5**2, 0.5 * 0.5**2)
