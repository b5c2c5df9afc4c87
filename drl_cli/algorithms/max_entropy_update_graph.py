"""The maximum-entropy update of an actor, its critics and its temperature, which SAC, TQC, CrossQ, XQC and CQL share.

``max_entropy_actor_graph`` has the policy, ``max_entropy_critics_graph`` the interface of the critics; here are the losses
over both, the optimisers, and the order of steps.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic" (arXiv 1801.01290) and "Soft Actor-Critic Algorithms and Applications"
(arXiv 1812.05905); importance weights of prioritized replay, Schaul et al. 2016 (arXiv 1511.05952), section 3.4.

Deviations:
- All gradients of an update are taken at the same weights (critic, actor and temperature), then applied; the papers'
  loops apply them one after the other. XLA can then share the forward pass.
- n-step targets: ``reward`` and ``discount`` arrive summed over the real number of steps; no off-policy correction.
- ``policy_delay`` updates actor and temperature on every k-th update only, counted over all calls.
- Importance weights enter all three losses (RLlib's SAC: none, which biases it); statistics are of the batch as drawn.
- ``backup_entropy: false`` leaves the entropy out of the critics' targets (not out of the actor's loss).
- A row's priority is the mean over the critics of |target − expected return|.
"""

from collections.abc import Callable

import numpy as np

from drl_cli.algorithms.learner_graph import counter, learner_graph, row_mean
from drl_cli.algorithms.losses.policy_gradient import soft_policy_loss, temperature_loss
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, CurrentPolicy, MaxEntropyConfig
from drl_cli.algorithms.max_entropy_critics_graph import Critics, CriticWeights
from drl_cli.algorithms.sac import SACConfig
from drl_cli.policies.distributions_tf import allowed
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import BETA_1, Adam, clipped
from drl_cli.tf1.polyak import every
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = tuple(f"optimization.{part}_learning_rate" for part in ("actor", "critic", "entropy"))
ACTOR_STATS = ("actor_loss", "alpha_loss", "policy_entropy", "grad_norm_actor")

_Part = tuple[dict[str, list[Tensor]], dict[str, Tensor]]  # gradients by part, statistics


def target_entropy(config: MaxEntropyConfig, spec: PolicySpec) -> float:
    """Return the target entropy of the temperature in nats: the number that is given, or what "auto" (or null) means.

    For Box actions −dim(A) (1812.05905, table 1), for Discrete ones ``target_entropy_fraction`` of ln n, the entropy of
    a uniform choice; where a mask allows fewer of them, see ``allowed_entropy``.
    """
    if spec.distribution == "hybrid":
        raise ValueError("each part of a Dict or Tuple has a target of its own: hybrid_sac_graph.target_entropies")
    if config.target_entropy not in (None, "auto"):
        return float(config.target_entropy)
    if isinstance(config, SACConfig) and spec.distribution == "categorical":
        return config.target_entropy_fraction * float(np.log(spec.action.size))
    return -float(spec.action.size)


def allowed_entropy(config: SACConfig, spec: PolicySpec, obs: Tensor) -> Tensor:
    """Return the target of ``target_entropy`` in each of ``obs`` [B, …], [B]: the fraction is of ln(how many are allowed)."""
    count = tf.reduce_sum(tf.cast(allowed(spec.mask, obs), tf.float32), axis=-1)  # [B]
    return config.target_entropy_fraction * tf.math.log(count)  # [B]


class MaxEntropyParts:
    """Actor, temperature and critics with an optimiser each: what an update is but for its losses."""

    def __init__(
        self,
        config: MaxEntropyConfig,
        spec: PolicySpec,
        actor: Actor,
        critics: CriticWeights,
        scope: str,
        momentum: float = 0.0,
        beta_1: float = BETA_1,
    ) -> None:
        """``momentum``: share that running statistics keep at an update; ``beta_1``: Adam's, for all parts."""
        self._config, self._spec, self._scope = config, spec, scope
        self._actor, self._critics, self._momentum = actor, critics, momentum
        self.number: Variable = counter(scope)
        parts = {"actor": actor.trained, "critic": critics.trained, "entropy": actor.alpha}
        self._adam = {part: Adam(scope + part, weights, beta_1=beta_1) for part, weights in parts.items()}

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        slots = [variable for adam in self._adam.values() for variable in adam.variables.values()]
        return [*self._actor.variables(), *self._critics.variables(), *slots]

    def _when_due(self, number: Tensor, actor: Callable[[], _Part], policy: Tensors) -> _Part:
        """Return what ``actor`` does at every ``policy_delay``-th update, and zeros at all others."""
        delay = self._config.policy_delay
        due = tf.equal(number % delay, 0)
        parts, stats = actor() if delay == 1 else tf.cond(due, actor, lambda: self._no_gradients(policy))
        # Skipped updates count as zeros in a mean over updates: what was computed is scaled up to make up for them.
        return parts, {name: value * float(delay) for name, value in stats.items()}

    def _no_gradients(self, policy: Tensors) -> _Part:
        """Return the parts and statistics of an actor's update, all zero."""
        trained = self._actor.trained
        parts = {
            "actor": [tf.zeros_like(policy[name]) for name in trained],
            "entropy": [tf.zeros(self._actor.alpha["log_alpha"].shape)],
            "actor_statistics": [tf.zeros_like(value) for name, value in policy.items() if name not in trained],
        }
        return parts, {name: tf.zeros([]) for name in ACTOR_STATS}

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: apply ``parts``, then update targets, running statistics and the averaged policy."""
        self._adam["critic"].apply(parts["critic"], rates["optimization.critic_learning_rate"])

        def actor() -> None:
            self._adam["actor"].apply(parts["actor"], rates["optimization.actor_learning_rate"])
            self._adam["entropy"].apply(parts["entropy"], rates["optimization.entropy_learning_rate"])
            self._actor.after_step(parts["actor_statistics"], 1.0 - self._momentum)

        every(self._config.policy_delay, number, actor)
        self._critics.after_step(parts["critic_statistics"], number)
        self._actor.average()


class MaxEntropyUpdate(MaxEntropyParts):
    """The two halves of an update from transitions; ``graph()`` is what the learner gets."""

    _critics: Critics

    def graph(self) -> LearnerGraph:
        """Return the LearnerGraph of this update."""
        return learner_graph(transition_columns(self._config, self._spec), RATES, self, self._spec, self._scope)

    def gradients(self, batch: Tensors, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the three parts for ``batch`` at update ``number``."""
        policy, critic = self._actor.values(), self._critics.values()
        log_alpha = self._actor.alpha["log_alpha"].read_value()
        current = CurrentPolicy(self._actor, policy, number)
        parts, stats, rows = self._critic_gradients(batch, current, critic, tf.exp(log_alpha))

        def actor() -> _Part:
            return self._actor_gradients(batch, current, (policy, critic), log_alpha)

        actor_parts, more = self._when_due(number, actor, policy)
        stats.update(more)
        stats.update(self._temperatures(log_alpha))
        checked = stats["grad_norm_critic"] + stats["grad_norm_actor"] + stats["alpha_loss"] + stats["critic_loss"]
        # A reward that is not finite, which a projection onto atoms clips, stops learning as well.
        checked += tf.reduce_mean(batch["reward"])
        return Gradients(parts | actor_parts, stats, tf.math.is_finite(checked), rows)

    def _critic_gradients(
        self, batch: Tensors, policy: CurrentPolicy, critic: Tensors, alpha: Tensor
    ) -> tuple[dict[str, list[Tensor]], dict[str, Tensor], dict[str, Tensor]]:
        # Without an entropy to count, the targets are those of a temperature of zero.
        found = self._critics.losses(critic, batch, policy, alpha if self._config.backup_entropy else 0.0)
        # loss: the sum over the critics of the mean over the batch
        loss = tf.reduce_sum(row_mean(found.losses, batch))  # scalar
        weights = [critic[name] for name in self._critics.trained]
        gradients, norm = clipped(tf.gradients(loss, weights), self._config.grad_clip)
        stats = {
            "critic_loss": loss,
            "mean_td_error": tf.reduce_mean(found.error),
            "mean_q": tf.reduce_mean(found.q),
            "min_q": tf.reduce_min(found.q),
            "max_q": tf.reduce_max(found.q),
            "grad_norm_critic": norm,
            **found.stats,
        }
        rows = {}
        if self._config.prioritized_replay:
            rows["priority"] = tf.reduce_mean(tf.abs(found.error), axis=0)  # [B]
        return {"critic": gradients, "critic_statistics": list(found.statistics)}, stats, rows

    def _actor_gradients(
        self,
        batch: Tensors,
        policy: CurrentPolicy,
        values: tuple[Tensors, Tensors],
        log_alpha: Tensor,
    ) -> _Part:
        """``values``: {name: tensor} of the policy and of the critics."""
        of_policy, of_critics = values
        choice = policy.choice(batch)
        q = self._critics.policy_value(of_critics, batch, policy, choice)  # [C, B], or [C, B, n]
        loss = row_mean(self._policy_rows(choice, q, tf.exp(log_alpha)), batch)  # scalar
        weights = [of_policy[name] for name in self._actor.trained]
        gradients, norm = clipped(tf.gradients(loss, weights), self._config.grad_clip)
        alpha_rows, logp = self._temperature_rows(choice, log_alpha, batch)  # [B], [B]
        alpha_loss = row_mean(alpha_rows, batch)  # scalar
        stats = {
            "actor_loss": loss,
            "alpha_loss": alpha_loss,
            "policy_entropy": -tf.reduce_mean(logp),
            "grad_norm_actor": norm,
        }
        entropy_gradients, _ = clipped(tf.gradients(alpha_loss, [log_alpha]), self._config.grad_clip)
        statistics = list(choice.statistics)
        return {"actor": gradients, "entropy": entropy_gradients, "actor_statistics": statistics}, stats

    def _policy_rows(self, choice: ActionChoice, q: Tensor, alpha: Tensor) -> Tensor:
        """Return the actor's loss of each row, [B]; ``q`` as of ``Critics.policy_value``."""
        return choice.expected(soft_policy_loss(choice.logp, q, alpha))  # [B]

    def _temperature_rows(self, choice: ActionChoice, log_alpha: Tensor, batch: Tensors) -> tuple[Tensor, Tensor]:
        """Return (the temperature's loss of each row, the expected log-probability there), [B] each."""
        logp, target = choice.expected(choice.logp), target_entropy(self._config, self._spec)  # [B], scalar
        is_auto = self._config.target_entropy in (None, "auto")
        if isinstance(self._config, SACConfig) and self._spec.mask and is_auto:
            target = allowed_entropy(self._config, self._spec, batch["obs"])  # [B]
        return temperature_loss(log_alpha, logp, target), logp

    def _temperatures(self, log_alpha: Tensor) -> dict[str, Tensor]:
        """Return what is reported of the temperature: {name: scalar}."""
        target = target_entropy(self._config, self._spec)
        return {"alpha_value": tf.exp(log_alpha), "target_entropy": tf.constant(target, tf.float32)}
