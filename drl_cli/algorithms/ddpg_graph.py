"""Deterministic policy gradients, DDPG and TD3: one update as a graph. APEX_DDPG is the same update, elsewhere fed.

Sources: Lillicrap et al. 2016 (arXiv 1509.02971); twin critics, delayed policy and smoothed target policy from Fujimoto et
al. 2018 (TD3, arXiv 1802.09477); priorities from Horgan et al. 2018 (arXiv 1803.00933); keys and their meaning from RLlib's.

Deviations:
- Gradients of an update are taken at the same weights (critics and actor), then applied.
- Target noise and its clip are in units of half the action range, so that one number fits every environment (RLlib: the
  environment's own units).
- Targets move on updates on which the policy moves (Fujimoto et al., algorithm 1); RLlib moves them on every one.
- The priority is the mean of the critics' errors (RLlib: the first one's).
- ``l2_reg`` is half the sum of squares of all kernels of a net, biases and normalisation left out.
- With ``policy_average`` what acts is a running average of the learnt policy's weights.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from drl_cli.algorithms import ddpg
from drl_cli.algorithms.learner_graph import action_bounds, counter, learner_graph
from drl_cli.algorithms.losses.value import huber, squared, td_error, td_target
from drl_cli.algorithms.maddpg import MADDPGConfig
from drl_cli.policies import net_builders
from drl_cli.policies.distributions_tf import TFDeterministic
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.polyak import every, move_average, polyak_update
from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("actor_lr", "critic_lr")
ACTOR_STATS = ("actor_loss", "grad_norm_actor")
TARGET_NOISE = 0  # stream of random numbers within an update

PolicyLoss: TypeAlias = Callable[[Tensor, Tensor, Batch], Tensor]  # (q, action, batch), see ``negative_q``


def build(
    config: ddpg.DDPGConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``ddpg.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    update = TransitionUpdate(config, spec, initial, seed, scope, negative_q)
    return learner_graph(transition_columns(config, spec), RATES, update, spec, scope)


def negative_q(q: Tensor, action: Tensor, batch: Batch) -> Tensor:
    """Return the policy's loss of each row, [B]: −Q of its ``action`` [B, A], whose values are ``q`` [B]."""
    del action, batch
    return -q  # [B]


class DeterministicWeights:
    """The variables of a deterministic policy and its critics: those that are learnt, targets, and Adam's.

    What acts is a running average of the learnt policy with ``policy_average``, otherwise that policy itself.
    """

    def __init__(
        self,
        config: ddpg.DDPGConfig | MADDPGConfig,
        nets: Sequence[NetSpec],
        initial: Mapping[str, np.ndarray],
        scope: str,
        target_every: int,
    ) -> None:
        """``nets``: the policy, then those of the critics; ``initial``: {name: array}; ``scope`` goes before the names.

        ``target_every``: updates from one update of the targets to the next.
        """
        self._config, self._target_every = config, target_every
        policy, *others = (net.weight_shapes() for net in nets)
        critic = {name: shape for shapes in others for name, shape in shapes.items()}
        self._acting = self.policy = variables_of(policy, initial, scope)
        if config.policy_average:
            self.policy = variables_of(policy, initial, scope + "learnt_")
        self.critic = variables_of(critic, initial, scope)
        targets = {net_builders.target_name(name): shape for name, shape in (policy | critic).items()}
        self.target = variables_of(targets, initial, scope, trainable=False)
        self.adam = {
            part: Adam(scope + part, weights) for part, weights in (("actor", self.policy), ("critic", self.critic))
        }

    def all(self) -> list[Variable]:
        """Return all variables."""
        groups = [self._acting, self.critic, self.target, *(adam.variables for adam in self.adam.values())]
        if self.policy is not self._acting:
            groups.append(self.policy)
        return [variable for group in groups for variable in group.values()]

    def follow(self, number: Tensor) -> None:
        """Move the targets where they are due at update ``number``, int64, and the average, towards the learnt weights."""
        every(self._target_every, number, self._move_targets, self._target_every - 1)
        if self.policy is not self._acting:
            move_average(list(self._acting.values()), list(self.policy.values()), self._config.policy_average)

    def _move_targets(self) -> None:
        online = self.policy | self.critic
        targets = [self.target[net_builders.target_name(name)] for name in online]
        polyak_update(targets, list(online.values()), self._config.tau)


class Losses(NamedTuple):
    """The losses of critics and policy on a batch, without the decay of weights."""

    critic: Tensor  # scalar
    stats: Tensors  # name → scalar, statistics of the critics
    priority: Tensor  # [B], of what the batch consists of
    policy: Callable[[Tensors], Tensor]  # weights of the policy → scalar


class DeterministicUpdate(abc.ABC):
    """An update of a deterministic policy and its critics, but for the losses of both."""

    def __init__(
        self,
        config: ddpg.DDPGConfig,
        spec: PolicySpec,
        critics: Sequence[NetSpec],
        initial: Mapping[str, np.ndarray],
        seed: int,
        scope: str,
    ) -> None:
        """``critics``: the nets of the critics; the rest as for ``build``."""
        self._config, self._spec, self._seed = config, spec, seed
        self._policy_net, self._target_policy_net = spec.nets[0], net_builders.target_of(spec.nets[0])
        self._distribution = TFDeterministic(*action_bounds(spec))
        every_nth = ddpg.updates_per_target_update(config)
        self._weights = DeterministicWeights(config, (self._policy_net, *critics), initial, scope, every_nth)
        self.number = counter(scope)
        self.variables = self._weights.all

    @abc.abstractmethod
    def _losses(self, batch: Batch, number: Tensor, critic: Tensors) -> Losses:
        """Return the losses on a ``batch`` at update ``number`` for the weights ``critic`` of the critics."""

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of both parts for ``batch`` at update ``number``."""
        policy, critic = values_of(self._weights.policy), values_of(self._weights.critic)
        losses = self._losses(batch, number, critic)
        critic_parts, norm = self._clipped_gradients(losses.critic, critic)
        stats = {**losses.stats, "critic_loss": losses.critic, "grad_norm_critic": norm}
        delay = self._config.policy_delay

        def actor() -> tuple[list[Tensor], dict[str, Tensor]]:
            actor_loss = losses.policy(policy)
            gradients, actor_norm = self._clipped_gradients(actor_loss, policy)
            return gradients, {"actor_loss": actor_loss, "grad_norm_actor": actor_norm}

        def nothing() -> tuple[list[Tensor], dict[str, Tensor]]:
            return [tf.zeros_like(value) for value in policy.values()], {n: tf.zeros([]) for n in ACTOR_STATS}

        due = tf.equal(number % delay, delay - 1)
        actor_parts, more = actor() if delay == 1 else tf.cond(due, actor, nothing)
        # Skipped updates count as zeros in a mean over updates: what was computed is scaled up to make up for them.
        stats |= {name: value * float(delay) for name, value in more.items()}
        finite = tf.math.is_finite(stats["grad_norm_critic"] + stats["grad_norm_actor"] + stats["critic_loss"])
        return Gradients({"critic": critic_parts, "actor": actor_parts}, stats, finite, {"priority": losses.priority})

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the targets."""
        adam, delay = self._weights.adam, self._config.policy_delay
        adam["critic"].apply(parts["critic"], rates["critic_lr"])
        every(delay, number, lambda: adam["actor"].apply(parts["actor"], rates["actor_lr"]), delay - 1)
        self._weights.follow(number)

    def _next_action(self, heads: Tensors, number: Tensor) -> Tensor:
        """Return the action of the target policy with these ``heads``, smoothed where the config asks for it, [B, A]."""
        action = self._distribution.greedy(heads)  # [B, A]
        return self._smoothed(action, number) if self._config.smooth_target_policy else action

    def _smoothed(self, action: Tensor, number: Tensor) -> Tensor:
        """Return the target policy's action with clipped noise, inside the bounds (Fujimoto et al. 2018, eq. 14)."""
        low, high = action_bounds(self._spec)
        half = (high - low) / 2
        noise = stateless_normal(action.shape, self._seed, number, TARGET_NOISE) * self._config.target_noise  # [B, A]
        most = self._config.target_noise_clip
        return tf.clip_by_value(action + tf.clip_by_value(noise, -most, most) * half, low, high)  # [B, A]

    def _row_losses(self, error: Tensor) -> Tensor:
        """Return the loss of each ``error``, element-wise."""
        return huber(error, self._config.huber_threshold) if self._config.use_huber else squared(error)

    def _clipped_gradients(self, loss: Tensor, weights: Tensors) -> tuple[list[Tensor], Tensor]:
        """Return (gradients of ``loss`` and the decay of ``weights``, their norm before it was clipped)."""
        gradients = tf.gradients(loss + self._decay(weights), list(weights.values()))
        return clipped(gradients, self._config.grad_clip)

    def _decay(self, weights: Tensors) -> Tensor:
        kernels = [value for name, value in weights.items() if name.endswith("/kernel")]
        if not self._config.l2_reg:
            return 0.0
        return self._config.l2_reg * tf.add_n([tf.reduce_sum(squared(kernel)) for kernel in kernels])


class TransitionUpdate(DeterministicUpdate):
    """The update from single transitions."""

    def __init__(
        self,
        config: ddpg.DDPGConfig,
        spec: PolicySpec,
        initial: Mapping[str, np.ndarray],
        seed: int,
        scope: str,
        policy_loss: PolicyLoss,
    ) -> None:
        """``policy_loss``: the policy's loss of each row; the rest as for ``build``."""
        self._policy_loss, self._critic_net = policy_loss, ddpg.critic_spec(config, spec)
        self._target_critic_net = net_builders.target_of(self._critic_net)
        super().__init__(config, spec, (self._critic_net,), initial, seed, scope)

    def _losses(self, batch: Batch, number: Tensor, critic: Tensors) -> Losses:
        weight = batch["weight"] if self._config.prioritized_replay else 1.0  # [B]
        # targets
        heads = TFNet(self._target_policy_net, self._weights.target)(batch["next_obs"])
        next_action = self._next_action(heads, number)  # [B, A]
        next_q = self._q(self._target_critic_net, self._weights.target, batch["next_obs"], next_action)  # [C, B]
        target = td_target(batch["reward"], batch["discount"], next_q)  # [B]
        # loss: the sum over the critics of the weighted mean over the batch
        q = self._q(self._critic_net, critic, batch["obs"], batch["action"])  # [C, B]
        error = td_error(q, target)  # [C, B]
        loss = tf.reduce_sum(tf.reduce_mean(weight * self._row_losses(error), axis=-1))  # scalar
        stats = {
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
        }

        def of_policy(policy: Tensors) -> Tensor:
            action = self._distribution.greedy(TFNet(self._policy_net, policy)(batch["obs"]))  # [B, A]
            first = self._q(self._critic_net, critic, batch["obs"], action)[0]  # [B]: the first critic's
            return tf.reduce_mean(weight * self._policy_loss(first, action, batch))  # scalar

        return Losses(loss, stats, tf.reduce_mean(tf.abs(error), axis=0), of_policy)

    def _q(self, net: NetSpec, weights: Tensors, obs: Tensor, action: Tensor) -> Tensor:
        q = TFNet(net, weights)(obs, action)["q"][..., 0]  # [C, B], or [B] for a single critic
        return q if net.copies > 1 else tf.expand_dims(q, 0)  # [C, B]
