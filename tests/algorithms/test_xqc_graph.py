"""XQC: its update against a slow one in float64, what stays on the unit sphere, what acts, and what its critics learn."""

import numpy as np
import pytest
from machine import spaces
from max_entropy_machine import ACTION, OBS, block, config, machine
from slow import SlowUpdate, affine, compare, copy_of, squashed, trained, weighted

from drl_cli.algorithms import xqc
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

EPSILON = 1e-3
KERNELS = ("dense_0/kernel", "q/kernel", "mean/kernel", "log_std/kernel")


def normalised(weights, net, x, index, statistics):
    """Batch normalisation by the statistics of ``x``, which go into ``statistics``; None: by the running ones."""
    scope = f"{net}/norm_{index}"
    if statistics is None:
        mean, var = weights[f"{scope}/mean"], weights[f"{scope}/var"]
    else:
        mean, var = x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).mean(axis=0)
        statistics[f"{scope}/mean"], statistics[f"{scope}/var"] = mean, var
    x = (x - mean) / np.sqrt(var + EPSILON) * weights[f"{scope}/scale"]
    return x + weights[f"{scope}/offset"] if index else x


def features(weights, net, x, statistics=None):
    """The input of the heads for a whole batch: the normalised input, a kernel, its normalised outputs, tanh."""
    x = normalised(weights, net, x, 0, statistics) @ weights[f"{net}/dense_0/kernel"]
    return np.tanh(normalised(weights, net, x, 1, statistics))


def softmax(logits):
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return chances / chances.sum(axis=-1, keepdims=True)


class Losses:
    """Palenicek et al. 2025, a whole batch and one critic at a time; ``statistics``: those of the last call, by name."""

    def __init__(self, made):
        self.config, self.critics, self.statistics = made, 2 if made.twin_q else 1, {}
        self.support = np.linspace(made.v_min, made.v_max, made.num_atoms)

    def act(self, policy, obs, noise, statistics=None):
        x = features(policy, "policy", obs, statistics)
        return squashed(affine(policy, "policy/mean", x), np.exp(affine(policy, "policy/log_std", x)), noise)

    def chances(self, weights, obs, action, statistics=None, net="critic"):
        """The distributions of all critics, [C, B, M]."""
        found, x = [], np.concatenate([obs, action], axis=1)
        for copy in range(self.critics):
            own, seen = copy_of(weights, net, copy, self.critics), None if statistics is None else {}
            found.append(softmax(affine(own, f"{net}/q", features(own, net, x, seen))))
            for name, value in (seen or {}).items():
                statistics.setdefault(name, []).append(value)
        return np.array(found)

    def joint(self, weights, batch, next_action, statistics, net="critic"):
        """The distributions of (s, a) and of (s′, a′) from one pass in training mode."""
        obs, action = (
            np.concatenate(pair) for pair in ((batch["obs"], batch["next_obs"]), (batch["action"], next_action))
        )
        return np.split(self.chances(weights, obs, action, statistics, net), 2, axis=1)

    def target(self, batch, chances, entropy):
        """The lower distribution of each row, moved and projected one atom at a time, [B, M]."""
        step, found = self.support[1] - self.support[0], np.zeros(chances.shape[1:])
        for row in range(len(found)):
            lower = min((of[row] for of in chances), key=lambda p: p @ self.support)
            for atom, chance in zip(self.support, lower, strict=True):
                moved = batch["reward"][row] + batch["discount"][row] * (atom + entropy[row])
                place = (np.clip(moved, self.support[0], self.support[-1]) - self.support[0]) / step
                below = min(int(np.floor(place)), len(self.support) - 2)
                found[row, below] += chance * (below + 1 - place)
                found[row, below + 1] += chance * (place - below)
        return found

    def __call__(self, present, batch, noises):
        alpha, statistics, self.statistics = np.exp(present["log_alpha"]), {}, {}
        next_action, next_logp = self.act(present, batch["next_obs"], noises[0])
        _, following = self.joint(present, batch, next_action, {}, "target_critic")
        chances, _ = self.joint(present, batch, next_action, statistics)
        targets = self.target(batch, following, -alpha * next_logp)
        _, logp = self.act(present, batch["obs"], noises[1], self.statistics)
        lead = self.critics > 1
        self.statistics |= {name: np.array(value) if lead else value[0] for name, value in statistics.items()}

        def critic(weights):
            now, _ = self.joint(present | weights, batch, next_action, {})
            return weighted(batch, -(targets * np.log(now)).sum(axis=(0, 2)))

        def actor(weights):
            action, logp = self.act(present | weights, batch["obs"], noises[1], {})
            q = self.chances(present, batch["obs"], action) @ self.support
            return weighted(batch, alpha * logp - q.min(axis=0))

        losses = {
            "critic": critic,
            "actor": actor,
            "entropy": lambda w: weighted(batch, -w["log_alpha"] * (logp - ACTION)),
        }
        return losses, np.abs((targets - chances) @ self.support).mean(axis=0)

    def follow(self, values, present, batch, noises, due):
        """Kernels to the sphere, then the targets; running statistics: the critics' always, the policy's when it moves."""
        for name in values:
            moved = name.startswith("critic/") or (name.startswith("policy/") and due)
            if moved and name.endswith(KERNELS):
                values[name] = values[name] / np.sqrt((values[name] ** 2).sum(axis=-2, keepdims=True))
        for name in [name for name in values if name.startswith("target_")]:
            values[name] += self.config.tau * (values[name.removeprefix("target_")] - values[name])
        kept = self.config.bn_momentum
        for name, seen in self.statistics.items():
            if due or name.startswith("critic/"):
                values[name] = kept * values[name] + (1 - kept) * seen


CASES = {
    "plain": {},
    "single critic, other range and atoms": {"twin_q": False, "num_atoms": 4, "v_min": -1.0, "v_max": 1.0},
    "several": {"policy_delay": 2, "bn_momentum": 0.6, "beta_1": 0.5, "prioritized_replay": True, "num_atoms": 7},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config("xqc", tau=0.2, **keys)
    losses = Losses(made)
    with machine("xqc", made) as started:
        slow = SlowUpdate(made, started.values(), losses, losses.follow, made.beta_1)
        assert compare(started, slow, block("xqc", made), updates=3) == 3
    assert len(losses.statistics) == 8  # mean and variance of two layers of either net


def lengths(values, prefix):
    """{name: lengths of the columns} of the kernels of the nets that begin with ``prefix``."""
    kernels = {name: value for name, value in values.items() if name.startswith(prefix) and name.endswith(KERNELS)}
    return {name: np.linalg.norm(np.float64(value), axis=-2) for name, value in kernels.items()}


def test_columns_of_kernels_have_length_one_before_and_after_updates():
    made = config("xqc", hiddens=(6, 5))
    with machine("xqc", made) as started:
        before = started.values()
        started.run(block("xqc", made), 4)
        after = started.values()
    for values in (before, after):
        found = lengths(values, "critic/") | lengths(values, "policy/")
        assert set(found) == {f"critic/{name}" for name in KERNELS[:2]} | {
            f"policy/{name}" for name in KERNELS if name != "q/kernel"
        }
        for name, each in found.items():
            np.testing.assert_allclose(each, 1.0, atol=1e-6, err_msg=name)
    assert not np.array_equal(before["critic/dense_1/kernel"], after["critic/dense_1/kernel"])


def test_layers_have_no_bias_inputs_no_offset_and_targets_no_running_statistics():
    with machine("xqc", config("xqc")) as started:
        names = set(started.values())
        published = set(started.spec.weight_names())
    assert "critic/norm_1/mean" in names and "target_critic/norm_1/scale" in names
    assert not {name for name in names if name.startswith("target_") and name.endswith(("/mean", "/var"))}
    assert not {name for name in names if "dense_0/bias" in name or "norm_0/offset" in name}
    assert {"policy/dense_0/kernel", "policy/norm_1/mean", "policy/mean/bias"} <= published


def test_published_weights_act_in_numpy_as_the_graph_does_in_evaluation_mode():
    made = config("xqc", bn_momentum=0.5)
    with machine("xqc", made) as started:
        started.run(block("xqc", made), 3)
        values, spec = started.values(), started.spec
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    obs = np.random.default_rng(3).normal(0, 1, (5, OBS)).astype(np.float32)
    exact = {name: np.float64(value) for name, value in values.items()}
    expected, _ = Losses(made).act(exact, obs, np.zeros((5, ACTION)))
    np.testing.assert_allclose(policy.act(obs, (), np.random.default_rng(0), False)[0], expected, atol=1e-5)


def test_critics_gradients_reach_their_own_weights_and_not_the_policy():
    made = config("xqc", bn_momentum=0.5)
    with machine("xqc", made) as started:
        changed = started.changed(block("xqc", made), 1, actor_learning_rate=0.0)
        values = started.values()
    assert set(trained(values, "critic")) <= changed
    moved = {name for name in changed if name.startswith("policy/") and not name.endswith(("/mean", "/var"))}
    assert not moved - {name for name in values if name.endswith(KERNELS)}  # which may be rounded anew
    for name in moved:
        np.testing.assert_allclose(values[name], started.initial[name], atol=1e-6)


LOOP, FIRST, LAST, AIM = range(4)


@pytest.mark.slow
def test_critics_reach_the_values_of_a_synthetic_world_and_the_policy_its_aim():
    """Reward 1 for ever at gamma 0.9 is worth 10, a real end its exact sum."""
    keys = {"initial_alpha": 1e-6, "bn_momentum": 0.9, "tau": 0.1, "num_atoms": 57, "v_min": -2.0, "v_max": 12.0}
    made = config("xqc", hiddens=(32,), train_batch_size=128, updates_per_call=50, **keys)
    rng = np.random.default_rng(0)
    with machine("xqc", made, spaces(4, 1), xla=True) as started:
        for rate in [1e-2] * 30 + [1e-3] * 20 + [1e-4] * 10:
            state, action = rng.integers(0, 4, (50, 128)), rng.uniform(-1, 1, (50, 128, 1)).astype(np.float32)
            reward = np.array([1.0, 1.0, 2.0, 0.0])[state]
            reward = np.where(state == AIM, -4 * (action[..., 0] - 0.5) ** 2, reward)
            transitions = {
                "obs": np.eye(4, dtype=np.float32)[state],
                "action": action,
                "reward": np.maximum(reward, -2.0).astype(np.float32),
                "discount": np.float32([0.9, 0.9, 0.0, 0.0])[state],
                "next_obs": np.eye(4, dtype=np.float32)[np.array([LOOP, LAST, LAST, AIM])[state]],
            }
            rates = {"critic_learning_rate": rate, "actor_learning_rate": rate}
            assert started.run(transitions, 50, entropy_learning_rate=0.0, **rates)["finite"]
        values, spec = started.values(), started.spec
    single = xqc.critic_spec(made.model_copy(update={"twin_q": False}), spec)
    states = np.eye(4, dtype=np.float32)
    inputs = np.concatenate([states, [[0.0], [0.0], [0.0], [0.5]]], axis=1).astype(np.float32)
    for copy in (0, 1):
        own = {name: value[copy] for name, value in values.items() if name.startswith("critic/")}
        q = softmax(Forward(single, own)(inputs)["q"]) @ np.linspace(-2.0, 12.0, 57)
        np.testing.assert_allclose(q[LOOP], 10.0, atol=0.5)
        np.testing.assert_allclose(q[[FIRST, LAST]], [2.8, 2.0], atol=0.3)  # 1 + 0.9·2
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    assert abs(policy.act(states, (), rng, False)[0][AIM, 0] - 0.5) < 0.15
