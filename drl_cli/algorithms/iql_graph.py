"""Implicit Q-learning: values from recorded actions alone, a policy that clones the better ones. One update as a graph.

Source: Kostrikov et al. 2021, "Offline Reinforcement Learning with Implicit Q-Learning" (arXiv 2110.06169), and its authors'
code where the paper is silent; keys from RLlib's IQL.

Deviations:
- Gradients of an update are taken at the same weights (value, critics and policy), then applied; the authors' code applies
  the value's first.
- The policy's mean is not squashed by tanh, its actions are clipped at the bounds of the environment.
- The critics' loss is half the square, as everywhere here.
- The learning rate falls only where a schedule says so (authors: a cosine over the run).
- Importance weights of a prioritized replay scale a row of all three losses; the priority is the mean of the critics' errors.
- With ``policy_average`` what acts is a running average of the learnt policy's weights.
- Discrete actions: critics value every action, of which the recorded one counts.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import iql
from drl_cli.algorithms.learner_graph import counter, learner_graph
from drl_cli.algorithms.losses.imitation import advantage_weight, weighted_imitation_loss
from drl_cli.algorithms.losses.value import expectile_loss, squared, td_error
from drl_cli.policies import net_builders
from drl_cli.policies.distributions_tf import BY_NAME, allowed, masked
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.polyak import every, move_average, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("actor_lr", "critic_lr", "value_lr")
UNSCALED = 1.0  # advantages are in units of return
LEAST_LOG_STD = -5.0  # the authors' bound: data of one action a state would else drive densities beyond every float
LOG_STD = "policy/log_std/free"


def build(
    config: iql.IQLConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build IQL's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``iql.initial_weights``; ``seed``: nothing is drawn; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    del seed
    update = _IQLUpdate(config, spec, initial, scope)
    return learner_graph(transition_columns(config, spec), RATES, update, spec, scope)


class _IQLUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(self, config: iql.IQLConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str) -> None:
        self._config, self._spec = config, spec
        self._policy_net, self._value_net = spec.nets[0], iql.value_spec(config, spec)
        self._critic_net = iql.critic_spec(config, spec)
        self._target_net = net_builders.target_of(self._critic_net)
        self._distribution = BY_NAME[spec.distribution](spec)
        policy = self._policy_net.weight_shapes()
        self._acting = self._policy = variables_of(policy, initial, scope)
        if config.policy_average:
            self._policy = variables_of(policy, initial, scope + "learnt_")
        self._value = variables_of(self._value_net.weight_shapes(), initial, scope)
        self._critic = variables_of(self._critic_net.weight_shapes(), initial, scope)
        self._target = variables_of(self._target_net.weight_shapes(), initial, scope, trainable=False)
        self.number = counter(scope)
        self._trained = {"actor": self._policy, "critic": self._critic, "value": self._value}
        self._adam = {part: Adam(scope + part, weights) for part, weights in self._trained.items()}
        self._target_every = net_builders.updates_per_target_update(config)

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        groups = [*self._trained.values(), self._target, *(adam.variables for adam in self._adam.values())]
        if self._policy is not self._acting:
            groups.append(self._acting)
        return [variable for group in groups for variable in group.values()]

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the three parts for ``batch``; ``number`` keys nothing."""
        weights = {part: values_of(variables) for part, variables in self._trained.items()}
        value = self._state_value(weights["value"], batch["obs"])  # [B]
        clipped_q = tf.reduce_min(self._q(self._target_net, self._target, batch), axis=0)  # [B]
        # value: an expectile of what recorded actions are worth
        advantage = tf.stop_gradient(clipped_q) - value  # [B]
        losses = {"value": expectile_loss(advantage, self._config.expectile)}  # [B]
        # critics: the value of the next state, whatever the policy would do there
        next_value = self._state_value(weights["value"], batch["next_obs"])  # [B]
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * next_value)  # [B]
        q = self._q(self._critic_net, weights["critic"], batch)  # [C, B]
        error = td_error(q, target)  # [C, B]
        losses["critic"] = tf.reduce_sum(squared(error), axis=0)  # [B]
        # policy: recorded actions, weighted by their advantage
        weight = advantage_weight(advantage, UNSCALED, self._config.beta, self._config.max_advantage_weight)  # [B]
        logp = self._distribution.logp(self._heads(weights["actor"], batch["obs"]), batch["action"])  # [B]
        losses["actor"] = weighted_imitation_loss(logp, weight)  # [B]
        parts, stats = self._descend(losses, weights, batch)
        stats |= {
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
            "mean_advantage": tf.reduce_mean(advantage),
            "mean_advantage_weight": tf.reduce_mean(weight),
            "data_logp": tf.reduce_mean(logp),
        }
        checked = tf.add_n([value for name, value in stats.items() if name.endswith("_loss") or "norm" in name])
        rows = {"priority": tf.reduce_mean(tf.abs(error), axis=0)}  # [B]
        return Gradients(parts, stats, tf.math.is_finite(checked), rows)

    def _descend(
        self, losses: Tensors, weights: Mapping[str, Tensors], batch: Batch
    ) -> tuple[dict[str, list[Tensor]], dict[str, Tensor]]:
        """Return ({part: gradients}, statistics) of the parts' losses, [B] each."""
        weight = batch["weight"] if self._config.prioritized_replay else 1.0  # [B]
        parts, stats = {}, {}
        for part, rows in losses.items():
            loss = tf.reduce_mean(weight * rows)  # scalar
            found = tf.gradients(loss, list(weights[part].values()))
            parts[part], norm = clipped(found, self._config.grad_clip)
            stats |= {f"{'vf' if part == 'value' else part}_loss": loss, f"grad_norm_{part}": norm}
        return parts, stats

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the targets and the average."""
        for part, adam in self._adam.items():
            adam.apply(parts[part], rates[f"{part}_lr"])
        if LOG_STD in self._policy:
            deviation = self._policy[LOG_STD]
            deviation.assign(tf.maximum(deviation.read_value(), LEAST_LOG_STD))

        def move_targets() -> None:
            polyak_update(list(self._target.values()), list(self._critic.values()), self._config.tau)

        every(self._target_every, number, move_targets, self._target_every - 1)
        if self._policy is not self._acting:
            move_average(list(self._acting.values()), list(self._policy.values()), self._config.policy_average)

    def _heads(self, weights: Tensors, obs: Tensor) -> dict[str, Tensor]:
        heads = TFNet(self._policy_net, weights)(obs)  # [B, size] each
        if self._spec.mask:
            heads["logits"] = masked(heads["logits"], allowed(self._spec.mask, obs))  # [B, n]
        return heads  # [B, size] each

    def _state_value(self, weights: Tensors, obs: Tensor) -> Tensor:
        return TFNet(self._value_net, weights)(obs)["value"][:, 0]  # [B]

    def _q(self, net: NetSpec, weights: Tensors, batch: Batch) -> Tensor:
        """Return Q of the recorded actions by every critic, [C, B]."""
        is_discrete = self._spec.distribution == "categorical"
        inputs = (batch["obs"],) if is_discrete else (batch["obs"], batch["action"])
        q = TFNet(net, weights)(*inputs)["q"]  # [(C,) B, 1], or [(C,) B, n]
        if is_discrete:
            # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
            q = q * tf.one_hot(batch["action"], self._spec.action.size)  # [(C,) B, n]
        q = tf.reduce_sum(q, axis=-1)  # [(C,) B]
        return q if net.copies > 1 else tf.expand_dims(q, 0)  # [C, B]
