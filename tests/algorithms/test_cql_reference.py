"""CQL's update against a slow one in float64: the paper's losses one row, one critic and one action at a time."""

import numpy as np
import pytest
from machine import spaces
from max_entropy_machine import ACTION, OBS, SEED, block, config, machine
from slow import SlowUpdate, affine, compare, follow_targets, hidden, weighted
from slow_sac import DiscreteLosses, Losses

from drl_cli.algorithms.cql_graph import NEXT, OWN, UNIFORM
from drl_cli.tf1.stateless_random import stateless_normal, stateless_uniform
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

MULTIPLIER = "critic/log_alpha_prime"
EDGE = 1e-3


def draws_of(updates, shape):
    """For each update (uniform numbers, normal ones of this state, of the next), each of ``shape``."""
    kinds = ((stateless_uniform, UNIFORM), (stateless_normal, OWN), (stateless_normal, NEXT))
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        made = [draw(shape, SEED, number, stream) for draw, stream in kinds]
        return [np.float64(session.run(made, {number: n})) for n in range(updates)]


class Conservative:
    """What is the same for both kinds of actions; ``sac``: SAC's slow losses, ``number`` counts the updates."""

    def __init__(self, made, sac):
        self.config, self.sac, self.number = made, sac, -1

    def __call__(self, present, batch, noises):
        self.number += 1
        rows, made = range(self.config.train_batch_size), self.config
        multiplier = np.exp(present.get(MULTIPLIER, 0.0))
        believed = present if made.backup_entropy else present | {"log_alpha": np.array(-np.inf)}
        targets = [self.target(believed, batch, row, noises) for row in rows]

        def penalties(weights):
            gaps = [
                self.soft_maximum(weights, present, batch, row) - self.recorded(weights, batch, row) for row in rows
            ]
            return made.min_q_weight * np.array(gaps)  # [B, C]

        def critic(weights):
            nets = {name: value for name, value in weights.items() if name != MULTIPLIER}
            errors = np.array([targets[row] - self.recorded(nets, batch, row) for row in rows])
            penalty = penalties(nets)
            loss = weighted(batch, (0.5 * errors**2 + 0.5 * multiplier * penalty).sum(axis=1))
            if not made.lagrangian:
                return loss
            still = penalties({n: v for n, v in present.items() if n.startswith("critic/") and n != MULTIPLIER})
            dual = -weights[MULTIPLIER] * (still - made.lagrangian_thresh).mean(axis=1)
            return loss + weighted(batch, dual)

        losses, _ = self.sac(present, batch, noises)
        if self.number < made.bc_iters:
            alpha = np.exp(present["log_alpha"])
            losses["actor"] = lambda w: weighted(
                batch, [alpha * self.own_logp(w, batch, r, noises) - self.recorded_logp(w, batch, r) for r in rows]
            )
        errors = np.array([targets[row] - self.recorded(self.plain(present), batch, row) for row in rows])
        return losses | {"critic": critic}, np.abs(errors).mean(axis=1)

    @staticmethod
    def plain(present):
        return {name: value for name, value in present.items() if name != MULTIPLIER}


class BoxLosses(Conservative):
    """Appendix F: three times ``num_actions`` draws with their densities."""

    def __init__(self, made, low, high, updates):
        super().__init__(made, Plain(made, low, high))
        self.low, self.high = low, high
        self.draws = draws_of(updates, [made.train_batch_size, made.num_actions, ACTION])

    def target(self, present, batch, row, noises):
        action, logp = self.sac.act(present, batch["next_obs"][row], noises[0][row], present)
        value = self.sac.q(present, "target_critic", batch["next_obs"][row], action).min()
        return batch["reward"][row] + batch["discount"][row] * (value - np.exp(present["log_alpha"]) * logp)

    def recorded(self, weights, batch, row):
        return self.sac.q(weights, "critic", batch["obs"][row], batch["action"][row])

    def soft_maximum(self, weights, present, batch, row):
        obs, half, middle = batch["obs"][row], (self.high - self.low) / 2, (self.high + self.low) / 2
        uniform, own, following = (part[row] for part in self.draws[self.number])
        density, total = (1.0 / (self.high - self.low)) ** ACTION, 0.0
        each = [(u * half + middle, np.log(density)) for u in uniform]
        each += [self.sac.act(present, obs, noise, present) for noise in own]
        each += [self.sac.act(present, batch["next_obs"][row], noise, present) for noise in following]
        for action, logp in each:
            total = total + np.exp(self.sac.q(weights, "critic", obs, action) / self.config.temperature) / np.exp(logp)
        return self.config.temperature * np.log(total / len(each))  # [C]

    def own_logp(self, weights, batch, row, noises):
        return self.sac.act(weights, batch["obs"][row], noises[1][row], weights)[1]

    def recorded_logp(self, weights, batch, row):
        half, middle = (self.high - self.low) / 2, (self.high + self.low) / 2
        unit = np.clip((batch["action"][row] - middle) / half, EDGE - 1, 1 - EDGE)
        x = hidden(weights, "policy", batch["obs"][row])
        mean, log_std = (affine(weights, f"policy/{head}", x) for head in ("mean", "log_std"))
        gaussian = -0.5 * ((np.arctanh(unit) - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        return (gaussian - np.log((1 - unit**2) * half)).sum()


class Plain(Losses):
    """SAC's, for weights that may hold the multiplier as well."""

    def q(self, weights, net, obs, action):
        return super().q(Conservative.plain(weights), net, obs, action)


class ChoiceLosses(Conservative):
    """Equation 4 with all actions."""

    def __init__(self, made):
        super().__init__(made, PlainDiscrete(made))

    def target(self, present, batch, row, noises):
        chances = self.sac.chances(present, batch["next_obs"][row])
        q = self.sac.q(present, "target_critic", batch["next_obs"][row]).min(axis=0)
        value = (chances * (q - np.exp(present["log_alpha"]) * np.log(chances))).sum()
        return batch["reward"][row] + batch["discount"][row] * value

    def recorded(self, weights, batch, row):
        return self.sac.q(weights, "critic", batch["obs"][row])[:, batch["action"][row]]

    def soft_maximum(self, weights, present, batch, row):
        q = self.sac.q(weights, "critic", batch["obs"][row])
        return self.config.temperature * np.log(np.exp(q / self.config.temperature).sum(axis=1))

    def own_logp(self, weights, batch, row, noises):
        chances = self.sac.chances(weights, batch["obs"][row])
        return (chances * np.log(chances)).sum()

    def recorded_logp(self, weights, batch, row):
        return np.log(self.sac.chances(weights, batch["obs"][row])[batch["action"][row]])


class PlainDiscrete(DiscreteLosses):
    """Discrete SAC's, for weights that may hold the multiplier as well."""

    def q(self, weights, net, obs):
        return super().q(Conservative.plain(weights), net, obs)


CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "entropy in the backup": {"backup_entropy": True},
    "temperature": {"temperature": 0.4},
    "cloning at first": {"bc_iters": 2},
    "Lagrange": {"lagrangian": True, "lagrangian_thresh": 1.0},
    "Lagrange, single critic, prioritized": {"lagrangian": True, "twin_q": False, "prioritized_replay": True},
    "more weight": {"min_q_weight": 20.0},
    "several": {"backup_entropy": True, "temperature": 0.4, "bc_iters": 2, "min_q_weight": 20.0},
}


@pytest.mark.parametrize("keys", [*CASES.values(), {"normalize_actions": False, "bc_iters": 1}], ids=[*CASES, "bounds"])
def test_update_of_box_actions_matches_the_paper_in_float64(keys):
    made = config("cql", tau=0.2, **keys)
    low, high = (-1.0, 3.0) if "normalize_actions" in keys else (-1.0, 1.0)
    given = block("cql", made)
    given["action"][:, 0] = high  # at a bound, where the inverse of tanh is infinite
    with machine("cql", made, spaces(OBS, ACTION, low, high)) as started:
        slow = SlowUpdate(made, started.values(), BoxLosses(made, low, high, 3), follow_targets(0.2))
        assert compare(started, slow, given, updates=3) == 3


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_of_discrete_actions_matches_the_paper_in_float64(keys):
    made = config("cql discrete", tau=0.2, **keys)
    with machine("cql discrete", made) as started:
        slow = SlowUpdate(made, started.values(), ChoiceLosses(made), follow_targets(0.2))
        assert compare(started, slow, block("cql discrete", made), updates=3) == 3
