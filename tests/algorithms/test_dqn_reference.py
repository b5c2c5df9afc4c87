"""DQN's update against a slow one in float64: the papers' losses written out, their gradients by finite differences."""

import numpy as np
import pytest
from dqn_machine import RATE, config, machine, random_block
from machine import discrete_spaces
from slow import differences

from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

OBS, ACTIONS, SEED = 2, 3, 5


class Slow:
    """DQN and its kin, one sample at a time; weights {name: float64 array}; ``draws`` [update][stream] f(ε) or None."""

    def __init__(self, made, values, draws):
        self.made, self.draws = made, draws
        self.quantiles = getattr(made, "n_quantiles", None)
        self.atoms = self.quantiles or made.num_atoms
        self.support = None if self.quantiles else np.linspace(made.v_min, made.v_max, self.atoms)
        learnt = "learnt_" if made.policy_average else ""
        self.net = {n: values[learnt + n] for n in values if n.startswith("q/")}
        self.acting = {n: values[n] for n in values if n.startswith("q/")}
        self.target = {n: values["target_" + n] for n in self.net}
        self.m, self.v, self.number = {}, {}, 0

    def dense(self, weights, scope, x, noise, norm=False):
        kernel, bias = weights[scope + "/kernel"], weights[scope + "/bias"]
        if scope + "/kernel_sigma" in weights and noise is not None:
            rows, units = kernel.shape
            into, out = noise[:rows], noise[rows : rows + units]
            del noise[: rows + units]
            kernel = kernel + weights[scope + "/kernel_sigma"] * np.outer(into, out)
            bias = bias + weights[scope + "/bias_sigma"] * np.array(out)
        x = x @ kernel + bias
        if norm:
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
            x = x * weights[scope + "/norm_scale"] + weights[scope + "/norm_offset"]
        return x

    def q(self, weights, obs, stream):
        """The atoms of all actions for one observation, [n, atoms]."""
        noise = None if self.draws is None else list(self.draws[self.number][stream])
        norm = self.made.model.layer_norm
        x = np.tanh(self.dense(weights, "q/dense_0", obs, noise, norm))
        heads = {}
        for head in ("value", "advantage") if self.made.dueling else ("q",):
            y = x
            for index in range(len(self.made.hiddens)):
                y = np.maximum(self.dense(weights, f"q/{head}/dense_{index}", y, noise, norm), 0)
            heads[head] = self.dense(weights, f"q/{head}", y, noise).reshape(-1, self.atoms)
        if not self.made.dueling:
            return heads["q"]
        return heads["value"] + heads["advantage"] - heads["advantage"].mean(axis=0)

    def expected(self, atoms):
        if self.atoms > 1 and not self.quantiles:
            return np.array([np.sum(softmax(each) * self.support) for each in atoms])
        return atoms.mean(axis=1)

    def following(self, obs):
        """The atoms believed of the best next action."""
        atoms = self.q(self.target, obs, 2)
        choosing = self.q(self.net, obs, 1) if self.made.double_q else atoms
        return atoms[np.argmax(self.expected(choosing))]

    def row_loss(self, weights, batch, row, following):
        """(loss, priority) of one row."""
        taken = self.q(weights, batch["obs"][row], 0)[int(batch["action"][row])]
        reward, discount = batch["reward"][row], batch["discount"][row]
        if self.quantiles:
            total, sizes = 0.0, []
            for i, theta in enumerate(taken):
                for z in following:
                    error = reward + discount * z - theta
                    sizes.append(abs(error))
                    total += abs((i + 0.5) / self.atoms - (error < 0)) * huber(error) / self.atoms
            return total, np.mean(sizes)
        if self.atoms > 1:
            target, step = np.zeros(self.atoms), self.support[1] - self.support[0]
            for z, chance in zip(self.support, softmax(following), strict=True):
                place = (np.clip(reward + discount * z, self.support[0], self.support[-1]) - self.support[0]) / step
                below = min(int(place), self.atoms - 2)
                target[below] += chance * (below + 1 - place)
                target[below + 1] += chance * (place - below)
            entropy = -np.sum(target * np.log(softmax(taken)))
            return entropy, entropy
        error = reward + discount * following[0] - taken[0]
        return huber(error), abs(error)

    def update(self, batch):
        """One update; returns the rows' priorities."""
        rows = range(len(batch["reward"]))
        weight = batch.get("weight", np.ones(len(rows)))
        following = [self.following(batch["next_obs"][row]) for row in rows]

        def loss(net):
            return np.mean([weight[row] * self.row_loss(net, batch, row, following[row])[0] for row in rows])

        priorities = [self.row_loss(self.net, batch, row, following[row])[1] for row in rows]
        self.adam(differences(loss, self.net))
        self.number += 1
        freq = max(1, self.made.target_network_update_freq)
        if self.number % freq == 0:
            for name, value in self.net.items():
                self.target[name] = self.target[name] + self.made.tau * (value - self.target[name])
        kept = self.made.policy_average
        for name, value in self.net.items():
            self.acting[name] = kept * self.acting[name] + (1 - kept) * value
        return priorities

    def adam(self, gradients):
        if self.made.grad_clip:
            norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
            gradients = {name: g * min(1, self.made.grad_clip / norm) for name, g in gradients.items()}
        t = self.number + 1
        for name, g in gradients.items():
            self.m[name] = 0.9 * self.m.get(name, 0.0) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, 0.0) + 0.001 * g**2
            rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            step = rate * self.m[name] / (np.sqrt(self.v[name]) + self.made.adam_epsilon)
            self.net[name] = self.net[name] - step


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def huber(error):
    return error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5


def _draws(values, updates):
    """f(ε) of all noisy layers for the three passes of each update, float64."""
    shapes = [v.shape for n, v in values.items() if n.endswith("/kernel_sigma") and n.startswith("q/")]
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        drawn = [stateless_normal([sum(map(sum, shapes))], SEED, number, stream) for stream in (0, 1, 2)]
        found = [np.float64(session.run(drawn, {number: n})) for n in range(updates)]
    return [np.sign(each) * np.sqrt(np.abs(each)) for each in found]


ATOMS = {"num_atoms": 5, "v_min": -2.0, "v_max": 3.0}
ALL = {"double_q": True, "dueling": True, "prioritized_replay": True}
CASES = {
    "plain": {},
    "no layers of its own": {"hiddens": ()},
    "double": {"double_q": True},
    "dueling": {"dueling": True},
    "dueling with layer norm": {"dueling": True, "layer_norm": True, "hiddens": (4,)},
    "clipped": {"grad_clip": 0.05},
    "soft targets": {"tau": 0.3},
    "targets every second update": {"target_network_update_freq": 2, "double_q": True},
    "weights": ALL,
    "noisy": ALL | {"noisy": True},
    "epsilon of Adam": {"adam_epsilon": 1e-2},
    "average": {"policy_average": 0.75},
    "atoms": ATOMS,
    "atoms and all": ATOMS | ALL | {"noisy": True},
    "quantiles": {"n_quantiles": 3},
    "quantiles and all": {"n_quantiles": 3} | ALL,
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(**keys)
    block, updates = random_block(made, OBS, ACTIONS), 3
    with machine(made, discrete_spaces(OBS, ACTIONS), SEED) as running:
        start = {name: np.array(value, np.float64) for name, value in running.values().items()}
        draws = _draws(start, updates) if made.noisy else None
        slow = Slow(made, start, draws)
        for number in range(updates):
            out = running.run({name: np.roll(values, -number, axis=0) for name, values in block.items()}, 1)
            expected = slow.update({name: np.float64(values[number]) for name, values in block.items()})
            # the weights of both drift apart by a hundredth of a step of Adam
            np.testing.assert_allclose(out["rows"]["priority"][0], expected, rtol=2e-3, atol=5e-4)
        found = running.values()
    for name, m in slow.m.items():
        np.testing.assert_allclose(found[f"q_adam/{name}/m"], m, rtol=2e-3, atol=5e-6, err_msg=name)
        np.testing.assert_allclose(found[f"q_adam/{name}/v"], slow.v[name], rtol=4e-3, atol=1e-8, err_msg=name)
    learnt = "learnt_" if made.policy_average else ""
    for prefix, group in ((learnt, slow.net), ("target_", slow.target), ("", slow.acting)):
        for name, value in group.items():
            # 1e-2 is one step of Adam: what is asked for is a hundredth of it
            np.testing.assert_allclose(found[prefix + name], value, atol=1e-4, err_msg=prefix + name)
    assert found["num_updates"] == 3
