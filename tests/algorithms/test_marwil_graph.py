"""MARWIL and BC: updates in float64 as the paper writes them, and what each key changes."""

import json
import math

import numpy as np
import pytest
from machine import SCOPE, Machine, discrete_spaces, spaces
from slow import differences

from drl_cli.algorithms import marwil, marwil_graph
from drl_cli.algorithms.marwil import BCConfig, MARWILConfig
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

OBS, N, DIMENSIONS, B = 3, 4, 2, 6
RATE = 1e-2
DISCRETE, BOX = discrete_spaces(OBS, N), spaces(OBS, DIMENSIONS)
SEVERAL = {"obs": BOX["obs"], "action": {"kind": "MultiDiscrete", "nvec": [3, 2], "start": [0, 0], "shape": [2]}}
SWITCHES = {"obs": BOX["obs"], "action": {"kind": "MultiBinary", "n": 3, "shape": [3]}}


KINDS = {"Discrete": DISCRETE, "Box": BOX, "MultiDiscrete": SEVERAL, "MultiBinary": SWITCHES}


def machine(of_spaces, schema=MARWILConfig, **keys):
    small = {"train_batch_size": B, "updates_per_call": 8, "model": {"fcnet_hiddens": (3,)}, "beta": 2.0}
    if schema is BCConfig:
        del small["beta"]
    return Machine(schema(**(small | keys)), of_spaces, modules=(marwil, marwil_graph), rates={"lr": RATE})


def block(of_spaces, seed=0, updates=8):
    rng, lead = np.random.default_rng(seed), (updates, B)
    action = {
        "Box": lambda: rng.uniform(-1, 1, (*lead, DIMENSIONS)).astype(np.float32),
        "Discrete": lambda: rng.integers(0, N, lead).astype(np.int32),
        "MultiDiscrete": lambda: rng.integers(0, 2, (*lead, 2)).astype(np.int32),
        "MultiBinary": lambda: rng.integers(0, 2, (*lead, 3)).astype(np.int32),
    }[of_spaces["action"]["kind"]]()
    return {
        "obs": rng.normal(0, 1, (*lead, OBS)).astype(np.float32),
        "action": action,
        "reward": rng.normal(0, 3, lead).astype(np.float32),
        "discount": rng.choice(np.float32([0.0, 0.9, 0.5]), lead),
        "next_obs": rng.normal(0, 1, (*lead, OBS)).astype(np.float32),
    }


class Slow:
    """The algorithm, one row at a time."""

    def __init__(self, made, values):
        self.config = made
        self.values = {n: np.array(v, np.float64) for n, v in values.items() if n.startswith(("policy/", "value/"))}
        self.mean_square, self.slots, self.steps = made.moving_average_sqd_adv_norm_start or 0.0, {}, 0

    def _net(self, weights, name, obs):
        hidden = np.tanh(obs @ weights[f"{name}/dense_0/kernel"] + weights[f"{name}/dense_0/bias"])
        return lambda head: hidden @ weights[f"{name}/{head}/kernel"] + weights[f"{name}/{head}/bias"]

    def _value(self, weights, obs):
        return self._net(weights, "policy" if self.config.vf_share_layers else "value", obs)("value")[0]

    def _logp(self, weights, obs, action):
        heads = self._net(weights, "policy", obs)
        if np.issubdtype(action.dtype, np.integer):
            logits = heads("logits")
            return logits[action] - math.log(sum(math.exp(x) for x in logits))
        log_std = np.clip(heads("log_std"), -20, 2)
        return sum(
            -0.5 * ((a - m) / math.exp(s)) ** 2 - s - 0.5 * math.log(2 * math.pi)
            for a, m, s in zip(action, heads("mean"), log_std, strict=True)
        )

    def update(self, batch):
        """One update of a batch of transitions that reach to the ends of their episodes."""
        config, present = self.config, {name: value.copy() for name, value in self.values.items()}
        rows = [{name: np.asarray(x[row], np.asarray(x).dtype) for name, x in batch.items()} for row in range(B)]
        targets = [float(r["reward"]) + float(r["discount"]) * self._value(present, r["next_obs"]) for r in rows]
        advantages = [target - self._value(present, r["obs"]) for target, r in zip(targets, rows, strict=True)]
        rate = config.moving_average_sqd_adv_norm_update_rate
        self.mean_square = (1 - rate) * self.mean_square + rate * sum(a * a for a in advantages) / B
        self.steps += 1
        unbiased = self.mean_square
        if config.moving_average_sqd_adv_norm_start is None:
            unbiased /= 1 - (1 - rate) ** self.steps
        weights = [
            min(math.exp(config.beta * a / math.sqrt(unbiased)), config.max_advantage_weight) for a in advantages
        ]

        def loss(changed):
            total = 0.0
            for row, weight, target in zip(rows, weights, targets, strict=True):
                total -= weight * self._logp(changed, row["obs"], row["action"])
                total += config.vf_coeff * 0.5 * (target - self._value(changed, row["obs"])) ** 2
            return total / B

        for name, gradient in differences(loss, present).items():
            self._adam(name, gradient)
        return weights, math.sqrt(unbiased)

    def _adam(self, name, gradient):
        m, v = self.slots.get(name, (0.0, 0.0))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        self.slots[name] = m, v
        rate = RATE * math.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        self.values[name] = self.values[name] - rate * m / (np.sqrt(v) + 1e-8)


CASES = {
    "Discrete": (DISCRETE, {}),
    "Box": (BOX, {}),
    "shared layers": (DISCRETE, {"vf_share_layers": True}),
    "a start of the mean": (BOX, {"moving_average_sqd_adv_norm_start": 4.0}),
    "weights at their bound": (DISCRETE, {"max_advantage_weight": 1.5, "vf_coeff": 0.25}),
}


@pytest.mark.parametrize(("of_spaces", "keys"), CASES.values(), ids=CASES)
def test_updates_are_those_of_the_paper(of_spaces, keys):
    with machine(of_spaces, moving_average_sqd_adv_norm_update_rate=0.3, **keys) as made:
        data, slow = block(of_spaces), Slow(made.config, made.values())
        for number in range(3):
            out = made.run({name: np.roll(x, -number, axis=0) for name, x in data.items()}, 1)
            weights, scale = slow.update({name: x[number] for name, x in data.items()})
            assert out["stats"]["mean_advantage_weight"] == pytest.approx(np.mean(weights), rel=1e-4)
            assert out["stats"]["max_advantage_weight"] == pytest.approx(max(weights), rel=1e-4)
            assert out["stats"]["advantage_scale"] == pytest.approx(scale, rel=1e-5)
        values = made.values()
    assert max(weights) <= made.config.max_advantage_weight
    for name, expected in slow.values.items():
        np.testing.assert_allclose(values[name], expected, rtol=2e-3, atol=2e-4, err_msg=name)


def test_scale_forgets_its_beginning_whatever_the_unit_of_rewards():
    """RLlib's starts at 100 and moves by a hundred millionth; here advantages a thousand times as large weigh the same."""
    found = []
    for unit in (1.0, 1000.0):
        with machine(DISCRETE, vf_coeff=0.0) as made:
            made.set(**{"value/value/kernel": np.zeros((3, 1), "f4"), "value/value/bias": np.zeros(1, "f4")})
            data = block(DISCRETE)
            out = made.run(data | {"reward": unit * data["reward"]}, 1)
            found.append((out["stats"]["mean_advantage_weight"], out["stats"]["advantage_scale"] / unit))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    assert found[0][1] == pytest.approx(3.0, rel=0.5)


def test_one_lucky_step_does_not_make_the_weights_infinite():
    with machine(DISCRETE, beta=50.0) as made:
        data = block(DISCRETE)
        data["reward"][:, 0] = 1e6
        out = made.run(data, 8)
    assert out["finite"] and out["stats"]["max_advantage_weight"] == pytest.approx(20.0, rel=1e-5)


@pytest.mark.parametrize(
    "of_spaces", [DISCRETE, BOX, SEVERAL, SWITCHES], ids=["Discrete", "Box", "MultiDiscrete", "MultiBinary"]
)
def test_bc_is_marwil_without_advantages_and_has_no_value(of_spaces):
    with machine(of_spaces, BCConfig) as clone, machine(of_spaces, beta=0.0) as same:
        assert set(clone.graph.columns) == {"obs", "action"} and not clone.spec.scored
        assert not any("value" in name or "advantage" in name for name in clone.values())
        before = clone.run(block(of_spaces), 1)["stats"]["policy_loss"]
        for made in (clone, same):
            made.run(block(of_spaces), 8)
            made.run(block(of_spaces), 8)
        found, other = clone.values(), same.values()
        assert clone.run(block(of_spaces), 1)["stats"]["policy_loss"] < before
        assert (
            clone.spec.misfit() is None
            and policy_from_manifest.policy_spec(json.loads(json.dumps(clone.spec.to_dict()))) == clone.spec
        )
    assert found["num_updates"] == other["num_updates"] + 1 == 17
    assert all(np.isfinite(value).all() for value in found.values())


@pytest.mark.parametrize(
    "of_spaces", [DISCRETE, BOX, SEVERAL, SWITCHES], ids=["Discrete", "Box", "MultiDiscrete", "MultiBinary"]
)
@pytest.mark.parametrize("shared", [False, True])
def test_marwil_learns_on_every_kind_of_actions_and_its_policy_acts_in_numpy(of_spaces, shared):
    with machine(of_spaces, vf_share_layers=shared) as made:
        data = block(of_spaces)
        changed = made.changed(data, 2)
        assert {name for name in made.values() if name not in changed} == set()
        published = {name.removeprefix(SCOPE): made.values()[name.removeprefix(SCOPE)] for name in made.graph.published}
        assert set(published) == set(made.spec.weight_names())
        policy = NumpyPolicy(made.spec, published)
        action, _, columns = policy.act(data["obs"][0], (), np.random.default_rng(0), explore=True)
        assert action.shape == (B, *made.spec.action.shape) and columns["logp"].shape == (B,)
        assert made.spec.misfit() is None


def test_updates_are_the_same_however_they_are_split_over_calls():
    data = block(BOX)
    with machine(BOX) as whole, machine(BOX) as split:
        whole.run(data, 5)
        split.run(data, 2)
        split.run({name: np.roll(x, -2, axis=0) for name, x in data.items()}, 3)
        mine, other = whole.values(), split.values()
    assert [name for name in mine if not np.array_equal(mine[name], other[name])] == []


def test_bc_logstd_coeff_rewards_spread_and_grad_clip_bounds_each_part():
    data = block(BOX)
    with machine(BOX, BCConfig) as plain, machine(BOX, BCConfig, bc_logstd_coeff=10.0) as spread:
        for made in (plain, spread):
            made.run(data, 8)
        assert spread.values()["policy/log_std/bias"].mean() > plain.values()["policy/log_std/bias"].mean() + 0.02
    with machine(BOX, grad_clip=1e-9) as clipped:
        before = clipped.values()
        clipped.run(data, 1)
        # Adam's first step of a gradient far below its epsilon is small.
        assert max(np.abs(clipped.values()[n] - before[n]).max() for n in before if n.endswith("kernel")) < RATE / 5


def test_actions_that_are_not_allowed_get_no_chance():
    masked = discrete_spaces(OBS + N, N) | {"mask": [OBS, N]}
    with machine(masked, BCConfig) as made:
        data = block(DISCRETE)
        allowed = np.ones((8, B, N), np.float32)
        allowed[..., 3] = 0.0
        data["obs"] = np.concatenate([data["obs"], allowed], axis=-1)
        data["action"] = data["action"] % 3
        out = made.run(data, 1)
        assert made.spec.mask == (OBS, N)
    assert out["stats"]["policy_loss"] == pytest.approx(math.log(3), abs=0.15)  # of three actions, not of four
