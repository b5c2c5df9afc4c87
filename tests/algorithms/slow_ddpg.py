"""The update of DDPG and its kin in float64, as the papers write it: gradients by finite differences, Adam from its paper."""

import numpy as np
from slow import differences

from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import tf

OBS, ACTION, SEED = 2, 2, 5
RATES = {"actor_lr": 1e-2, "critic_lr": 2e-2}


class Slow:
    """The papers' update, one row and one critic at a time; weights {name: float64 array}."""

    CRITIC = ("critic/",)  # where the names of the critics' weights begin

    def __init__(self, made, values, low, high):
        self.config, self.low, self.high = made, low, high
        self.learnt = "learnt_" if made.policy_average else ""
        self.values = {name: np.array(value, np.float64) for name, value in values.items()}
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

    def priority(self, critic, batch, targets):
        return np.abs(self.errors(critic, batch, targets)).mean(axis=1)

    def update(self, number, batch, noise):
        critic, policy = self.of(self.CRITIC), self.of(self.learnt + "policy/")
        targets = self.targets(batch, noise)
        priority = self.priority(critic, batch, targets)
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


def compare(machine, slow, block, updates, rows=None):
    """Make ``updates`` updates one at a time in both and hold weights and priorities together; returns the machine's values.

    ``rows``: for how many rows noise is drawn; None: those of a batch.
    """
    noise = noises(updates, rows or slow.config.train_batch_size)
    for number in range(updates):
        batch = {name: np.float64(value[number]) for name, value in block.items()}
        out = machine.run({name: np.roll(value, -number, axis=0) for name, value in block.items()}, 1)
        expected = slow.update(number, batch, noise[number])
        np.testing.assert_allclose(out["rows"]["priority"][0], expected, rtol=1e-3, atol=1e-4)
    found = machine.values()
    for name, value in slow.values.items():
        if "adam" not in name and name != "num_updates":
            np.testing.assert_allclose(found[name], value, atol=2e-4, err_msg=name)
    return found
