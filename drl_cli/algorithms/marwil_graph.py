"""MARWIL and BC: imitation of recorded steps, those with better outcomes more than others, one update as a graph.

Which of them it is, ``beta`` says: with 0 there are no weights, no value and no advantages.

Sources: Wang et al. 2018, "Exponentially Weighted Imitation Learning for Batched Historical Data" (NeurIPS), eq. 2 and
algorithm 1; Pomerleau 1991 (behaviour cloning); keys and their meaning from RLlib's MARWIL.

Deviations:
- The scale of the advantages is the root of a running mean of their squares, in which a batch counts before its weights are
  made; without ``moving_average_sqd_adv_norm_start`` it has no bias towards its beginning (Kingma & Ba 2015, section 3).
- Weights are at most ``max_advantage_weight``.
- Returns arrive summed up to the end of the episode (``experience.monte_carlo_returns``); one that was cut off is bootstrapped.
- ``grad_clip`` bounds the gradients of policy and value each; with shared layers both together.
"""

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from drl_cli.algorithms.learner_graph import counter, learner_graph
from drl_cli.algorithms.losses.imitation import advantage_weight, weighted_imitation_loss
from drl_cli.algorithms.losses.policy_gradient import explained_variance
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.marwil import BCConfig, MARWILConfig
from drl_cli.policies import distributions_tf
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("lr",)

Weights: TypeAlias = dict[str, Tensors]  # net -> name -> tensor


def build(
    config: MARWILConfig | BCConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``marwil.initial_weights``; ``seed``: nothing is drawn; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    del seed
    update = _MARWILUpdate(config, spec, initial, scope)
    columns = transition_columns(config, spec)
    if not config.beta:
        columns = {name: columns[name] for name in ("obs", "action")}
    return learner_graph(columns, RATES, update, spec, scope)


class _MARWILUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(
        self, config: MARWILConfig | BCConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str
    ) -> None:
        self._config, self._spec = config, spec
        self._distribution = distributions_tf.BY_NAME[spec.distribution](spec)
        self._parts = {net.name: variables_of(net.weight_shapes(), initial, scope) for net in spec.nets}
        self._adam = {part: Adam(scope + part, weights) for part, weights in self._parts.items()}
        self.number = counter(scope)
        self._square: Variable | None = None  # the running mean of squared advantages
        if isinstance(config, MARWILConfig) and config.beta:
            start = np.float32(config.moving_average_sqd_adv_norm_start or 0.0)
            name = scope + "advantage/mean_square"
            self._square = tf.Variable(start, name=name, use_resource=True, trainable=False)

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        groups = [*self._parts.values(), *(adam.variables for adam in self._adam.values())]
        found = [variable for group in groups for variable in group.values()]
        return found if self._square is None else [*found, self._square]

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the nets for ``batch`` at update ``number``."""
        weights = {part: values_of(variables) for part, variables in self._parts.items()}
        heads = self._seen(weights, batch["obs"])
        if self._spec.mask:
            heads["logits"] = distributions_tf.masked(
                heads["logits"], distributions_tf.allowed(self._spec.mask, batch["obs"])
            )  # [B, n]
        logp = self._distribution.logp(heads, batch["action"])  # [B]
        weight, vf_loss, stats = 1.0, 0.0, {}
        if isinstance(self._config, MARWILConfig) and self._square is not None:
            values = heads["value"][:, 0], self._seen(weights, batch["next_obs"])["value"][:, 0]  # [B], [B]
            weight, vf_loss, stats = self._weighted(self._config, self._square, values, batch, number)
        policy_loss = tf.reduce_mean(weighted_imitation_loss(logp, weight))  # scalar
        loss = policy_loss + vf_loss
        spreads = [y for head, y in heads.items() if head.startswith("log_std")]  # [B, A] each
        if self._config.bc_logstd_coeff and spreads:
            loss -= self._config.bc_logstd_coeff * tf.reduce_mean(tf.concat(spreads, axis=-1))
        parts, norms = {}, []
        for part, values in weights.items():
            parts[part], norm = clipped(tf.gradients(loss, list(values.values())), self._config.grad_clip)
            norms.append(norm)
        if "square" in stats:
            parts["square"] = [stats.pop("square")]
        stats |= {"policy_loss": policy_loss, "total_loss": loss, "grad_norm": norms[0]}
        return Gradients(parts, stats, tf.math.is_finite(loss + tf.add_n(norms)))

    def _seen(self, weights: Weights, obs: Tensor) -> dict[str, Tensor]:
        """Return the heads of all nets, the value's among them, {name: [B, size]}."""
        return {name: y for net in self._spec.nets for name, y in TFNet(net, weights[net.name])(obs).items()}

    def _weighted(
        self, config: MARWILConfig, mean_square: Variable, values: tuple[Tensor, Tensor], batch: Batch, number: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return (the weight of each step [B], the value's part of the loss, statistics with the new mean ``square``).

        ``values``: of the states and of the next states, [B] each.
        """
        value, next_value = values
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * next_value)  # [B]
        advantage = tf.stop_gradient(target - value)  # [B]
        rate = config.moving_average_sqd_adv_norm_update_rate
        square = (1.0 - rate) * mean_square.read_value() + rate * tf.reduce_mean(tf.square(advantage))
        scale = tf.sqrt(_unbiased(config, square, number))  # scalar
        weight = advantage_weight(advantage, scale, config.beta, config.max_advantage_weight)  # [B]
        vf_loss = tf.reduce_mean(squared(target - value))  # scalar
        stats = {
            "vf_loss": vf_loss,
            "vf_explained_var": explained_variance(target, value, tf.ones_like(value)),
            "advantage_scale": scale,
            "mean_advantage_weight": tf.reduce_mean(weight),
            "max_advantage_weight": tf.reduce_max(weight),
            "square": square,
        }
        return weight, config.vf_coeff * vf_loss, stats

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``."""
        del number
        for part, adam in self._adam.items():
            adam.apply(parts[part], rates["lr"])
        if self._square is not None:
            self._square.assign(parts["square"][0])


def _unbiased(config: MARWILConfig, square: Tensor, number: Tensor) -> Tensor:
    """Return the running mean without its bias towards the zero that it began from."""
    if config.moving_average_sqd_adv_norm_start is not None:
        return square  # scalar
    kept = math.log1p(-min(config.moving_average_sqd_adv_norm_update_rate, 1.0 - 1e-7))
    return square / -tf.math.expm1(tf.cast(number + 1, tf.float32) * kept)  # scalar
