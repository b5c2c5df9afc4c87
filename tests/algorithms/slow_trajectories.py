"""Learning from trajectories in float64, as the papers write it: one step at a time, gradients by finite differences.

``Slow(machine)`` judges a batch and takes Adam's steps; an algorithm's test hands in its loss of one step.
"""

import numpy as np
from slow import differences


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Slow:
    """The nets of a BatchMachine: ``values`` {name: float64 array}, changed by ``descend``."""

    def __init__(self, machine):
        self.config, self.spec, self.sequence = machine.config, machine.spec, machine.sequence
        self.values = {name: np.array(machine.values()[name], np.float64) for name in machine.spec.weight_names()}
        self.m, self.v, self.taken = {}, {}, 0

    # one observation

    def look(self, weights, obs, state):
        """Return (heads, value, next state)."""
        heads, after = {}, state
        for net in self.spec.nets:
            x = np.tanh(obs @ weights[f"{net.name}/dense_0/kernel"] + weights[f"{net.name}/dense_0/bias"])
            if net.lstm:
                output, cell = state
                both = np.concatenate([x, output])
                gates = both @ weights[f"{net.name}/lstm/kernel"] + weights[f"{net.name}/lstm/bias"]
                into, keep, out, candidate = gates.reshape(4, net.lstm)
                cell = sigmoid(keep) * cell + sigmoid(into) * np.tanh(candidate)
                x = sigmoid(out) * np.tanh(cell)
                after = (x, cell)
            for head, size in net.heads:
                if head in net.free_heads:
                    (free,) = [value for name, value in weights.items() if name.startswith(f"{net.name}/{head}/")]
                    heads[head] = free.reshape(size)
                else:
                    heads[head] = x @ weights[f"{net.name}/{head}/kernel"] + weights[f"{net.name}/{head}/bias"]
        return heads, heads.pop("value")[0], after

    def logp(self, heads, action):
        if "logits" in heads:
            return heads["logits"][int(action)] - np.log(np.exp(heads["logits"]).sum())
        log_std = np.clip(heads["log_std"], -20, 2)
        z = (action - heads["mean"]) / np.exp(log_std)
        return np.sum(-(z**2) / 2 - log_std - np.log(2 * np.pi) / 2)

    def entropy(self, heads):
        if "logits" in heads:
            chances = np.exp(heads["logits"]) / np.exp(heads["logits"]).sum()
            return -np.sum(chances * np.log(chances))
        return np.sum(np.clip(heads["log_std"], -20, 2) + np.log(2 * np.pi * np.e) / 2)

    def kl(self, old, new):
        if "logits" in old:
            one, other = (h["logits"] - np.log(np.exp(h["logits"]).sum()) for h in (old, new))
            return np.sum(np.exp(one) * (one - other))
        one, other = (np.exp(np.clip(h["log_std"], -20, 2)) for h in (old, new))
        return np.sum(np.log(other / one) + (one**2 + (old["mean"] - new["mean"]) ** 2) / (2 * other**2) - 0.5)

    # rows and streams

    def row(self, weights, batch, row):
        """Return [(heads, value)] of the steps of one row: a step, or a sequence from its stored state on."""
        length, steps = self.sequence, batch["mask"].shape[1]
        stream, first = row * length // steps, row * length % steps
        state = tuple(batch[f"state_{i}"][stream, first // length] for i in range(len(self.spec.state)))
        found = []
        for t in range(first, first + length):
            if "begins" in batch and batch["begins"][stream, t]:
                state = tuple(np.zeros_like(part) for part in state)
            heads, value, state = self.look(weights, batch["obs"][stream, t], state)
            found.append((heads, value))
        return found

    def judge(self, batch):
        """Return per step (flat index → dict): heads, value, advantage (plain) and target, with λ of the config."""
        streams, steps = batch["mask"].shape
        rows = streams * steps // self.sequence
        seen = [step for row in range(rows) for step in self.row(self.values, batch, row)]
        following = {i: seen[i + 1][1] for i in range(streams * steps - 1)} | {streams * steps - 1: 0.0}
        for index, at in enumerate(batch["end_at"]):
            if at < streams * steps:
                state = tuple(batch[f"end_state_{i}"][index] for i in range(len(self.spec.state)))
                following[int(at)] = self.look(self.values, batch["end_obs"][index], state)[1]
        flat = {name: batch[name].ravel() for name in ("reward", "discount", "trace", "mask")}
        weight = self.config.lambda_ if self.config.use_gae else 1.0
        judged, advantage = {}, 0.0
        for i in reversed(range(streams * steps)):
            if not flat["mask"][i]:
                advantage = 0.0
                continue
            flows = flat["discount"][i] * flat["trace"][i] if (i + 1) % steps else 0.0
            if self.config.use_critic:
                delta = flat["reward"][i] + flat["discount"][i] * following[i] - seen[i][1]
                advantage = delta + weight * flows * advantage
                target = advantage + seen[i][1]
            else:
                advantage = target = flat["reward"][i] + flows * advantage
            judged[i] = {"heads": seen[i][0], "value": seen[i][1], "advantage": advantage, "target": target}
        return judged

    def standardize(self, judged):
        """Shift and scale the advantages of all steps."""
        advantages = np.array([step["advantage"] for step in judged.values()])
        for step in judged.values():
            step["advantage"] = (step["advantage"] - advantages.mean()) / advantages.std()

    def descend(self, batch, rows, judged, loss):
        """One step of Adam on the mean of ``loss(heads, value, action, logp, judged step)`` over the valid steps of ``rows``.

        Returns (the mean loss, the gradients).
        """
        streams, steps = batch["mask"].shape
        actions = batch["action"].reshape(streams * steps, *batch["action"].shape[2:])

        def mean(weights):
            losses = []
            for row in rows:
                for k, (heads, value) in enumerate(self.row(weights, batch, row)):
                    i = row * self.sequence + k
                    if i in judged:
                        losses.append(loss(heads, value, actions[i], batch["logp"].ravel()[i], judged[i]))
            return np.mean(losses)

        gradients = differences(mean, self.values)
        found = mean(self.values)
        if self.config.grad_clip:
            norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
            gradients = {name: g * min(1, self.config.grad_clip / norm) for name, g in gradients.items()}
        self.taken += 1
        for name, g in gradients.items():
            self.m[name] = 0.9 * self.m.get(name, 0.0) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, 0.0) + 0.001 * g**2
            rate = self.config.lr * np.sqrt(1 - 0.999**self.taken) / (1 - 0.9**self.taken)
            step = rate * self.m[name] / (np.sqrt(self.v[name]) + self.config.adam_epsilon)
            self.values[name] = self.values[name] - step
        return found


def compare(machine, slow):
    """Hold weights and Adam's slots of both together."""
    found = machine.values()
    for name, m in slow.m.items():
        np.testing.assert_allclose(found[f"policy_adam/{name}/m"], m, rtol=3e-3, atol=1e-5, err_msg=name)
    for name, value in slow.values.items():
        # 1e-2 is one step of Adam: what is asked for is a fiftieth of it
        np.testing.assert_allclose(found[name], value, atol=2e-4, err_msg=name)
    assert found["num_updates"] == slow.taken
