"""TQC: its update against a slow one in float64 that sorts, and what its critics learn."""

import numpy as np
import pytest
from machine import spaces
from max_entropy_machine import ACTION, block, config, machine
from slow import SlowUpdate, affine, compare, copy_of, follow_targets, hidden, squashed, weighted

from drl_cli.algorithms import tqc
from drl_cli.policies.forward import Forward

pytestmark = pytest.mark.tensorflow


class Losses:
    """Kuznetsov et al. 2020, section 3: one sample, one critic and one pair of quantiles at a time."""

    def __init__(self, made):
        self.config, self.critics, self.count = made, made.num_critics, made.n_quantiles

    def act(self, policy, obs, noise):
        x = hidden(policy, "policy", obs)
        return squashed(affine(policy, "policy/mean", x), np.exp(affine(policy, "policy/log_std", x)), noise)

    def quantiles(self, weights, net, obs, action):
        """Those of all critics for one row, [C, M]."""
        each, x = (
            [copy_of(weights, net, copy, self.critics) for copy in range(self.critics)],
            np.concatenate([obs, action]),
        )
        return np.array([affine(own, f"{net}/quantiles", hidden(own, net, x)) for own in each])

    def row_loss(self, quantiles, kept):
        """The sum over the critics of the mean over all pairs of the quantile Huber loss."""
        total = 0.0
        for thetas in quantiles:
            for m, theta in enumerate(thetas):
                tau = (2 * m + 1) / (2 * self.count)
                for y in kept:
                    e = y - theta
                    huber = 0.5 * e**2 if abs(e) <= 1 else abs(e) - 0.5
                    total += abs(tau - (e < 0)) * huber / (self.count * len(kept))
        return total

    def __call__(self, present, batch, noises):
        alpha, rows = np.exp(present["log_alpha"]), range(self.config.train_batch_size)
        keep = (self.count - self.config.top_quantiles_to_drop_per_net) * self.critics
        kept = []
        for row in rows:
            action, logp = self.act(present, batch["next_obs"][row], noises[0][row])
            z = np.sort(self.quantiles(present, "target_critic", batch["next_obs"][row], action).ravel())[:keep]
            kept.append(batch["reward"][row] + batch["discount"][row] * (z - alpha * logp))

        def of_row(weights, row):
            return self.quantiles(weights, "critic", batch["obs"][row], batch["action"][row])

        def actor(weights):
            found = []
            for row in rows:
                action, logp = self.act(weights, batch["obs"][row], noises[1][row])
                found.append(alpha * logp - self.quantiles(present, "critic", batch["obs"][row], action).mean())
            return weighted(batch, found)

        logp = np.array([self.act(present, batch["obs"][r], noises[1][r])[1] for r in rows])
        losses = {
            "critic": lambda w: weighted(batch, [self.row_loss(of_row(w, r), kept[r]) for r in rows]),
            "actor": actor,
            "entropy": lambda w: weighted(batch, -w["log_alpha"] * (logp - ACTION)),
        }
        error = [np.abs(kept[r].mean() - of_row(present, r).mean(axis=1)).mean() for r in rows]
        return losses, np.array(error)


CASES = {
    "plain": {},
    "one critic": {"num_critics": 1},
    "three critics": {"num_critics": 3},
    "nothing dropped": {"top_quantiles_to_drop_per_net": 0},
    "two of three dropped": {"top_quantiles_to_drop_per_net": 2},
    "policy delay": {"policy_delay": 2},
    "prioritized": {"prioritized_replay": True},
    "several": {
        "num_critics": 3,
        "top_quantiles_to_drop_per_net": 2,
        "policy_delay": 2,
        "prioritized_replay": True,
    },
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config("tqc", tau=0.2, **keys)
    with machine("tqc", made) as started:
        slow = SlowUpdate(made, started.values(), Losses(made), follow_targets(0.2))
        # quantiles further apart than Huber's threshold, so that both of its halves are seen
        spread = {n: v + 1.5 * np.arange(3) for n, v in started.values().items() if n.endswith("critic/quantiles/bias")}
        started.set(**{name: np.float32(value) for name, value in spread.items()})
        slow.values.update({name: np.float64(np.float32(value)) for name, value in spread.items()})
        assert compare(started, slow, block("tqc", made), updates=2) == 2


LOOP, FIRST, LAST, COIN = range(4)


@pytest.mark.slow
def test_quantiles_reach_the_returns_of_a_synthetic_world():
    """Reward 1 for ever at gamma 0.9 is worth 10, a real end its exact sum, a coin's two sides the outer quantiles."""
    keys = {"n_quantiles": 4, "top_quantiles_to_drop_per_net": 0, "tau": 0.1, "initial_alpha": 1e-6}
    made = config("tqc", hiddens=(32,), train_batch_size=64, updates_per_call=50, **keys)
    rng = np.random.default_rng(0)
    with machine("tqc", made, spaces(4, 1), xla=True) as started:
        for rate in [1e-2] * 25 + [1e-3] * 15:
            state = rng.integers(0, 4, (50, 64))
            reward = np.where(state == COIN, rng.choice([-1.0, 3.0], (50, 64)), np.array([1.0, 1.0, 2.0, 0.0])[state])
            transitions = {
                "obs": np.eye(4, dtype=np.float32)[state],
                "action": rng.uniform(-1, 1, (50, 64, 1)).astype(np.float32),
                "reward": reward.astype(np.float32),
                "discount": np.float32([0.9, 0.9, 0.0, 0.0])[state],
                "next_obs": np.eye(4, dtype=np.float32)[np.array([LOOP, LAST, LAST, LAST])[state]],
            }
            assert started.run(transitions, 50, entropy_learning_rate=0.0, critic_learning_rate=rate)["finite"]
        values, spec = started.values(), started.spec
    single = tqc.critic_spec(config("tqc", hiddens=(32,), num_critics=1, n_quantiles=4), spec)
    inputs = np.concatenate([np.eye(4), np.zeros((4, 1))], axis=1).astype(np.float32)
    for copy in (0, 1):
        own = {name: value[copy] for name, value in values.items() if name.startswith("critic/")}
        quantiles = Forward(single, own)(inputs)["quantiles"]
        np.testing.assert_allclose(quantiles[LOOP], np.full(4, 10.0), atol=0.4)
        np.testing.assert_allclose(quantiles[[FIRST, LAST]], [[2.8] * 4, [2.0] * 4], atol=0.2)  # 1 + 0.9·2
        # Huber's threshold of 1 draws the quantile at τ < ½ inwards, from −1 to −1 + τ/(1 − τ): −1 + 1/7, −1 + 3/5.
        np.testing.assert_allclose(quantiles[COIN], [-0.857, -0.4, 2.4, 2.857], atol=0.25)
