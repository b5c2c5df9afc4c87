"""IQL's update: against a slow one in float64, and what it makes of data whose best actions are known."""

import numpy as np
import pytest
from machine import Machine, discrete_spaces, spaces
from slow import affine, copy_of, differences, hidden, weighted

from drl_cli.algorithms import iql, iql_graph
from drl_cli.algorithms.iql import IQLConfig
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

OBS, ACTION, N, SEED = 2, 2, 3, 5
RATES = {"actor_lr": 1e-2, "critic_lr": 2e-2, "value_lr": 3e-2}
SPACES = {"Box": spaces(OBS, ACTION), "Discrete": discrete_spaces(OBS, N)}
PREFIX = {"actor": "policy/", "critic": "critic/", "value": "value/"}


def config(**keys):
    """Return the config of a small net and batch."""
    small = {"actor_hiddens": (3,), "critic_hiddens": (3,), "train_batch_size": 4, "updates_per_call": 8}
    activations = {"actor_hidden_activation": "tanh", "critic_hidden_activation": "tanh"}
    return IQLConfig(**(small | activations | keys))


def machine_of(made, kind="Box", xla=False):
    return Machine(made, SPACES[kind], SEED, xla, (iql, iql_graph), RATES)


def block_of(made, kind="Box", seed=0):
    rng = np.random.default_rng(seed)
    lead = (made.updates_per_call, made.train_batch_size)
    block = {name: rng.normal(0, 1, (*lead, OBS)).astype(np.float32) for name in ("obs", "next_obs")}
    block["action"] = rng.uniform(-1, 1, (*lead, ACTION)).astype(np.float32)
    if kind == "Discrete":
        block["action"] = rng.integers(0, N, lead, dtype=np.int32)
    block["reward"] = rng.normal(0, 1, lead).astype(np.float32)
    block["discount"] = rng.choice(np.float32([0.0, 0.9, 0.81]), lead)
    if made.prioritized_replay:
        block["weight"] = rng.uniform(0.1, 1, lead).astype(np.float32)
    return block


class Slow:
    """The paper's update, one row and one critic at a time; weights {name: float64 array}."""

    def __init__(self, made, values, kind):
        self.config, self.is_discrete = made, kind == "Discrete"
        self.learnt = "learnt_" if made.policy_average else ""
        self.values = {name: np.array(value, np.float64) for name, value in values.items()}
        self.steps, self.slots = dict.fromkeys(PREFIX, 0), {}

    def of(self, prefix):
        return {n.removeprefix(self.learnt): v for n, v in self.values.items() if n.startswith(prefix)}

    def v(self, weights, obs):
        return affine(weights, "value/value", hidden(weights, "value", obs))[0]

    def q(self, weights, net, obs, action):
        copies = 2 if self.config.twin_q else 1
        each = [copy_of(weights, net, copy, copies) for copy in range(copies)]
        if self.is_discrete:
            return np.array([affine(own, f"{net}/q", hidden(own, net, obs))[action] for own in each])
        x = np.concatenate([obs, action])
        return np.array([affine(own, f"{net}/q", hidden(own, net, x))[0] for own in each])

    def logp(self, policy, obs, action):
        x = hidden(policy, "policy", obs)
        if self.is_discrete:
            e = np.exp(affine(policy, "policy/logits", x))
            return np.log(e[action] / e.sum())
        log_std = policy["policy/log_std/free"]
        distance = (action - affine(policy, "policy/mean", x)) / np.exp(log_std)
        return (-0.5 * distance**2 - log_std - 0.5 * np.log(2 * np.pi)).sum()

    def update(self, batch):
        made, rows = self.config, range(self.config.train_batch_size)
        obs, action = batch["obs"], batch["action"]
        target_critic, value = self.of("target_critic/"), self.of("value/")
        believed = [self.q(target_critic, "target_critic", obs[r], action[r]).min() for r in rows]
        advantage = [believed[r] - self.v(value, obs[r]) for r in rows]
        targets = [batch["reward"][r] + batch["discount"][r] * self.v(value, batch["next_obs"][r]) for r in rows]

        def value_loss(weights):
            errors = np.array([believed[r] - self.v(weights, obs[r]) for r in rows])
            return weighted(batch, np.where(errors < 0, 1 - made.expectile, made.expectile) * errors**2)

        def errors(weights):
            return np.array([targets[r] - self.q(weights, "critic", obs[r], action[r]) for r in rows])

        def actor_loss(weights):
            share = [min(np.exp(made.beta * a), made.max_advantage_weight) for a in advantage]
            return weighted(batch, [-share[r] * self.logp(weights, obs[r], action[r]) for r in rows])

        losses = {"value": value_loss, "actor": actor_loss}
        losses["critic"] = lambda weights: weighted(batch, (0.5 * errors(weights) ** 2).sum(axis=1))
        priority = np.abs(errors(self.of("critic/"))).mean(axis=1)
        weights = {part: self.of((self.learnt if part == "actor" else "") + PREFIX[part]) for part in PREFIX}
        found = {part: differences(loss, weights[part]) for part, loss in losses.items()}
        for part, gradients in found.items():
            self.adam(part, weights[part], gradients)
        for name, leader in weights["critic"].items():
            self.values["target_" + name] += made.tau * (leader - self.values["target_" + name])
        if self.learnt:
            for name, leader in weights["actor"].items():
                self.values[name] += (1 - made.policy_average) * (leader - self.values[name])
        return priority

    def adam(self, part, weights, gradients):
        self.steps[part] += 1
        t = self.steps[part]
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        scale = min(1, self.config.grad_clip / norm) if self.config.grad_clip else 1.0
        for name, g in gradients.items():
            m, v = self.slots.get((part, name), (0.0, 0.0))
            m, v = 0.9 * m + 0.1 * scale * g, 0.999 * v + 0.001 * (scale * g) ** 2
            self.slots[part, name] = m, v
            rate = RATES[f"{part}_lr"] * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            weights[name] -= rate * m / (np.sqrt(v) + 1e-8)


CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "sharp": {"expectile": 0.95, "beta": 20.0, "max_advantage_weight": 3.0},
    "clipped": {"grad_clip": 0.05},
    "prioritized": {"prioritized_replay": True},
    "averaged policy": {"policy_average": 0.9},
    "several": {
        "twin_q": False,
        "expectile": 0.95,
        "beta": 20.0,
        "max_advantage_weight": 3.0,
        "grad_clip": 0.05,
        "prioritized_replay": True,
        "policy_average": 0.9,
    },
}


@pytest.mark.parametrize("kind", ["Box", "Discrete"])
@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys, kind):
    made = config(tau=0.2, **keys)
    block, updates = block_of(made, kind), 4
    with machine_of(made, kind) as machine:
        slow = Slow(made, machine.values(), kind)
        for number in range(updates):
            batch = {n: v[number] if v.dtype.kind == "i" else np.float64(v[number]) for n, v in block.items()}
            out = machine.run({name: np.roll(value, -number, axis=0) for name, value in block.items()}, 1)
            np.testing.assert_allclose(out["rows"]["priority"][0], slow.update(batch), rtol=1e-3, atol=1e-4)
        found = machine.values()
    for name, value in slow.values.items():
        if "adam" not in name and name != "num_updates":
            np.testing.assert_allclose(found[name], value, atol=2e-4, err_msg=name)
    assert found["num_updates"] == updates


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Box", "Discrete"])
def test_compiled_and_plain_updates_agree(kind):
    made, found = config(), []
    for xla in (False, True):
        with machine_of(made, kind, xla) as machine:
            machine.run(block_of(made, kind), 5)
            found.append(machine.values())
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-5, err_msg=name)


def test_deviations_of_data_of_one_action_stay_above_their_bound():
    made = config(train_batch_size=16)
    block = block_of(made)
    block["action"][:] = 0.25
    with machine_of(made) as machine:
        machine.set(**{"policy/log_std/free": np.full(ACTION, -4.99, np.float32)})
        for _ in range(40):
            machine.run(block, 8, actor_lr=0.1)
        lowest = machine.values()["policy/log_std/free"]
        assert (lowest >= -5.0).all()
        block["action"][::2] = -0.25
        for _ in range(40):
            machine.run(block, 8, actor_lr=0.1)
        assert (machine.values()["policy/log_std/free"] > -4.0).all()  # it can come back


def test_bad_reward_stops_before_its_update():
    made = config()
    block = block_of(made)
    block["reward"][2, 0] = np.inf
    with machine_of(made) as machine:
        out = machine.run(block, 5)
        assert out["done"] == 2 and not out["finite"]
        assert all(np.isfinite(value).all() for value in machine.values().values())


@pytest.mark.parametrize(("expectile", "value"), [(0.5, 1.0), (0.9, 1.8)])
def test_value_is_the_expectile_of_rewards_and_the_policy_takes_the_better_action(expectile, value):
    """Two of three actions were taken, for a reward of 0 and 2: the τ-expectile of their worth is 2τ."""
    made = config(expectile=expectile, train_batch_size=64, critic_hiddens=(16,), tau=0.1)
    block = block_of(made, "Discrete")
    block["obs"][:], block["discount"][:] = 0.5, 0.0
    block["action"][:] = np.arange(64) % 2
    block["reward"] = 2.0 * block["action"].astype(np.float32)
    with machine_of(made, "Discrete") as machine:
        for _ in range(150):
            machine.run(block, 8)
        values, spec = machine.values(), machine.spec
    obs = block["obs"][0]
    worth = Forward(iql.value_spec(made, spec), values)(obs)["value"][:, 0]
    np.testing.assert_allclose(worth, value, atol=0.05)
    assert (NumpyPolicy(spec, values).act(obs, (), np.random.default_rng(0), False)[0] == 1).all()
