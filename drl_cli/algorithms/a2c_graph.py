"""A2C and PG: one gradient step from one batch of trajectories, as a graph.

Which of them it is, the config says: ``use_gae``, ``use_critic``, ``entropy_coeff``, ``standardize_advantages``.

Sources: Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning" (arXiv 1602.01783), section 4, in its
synchronous form; Williams 1992 (REINFORCE); microbatches and the keys' meaning from RLlib's A2C and PG.

Deviations:
- Means over the valid steps of a batch, where RLlib's A2C has sums (see ``algorithms.a2c``).
- ``microbatch_size`` bounds the steps whose gradient is computed at a time; values are computed for the whole batch at once.
"""

import math
from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms.a2c import A2CConfig, PGConfig
from drl_cli.algorithms.losses import policy_gradient as losses
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.on_policy_graph import STEP_STATS, Descent, Rows, estimates, evaluated, summed
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.policies.actor_critic_tf import ActorCritic
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, BatchGraph, Learnt, Rates, trajectory_columns
from drl_cli.tf1.tensorflow import Tensor, tf
from drl_cli.tf1.towers import Sums

RATES = ("lr", "entropy_coeff")


def build(
    config: A2CConfig | PGConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``actor_critic_nets.initial_weights``; ``seed``: nothing is drawn; ``scope`` (ending in "/")
    goes before every variable's name.
    """
    del seed
    net = ActorCritic(spec, initial, scope, looped=bool(config.xla), average=config.policy_average)
    update = _A2CUpdate(config, net, Descent(config, net, scope))
    columns, descent = trajectory_columns(config, spec), update.descent
    shared = (descent.towers.in_one_place, net.sampled(), descent.parallel(update.loss))
    return BatchGraph(columns, RATES, descent.variables(), net.published, update.learn, *shared)


class _A2CUpdate:
    """What is learnt from a batch."""

    def __init__(self, config: A2CConfig | PGConfig, net: ActorCritic, descent: Descent) -> None:
        self._config, self._net, self.descent = config, net, descent
        micro = config.microbatch_size if isinstance(config, A2CConfig) else None
        self._rows = micro and max(1, micro // sequence_length(config))
        self._names = ("policy_loss", "entropy") + (("vf_loss",) if config.use_critic else ())

    def learn(self, batch: Batch, rates: Rates, number: Tensor) -> Learnt:
        """See BatchGraph."""
        del number  # nothing is drawn
        estimated = estimates(self._config, self._net, batch, self._config.standardize_advantages)
        coefficients = {"entropy_coeff": rates["entropy_coeff"]}

        def step() -> tuple[Tensor, Tensor, list[Tensor]]:
            stats, finite = self.descent.step(*self._gradients(estimated.rows, coefficients), rates["lr"])
            return finite, tf.cast(finite, tf.int32), [stats[name] for name in (*self._names, *STEP_STATS)]

        def nothing() -> tuple[Tensor, Tensor, list[Tensor]]:
            return tf.constant(True), tf.constant(0), [tf.zeros([])] * len((*self._names, *STEP_STATS))

        finite, updates, stats = tf.cond(tf.reduce_any(batch["mask"] > 0), step, nothing)
        stats = estimated.stats | dict(zip((*self._names, *STEP_STATS), stats, strict=True))
        stats |= {"cur_lr": rates["lr"], "entropy_coeff": rates["entropy_coeff"]}
        return Learnt(stats, updates, finite)

    def loss(self, values: Tensors, minibatch: Rows) -> Sums:
        """Return the Sums of a minibatch; ``values``: {name: tensor} of the net's variables, and entropy_coeff."""
        seen, steps = evaluated(self._net, values, minibatch)  # [B, …]
        logp = self._net.distribution.logp(seen.heads, steps["action"])  # [B]
        entropy = self._net.distribution.entropy(seen.heads)  # [B]
        policy = losses.policy_gradient_loss(logp, steps["advantage"])  # [B]
        stats, total = {"policy_loss": policy, "entropy": entropy}, policy - values["entropy_coeff"] * entropy
        if self._config.use_critic:
            stats["vf_loss"] = squared(seen.value - steps["target"])  # [B]
            total += self._config.vf_loss_coeff * stats["vf_loss"]
        return summed(total, stats, steps["mask"])

    def _gradients(self, rows: Rows, coefficients: Tensors) -> tuple[list[Tensor], Sums]:
        """Return (gradients of the summed loss, Sums) of all rows, a microbatch at a time."""
        total = rows["mask"].shape[0]
        size = self.descent.towers.width(min(self._rows or total, total))
        count = math.ceil(total / size)
        padding = count * size - total
        # rows of zeros, whose mask is 0 as well
        rows = {name: tf.pad(x, [[0, padding]] + [[0, 0]] * (x.shape.rank - 1)) for name, x in rows.items()}
        if count == 1:
            return self.descent.gradients(self.loss, rows, coefficients)
        pieces = {name: tf.reshape(x, [count, size, *x.shape[1:]]) for name, x in rows.items()}

        def body(
            index: Tensor, gradients: list[Tensor], added: list[Tensor]
        ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
            piece = {name: x[index] for name, x in pieces.items()}
            new, sums = self.descent.gradients(self.loss, piece, coefficients)
            parts = [sums.loss, sums.count, *(sums.stats[name] for name in self._names)]
            return (
                index + 1,
                [a + b for a, b in zip(gradients, new, strict=True)],
                [a + b for a, b in zip(added, parts, strict=True)],
            )

        zeros = [tf.zeros(variable.shape) for variable in self.descent.trained.values()]
        start = (tf.constant(0), zeros, [tf.zeros([])] * (2 + len(self._names)))
        _, gradients, added = tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)
        return gradients, Sums(added[0], dict(zip(self._names, added[2:], strict=True)), {}, added[1])
