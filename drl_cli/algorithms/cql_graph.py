"""Conservative Q-learning: SAC from recorded data, whose critics are held down on actions that the data does not show.

The penalty pushes down a soft maximum of Q over all actions and holds up Q of the recorded ones. For Box actions the soft
maximum is estimated from samples, for Discrete ones it is a sum.

Source: Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning" (arXiv 2006.04779): eq. 4, CQL(H), with
the importance-weighted estimate of its appendix F, over uniform actions and the policy's in this state and in the next;
Discrete actions over the critics of discrete SAC (Christodoulou 2019, arXiv 1910.07207); keys and their meaning from RLlib's
CQL.

Deviations, beside those of ``algorithms.losses.conservative``, ``max_entropy_update_graph`` and ``max_entropy_actor_graph``:
- The penalty has half its weight, since the TD error's square has: RLlib and the authors' code weigh it against δ² (the paper
  against ½·δ²).
- The multiplier α′ is one for all critics, as in RLlib; it is kept within ``MOST`` either way by moving it back after a step.
  RLlib clips what enters the loss: a multiplier beyond the clip has no gradient and never comes back.
- ``grad_clip`` bounds the norm of the multiplier's gradient and the critics' together.
- ``min_q_weight`` counts with the multiplier too: the gap that is held to the threshold is weighted, as in RLlib.
- Uniform actions have the density of the policy's bounds (RLlib: that of [-1, 1], whatever they are).
- The policy's update n is a clone's for n < ``bc_iters`` (RLlib: one fewer).
- The paper's form for Discrete actions is a QR-DQN without a policy. Here it is the actor-critic that CQL is for Box actions,
  exact where that one samples: one row, one set of keys of which all but ``num_actions`` work, and a policy with
  probabilities, which estimates from recorded data need.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from drl_cli.algorithms import sac
from drl_cli.algorithms.cql import CQLConfig
from drl_cli.algorithms.learner_graph import action_bounds
from drl_cli.algorithms.losses.conservative import multiplier_loss, sampled_soft_maximum, soft_maximum
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, CurrentPolicy, every_action, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import (
    CriticLosses,
    Critics,
    DiscreteTwinCritics,
    OnlineAndTarget,
    TwinCritics,
)
from drl_cli.algorithms.max_entropy_update_graph import MaxEntropyUpdate
from drl_cli.policies.distributions_tf import TFSquashedGaussian, allowed, masked
from drl_cli.policies.forward_tf import Tensors, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, LearnerGraph
from drl_cli.tf1.stateless_random import stateless_normal, stateless_uniform
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

MULTIPLIER = "critic/log_alpha_prime"
MOST = 1e6  # largest multiplier, and the smallest is 1 / MOST; RLlib's bound
UNIFORM, OWN, NEXT = 2, 3, 4  # streams of random numbers within an update, beside those of ``max_entropy_actor_graph``


def build(
    config: CQLConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build CQL's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``sac.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    nets = OnlineAndTarget(config, sac.critic_spec(config, spec), initial, scope)
    if spec.distribution == "categorical":
        actor = Actor(config, spec, initial, scope, every_action)
        plain = DiscreteTwinCritics(config, nets, seed)
        actions = AllActions(config, spec, plain)
    else:
        actor = Actor(config, spec, initial, scope, reparametrized(spec, seed))
        plain = TwinCritics(config, nets, seed)
        actions = SampledActions(config, spec, seed, plain)
    critics = ConservativeCritics(config, plain, actions, scope)
    return MaxEntropyUpdate(config, spec, actor, critics, scope).graph()


class ActionsOfPenalty(Protocol):
    """What the penalty needs to know of actions."""

    def soft_maximum(self, values: Tensors, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return the soft maximum of Q over all actions, [C, B]."""
        ...

    def logp(self, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return how likely the policy is to take the recorded actions, [B] or [B, 1]."""
        ...


class ConservativeCritics:
    """Critics whose losses push down Q of actions that the data does not show."""

    def __init__(self, config: CQLConfig, critics: Critics, actions: ActionsOfPenalty, scope: str) -> None:
        """``critics``: those that are made conservative; ``scope`` goes before the multiplier's name."""
        self._config, self._critics, self._actions = config, critics, actions
        self._multiplier: dict[str, Variable] = {}
        if config.lagrangian:
            self._multiplier = variables_of({MULTIPLIER: ()}, {MULTIPLIER: np.zeros((), np.float32)}, scope)
        self.trained = critics.trained | self._multiplier

    def variables(self) -> list[Variable]:
        """See Critics."""
        return [*self._critics.variables(), *self._multiplier.values()]

    def values(self) -> dict[str, Tensor]:
        """See Critics."""
        return self._critics.values() | values_of(self._multiplier)

    def losses(self, values: Tensors, batch: Batch, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error and the penalty of each critic."""
        config = self._config
        found = self._critics.losses(values, batch, policy, alpha)
        gap = self._actions.soft_maximum(values, batch, policy) - found.q  # [C, B]
        weighted = config.min_q_weight * gap  # [C, B]
        stats = {"cql_gap": tf.reduce_mean(gap)}
        if not config.lagrangian:
            return found._replace(losses=found.losses + 0.5 * weighted, stats=stats)
        log_multiplier = values[MULTIPLIER]  # scalar
        multiplier = tf.stop_gradient(tf.exp(log_multiplier))  # scalar
        copies = float(gap.shape[0])
        dual = multiplier_loss(log_multiplier, weighted, config.lagrangian_thresh) / copies  # [C, B]
        stats |= {"alpha_prime_value": multiplier, "alpha_prime_loss": tf.reduce_mean(dual) * copies}
        return found._replace(losses=found.losses + 0.5 * multiplier * weighted + dual, stats=stats)

    def policy_value(self, values: Tensors, batch: Batch, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics: for the first ``bc_iters`` updates how likely the recorded action is, then Q."""
        q = self._critics.policy_value(values, batch, policy, choice)  # [C, B], or [C, B, n]
        if not self._config.bc_iters:
            return q  # [C, B], or [C, B, n]
        return tf.where_v2(policy.number < self._config.bc_iters, self._actions.logp(batch, policy)[None], q)

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """See Critics: the targets move, the multiplier stays within its bounds."""
        self._critics.after_step(statistics, number)
        for variable in self._multiplier.values():
            variable.assign(tf.clip_by_value(variable.read_value(), -math.log(MOST), math.log(MOST)))


class SampledActions:
    """The actions of a Box, from samples."""

    def __init__(self, config: CQLConfig, spec: PolicySpec, seed: int, critics: TwinCritics) -> None:
        """``seed`` keys the samples."""
        self._count, self._temperature, self._seed = config.num_actions, config.temperature, seed
        self._critics, self._size = critics, spec.action.size
        self._distribution = TFSquashedGaussian(*action_bounds(spec))

    def soft_maximum(self, values: Tensors, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return the soft maximum of Q over all actions, [C, B], from three times ``num_actions`` of them."""
        rows = batch["obs"].shape[0]
        own = self._sampled(policy.heads(batch["obs"]), policy.number, OWN)  # [B, N, A], [B, N]
        next_own = self._sampled(policy.heads(batch["next_obs"]), policy.number, NEXT)  # [B, N, A], [B, N]
        uniform = stateless_uniform([rows, self._count, self._size], self._seed, policy.number, UNIFORM)  # [B, N, A]
        anywhere, density = self._distribution.spread(uniform)  # [B, N, A], a float
        action = tf.concat([anywhere, own[0], next_own[0]], axis=1)  # [B, 3N, A]
        log_density = tf.concat([tf.fill([rows, self._count], density), own[1], next_own[1]], axis=1)  # [B, 3N]
        q = self._critics.several(values, batch["obs"], action)  # [C, B, 3N]
        return sampled_soft_maximum(q, log_density, self._temperature)  # [C, B]

    def _sampled(self, heads: Tensors, number: Tensor, stream: int) -> tuple[Tensor, Tensor]:
        """Return N actions of the policy in each state with their log-densities."""
        noise = stateless_normal([heads["mean"].shape[0], self._count, self._size], self._seed, number, stream)
        each = {name: tf.expand_dims(heads[name], 1) for name in ("mean", "log_std")}  # [B, 1, A]
        return self._distribution.sample(each, noise)  # [B, N, A], [B, N]

    def logp(self, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return the log-density of the recorded actions, [B]."""
        return self._distribution.logp(policy.heads(batch["obs"]), batch["action"])  # [B]


class AllActions:
    """All n Discrete actions."""

    def __init__(self, config: CQLConfig, spec: PolicySpec, critics: DiscreteTwinCritics) -> None:
        self._temperature, self._critics, self._mask = config.temperature, critics, spec.mask

    def soft_maximum(self, values: Tensors, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return the soft maximum of Q over all actions that are allowed, [C, B]."""
        q = self._critics.every(values, batch["obs"])  # [C, B, n]
        if self._mask:
            q = masked(q, tf.broadcast_to(allowed(self._mask, batch["obs"]), q.shape))  # [C, B, n]
        return soft_maximum(q, self._temperature)  # [C, B]

    def logp(self, batch: Batch, policy: CurrentPolicy) -> Tensor:
        """Return the log-probability of the recorded actions, [B, 1]."""
        logp = tf.nn.log_softmax(policy.heads(batch["obs"])["logits"])  # [B, n]
        return tf.reduce_sum(logp * tf.one_hot(batch["action"], logp.shape[-1]), axis=-1, keepdims=True)  # [B, 1]
