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

import numpy as np

from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses.imitation import advantage_weight, weighted_imitation_loss
from drl_cli.algorithms.losses.policy_gradient import explained_variance
from drl_cli.algorithms.losses.value import squared
from drl_cli.policies import distributions_tf
from drl_cli.policies.forward_tf import TFNet, values_of, variables_of
from drl_cli.tf1.adam import Adam, clipped
from drl_cli.tf1.graph import Gradients, transition_columns
from drl_cli.tf1.tensorflow import tf

RATES = ("lr",)


def build(config, spec, initial, seed, scope):
    """Build the variables in the current graph and return the LearnerGraph.

    ``config``: MARWILConfig or BCConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``marwil_nets.initial_weights``;
    ``seed``: nothing is drawn; ``scope`` (ending in "/") goes before every variable's name.
    """
    del seed
    update = _Update(config, spec, initial, scope)
    columns = transition_columns(config, spec)
    if not config.beta:
        columns = {name: columns[name] for name in ("obs", "action")}
    return learner_graph(columns, RATES, update, spec, scope)


class _Update:
    """The variables and the two halves of an update over them."""

    def __init__(self, config, spec, initial, scope):
        self._config, self._spec = config, spec
        self._distribution = distributions_tf.BY_NAME[spec.distribution](spec)
        self._parts = {net.name: variables_of(net.weight_shapes(), initial, scope) for net in spec.nets}
        self._adam = {part: Adam(scope + part, weights) for part, weights in self._parts.items()}
        self.number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)
        self._square = None  # the running mean of squared advantages
        if config.beta:
            start = np.float32(config.moving_average_sqd_adv_norm_start or 0.0)
            name = scope + "advantage/mean_square"
            self._square = tf.Variable(start, name=name, use_resource=True, trainable=False)

    def variables(self):
        """All but the counter."""
        groups = [*self._parts.values(), *(adam.variables for adam in self._adam.values())]
        found = [variable for group in groups for variable in group.values()]
        return found if self._square is None else [*found, self._square]

    def gradients(self, batch, number):
        """See LearnerGraph: gradients of the nets for ``batch`` at update ``number``."""
        weights = {part: values_of(variables) for part, variables in self._parts.items()}
        heads = self._seen(weights, batch["obs"])
        if self._spec.mask:
            heads["logits"] = distributions_tf.masked(
                heads["logits"], distributions_tf.allowed(self._spec.mask, batch["obs"])
            )  # [B, n]
        logp = self._distribution.logp(heads, batch["action"])  # [B]
        judged, vf_loss, stats = self._judged(weights, heads, batch, number) if self._config.beta else (1.0, 0.0, {})
        policy_loss = tf.reduce_mean(weighted_imitation_loss(logp, judged))  # scalar
        loss = policy_loss + vf_loss
        if self._config.bc_logstd_coeff and "log_std" in heads:
            loss -= self._config.bc_logstd_coeff * tf.reduce_mean(heads["log_std"])
        parts, norms = {}, []
        for part, values in weights.items():
            parts[part], norm = clipped(tf.gradients(loss, list(values.values())), self._config.grad_clip)
            norms.append(norm)
        if "square" in stats:
            parts["square"] = [stats.pop("square")]
        stats |= {"policy_loss": policy_loss, "total_loss": loss, "grad_norm": norms[0]}
        return Gradients(parts, stats, tf.math.is_finite(loss + tf.add_n(norms)))

    def _seen(self, weights, obs):
        """The heads of all nets, the value's with them, {name: [B, size]}."""
        return {name: y for net in self._spec.nets for name, y in TFNet(net, weights[net.name])(obs).items()}

    def _judged(self, weights, heads, batch, number):
        """(The weight of each step [B], the value's part of the loss, statistics and among them the new mean ``square``)."""
        config = self._config
        value = heads["value"][:, 0]  # [B]
        behind = self._seen(weights, batch["next_obs"])["value"][:, 0]  # [B]
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * behind)  # [B]
        advantage = tf.stop_gradient(target - value)  # [B]
        rate = config.moving_average_sqd_adv_norm_update_rate
        square = (1.0 - rate) * self._square.read_value() + rate * tf.reduce_mean(tf.square(advantage))
        scale = tf.sqrt(self._unbiased(square, number))  # scalar
        judged = advantage_weight(advantage, scale, config.beta, config.max_advantage_weight)  # [B]
        vf_loss = tf.reduce_mean(squared(target - value))  # scalar
        stats = {
            "vf_loss": vf_loss,
            "vf_explained_var": explained_variance(target, value, tf.ones_like(value)),
            "advantage_scale": scale,
            "mean_advantage_weight": tf.reduce_mean(judged),
            "max_advantage_weight": tf.reduce_max(judged),
            "square": square,
        }
        return judged, config.vf_coeff * vf_loss, stats

    def _unbiased(self, square, number):
        """The running mean without the zero that it began from."""
        if self._config.moving_average_sqd_adv_norm_start is not None:
            return square
        kept = math.log1p(-min(self._config.moving_average_sqd_adv_norm_update_rate, 1.0 - 1e-7))
        return square / -tf.math.expm1(tf.cast(number + 1, tf.float32) * kept)

    def apply(self, parts, rates, number):
        """See LearnerGraph: change the weights with ``parts``."""
        del number
        for part, adam in self._adam.items():
            adam.apply(parts[part], rates["lr"])
        if self._square is not None:
            self._square.assign(parts["square"][0])
