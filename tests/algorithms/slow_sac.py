"""SAC's losses in float64, as the papers write them: one sample, one critic and one action at a time.

For tests of SAC and of what is made of it; ``slow.SlowUpdate`` takes the steps.
"""

import numpy as np
from max_entropy_machine import ACTION, JOINT, N
from slow import affine, copy_of, hidden, squashed, weighted


class Losses:
    """SAC as in 1812.05905, one sample and one critic at a time."""

    def __init__(self, made, low, high):
        self.config, self.critics = made, made.critics
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

    def q(self, weights, net, obs, action, masks=None):
        """The values of all critics for one row; ``masks`` [C, U]: what dropout multiplies hidden units by, or None."""
        each = [copy_of(weights, net, copy, self.critics) for copy in range(self.critics)]
        masks = [None] * self.critics if masks is None else masks
        x, norm = np.concatenate([obs, action]), self.config.Q_model.layer_norm
        hiddens = [hidden(own, net, x, norm, mask) for own, mask in zip(each, masks, strict=True)]
        return np.array([affine(own, f"{net}/q", h)[0] for own, h in zip(each, hiddens, strict=True)])

    def begin(self):
        """An update begins."""

    def target_q(self, present, row, obs, action):
        """What the target holds of all critics, a number."""
        return self.q(present, "target_critic", obs, action).min()

    def online_q(self, weights, row, obs, action):
        """The values of all critics that their losses see."""
        return self.q(weights, "critic", obs, action)

    def policy_q(self, present, row, obs, action):
        """What the policy maximises, a number."""
        return self.q(present, "critic", obs, action).min()

    def __call__(self, present, batch, noises):
        self.begin()
        alpha, rows = np.exp(present["log_alpha"]), range(self.config.train_batch_size)
        counted = alpha if self.config.backup_entropy else 0.0
        targets = []
        for row in rows:
            action, logp = self.act(present, batch["next_obs"][row], noises[0][row], present)
            value = self.target_q(present, row, batch["next_obs"][row], action) - counted * logp
            targets.append(batch["reward"][row] + batch["discount"][row] * value)

        def errors(weights):
            return [targets[r] - self.online_q(weights, r, batch["obs"][r], batch["action"][r]) for r in rows]

        def actor(weights):
            found = []
            for row in rows:
                action, logp = self.act(weights, batch["obs"][row], noises[1][row], present)
                found.append(alpha * logp - self.policy_q(present, row, batch["obs"][row], action))
            return weighted(batch, found)

        logp = np.array([self.act(present, batch["obs"][r], noises[1][r], present)[1] for r in rows])
        losses = {
            "critic": lambda w: weighted(batch, (0.5 * np.square(errors(w))).sum(axis=1)),
            "actor": actor,
            "entropy": lambda w: weighted(batch, -w["log_alpha"] * (logp + self.entropy)),
        }
        return losses, np.abs(errors(present)).mean(axis=1)


class DiscreteLosses:
    """Christodoulou 2019, eq. 4, 10, 11 and 12: one sample, one critic and one action at a time."""

    def __init__(self, made):
        self.config, self.critics = made, made.critics
        asked = made.target_entropy
        self.entropy = made.target_entropy_fraction * np.log(N) if asked in (None, "auto") else asked

    def chances(self, policy, obs):
        e = np.exp(affine(policy, "policy/logits", hidden(policy, "policy", obs)))
        return e / e.sum()

    def q(self, weights, net, obs):
        """The values of all critics and actions for one row, [C, N]."""
        each = [copy_of(weights, net, copy, self.critics) for copy in range(self.critics)]
        return np.array([affine(own, f"{net}/q", hidden(own, net, obs)) for own in each])

    def __call__(self, present, batch, noises):
        alpha, rows = np.exp(present["log_alpha"]), range(self.config.train_batch_size)
        targets = []
        for row in rows:
            chances = self.chances(present, batch["next_obs"][row])
            q = self.q(present, "target_critic", batch["next_obs"][row])
            value = sum(chances[a] * (q[:, a].min() - alpha * np.log(chances[a])) for a in range(N))
            targets.append(batch["reward"][row] + batch["discount"][row] * value)

        def errors(weights):
            return [targets[r] - self.q(weights, "critic", batch["obs"][r])[:, batch["action"][r]] for r in rows]

        def actor(weights):
            found = []
            for row in rows:
                chances = self.chances(weights, batch["obs"][row])
                q = self.q(present, "critic", batch["obs"][row])
                found.append(sum(chances[a] * (alpha * np.log(chances[a]) - q[:, a].min()) for a in range(N)))
            return weighted(batch, found)

        def entropy(weights):
            found = []
            for row in rows:
                chances = self.chances(present, batch["obs"][row])
                found.append(sum(-weights["log_alpha"] * c * (np.log(c) + self.entropy) for c in chances))
            return weighted(batch, found)

        losses = {
            "critic": lambda w: weighted(batch, (0.5 * np.square(errors(w))).sum(axis=1)),
            "actor": actor,
            "entropy": entropy,
        }
        return losses, np.abs(errors(present)).mean(axis=1)


class HybridLosses:
    """Delalleau et al. 2019, section 4: one sample, one critic, one joint choice at a time; two temperatures."""

    def __init__(self, made):
        self.config, self.critics = made, made.critics
        asked = made.target_entropy
        self.numbers = -ACTION if asked in (None, "auto") else asked
        self.choices = made.target_entropy_fraction * np.log(np.prod(JOINT))

    def act(self, policy, obs, noise):
        """Return (numbers [A], their log-probability, the chances of all joint choices [2, N])."""
        x = hidden(policy, "policy", obs)
        numbers, logp = squashed(affine(policy, "policy/mean", x), np.exp(affine(policy, "policy/log_std", x)), noise)
        e = np.exp(affine(policy, "policy/logits", x))
        return numbers, logp, (e / e.sum()).reshape(JOINT)

    def q(self, weights, net, obs, numbers):
        """The values of all critics and joint choices for one row, [C, 2, N]."""
        x = np.concatenate([obs, numbers])
        each = [copy_of(weights, net, copy, self.critics) for copy in range(self.critics)]
        return np.array([affine(own, f"{net}/q", hidden(own, net, x)).reshape(JOINT) for own in each])

    def __call__(self, present, batch, noises):
        of_numbers, of_choices = np.exp(present["log_alpha"])
        counted = (of_numbers, of_choices) if self.config.backup_entropy else (0.0, 0.0)
        rows, every = range(self.config.train_batch_size), list(np.ndindex(JOINT))
        targets = []
        for row in rows:
            numbers, logp, chances = self.act(present, batch["next_obs"][row], noises[0][row])
            q = self.q(present, "target_critic", batch["next_obs"][row], numbers)
            value = sum(
                chances[a] * (q[(slice(None), *a)].min() - counted[0] * logp - counted[1] * np.log(chances[a]))
                for a in every
            )
            targets.append(batch["reward"][row] + batch["discount"][row] * value)

        def errors(weights):
            found = []
            for row in rows:
                first, *numbers, last = batch["action"][row]
                q = self.q(weights, "critic", batch["obs"][row], np.array(numbers))
                found.append(targets[row] - q[:, int(first), int(last)])
            return found

        def actor(weights):
            found = []
            for row in rows:
                numbers, logp, chances = self.act(weights, batch["obs"][row], noises[1][row])
                q = self.q(present, "critic", batch["obs"][row], numbers)
                terms = [
                    of_numbers * logp + of_choices * np.log(chances[a]) - q[(slice(None), *a)].min() for a in every
                ]
                found.append(sum(chances[a] * term for a, term in zip(every, terms, strict=True)))
            return weighted(batch, found)

        def entropy(weights):
            found = []
            for row in rows:
                _, logp, chances = self.act(present, batch["obs"][row], noises[1][row])
                expected = sum(c * np.log(c) for c in chances.ravel())
                found.append(-weights["log_alpha"] @ [logp + self.numbers, expected + self.choices])
            return weighted(batch, found)

        losses = {
            "critic": lambda w: weighted(batch, (0.5 * np.square(errors(w))).sum(axis=1)),
            "actor": actor,
            "entropy": entropy,
        }
        return losses, np.abs(errors(present)).mean(axis=1)
