"""DDPG's and TD3's update: against a slow one in float64, what moves when, what it converges to."""

import numpy as np
import pytest
from machine import Machine, random_block, spaces
from slow import differences

from drl_cli.algorithms import ddpg, ddpg_nets
from drl_cli.configs.ddpg import DDPGConfig, TD3Config
from drl_cli.tf1.distributions import stateless_normal
from drl_cli.tf1.tensorflow import tf

OBS, ACTION, SEED = 2, 2, 5
RATES = {"actor_lr": 1e-2, "critic_lr": 2e-2}
MODULES = (ddpg_nets, ddpg)


def config(kind=TD3Config, **keys):
    """Return the config of a small net and batch."""
    small = {"actor_hiddens": (3,), "critic_hiddens": (3,), "train_batch_size": 4, "updates_per_call": 8}
    activations = {"actor_hidden_activation": "tanh", "critic_hidden_activation": "tanh"}
    return kind(**(small | activations | {"prioritized_replay": False} | keys))


def machine_of(made, low=-1.0, high=1.0, xla=False):
    return Machine(made, spaces(OBS, ACTION, low, high), SEED, xla, MODULES, RATES)


def block_of(made, seed=0):
    block = random_block(made, OBS, ACTION, seed)
    if made.prioritized_replay:
        block["weight"] = np.random.default_rng(1).uniform(0.1, 1, block["reward"].shape).astype(np.float32)
    return block


class Slow:
    """The papers' update, one row and one critic at a time; weights {name: float64 array}."""

    def __init__(self, made, values, low, high):
        self.config, self.low, self.high = made, low, high
        self.learnt = "learnt_" if made.policy_average else ""
        self.values = values
        self.steps, self.slots = {"critic": 0, "actor": 0}, {}

    def of(self, prefix):
        return {n.removeprefix(self.learnt): v for n, v in self.values.items() if n.startswith(prefix)}

    def act(self, weights, scope, obs):
        x = np.tanh(obs @ weights[f"{scope}/dense_0/kernel"] + weights[f"{scope}/dense_0/bias"])
        squashed = np.tanh(x @ weights[f"{scope}/mean/kernel"] + weights[f"{scope}/mean/bias"])
        return squashed * (self.high - self.low) / 2 + (self.high + self.low) / 2

    def q(self, weights, scope, obs, action):
        x, found = np.concatenate([obs, action]), []
        for copy in range(2 if self.config.twin_q else 1):
            own = {name: value[copy] if self.config.twin_q else value for name, value in weights.items()}
            hidden = np.tanh(x @ own[f"{scope}/dense_0/kernel"] + own[f"{scope}/dense_0/bias"])
            found.append((hidden @ own[f"{scope}/q/kernel"] + own[f"{scope}/q/bias"])[0])
        return np.array(found)

    def targets(self, batch, noise):
        made, found = self.config, []
        for row in range(made.train_batch_size):
            action = self.act(self.of("target_policy/"), "target_policy", batch["next_obs"][row])
            if made.smooth_target_policy:
                clipped = np.clip(made.target_noise * noise[row], -made.target_noise_clip, made.target_noise_clip)
                action = np.clip(action + clipped * (self.high - self.low) / 2, self.low, self.high)
            value = self.q(self.of("target_critic/"), "target_critic", batch["next_obs"][row], action).min()
            found.append(batch["reward"][row] + batch["discount"][row] * value)
        return np.array(found)

    def errors(self, critic, batch, targets):
        q = np.array([self.q(critic, "critic", o, a) for o, a in zip(batch["obs"], batch["action"], strict=True)])
        return targets[:, None] - q

    def critic_loss(self, critic, batch, targets):
        error = np.abs(self.errors(critic, batch, targets))
        rows = 0.5 * error**2
        if self.config.use_huber:
            limit = self.config.huber_threshold
            rows = np.where(error <= limit, rows, limit * (error - 0.5 * limit))
        weight = batch.get("weight", np.ones(len(rows)))
        return (rows * weight[:, None]).mean(axis=0).sum() + self.decay(critic)

    def actor_loss(self, policy, batch):
        critic, total = self.of("critic/"), 0.0
        weight = batch.get("weight", np.ones(self.config.train_batch_size))
        for obs, w in zip(batch["obs"], weight, strict=True):
            total -= w * self.q(critic, "critic", obs, self.act(policy, "policy", obs))[0]
        return total / self.config.train_batch_size + self.decay(policy)

    def decay(self, weights):
        squares = sum((v**2).sum() for n, v in weights.items() if n.endswith("kernel"))
        return 0.5 * self.config.l2_reg * squares

    def update(self, number, batch, noise):
        critic, policy = self.of("critic/"), self.of(self.learnt + "policy/")
        targets = self.targets(batch, noise)
        priority = np.abs(self.errors(critic, batch, targets)).mean(axis=1)
        found = {"critic": differences(lambda w: self.critic_loss(w, batch, targets), critic)}
        due = number % self.config.policy_delay == self.config.policy_delay - 1
        if due:
            found["actor"] = differences(lambda w: self.actor_loss(w, batch), policy)
        for part, gradients in found.items():
            self.adam(part, critic if part == "critic" else policy, gradients)
        if due:
            for name, value in (policy | critic).items():
                target = self.values["target_" + name]
                target += self.config.tau * (value - target)
        if self.learnt:
            for name, value in policy.items():
                self.values[name] += (1 - self.config.policy_average) * (value - self.values[name])
        return priority

    def adam(self, part, weights, gradients):
        self.steps[part] += 1
        t = self.steps[part]
        for name, g in gradients.items():
            m, v = self.slots.get((part, name), (0.0, 0.0))
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            self.slots[part, name] = m, v
            rate = RATES["actor_lr" if part == "actor" else "critic_lr"] * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            weights[name] -= rate * m / (np.sqrt(v) + 1e-8)


def noises(updates, rows):
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draw = stateless_normal([rows, ACTION], SEED, number, 0)
        return [np.float64(session.run(draw, {number: n})) for n in range(updates)]


CASES = {
    "TD3": {},
    "DDPG": {"kind": DDPGConfig, "l2_reg": 0.1},
    "priorities": {"prioritized_replay": True},
    "Huber": {"use_huber": True, "huber_threshold": 0.3},
    "delay of three, one critic": {"policy_delay": 3, "twin_q": False},
    "bounds of the environment": {"normalize_actions": False, "target_noise": 1.0},
    "averaged policy": {"policy_average": 0.9},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(tau=0.2, **keys)
    low, high = (-1.0, 3.0) if keys.get("normalize_actions") is False else (-1.0, 1.0)
    block, updates = block_of(made), 4
    noise = noises(updates, made.train_batch_size)
    with machine_of(made, low, high) as machine:
        values = {name: np.array(value, np.float64) for name, value in machine.values().items()}
        slow = Slow(made, values, low, high)
        for number in range(updates):
            batch = {name: np.float64(value[number]) for name, value in block.items()}
            out = machine.run({name: np.roll(value, -number, axis=0) for name, value in block.items()}, 1)
            expected = slow.update(number, batch, noise[number])
            np.testing.assert_allclose(out["rows"]["priority"][0], expected, rtol=1e-3, atol=1e-4)
        found = machine.values()
    for name, value in slow.values.items():
        if "adam" not in name and name != "num_updates":
            np.testing.assert_allclose(found[name], value, atol=2e-4, err_msg=name)
    assert found["actor_adam/count"] == updates // made.policy_delay
    assert found["num_updates"] == updates


def test_delayed_policy_and_targets_move_on_every_second_update_however_calls_are_split():
    made = config()
    block = block_of(made)
    with machine_of(made) as machine:
        first, second = machine.changed(block, 1), machine.changed(block, 1)
        assert {name.split("/")[0] for name in first} == {"critic", "critic_adam", "num_updates"}
        assert {"policy", "target_policy", "target_critic", "actor_adam"} <= {name.split("/")[0] for name in second}
        machine.run(block, 3)
        assert machine.values()["actor_adam/count"] == 2


@pytest.mark.parametrize(("discount", "value"), [(0.9, 10.0), (0.0, 1.0)], ids=["never ends", "ends at once"])
def test_critics_reach_the_value_of_a_reward_of_one(discount, value):
    made = config(critic_hiddens=(16,), tau=0.2)
    block = block_of(made)
    block["reward"][:], block["discount"][:] = 1.0, discount
    with machine_of(made) as machine:
        for _ in range(150):
            out = machine.run(block, 8)
    assert abs(out["stats"]["mean_q"] - value) < 0.1 * max(1.0, value / 5)


def test_rate_of_zero_keeps_the_policy_and_not_the_critics():
    made = config(policy_delay=1)
    with machine_of(made) as machine:
        changed = machine.changed(block_of(made), 2, actor_lr=0.0)
    assert not any(name.startswith("policy/") for name in changed)
    assert any(name.startswith("critic/") for name in changed)


def test_compiled_and_plain_updates_agree():
    made = config()
    block, found = block_of(made), []
    for xla in (False, True):
        with machine_of(made, xla=xla) as machine:
            machine.run(block, 5)
            found.append(machine.values())
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-5, err_msg=name)


def test_critics_travel_with_the_policy_where_workers_judge():
    made = config(worker_side_prioritization=True, prioritized_replay=True)
    with machine_of(made) as machine:
        published = {name.split("/")[1] for name in machine.graph.published}
        assert published == {"policy", "critic"}
        assert machine.spec.misfit() is None
