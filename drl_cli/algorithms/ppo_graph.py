"""PPO: everything that is done with one batch of trajectories, as a graph.

Advantages and value targets once, with the weights that sampled; then passes over the batch in shuffled minibatches, each
one step of Adam, all in one call.

Sources: Schulman et al. 2017, "Proximal Policy Optimization Algorithms" (arXiv 1707.06347): clipped surrogate (eq. 7), KL
penalty (eq. 8); GAE, Schulman et al. 2016 (arXiv 1506.02438); value clipping and the keys' meaning from RLlib's PPO.

Deviations:
- Advantages are standardised over the batch before it is split; OpenAI's baselines do so in every minibatch.
- Minibatches have (almost) equal numbers of rows; RLlib drops what does not fill one.
- The KL that ``kl_coeff`` adapts to is the mean of the last pass, as in RLlib.
- With ``policy_average`` a running average of the weights samples, and is what ratios and divergences are measured from; the
  value is always that of the newest weights (compare Hilton et al. 2022, arXiv 2110.00641, who average to decouple the two).
- With ``kl_coeff`` 0 the penalty is not computed and never comes back; RLlib's stays 0, too.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from drl_cli.algorithms.losses import policy_gradient as losses
from drl_cli.algorithms.on_policy_graph import (
    OLD,
    STEP_STATS,
    Descent,
    Estimates,
    Rows,
    TrainedPolicy,
    estimates,
    evaluated,
    summed,
)
from drl_cli.algorithms.ppo import ClippedSurrogateKeys
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.policies.actor_critic_tf import ActorCritic, Seen
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.epochs import Plan, epochs
from drl_cli.tf1.graph import Batch, BatchGraph, Learnt, MinibatchSteps, Rates, TrajectoryColumns, trajectory_columns
from drl_cli.tf1.tensorflow import Tensor, Variable, tf
from drl_cli.tf1.towers import Sums

RATES = ("lr", "entropy_coeff")
PER_STEP = ("policy_loss", "entropy", "kl", "clip_fraction")
FIRST = (
    "kl",
    "clip_fraction",
    "ratio_deviation",
)  # reported of the first minibatch too: 0 there but for policy_average


def build(
    config: ClippedSurrogateKeys, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``actor_critic_nets.initial_weights``;
    ``seed`` keys the shuffles; ``scope`` (ending in "/") goes before every variable's name.
    """
    net = ActorCritic(spec, initial, scope, looped=bool(config.xla), average=config.policy_average)

    def estimate(batch: Batch, standardize: bool) -> Estimates:
        return estimates(
            config, net, batch, standardize, heads=True, sampler=net.acting_values() if net.averaged else None
        )

    looks = Looks(
        lambda batch: estimate(batch, standardize=True), lambda values, minibatch: evaluated(net, values, minibatch)
    )
    update = PPOUpdate(config, net, looks, seed, scope)
    steps = MinibatchSteps(
        lambda batch: estimate(batch, standardize=False), update.gradients, update.apply, update.adapt
    )
    return batch_graph(trajectory_columns(config, spec), update)._replace(steps=steps)


class Looks(NamedTuple):
    """What the nets say of a batch."""

    estimate: Callable[[Batch], Estimates]  # of a batch, by the weights that sampled it
    evaluate: Callable[[Tensors, Rows], tuple[Seen, Rows]]  # (values of all variables, minibatch), see ``evaluated``


class PPOUpdate:
    """The variables, and what is learnt from a batch."""

    def __init__(self, config: ClippedSurrogateKeys, net: TrainedPolicy, looks: Looks, seed: int, scope: str) -> None:
        self._config, self._looks, self._seed = config, looks, seed
        self.net = net
        self.descent = Descent(config, self.net, scope)
        self._kl_coeff = tf.Variable(
            np.float32(config.kl_coeff), name=scope + "kl_coeff", use_resource=True, trainable=False
        )
        size = config.sgd_minibatch_size // sequence_length(config)
        self._plan = Plan(config.num_sgd_iter, size, self.descent.towers.width(size), config.shuffle_sequences)
        self._names = sorted(
            {*PER_STEP, "ratio_deviation", *STEP_STATS} | ({"vf_loss"} if config.use_critic else set())
        )

    def variables(self) -> dict[str, Variable]:
        """Return {exact name: variable}."""
        return self.descent.variables() | {self._kl_coeff.op.name: self._kl_coeff}

    def learn(self, batch: Batch, rates: Rates, number: Tensor) -> Learnt:
        """See BatchGraph."""
        config = self._config
        estimated = self._looks.estimate(batch)
        kl_coeff = self._kl_coeff.read_value()

        def step(minibatch: Rows, _: Tensor) -> tuple[dict[str, Tensor], Tensor]:
            return self.apply(*self.gradients(minibatch, rates, kl_coeff), rates)

        passed = epochs(estimated.rows, self._plan, (self._seed, number), self._names, step)
        stats = estimated.stats | {name: passed.last[name] for name in self._names if name != "ratio_deviation"}
        stats |= {f"first_{name}": passed.first[name] for name in FIRST}
        stats |= {"cur_kl_coeff": kl_coeff, "cur_lr": rates["lr"], "entropy_coeff": rates["entropy_coeff"]}
        if config.kl_coeff:
            new = losses.adapted(kl_coeff, passed.last["kl"], config.kl_target)
            moved = tf.logical_and(passed.finite, passed.updates > 0)
            self._kl_coeff.assign(tf.where(moved, new, kl_coeff))
        return Learnt(stats, passed.updates, passed.finite)

    def gradients(self, minibatch: Rows, rates: Rates, kl_coeff: Tensor | None = None) -> tuple[list[Tensor], Sums]:
        """Return (gradients of the summed loss of a minibatch by the present weights, Sums); see ``Descent.gradients``."""
        kl_coeff = self._kl_coeff.read_value() if kl_coeff is None else kl_coeff
        coefficients = {"entropy_coeff": rates["entropy_coeff"], "kl_coeff": kl_coeff}
        return self.descent.gradients(self.loss, minibatch, coefficients)

    def apply(self, gradients: list[Tensor], sums: Sums, rates: Rates) -> tuple[dict[str, Tensor], Tensor]:
        """Take one step; see ``Descent.step``."""
        return self.descent.step(gradients, sums, rates["lr"])

    def adapt(self, kl: Tensor) -> Tensor:
        """Adapt the coefficient of the penalty to the mean divergence ``kl`` of the last pass; returns the one before."""
        before = self._kl_coeff.read_value()
        if self._config.kl_coeff:
            with tf.control_dependencies([before]):
                self._kl_coeff.assign(losses.adapted(before, kl, self._config.kl_target))
        return before

    def loss(self, values: Tensors, minibatch: Rows) -> Sums:
        """Return the Sums of a minibatch; ``values``: {name: tensor} of the net's variables, entropy_coeff and kl_coeff."""
        config, distribution = self._config, self.net.distribution
        seen, steps = self._looks.evaluate(values, minibatch)  # [B, …]
        mask, old = steps["mask"], {name.removeprefix(OLD): x for name, x in steps.items() if name.startswith(OLD)}
        # Padding holds anything: without the mask its ratio may be infinite, and 0 times that is not a number.
        ratio = tf.exp((distribution.logp(seen.heads, steps["action"]) - steps["logp"]) * mask)  # [B]
        policy = losses.surrogate_loss(ratio, steps["advantage"], config.clip_param)  # [B]
        entropy, kl = distribution.entropy(seen.heads), distribution.kl(old, seen.heads)  # [B], [B]
        total = policy - values["entropy_coeff"] * entropy  # [B]
        if config.kl_coeff:
            total += values["kl_coeff"] * kl
        outside = losses.clip_fraction(ratio, config.clip_param or np.inf)  # [B]
        stats = {"policy_loss": policy, "entropy": entropy, "kl": kl, "clip_fraction": outside}
        if config.use_critic:
            stats["vf_loss"] = losses.clipped_value_loss(
                seen.value, steps["value"], steps["target"], config.vf_clip_param
            )  # [B]
            total += config.vf_loss_coeff * stats["vf_loss"]
        return summed(total, stats, mask, {"ratio_deviation": tf.abs(ratio - 1.0)})


def batch_graph(columns: TrajectoryColumns, update: PPOUpdate) -> BatchGraph:
    """Return the BatchGraph of ``update`` over batches of ``columns``."""
    descent = update.descent
    shared = (descent.towers.in_one_place, {}, descent.parallel(update.loss))
    return BatchGraph(columns, RATES, update.variables(), update.net.published, update.learn, *shared)
