"""Soft actor-critic over a Dict or Tuple of Box and Discrete actions: one update as a graph, used by ``sac_graph``.

The policy is a squashed Gaussian over all Box parts and a softmax over the K joint choices of the Discrete parts, independent
given the state; critics see the state and the numbers of the Box parts and value every joint choice. The expectation over
choices is a sum, that over numbers a reparametrised sample. Each of the two has a temperature and an entropy target.

Source: Delalleau et al. 2019, "Discrete and Continuous Action Representation for Practical RL in Video Games" (arXiv
1912.11077), section 4 (hybrid SAC, two temperatures).

Deviations, beside those of ``sac_graph`` and ``max_entropy_update_graph``
- The entropy target of the choices is ``target_entropy_fraction`` of ln K, as for Discrete actions.
- Parts of one kind alone are allowed: without Boxes it is Christodoulou 2019 (arXiv 1910.07207) over the joint choices, without
  choices SAC over all numbers; the temperature of what is not there stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import sac
from drl_cli.algorithms.losses.policy_gradient import expectation, soft_policy_loss, temperature_loss
from drl_cli.algorithms.losses.value import expected_soft_td_target, squared, td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, Choose, CurrentPolicy
from drl_cli.algorithms.max_entropy_critics_graph import CriticLosses, Ensemble, OnlineAndTarget
from drl_cli.algorithms.max_entropy_update_graph import MaxEntropyUpdate
from drl_cli.policies.action_specs import CompositeSpec, composite
from drl_cli.policies.distributions_tf import TFSquashedGaussian
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import LearnerGraph
from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import Tensor, tf

BOX, CHOICES = 0, 1
"""Where the two temperatures are in ``log_alpha`` [2]."""


def build(
    config: sac.SACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph; arguments as for ``sac_graph.build``."""
    actor = Actor(config, spec, initial, scope, drawn_and_every(spec, seed))
    nets = OnlineAndTarget(config, sac.critic_spec(config, spec), initial, scope)
    critics = HybridTwinCritics(config, composite(spec.action), nets, seed)
    return HybridUpdate(config, spec, actor, critics, scope).graph()


def target_entropies(config: sac.SACConfig, action: CompositeSpec) -> tuple[float, float]:
    """Return the target entropies of the Box parts and of the choices, in nats.

    Of the Box parts the number that is given, or minus how many numbers they are (1812.05905, table 1).
    """
    box = action.box_part()
    is_auto = config.target_entropy in (None, "auto")
    numbers = -float(box.size if box else 0) if is_auto else float(config.target_entropy or 0.0)
    return numbers, config.target_entropy_fraction * float(np.log(action.joint_choices()))


def drawn_and_every(spec: PolicySpec, seed: int) -> Choose:
    """Return the ``Choose`` of a hybrid policy: one reparametrised sample of the numbers a row, and all K joint choices.

    ``action`` is [B, size of the Box parts], None without any; noise as of ``reparametrized``.
    """
    box = composite(spec.action).box_part()
    distribution = TFSquashedGaussian(*box.policy_bounds()) if box else None

    def choose(heads: Tensors, number: Tensor, stream: int) -> ActionChoice:
        rows = next(iter(heads.values())).shape[0]
        action, box_logp = None, tf.zeros([rows])  # [B]
        if distribution is not None and box is not None:
            noise = stateless_normal([rows, box.size], seed, number, stream)  # [B, A]
            action, box_logp = distribution.sample(heads, noise)  # [B, A], [B]
        logp = tf.nn.log_softmax(heads["logits"]) if "logits" in heads else tf.zeros([rows, 1])  # [B, K]
        return ActionChoice(action, logp, tf.exp(logp), box_logp=box_logp)

    return choose


def entropy_cost(choice: ActionChoice, alpha: Tensor) -> Tensor:
    """Return α_c·log π(numbers|s) + α_d·log π(choice|s) for every joint choice, [B, K]; ``alpha`` [2], or 0."""
    both = alpha * tf.ones([2])  # [2]
    return both[BOX] * tf.expand_dims(choice.box_logp, 1) + both[CHOICES] * choice.logp  # [B, K]


class HybridTwinCritics:
    """Critics of a state and the numbers of an action that value every joint choice, [C, B, K]; clipped double Q-learning."""

    def __init__(self, config: sac.SACConfig, action: CompositeSpec, nets: OnlineAndTarget, seed: int) -> None:
        """``nets``: of a NetSpec with the inputs obs and, if there are Boxes, action; ``seed`` as for ``Ensemble``."""
        self._action, self._numbers, self._chosen = action, action.columns("Box"), action.columns("Discrete")
        self.trained, self._ensemble = nets.trained, Ensemble(config, nets, seed)
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error of the joint choice taken; ``alpha`` [2], or 0."""
        choice = policy.next_choice(batch)
        next_q = self._ensemble.of_target(policy.number, *_inputs(batch["next_obs"], choice.action))  # [M, B, K]
        cost, reward = entropy_cost(choice, alpha), batch["reward"]  # [B, K], [B]
        target = expected_soft_td_target(reward, batch["discount"], next_q, choice.probabilities, cost, 1.0)  # [B]
        numbers, joint = self._split(batch["action"])  # [B, A], [B]
        every_q = self._ensemble.of_all(values, policy.number, *_inputs(batch["obs"], numbers))  # [C, B, K]
        # A sum over the choices, because the gradient of a gather is a scatter, which XLA runs row by row.
        q = tf.reduce_sum(every_q * tf.one_hot(joint, every_q.shape[-1]), axis=-1)  # [C, B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error)

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics."""
        return self._ensemble.of_policy(values, policy.number, *_inputs(batch["obs"], choice.action))  # [C, B, K]

    def _split(self, action: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return (the numbers [B, A] or None, the index of the joint choice int32 [B]) of ``action`` [B, …]."""
        numbers = tf.gather(action, self._numbers, axis=1) if self._numbers else None  # [B, A]
        joint = tf.zeros_like(action[:, 0], tf.int32)  # [B]
        for column, count in zip(self._chosen, self._action.choices(), strict=True):
            joint = joint * count + tf.cast(tf.round(action[:, column]), tf.int32)  # [B]
        return numbers, joint


class HybridUpdate(MaxEntropyUpdate):
    """The update with two temperatures: ``log_alpha`` is [2]."""

    def _policy_rows(self, choice: ActionChoice, q: Tensor, alpha: Tensor) -> Tensor:
        """See MaxEntropyUpdate: the expectation over the joint choices."""
        cost = entropy_cost(choice, tf.stop_gradient(alpha))  # [B, K]
        return expectation(choice.probabilities, soft_policy_loss(cost, q, tf.constant(1.0)))  # [B]

    def _temperature_rows(self, choice: ActionChoice, log_alpha: Tensor, batch: Tensors) -> tuple[Tensor, Tensor]:
        """See MaxEntropyUpdate: the sum of both losses, and of both log-probabilities."""
        chosen = choice.expected(choice.logp)  # [B]
        numbers_target, choices_target = self._targets()
        rows = tf.zeros_like(chosen)  # [B]
        if choice.action is not None:
            rows += temperature_loss(log_alpha[BOX], choice.box_logp, tf.constant(numbers_target))  # [B]
        if composite(self._spec.action).choices():
            rows += temperature_loss(log_alpha[CHOICES], chosen, tf.constant(choices_target))  # [B]
        return rows, choice.box_logp + chosen

    def _temperatures(self, log_alpha: Tensor) -> dict[str, Tensor]:
        """See MaxEntropyUpdate."""
        numbers_target, choices_target = self._targets()
        return {
            "alpha_value": tf.exp(log_alpha[BOX]),
            "alpha_choices": tf.exp(log_alpha[CHOICES]),
            "target_entropy": tf.constant(numbers_target),
            "target_entropy_choices": tf.constant(choices_target),
        }

    def _targets(self) -> tuple[float, float]:
        if not isinstance(self._config, sac.SACConfig):
            raise TypeError(f"{type(self._config).__name__} is not SAC's")
        return target_entropies(self._config, composite(self._spec.action))


def _inputs(obs: Tensor, action: Tensor | None) -> tuple[Tensor, ...]:
    return (obs,) if action is None else (obs, action)
