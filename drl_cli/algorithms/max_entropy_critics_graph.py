"""The critics of a maximum-entropy algorithm: their interface, their target networks, and SAC's own, clipped double Q.

``Critics`` is what ``algorithms.max_entropy_update_graph`` needs of any of them; TQC, CrossQ and CQL have others.

Sources: Haarnoja et al. 2018 (arXiv 1812.05905); clipped double Q-learning, whose target is the lower value of two target
critics, Fujimoto et al. 2018 (arXiv 1802.09477), section 4.2; Discrete actions, Christodoulou 2019 (arXiv 1910.07207).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from drl_cli.algorithms.losses.value import expected_soft_td_target, soft_td_target, squared, td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, CurrentPolicy
from drl_cli.algorithms.sac import SACConfig
from drl_cli.algorithms.tqc import TQCConfig
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec
from drl_cli.tf1.polyak import every, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf


class CriticLosses(NamedTuple):
    """The losses of C critics on a batch, and what is reported with them."""

    losses: Tensor  # [C, B]
    q: Tensor  # [C, B]: expected returns
    error: Tensor  # [C, B]: target − q
    statistics: tuple[Tensor, ...] = ()  # of batch normalisation, for ``after_step``
    stats: Tensors = {}  # name -> scalar, statistics beside those of every update


class Critics(Protocol):
    """Critics as the update sees them; ``trained`` maps the names of what their optimiser changes to variables."""

    trained: dict[str, Variable]

    def variables(self) -> list[Variable]:
        """Return all variables but the optimiser's."""
        ...

    def values(self) -> dict[str, Tensor]:
        """Return {name: tensor} of what ``losses`` and ``policy_value`` read, once for both."""
        ...

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """Return the losses on a batch; ``alpha``: temperature of the entropy in the targets, scalar."""
        ...

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """Return what the actor maximises with its ``choice`` in the batch's states.

        It is the lowest over axis 0 of [C, B], or of [C, B, n] for all actions.
        """
        ...

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """Update what follows the optimiser's step at update ``number``: targets, running statistics."""
        ...


class OnlineAndTarget:
    """The variables of critics and of their target networks: that part of Critics which does not depend on what they predict.

    ``trained`` and ``target``: {name: variable}, in the order of the weights of ``net`` and of ``target_net``.
    """

    def __init__(
        self, config: SACConfig | TQCConfig, net: NetSpec, initial: Mapping[str, np.ndarray], scope: str
    ) -> None:
        """``net``: NetSpec of the critics; ``initial``: {name: array} of both; ``scope`` goes before the variables' names."""
        self.net, self.target_net = net, net_builders.target_of(net)
        self.trained = variables_of(net.weight_shapes(), initial, scope)
        self.target = variables_of(self.target_net.weight_shapes(), initial, scope, trainable=False)
        self._tau, self._every = config.tau, net_builders.updates_per_target_update(config)

    def variables(self) -> list[Variable]:
        """See Critics."""
        return [*self.trained.values(), *self.target.values()]

    def values(self) -> dict[str, Tensor]:
        """See Critics."""
        return values_of(self.trained)

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """See Critics: a soft (Polyak) update of the targets, when ``number`` is one of those after which they move."""

        def act() -> None:
            polyak_update(list(self.target.values()), list(self.trained.values()), self._tau)

        every(self._every, number, act, phase=self._every - 1)


class TwinCritics:
    """SAC's critics of a state and a Box action: Q of each, [C, B], targets by clipped double Q-learning."""

    def __init__(self, nets: OnlineAndTarget) -> None:
        """``nets``: of a NetSpec with the inputs obs and action and the head "q" of size 1."""
        self._nets, self.trained = nets, nets.trained
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error of each critic."""
        choice = policy.next_choice(batch)
        next_q = first(head_of(self._nets.target_net, self._nets.target, "q", batch["next_obs"], choice.action))
        target = soft_td_target(batch["reward"], batch["discount"], next_q, choice.logp, alpha)  # [B]
        q = first(head_of(self._nets.net, values, "q", batch["obs"], batch["action"]))  # [C, B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error)

    def several(self, values: Tensors, obs: Tensor, action: Tensor) -> Tensor:
        """Return Q of several actions in each of ``obs`` [B, …], [C, B, M], for ``action`` [B, M, A]."""
        return first(with_copies(self._nets.net, TFNet(self._nets.net, values).several(obs, action)["q"]))  # [C, B, M]

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics."""
        return first(head_of(self._nets.net, values, "q", batch["obs"], choice.action))  # [C, B]


class DiscreteTwinCritics:
    """SAC's critics of a state that value every action, [C, B, n], targets by clipped double Q-learning."""

    def __init__(self, nets: OnlineAndTarget) -> None:
        """``nets``: of a NetSpec with the input obs and the head "q" of one value for each action."""
        self._nets, self.trained = nets, nets.trained
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error of the action taken."""
        choice = policy.next_choice(batch)
        next_q = head_of(self._nets.target_net, self._nets.target, "q", batch["next_obs"])  # [C, B, n]
        probabilities, logp = choice.probabilities, choice.logp  # [B, n], [B, n]
        target = expected_soft_td_target(batch["reward"], batch["discount"], next_q, probabilities, logp, alpha)  # [B]
        every_q = self.every(values, batch["obs"])  # [C, B, n]
        # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
        q = tf.reduce_sum(every_q * tf.one_hot(batch["action"], every_q.shape[-1]), axis=-1)  # [C, B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error)

    def every(self, values: Tensors, obs: Tensor) -> Tensor:
        """Return Q of all actions in ``obs`` [B, …], [C, B, n]."""
        return head_of(self._nets.net, values, "q", obs)  # [C, B, n]

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics."""
        return self.every(values, batch["obs"])  # [C, B, n]


def head_of(net: NetSpec, weights: Tensors, head: str, *inputs: Tensor) -> Tensor:
    """Return a head of critics, [C, B, size], with the axis of the copies for a single one too."""
    return with_copies(net, TFNet(net, weights)(*inputs)[head])  # [C, B, size]


def with_copies(net: NetSpec, values: Tensor) -> Tensor:
    """Return ``values`` of ``net`` with a first axis of its copies: [C, …]."""
    return values if net.copies > 1 else tf.expand_dims(values, 0)  # [C, …]


def first(values: Tensor) -> Tensor:
    """Return the only element of the last axis, […] of […, 1]."""
    return values[..., 0]  # […]
