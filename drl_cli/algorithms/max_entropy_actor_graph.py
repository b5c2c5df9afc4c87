"""The actor of a maximum-entropy algorithm: its policy, its temperature, and which copy of the policy acts.

Used by ``algorithms.max_entropy_update_graph``. How the heads of a policy become actions is a function of its own:
``reparametrized`` for Box actions, ``every_action`` for Discrete ones.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications" (arXiv 1812.05905); Christodoulou 2019 (arXiv
1910.07207) for Discrete actions; averaged iterates, Polyak & Juditsky 1992.

Deviation: with ``policy_average`` what acts is a running average of the online policy's weights: the greedy policy of a
high learning rate wobbles from update to update, its average does not. Losses never see it. Running statistics of batch
normalisation are not averaged a second time but copied: they are running averages of the same updates already, and a
second average would describe activations of weights twice as old as those that act.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from drl_cli.algorithms.crossq import CrossQConfig
from drl_cli.algorithms.learner_graph import action_bounds
from drl_cli.algorithms.losses.policy_gradient import expectation
from drl_cli.algorithms.rnnsac import RNNSACConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.algorithms.tqc import TQCConfig
from drl_cli.policies.distributions_tf import TFSquashedGaussian, allowed, masked
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.optimizers import project_columns
from drl_cli.tf1.polyak import move_average, polyak_update
from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

MaxEntropyConfig: TypeAlias = SACConfig | TQCConfig | CrossQConfig | RNNSACConfig  # CQL's is a SACConfig

NEXT_ACTION, ACTION = 0, 1  # streams of random numbers within an update


class ActionChoice(NamedTuple):
    """What a policy does in B states: one sampled action each, or a probability for every action."""

    action: Tensor  # [B, A]; None where the choice is over all n actions
    logp: Tensor  # log π [B], or [B, n]
    probabilities: Tensor = None  # [B, n]; None for a sampled action
    statistics: tuple[Tensor, ...] = ()  # of batch normalisation in training mode, in the order of the running ones
    box_logp: Tensor = None  # log π [B] of the Box part, where ``logp`` is that of the choices beside it

    def expected(self, values: Tensor) -> Tensor:
        """Return the expectation over the actions, [B], of ``values``: [B] for sampled actions (one each), else [B, n]."""
        return values if self.probabilities is None else expectation(self.probabilities, values)


Choose = Callable[[Tensors, Tensor, int], ActionChoice]
"""``choose(heads, number, stream)``: how the heads of a policy become actions."""


def reparametrized(spec: PolicySpec, seed: int) -> Choose:
    """Return the ``Choose`` of a squashed Gaussian: one reparametrized sample a row.

    ``spec``: of a policy over Box actions; the noise depends on ``seed``, the update ``number`` and the ``stream`` alone.
    """
    distribution, size = TFSquashedGaussian(*action_bounds(spec)), spec.action.size

    def choose(heads: Tensors, number: Tensor, stream: int) -> ActionChoice:
        noise = stateless_normal([heads["mean"].shape[0], size], seed, number, stream)  # [B, A]
        return ActionChoice(*distribution.sample(heads, noise))  # [B, A], [B]

    return choose


def every_action(heads: Tensors, number: Tensor, stream: int) -> ActionChoice:
    """Return the ActionChoice of a categorical policy: all actions [B, n] with their probabilities; nothing is sampled."""
    del number, stream
    logp = tf.nn.log_softmax(heads["logits"])  # [B, n]
    return ActionChoice(None, logp, tf.exp(logp))


class Actor:
    """Policy and temperature as variables. ``trained``, ``alpha``: {name: variable} for the optimisers."""

    def __init__(
        self, config: MaxEntropyConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str, choose: Choose
    ) -> None:
        """``initial``: {name: array}; ``scope`` goes before every variable's name."""
        self._net, self._choose, self._kept = spec.nets[0], choose, config.policy_average
        self._mask = spec.mask
        shapes = self._net.weight_shapes()
        self._acting = self._online = variables_of(shapes, initial, scope)
        if config.policy_average:
            self._online = variables_of(shapes, initial, scope + "learnt_")
        names = self._net.trainable()
        self.trained: dict[str, Variable] = {name: self._online[name] for name in names}
        self._running = [name for name in self._online if name not in self.trained]
        # A Dict or Tuple has one temperature for its Box parts and one for its choices.
        shape = (2,) if spec.distribution == "hybrid" else ()
        temperature = np.full(shape, np.log(config.initial_alpha), np.float32)
        self.alpha: dict[str, Variable] = variables_of({"log_alpha": shape}, {"log_alpha": temperature}, scope)

    def variables(self) -> list[Variable]:
        """Return all variables but the optimisers'."""
        copies = [self._acting] if self._acting is self._online else [self._acting, self._online]
        return [variable for group in (*copies, self.alpha) for variable in group.values()]

    def values(self) -> dict[str, Tensor]:
        """Return {name: tensor} of the online policy."""
        return values_of(self._online)

    def heads(
        self, values: Tensors, obs: Tensor, training: bool = False
    ) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
        """Return ({head: [B, size]} in ``obs`` [B, …] of the policy with the weights ``values``, its batch's statistics).

        ``training``: batch normalisation by the statistics of this batch, which are returned in the order of the running ones.
        """
        net = TFNet(self._net, values, training=training)
        heads = net(obs)  # [B, size] each
        if self._mask:
            heads["logits"] = masked(heads["logits"], allowed(self._mask, obs))  # [B, n]
        return heads, tuple(net.statistics[name] for name in self._running if training)

    def choice(self, values: Tensors, obs: Tensor, draw: tuple[Tensor, int], training: bool = False) -> ActionChoice:
        """Return the ActionChoice in ``obs`` [B, …] of the policy with the weights ``values``.

        ``draw``: (update number, stream) of the noise; ``training`` as for ``heads``.
        """
        heads, statistics = self.heads(values, obs, training)
        return self._choose(heads, *draw)._replace(statistics=statistics)

    def after_step(self, statistics: Sequence[Tensor], share: float) -> None:
        """Update what follows the optimiser's step: kernels of unit length, and the running statistics.

        These move by ``share`` of the way to ``statistics`` of a batch (tensors, in their order), at a lower pace less: a
        policy acts by them.
        """
        project_columns(self._online[name] for name in self._net.unit_names())
        move_average([self._online[name] for name in self._running], statistics, 1.0 - share)

    def average(self) -> None:
        """Let the copy that acts follow the online policy."""
        if self._acting is self._online:
            return
        move_average([self._acting[name] for name in self.trained], list(self.trained.values()), self._kept)
        polyak_update(
            [self._acting[name] for name in self._running], [self._online[name] for name in self._running], 1.0
        )


class CurrentPolicy:
    """The policy at one update: an Actor, its weights ``values`` and the ``number`` that keys its noise."""

    def __init__(self, actor: Actor, values: Tensors, number: Tensor) -> None:
        """``values``: {name: tensor} of ``Actor.values``; ``number``: int64 scalar."""
        self._actor, self._values, self.number = actor, values, number

    def heads(self, obs: Tensor) -> dict[str, Tensor]:
        """Return {head: [B, size]} in ``obs`` [B, …]."""
        return self._actor.heads(self._values, obs)[0]

    def next_choice(self, batch: Tensors) -> ActionChoice:
        """Return the ActionChoice in the batch's next states."""
        return self._actor.choice(self._values, batch["next_obs"], (self.number, NEXT_ACTION))

    def choice(self, batch: Tensors) -> ActionChoice:
        """Return the ActionChoice in the batch's states, batch normalisation in training mode."""
        return self._actor.choice(self._values, batch["obs"], (self.number, ACTION), training=True)
