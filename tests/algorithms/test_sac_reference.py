"""SAC's update against a slow one in float64: the papers' losses written out, their gradients by finite differences."""

import numpy as np
import pytest
from machine import RATES, Machine, config, random_block, spaces

from drl_cli.tf1.distributions import stateless_normal
from drl_cli.tf1.tensorflow import tf

OBS, ACTION, SEED = 2, 2, 5


class Slow:
    """SAC as in 1812.05905, one sample and one critic at a time; weights {name: float64 array}."""

    def __init__(self, made, values, low=-1.0, high=1.0):
        self.config, self.twins = made, made.twin_q
        self.half, self.middle = (high - low) / 2, (high + low) / 2
        self.policy = {n: v for n, v in values.items() if n.startswith("policy/")}
        self.critic = {n: v for n, v in values.items() if n.startswith("critic/")}
        self.target = {n: v for n, v in values.items() if n.startswith("target_critic/")}
        self.log_alpha = {"log_alpha": values["log_alpha"]}
        self.steps = {"critic": 0, "actor": 0, "entropy": 0}
        self.slots, self.gradients = {}, {}

    def hidden(self, weights, scope, x):
        x = x @ weights[f"{scope}/dense_0/kernel"] + weights[f"{scope}/dense_0/bias"]
        if self.config.Q_model.layer_norm:
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
            x = x * weights[f"{scope}/dense_0/norm_scale"] + weights[f"{scope}/dense_0/norm_offset"]
        return np.tanh(x)

    def act(self, policy, obs, noise):
        x = self.hidden(policy, "policy", obs)
        mean = x @ policy["policy/mean/kernel"] + policy["policy/mean/bias"]
        std = np.exp(x @ policy["policy/log_std/kernel"] + policy["policy/log_std/bias"])
        raw = mean + std * noise
        logp = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi) - np.log((1 - np.tanh(raw) ** 2) * self.half)
        return np.tanh(raw) * self.half + self.middle, logp.sum()

    def q(self, weights, scope, obs, action):
        """The values of all critics for one row."""
        x, values = np.concatenate([obs, action]), []
        for copy in range(2 if self.twins else 1):
            own = {name: value[copy] if self.twins else value for name, value in weights.items()}
            values.append((self.hidden(own, scope, x) @ own[f"{scope}/q/kernel"] + own[f"{scope}/q/bias"])[0])
        return np.array(values)

    def targets(self, batch, noise):
        alpha, found = np.exp(self.log_alpha["log_alpha"]), []
        for row in range(len(noise)):
            action, logp = self.act(self.policy, batch["next_obs"][row], noise[row])
            value = self.q(self.target, "target_critic", batch["next_obs"][row], action).min() - alpha * logp
            found.append(batch["reward"][row] + batch["discount"][row] * value)
        return np.array(found)

    def critic_loss(self, critic, batch, targets):
        q = np.array([self.q(critic, "critic", o, a) for o, a in zip(batch["obs"], batch["action"], strict=True)])
        return (0.5 * (q - targets[:, None]) ** 2).mean(axis=0).sum()

    def actor_loss(self, policy, batch, noise):
        total = 0.0
        for row in range(len(noise)):
            action, logp = self.act(policy, batch["obs"][row], noise[row])
            q = self.q(self.critic, "critic", batch["obs"][row], action).min()
            total += np.exp(self.log_alpha["log_alpha"]) * logp - q
        return total / len(noise)

    def alpha_loss(self, log_alpha, batch, noise):
        logp = np.mean([self.act(self.policy, o, n)[1] for o, n in zip(batch["obs"], noise, strict=True)])
        return -log_alpha["log_alpha"] * (logp + self.target_entropy)

    @property
    def target_entropy(self):
        asked = self.config.target_entropy
        return -ACTION if asked in (None, "auto") else asked

    def update(self, number, batch, noises):
        """One update with noise for the next actions and the actions; gradients first, then all changes."""
        targets = self.targets(batch, noises[0])
        gradients = {"critic": differences(lambda w: self.critic_loss(w, batch, targets), self.critic)}
        if number % self.config.policy_delay == 0:
            gradients["actor"] = differences(lambda w: self.actor_loss(w, batch, noises[1]), self.policy)
            gradients["entropy"] = differences(lambda w: self.alpha_loss(w, batch, noises[1]), self.log_alpha)
        self.gradients = gradients
        weights = {"critic": self.critic, "actor": self.policy, "entropy": self.log_alpha}
        for part, found in gradients.items():
            if self.config.grad_clip:
                norm = np.sqrt(sum((g**2).sum() for g in found.values()))
                found = {name: g * min(1, self.config.grad_clip / norm) for name, g in found.items()}
            self.adam(part, weights[part], found)
        for name in self.critic:
            target = self.target["target_" + name]
            target += self.config.tau * (self.critic[name] - target)

    def adam(self, part, weights, gradients):
        self.steps[part] += 1
        t = self.steps[part]
        for name, g in gradients.items():
            m, v = self.slots.get((part, name), (0.0, 0.0))
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            self.slots[part, name] = m, v
            rate = RATES[f"{part}_learning_rate"] * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            weights[name] -= rate * m / (np.sqrt(v) + 1e-8)


def differences(loss, weights, step=1e-5):
    """Central differences of ``loss(weights)`` for every element of every array."""
    found = {}
    for name, value in weights.items():
        found[name] = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[index] += sign * step
                sides.append(loss(weights | {name: moved}))
            found[name][index] = (sides[0] - sides[1]) / (2 * step)
    return found


def _noises(updates, rows):
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draws = [stateless_normal([rows, ACTION], SEED, number, stream) for stream in (0, 1)]
        return [np.float64(session.run(draws, {number: n})) for n in range(updates)]


CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "layer norm": {"layer_norm": True},
    "policy delay": {"policy_delay": 2},
    "clipped": {"grad_clip": 0.05},
    "target entropy a number": {"target_entropy": 0.5},
    "bounds of the environment": {"normalize_actions": False},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(initial_alpha=0.3, tau=0.2, **keys)
    low, high = (-1.0, 3.0) if keys.get("normalize_actions") is False else (-1.0, 1.0)
    block, updates = random_block(made, OBS, ACTION), 3
    noises = _noises(updates, made.train_batch_size)
    with Machine(made, spaces(OBS, ACTION, low, high), SEED) as machine:
        slow = Slow(made, {name: np.array(value, np.float64) for name, value in machine.values().items()}, low, high)
        for number in range(updates):
            batch = {name: np.float64(values[number]) for name, values in block.items()}
            machine.run({name: np.roll(values, -number, axis=0) for name, values in block.items()}, 1)
            slow.update(number, batch, noises[number])
        found = machine.values()
    for (part, name), (m, v) in slow.slots.items():
        np.testing.assert_allclose(found[f"{part}_adam/{name}/m"], m, rtol=2e-3, atol=2e-6, err_msg=f"{part} {name}")
        np.testing.assert_allclose(found[f"{part}_adam/{name}/v"], v, rtol=4e-3, atol=1e-9, err_msg=f"{part} {name}")
    for name, value in {**slow.policy, **slow.critic, **slow.target, **slow.log_alpha}.items():
        # 1e-2 is one step of Adam: what is asked for is a hundredth of it
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    assert found["num_updates"] == 3
