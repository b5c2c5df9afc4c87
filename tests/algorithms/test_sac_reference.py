"""SAC's update against a slow one in float64: the papers' losses written out, their gradients by finite differences."""

import numpy as np
import pytest
from machine import spaces
from slow import SlowUpdate, affine, compare, copy_of, follow_targets, hidden, squashed, weighted
from soft_machine import ACTION, OBS, block, config, machine


class Losses:
    """SAC as in 1812.05905, one sample and one critic at a time."""

    def __init__(self, made, low, high):
        self.config, self.critics = made, 2 if made.twin_q else 1
        self.half, self.middle = (high - low) / 2, (high + low) / 2
        asked = made.target_entropy
        self.entropy = -ACTION if asked in (None, "auto") else asked

    def act(self, policy, obs, noise, frozen):
        """``frozen``: the policy whose features state-dependent deviations see, which do not learn from them."""
        norm = self.config.policy_model.layer_norm
        x = hidden(policy, "policy", obs, norm)
        if self.config.use_sde:
            features, deviations = hidden(frozen, "policy", obs, norm), np.exp(policy["policy/log_std/kernel"])
            variance = [sum((f * d) ** 2 for f, d in zip(features, column, strict=True)) for column in deviations.T]
            std = np.sqrt(np.array(variance) + 1e-6)
        else:
            std = np.exp(affine(policy, "policy/log_std", x))
        return squashed(affine(policy, "policy/mean", x), std, noise, self.half, self.middle)

    def q(self, weights, net, obs, action):
        """The values of all critics for one row."""
        each = [copy_of(weights, net, copy, self.critics) for copy in range(self.critics)]
        x, norm = np.concatenate([obs, action]), self.config.Q_model.layer_norm
        return np.array([affine(own, f"{net}/q", hidden(own, net, x, norm))[0] for own in each])

    def __call__(self, present, batch, noises):
        alpha, rows = np.exp(present["log_alpha"]), range(self.config.train_batch_size)
        counted = alpha if self.config.backup_entropy else 0.0
        targets = []
        for row in rows:
            action, logp = self.act(present, batch["next_obs"][row], noises[0][row], present)
            value = self.q(present, "target_critic", batch["next_obs"][row], action).min() - counted * logp
            targets.append(batch["reward"][row] + batch["discount"][row] * value)

        def errors(weights):
            return [targets[r] - self.q(weights, "critic", batch["obs"][r], batch["action"][r]) for r in rows]

        def actor(weights):
            found = []
            for row in rows:
                action, logp = self.act(weights, batch["obs"][row], noises[1][row], present)
                found.append(alpha * logp - self.q(present, "critic", batch["obs"][row], action).min())
            return weighted(batch, found)

        logp = np.array([self.act(present, batch["obs"][r], noises[1][r], present)[1] for r in rows])
        losses = {
            "critic": lambda w: weighted(batch, (0.5 * np.square(errors(w))).sum(axis=1)),
            "actor": actor,
            "entropy": lambda w: weighted(batch, -w["log_alpha"] * (logp + self.entropy)),
        }
        return losses, np.abs(errors(present)).mean(axis=1)


LAYER_NORM = {"fcnet_hiddens": (3,), "fcnet_activation": "tanh", "layer_norm": True}
CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "layer norm": {"Q_model": LAYER_NORM, "policy_model": LAYER_NORM},
    "policy delay": {"policy_delay": 2},
    "clipped": {"grad_clip": 0.05},
    "target entropy a number": {"target_entropy": 0.5},
    "entropy not in the targets": {"backup_entropy": False},
    "bounds of the environment": {"normalize_actions": False},
    "prioritized": {"prioritized_replay": True},
    "state-dependent exploration": {"use_sde": True, "log_std_init": -0.5},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config("sac", tau=0.2, **keys)
    low, high = (-1.0, 3.0) if keys.get("normalize_actions") is False else (-1.0, 1.0)
    with machine("sac", made, spaces(OBS, ACTION, low, high)) as started:
        slow = SlowUpdate(made, started.values(), Losses(made, low, high), follow_targets(0.2))
        assert compare(started, slow, block("sac", made), updates=3) == 3
