"""CrossQ: its update against a slow one in float64, its running statistics, what acts, and what its critics learn."""

import numpy as np
import pytest
from machine import SCOPE, spaces
from max_entropy_machine import ACTION, OBS, block, config, machine
from slow import SlowUpdate, affine, compare, copy_of, squashed, trained, weighted

from drl_cli.algorithms import crossq
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

EPSILON = 1e-3


def normalised(weights, net, x, index, statistics=None):
    """Batch normalisation by the running statistics, or by those of ``x``, which go into ``statistics``."""
    scope = f"{net}/norm_{index}"
    mean, var = weights[f"{scope}/mean"], weights[f"{scope}/var"]
    if statistics is not None:
        mean, var = x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).mean(axis=0)
        statistics[f"{scope}/mean"], statistics[f"{scope}/var"] = mean, var
    return (x - mean) / np.sqrt(var + EPSILON) * weights[f"{scope}/scale"] + weights[f"{scope}/offset"]


def features(weights, net, x, statistics=None):
    """The input of the heads for a whole batch."""
    x = np.tanh(affine(weights, f"{net}/dense_0", normalised(weights, net, x, 0, statistics)))
    return normalised(weights, net, x, 1, statistics)


class Losses:
    """Bhatt et al. 2024, a whole batch and one critic at a time; ``statistics``: those of the last call, by name."""

    def __init__(self, made):
        self.config, self.critics, self.statistics = made, 2 if made.twin_q else 1, {}

    def act(self, policy, obs, noise, statistics=None):
        x = features(policy, "policy", obs, statistics)
        return squashed(affine(policy, "policy/mean", x), np.exp(affine(policy, "policy/log_std", x)), noise)

    def q(self, weights, obs, action, statistics=None):
        """The values of all critics, [C, B]."""
        found, x = [], np.concatenate([obs, action], axis=1)
        for copy in range(self.critics):
            own, seen = copy_of(weights, "critic", copy, self.critics), None if statistics is None else {}
            found.append(affine(own, "critic/q", features(own, "critic", x, seen))[:, 0])
            for name, value in (seen or {}).items():
                statistics.setdefault(name, []).append(value)
        return np.array(found)

    def joint(self, weights, batch, next_action, statistics):
        """The values of (s, a) and of (s′, a′) from one pass in training mode."""
        obs, action = (
            np.concatenate(pair) for pair in ((batch["obs"], batch["next_obs"]), (batch["action"], next_action))
        )
        return np.split(self.q(weights, obs, action, statistics), 2, axis=1)

    def __call__(self, present, batch, noises):
        alpha, self.statistics = np.exp(present["log_alpha"]), {}
        next_action, next_logp = self.act(present, batch["next_obs"], noises[0])
        statistics = {}
        q, next_q = self.joint(present, batch, next_action, statistics)
        targets = batch["reward"] + batch["discount"] * (next_q.min(axis=0) - alpha * next_logp)
        _, logp = self.act(present, batch["obs"], noises[1], self.statistics)
        lead = self.critics > 1
        self.statistics |= {name: np.array(value) if lead else value[0] for name, value in statistics.items()}

        def critic(weights):
            now, _ = self.joint(present | weights, batch, next_action, {})
            return weighted(batch, (0.5 * (targets - now) ** 2).sum(axis=0))

        def actor(weights):
            action, logp = self.act(present | weights, batch["obs"], noises[1], {})
            return weighted(batch, alpha * logp - self.q(present, batch["obs"], action).min(axis=0))

        losses = {
            "critic": critic,
            "actor": actor,
            "entropy": lambda w: weighted(batch, -w["log_alpha"] * (logp - ACTION)),
        }
        return losses, np.abs(targets - q).mean(axis=0)

    def move_statistics(self, values, present, batch, noises, due):
        """The critics' at every update, the policy's with the policy."""
        kept = self.config.bn_momentum
        for name, seen in self.statistics.items():
            if due or name.startswith("critic/"):
                values[name] = kept * values[name] + (1 - kept) * seen


CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "policy delay": {"policy_delay": 2},
    "other momentum and beta": {"bn_momentum": 0.6, "beta_1": 0.8},
    "prioritized": {"prioritized_replay": True},
    "several": {"policy_delay": 2, "bn_momentum": 0.6, "beta_1": 0.8, "prioritized_replay": True},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config("crossq", **keys)
    losses = Losses(made)
    with machine("crossq", made) as started:
        slow = SlowUpdate(made, started.values(), losses, losses.move_statistics, made.beta_1)
        assert compare(started, slow, block("crossq", made), updates=3) == 3
    assert len(losses.statistics) == 8  # mean and variance of two layers of either net


def test_policy_and_running_statistics_are_published_and_there_are_no_targets():
    with machine("crossq", config("crossq")) as started:
        names = set(started.values())
        published = {name.removeprefix(SCOPE) for name in started.graph.published}
        for index, width in enumerate((OBS, 3)):
            for part in ("scale", "offset", "mean", "var"):
                assert f"policy/norm_{index}/{part}" in published
                assert started.values()[f"policy/norm_{index}/{part}"].shape == (width,)
    assert not [name for name in names if name.startswith("target_")]
    assert not [
        name for name in names if "_adam/" in name and name.split("/")[-2] in ("mean", "var") and "norm" in name
    ]
    assert published == set(started.spec.weight_names())


@pytest.mark.parametrize("keys", [{}, {"policy_average": 0.75}])
def test_what_acts_has_the_running_statistics_of_the_learnt_policy(keys):
    """With an average, trained weights follow slowly and running statistics are taken over."""
    made = config("crossq", bn_momentum=0.5, **keys)
    with machine("crossq", made) as started:
        start = started.values()
        started.run(block("crossq", made), 2)
        values = started.values()
    learnt = "learnt_policy" if keys else "policy"
    for name in (name for name in values if name.startswith("policy/norm") and name.endswith(("/mean", "/var"))):
        np.testing.assert_array_equal(values[name], values[name.replace("policy", learnt)])
        assert not np.array_equal(values[name], start[name])
    same = np.array_equal(values["policy/mean/kernel"], values[f"{learnt}/mean/kernel"])
    assert same == (not keys)


def test_published_weights_act_in_numpy_as_the_graph_does_in_evaluation_mode():
    made = config("crossq", bn_momentum=0.5)
    with machine("crossq", made) as started:
        started.run(block("crossq", made), 3)
        values, spec = started.values(), started.spec
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    obs = np.random.default_rng(3).normal(0, 1, (5, OBS)).astype(np.float32)
    exact = {name: np.float64(value) for name, value in values.items()}
    expected, _ = Losses(made).act(exact, obs, np.zeros((5, ACTION)))
    np.testing.assert_allclose(policy.act(obs, (), np.random.default_rng(0), False)[0], expected, atol=1e-5)


def test_gradients_reach_trained_weights_of_their_part_and_no_running_statistic():
    made = config("crossq", bn_momentum=0.5)
    with machine("crossq", made) as started:
        changed = started.changed(block("crossq", made), 1, actor_learning_rate=0.0)
        values = started.values()
    assert set(trained(values, "critic")) <= changed
    assert {name for name in changed if name.startswith("policy/")} == {
        f"policy/norm_{index}/{part}" for index in (0, 1) for part in ("mean", "var")
    }


LOOP, FIRST, LAST, AIM = range(4)


@pytest.mark.slow
def test_critics_reach_the_values_of_a_synthetic_world_and_the_policy_its_aim():
    """Reward 1 for ever at gamma 0.9 is worth 10, a real end its exact sum."""
    # The values of a net without targets settle once its batches look alike: large ones, a short memory of them.
    keys = {"initial_alpha": 1e-6, "bn_momentum": 0.9, "policy_delay": 3}
    made = config("crossq", hiddens=(32,), train_batch_size=128, updates_per_call=50, **keys)
    rng = np.random.default_rng(0)
    with machine("crossq", made, spaces(4, 1), xla=True) as started:
        for rate in [1e-2] * 30 + [1e-3] * 20 + [1e-4] * 10:
            state, action = rng.integers(0, 4, (50, 128)), rng.uniform(-1, 1, (50, 128, 1)).astype(np.float32)
            reward = np.array([1.0, 1.0, 2.0, 0.0])[state]
            reward = np.where(state == AIM, -4 * (action[..., 0] - 0.5) ** 2, reward)
            transitions = {
                "obs": np.eye(4, dtype=np.float32)[state],
                "action": action,
                "reward": reward.astype(np.float32),
                "discount": np.float32([0.9, 0.9, 0.0, 0.0])[state],
                "next_obs": np.eye(4, dtype=np.float32)[np.array([LOOP, LAST, LAST, AIM])[state]],
            }
            rates = {"critic_learning_rate": rate, "actor_learning_rate": rate}
            assert started.run(transitions, 50, entropy_learning_rate=0.0, **rates)["finite"]
        values, spec = started.values(), started.spec
    single = crossq.critic_spec(config("crossq", hiddens=(32,), twin_q=False), spec)
    states = np.eye(4, dtype=np.float32)
    inputs = np.concatenate([states, [[0.0], [0.0], [0.0], [0.5]]], axis=1).astype(np.float32)
    for copy in (0, 1):
        own = {name: value[copy] for name, value in values.items() if name.startswith("critic/")}
        q = Forward(single, own)(inputs)["q"][:, 0]
        np.testing.assert_allclose(q[LOOP], 10.0, atol=0.5)
        np.testing.assert_allclose(q[[FIRST, LAST]], [2.8, 2.0], atol=0.3)  # 1 + 0.9·2
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    assert abs(policy.act(states, (), rng, False)[0][AIM, 0] - 0.5) < 0.15
