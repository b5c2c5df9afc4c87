"""The critics of a maximum-entropy algorithm: their interface, their target networks, and SAC's own, clipped double Q.

``Critics`` is what ``algorithms.max_entropy_update_graph`` needs of any of them; TQC, CrossQ, XQC and CQL have others.

Sources: Haarnoja et al. 2018 (arXiv 1812.05905); clipped double Q-learning, whose target is the lower value of two target
critics, Fujimoto et al. 2018 (arXiv 1802.09477), section 4.2; Discrete actions, Christodoulou 2019 (arXiv 1910.07207);
ensembles, of which the target has a random part, REDQ, Chen et al. 2021 (arXiv 2101.05982), algorithm 1; dropout in critics
and target critics, DroQ, Hiraoka et al. 2022 (arXiv 2110.02034), algorithm 2.

Deviation: REDQ's and DroQ's policy moves at every ``policy_delay``-th update, the first of as many (papers: the last of those
between two env steps).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from drl_cli.algorithms.losses.value import expected_soft_td_target, soft_td_target, squared, td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, CurrentPolicy
from drl_cli.algorithms.sac import SACConfig
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Dropout, Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec
from drl_cli.tf1.polyak import every, polyak_update
from drl_cli.tf1.stateless_random import hashed_uniform, stateless_uniform
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

# streams of random numbers within an update, beside those of ``max_entropy_actor_graph`` and ``cql_graph``
DRAWN, TARGET_DROPOUT, CRITIC_DROPOUT, POLICY_DROPOUT = 5, 6, 7, 8


class CriticLosses(NamedTuple):
    """The losses of C critics on a batch, and what is reported with them."""

    losses: Tensor  # [C, B]
    q: Tensor  # [C, B]: expected returns
    error: Tensor  # [C, B]: target − q
    statistics: tuple[Tensor, ...] = ()  # of batch normalisation, for ``after_step``
    stats: Tensors = {}  # name -> scalar, statistics beside those of every update


class CriticWeights(Protocol):
    """The variables of critics; ``trained`` maps the names of what their optimiser changes to variables."""

    trained: dict[str, Variable]

    def variables(self) -> list[Variable]:
        """Return all variables but the optimiser's."""
        ...

    def values(self) -> dict[str, Tensor]:
        """Return {name: tensor} of what the losses read, once for all of them."""
        ...

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """Update what follows the optimiser's step at update ``number``: targets, running statistics."""
        ...


class Critics(CriticWeights, Protocol):
    """Critics of transitions as the update sees them."""

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """Return the losses on a batch; ``alpha``: temperature of the entropy in the targets, scalar."""
        ...

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """Return what the actor maximises with its ``choice`` in the batch's states.

        It is the lowest over axis 0 of [C, B], or of [C, B, n] for all actions.
        """
        ...


class TargetConfig(net_builders.ReplayTargets, Protocol):
    """A config with ``TargetKeys``."""

    @property
    def tau(self) -> float: ...


class WeightsAndTargets:
    """The variables of nets and of their target networks: that part of Critics which does not depend on what they predict.

    ``trained`` and ``target``: {name: variable}, in the order of the weights of the nets and of their targets.
    """

    def __init__(
        self, config: TargetConfig, nets: Sequence[NetSpec], initial: Mapping[str, np.ndarray], scope: str
    ) -> None:
        """``initial``: {name: array} of ``nets`` and targets; ``scope`` goes before the variables' names."""
        shapes = {name: shape for net in nets for name, shape in net.weight_shapes().items()}
        self.trained = variables_of(shapes, initial, scope)
        targets = {net_builders.target_name(name): shape for name, shape in shapes.items()}
        self.target = variables_of(targets, initial, scope, trainable=False)
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


class OnlineAndTarget(WeightsAndTargets):
    """The variables of critics that are copies of one net, and of their target networks."""

    def __init__(self, config: TargetConfig, net: NetSpec, initial: Mapping[str, np.ndarray], scope: str) -> None:
        """``net``: NetSpec of the critics; the others as for WeightsAndTargets."""
        super().__init__(config, (net,), initial, scope)
        self.net, self.target_net = net, net_builders.target_of(net)


class Ensemble:
    """What critics of SAC say at one update: all of them, those that the target is the minimum of, and to the policy."""

    def __init__(self, config: SACConfig, nets: OnlineAndTarget, seed: int) -> None:
        """``nets``: of a NetSpec with the head "q"; ``seed`` keys the critics that are drawn and what is dropped in them."""
        self._nets, self._seed, self._rate = nets, seed, config.critic_dropout
        self._minimum_of, self._mean = config.target_minimum_of, config.policy_maximises_mean

    def of_target(self, number: Tensor, *inputs: Tensor) -> Tensor:
        """Return Q of the M target critics that update ``number`` (int64) draws, [M, B, size]: all where M is their number."""
        net, weights = self._nets.target_net, self._nets.target
        if self._minimum_of < net.copies:
            drawn = self.drawn(number)  # [M]
            net = dataclasses.replace(net, copies=self._minimum_of)
            which = drawn if net.copies > 1 else drawn[0]  # a net of one copy has no axis of copies
            weights = {name: tf.gather(values, which) for name, values in weights.items()}
        return self._q(net, weights, (number, TARGET_DROPOUT), *inputs)  # [M, B, size]

    def drawn(self, number: Tensor) -> Tensor:
        """Return which target critics update ``number`` draws, int32 [M], all different."""
        lots = stateless_uniform([self._nets.net.copies], self._seed, number, DRAWN)  # [C]
        return tf.math.top_k(lots, self._minimum_of).indices  # [M]

    def of_all(self, values: Tensors, number: Tensor, *inputs: Tensor) -> Tensor:
        """Return Q of all critics, as the losses see them at update ``number``, [C, B, size]."""
        return self._q(self._nets.net, values, (number, CRITIC_DROPOUT), *inputs)  # [C, B, size]

    def of_policy(self, values: Tensors, number: Tensor, *inputs: Tensor) -> Tensor:
        """Return what the policy maximises the minimum of, [C, B, size], or [1, B, size] for the mean of all critics."""
        q = self._q(self._nets.net, values, (number, POLICY_DROPOUT), *inputs)  # [C, B, size]
        return tf.reduce_mean(q, axis=0, keepdims=True) if self._mean else q

    def _q(self, net: NetSpec, weights: Tensors, draw: tuple[Tensor, int], *inputs: Tensor) -> Tensor:
        masks = dropout(net, self._rate, inputs[0].shape[0], self._seed, draw) if self._rate else None
        return with_copies(net, TFNet(net, weights, dropout=masks)(*inputs)["q"])  # [C, B, size]


def dropout(net: NetSpec, rate: float, rows: int, seed: int, draw: tuple[Tensor, int]) -> Dropout:
    """Return the Dropout of ``net`` for ``rows`` inputs: a share ``rate`` of units is 0, all others are divided by 1 − rate.

    Every row, layer and copy has a mask of its own, from ``seed`` and ``draw``, (update number, stream), alone. Source:
    Srivastava et al. 2014, "Dropout", with the factor where units are dropped and not where they are used.
    """
    widths = [layer.units for layer in net.layers]
    lead = [net.copies] if net.copies > 1 else []
    uniform = hashed_uniform([*lead, rows, sum(widths)], seed, *draw)  # [(C,) B, ΣU] in [0, 1)
    masks = iter(tf.split(tf.cast(uniform >= rate, tf.float32) / (1.0 - rate), widths, axis=-1))
    return lambda x: x * next(masks)  # [(C,) B, U]


class TwinCritics:
    """SAC's critics of a state and a Box action: Q of each, [C, B], targets by clipped double Q-learning."""

    def __init__(self, config: SACConfig, nets: OnlineAndTarget, seed: int) -> None:
        """``nets``: of a NetSpec with the inputs obs and action and the head "q" of size 1; ``seed`` as for ``Ensemble``."""
        self._nets, self.trained, self._ensemble = nets, nets.trained, Ensemble(config, nets, seed)
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error of each critic."""
        choice = policy.next_choice(batch)
        next_q = first(self._ensemble.of_target(policy.number, batch["next_obs"], choice.action))  # [M, B]
        target = soft_td_target(batch["reward"], batch["discount"], next_q, choice.logp, alpha)  # [B]
        q = first(self._ensemble.of_all(values, policy.number, batch["obs"], batch["action"]))  # [C, B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error)

    def several(self, values: Tensors, obs: Tensor, action: Tensor) -> Tensor:
        """Return Q of several actions in each of ``obs`` [B, …], [C, B, M], for ``action`` [B, M, A]."""
        return first(with_copies(self._nets.net, TFNet(self._nets.net, values).several(obs, action)["q"]))  # [C, B, M]

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics."""
        return first(self._ensemble.of_policy(values, policy.number, batch["obs"], choice.action))  # [C, B] or [1, B]


class DiscreteTwinCritics:
    """SAC's critics of a state that value every action, [C, B, n], targets by clipped double Q-learning."""

    def __init__(self, config: SACConfig, nets: OnlineAndTarget, seed: int) -> None:
        """``nets``: of a NetSpec with the input obs and the head "q" of each action; ``seed`` as for ``Ensemble``."""
        self._nets, self.trained, self._ensemble = nets, nets.trained, Ensemble(config, nets, seed)
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error of the action taken."""
        choice = policy.next_choice(batch)
        next_q = self._ensemble.of_target(policy.number, batch["next_obs"])  # [M, B, n]
        probabilities, logp = choice.probabilities, choice.logp  # [B, n], [B, n]
        target = expected_soft_td_target(batch["reward"], batch["discount"], next_q, probabilities, logp, alpha)  # [B]
        every_q = self._ensemble.of_all(values, policy.number, batch["obs"])  # [C, B, n]
        # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
        q = tf.reduce_sum(every_q * tf.one_hot(batch["action"], every_q.shape[-1]), axis=-1)  # [C, B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error)

    def every(self, values: Tensors, obs: Tensor) -> Tensor:
        """Return Q of all actions in ``obs`` [B, …], [C, B, n]."""
        return head_of(self._nets.net, values, "q", obs)  # [C, B, n]

    def policy_value(self, values: Tensors, batch: Tensors, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics."""
        return self._ensemble.of_policy(values, policy.number, batch["obs"])  # [C, B, n] or [1, B, n]


def head_of(net: NetSpec, weights: Tensors, head: str, *inputs: Tensor) -> Tensor:
    """Return a head of critics, [C, B, size], with the axis of the copies for a single one too."""
    return with_copies(net, TFNet(net, weights)(*inputs)[head])  # [C, B, size]


def with_copies(net: NetSpec, values: Tensor) -> Tensor:
    """Return ``values`` of ``net`` with a first axis of its copies: [C, …]."""
    return values if net.copies > 1 else tf.expand_dims(values, 0)  # [C, …]


def first(values: Tensor) -> Tensor:
    """Return the only element of the last axis, […] of […, 1]."""
    return values[..., 0]  # […]
