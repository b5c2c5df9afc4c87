"""Updates of soft actor-critics in float64, as the papers write them: gradients by finite differences, Adam from its paper.

An algorithm's test hands in its losses; what they are made of (nets one row at a time, the squashed Gaussian) is here too.
"""

import numpy as np
from machine import RATES
from max_entropy_machine import ACTION, SEED

from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import tf

PREFIX = {"critic": ("critic/", "critic_memory/"), "actor": "policy/", "entropy": "log_alpha"}
RUNNING = ("mean", "var")


class SlowUpdate:
    """``values`` {name: float64 array} of all nets, changed by ``update``.

    ``losses(present, batch, noises)`` returns ({part: function of {name: array} of what it trains}, priorities [B]) for the
    weights ``present``; ``after(values, present, batch, noises, due)`` changes what follows the optimisers, ``due``
    saying whether the actor moved.
    """

    def __init__(self, made, values, losses, after, beta_1=0.9):
        self.config, self.losses, self.after, self.beta_1 = made, losses, after, beta_1
        self.values = {
            n: np.array(v, np.float64) for n, v in values.items() if "_adam/" not in n and n != "num_updates"
        }
        self.steps = {"critic": 0, "actor": 0, "entropy": 0}
        self.slots, self.priority = {}, None

    def update(self, number, batch, noises):
        """One update with noise for the next actions and the actions; gradients first, then all changes."""
        present = {name: np.array(value) for name, value in self.values.items()}
        losses, self.priority = self.losses(present, batch, noises)
        due = number % self.config.policy_delay == 0
        gradients = {
            part: differences(loss, trained(present, part)) for part, loss in losses.items() if due or part == "critic"
        }
        for part, found in gradients.items():
            if self.config.grad_clip:
                norm = np.sqrt(sum((g**2).sum() for g in found.values()))
                found = {name: g * min(1, self.config.grad_clip / norm) for name, g in found.items()}
            self._adam(part, found)
        self.after(self.values, present, batch, noises, due)

    def _adam(self, part, gradients):
        self.steps[part] += 1
        t, beta_1 = self.steps[part], self.beta_1
        for name, g in gradients.items():
            m, v = self.slots.get((part, name), (0.0, 0.0))
            m, v = beta_1 * m + (1 - beta_1) * g, 0.999 * v + 0.001 * g**2
            self.slots[part, name] = m, v
            rate = RATES[f"{part}_learning_rate"] * np.sqrt(1 - 0.999**t) / (1 - beta_1**t)
            self.values[name] = self.values[name] - rate * m / (np.sqrt(v) + 1e-8)


def compare(machine, slow, block, updates, rows=None):
    """Make ``updates`` updates one at a time in both and hold them together: weights, Adam's slots, priorities.

    ``rows``: for how many rows noise is drawn, for the next actions and for the actions; None: those of a batch.

    Returns how many updates the machine counted.
    """
    noises = noises_of(updates, rows or (slow.config.train_batch_size,) * 2)
    for number in range(updates):
        out = machine.run({name: np.roll(values, -number, axis=0) for name, values in block.items()}, 1)
        batch = {name: values[number] if values.dtype.kind == "i" else np.float64(values[number])
                 for name, values in block.items()}  # fmt: skip
        slow.update(number, batch, noises[number])
        if slow.config.prioritized_replay:
            np.testing.assert_allclose(out["rows"]["priority"][0], slow.priority, rtol=1e-4, atol=1e-5)
    found = machine.values()
    for (part, name), (m, v) in slow.slots.items():
        np.testing.assert_allclose(found[f"{part}_adam/{name}/m"], m, rtol=2e-3, atol=2e-6, err_msg=f"{part} {name}")
        np.testing.assert_allclose(found[f"{part}_adam/{name}/v"], v, rtol=4e-3, atol=1e-9, err_msg=f"{part} {name}")
    for name, value in slow.values.items():
        # 1e-2 is one step of Adam: what is asked for is a hundredth of it
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    return found["num_updates"]


def trained(values, part):
    """Return those of ``values`` that the optimiser of ``part`` changes."""
    return {n: v for n, v in values.items() if n.startswith(PREFIX[part]) and n.rpartition("/")[2] not in RUNNING}


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


def affine(weights, scope, x):
    """A linear layer."""
    return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]


def hidden(weights, net, x, layer_norm=False, mask=None):
    """The only hidden layer, tanh, or SimBa's embedding, one residual block and last normalisation where the net has them.

    ``mask`` [U] multiplies the layer's outputs before normalisation and tanh, where it is not None.
    """
    scope = f"{net}/dense_0"
    x = affine(weights, scope, x)
    x = x if mask is None else x * mask
    if f"{scope}/block_0/wide/kernel" in weights:
        wide = np.tanh(affine(weights, f"{scope}/block_0/wide", normed(weights, f"{scope}/block_0", x)))
        return normed(weights, scope, x + affine(weights, f"{scope}/block_0/narrow", wide))
    return np.tanh(normed(weights, scope, x) if layer_norm else x)


def normed(weights, scope, x):
    """Layer normalisation of one row."""
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
    return x * weights[f"{scope}/norm_scale"] + weights[f"{scope}/norm_offset"]


def copy_of(weights, net, copy, copies):
    """The weights of one of several critics."""
    own = {name: value for name, value in weights.items() if name.startswith(net + "/")}
    return {name: value[copy] for name, value in own.items()} if copies > 1 else own


def squashed(mean, std, noise, half=1.0, middle=0.0):
    """Return (action [..., A], its log-probability [...]) of a squashed Gaussian."""
    raw = mean + std * noise
    logp = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi) - np.log((1 - np.tanh(raw) ** 2) * half)
    return np.tanh(raw) * half + middle, logp.sum(axis=-1)


def follow_targets(tau):
    """Return an ``after`` in which the target critics move by ``tau``."""

    def after(values, present, batch, noises, due):
        for name in [name for name in values if name.startswith("target_")]:
            leader = values[name.removeprefix("target_")]
            values[name] = values[name] + tau * (leader - values[name])

    return after


def weighted(batch, rows):
    """Return the mean of ``rows`` [B] with the importance weights of the batch."""
    return np.mean(np.asarray(rows) * batch.get("weight", 1.0))


def noises_of(updates, rows):
    """Return for each update the noise of the next actions and of the actions, [rows, ACTION] each."""
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draws = [stateless_normal([count, ACTION], SEED, number, stream) for stream, count in enumerate(rows)]
        return [[np.float64(noise) for noise in session.run(draws, {number: n})] for n in range(updates)]
