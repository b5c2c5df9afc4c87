"""Q-learning of the values of a few actions: DQN, SimpleQ, APEX and QR-DQN, one update as a graph.

Which of them it is, the config says: ``double_q``, ``dueling``, ``noisy``, ``num_atoms``, ``n_quantiles``,
``prioritized_replay``, ``n_step``.

Sources: Mnih et al. 2015; double, van Hasselt et al. 2016 (arXiv 1509.06461), eq. 4; dueling, Wang et al. 2016; priorities,
Schaul et al. 2016 (arXiv 1511.05952); atoms, Bellemare et al. 2017 (C51); noise, Fortunato et al. 2018; all of them, Hessel
et al. 2018, "Rainbow" (arXiv 1710.02298); quantiles, Dabney et al. 2018; keys and their meaning from RLlib's DQN.

Deviations:
- ``grad_clip`` bounds the norm of all gradients together; RLlib's that of each variable.
- Noisy nets draw three times an update, independently: for s, for the choice at s′ and for the value at s′. RLlib and
  Rainbow share draws. A worker's first priorities come from the means.
- ``target_network_update_freq`` counts env steps in RLlib; here it is turned into updates with the training intensity.
- ``tau`` below 1 moves the targets a part of the way; RLlib's DQN copies.
- n-step targets: ``reward`` and ``discount`` arrive summed over the real number of steps; no off-policy correction.
- C51's priority is the cross-entropy, as in RLlib (Rainbow: the divergence, which a row's target entropy separates from
  it); QR-DQN's is the mean |target_j − θ_i|.
- With ``policy_average`` what acts is a running average of the learnt net (Polyak & Juditsky 1992); losses never see it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from drl_cli.algorithms.dqn import DQNConfig, QLearningKeys, QRDQNConfig
from drl_cli.algorithms.learner_graph import counter, learner_graph, row_mean
from drl_cli.algorithms.losses import value as losses
from drl_cli.algorithms.losses.value import huber
from drl_cli.policies import net_builders
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.layers_tf import layer_noise
from drl_cli.policies.policy_spec import NetSpec, PolicySpec, ValueSpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.polyak import every, move_average, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("lr",)
NOW, CHOICE, NEXT = 0, 1, 2  # streams of random numbers within an update: Q(s), argmax at s', the value there
KAPPA = 1.0  # where Huber's loss turns from a square into a line, in returns


def build(
    config: DQNConfig | QRDQNConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``dqn.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    update = _DQNUpdate(config, spec, initial, seed, scope)
    return learner_graph(transition_columns(config, spec), RATES, update, spec, scope)


class ValueLosses(NamedTuple):
    """The losses of the values of the actions taken."""

    loss: Tensor  # [B]
    priority: Tensor  # [B]
    error: Tensor  # [B], of the expected returns
    stats: Tensors  # name -> scalar


class ValueNet:
    """The net of action values that DQN and R2D2 learn, its target network and its optimiser; ``number`` counts updates.

    ``online`` and ``target`` map names to variables; ``net`` and ``target_net`` are their NetSpecs. What acts is the online
    net, or with ``policy_average`` a running average of its weights.
    """

    def __init__(
        self,
        config: QLearningKeys,
        spec: PolicySpec,
        initial: Mapping[str, np.ndarray],
        scope: str,
    ) -> None:
        """Arguments as for ``build``."""
        self._config = config
        self.net, self.target_net = spec.nets[0], net_builders.target_of(spec.nets[0])
        self._target_every = net_builders.updates_per_target_update(config)
        shapes = self.net.weight_shapes()
        self._acting = self.online = variables_of(shapes, initial, scope)
        if config.policy_average:
            self.online = variables_of(shapes, initial, scope + "learnt_")
        self.target = variables_of(self.target_net.weight_shapes(), initial, scope, trainable=False)
        self.number = counter(scope)
        self._adam = Adam(scope + "q", self.online, epsilon=config.adam_epsilon)

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        groups = [self._acting, self.target, self._adam.variables]
        if self.online is not self._acting:
            groups.append(self.online)
        return [variable for group in groups for variable in group.values()]

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the target and the average."""
        self._adam.apply(parts["q"], rates["lr"])
        online = list(self.online.values())

        def move_target() -> None:
            polyak_update(list(self.target.values()), online, self._config.tau)

        every(self._target_every, number, move_target, phase=self._target_every - 1)
        if self.online is not self._acting:
            move_average(list(self._acting.values()), online, self._config.policy_average)


class _DQNUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(
        self,
        config: DQNConfig | QRDQNConfig,
        spec: PolicySpec,
        initial: Mapping[str, np.ndarray],
        seed: int,
        scope: str,
    ) -> None:
        if spec.value is None:
            raise TypeError("a policy over action values is needed")
        self._config, self._seed, self._value = config, seed, spec.value
        self._values = TFActionValues(spec)
        self._losses = LOSSES[spec.value.kind]
        self._nets = ValueNet(config, spec, initial, scope)
        self.variables, self.number, self.apply = self._nets.variables, self._nets.number, self._nets.apply

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the net for ``batch`` at update ``number``."""
        online = values_of(self._nets.online)
        # targets
        next_atoms = self._next_atoms(batch, number, online)  # [B, atoms]
        # loss: the mean over the batch, each row with its weight
        atoms = self._atoms(self._nets.net, online, batch["obs"], (number, NOW))  # [B, n, atoms]
        taken = self._values.chosen(atoms, batch["action"])  # [B, atoms]
        found = self._losses(self._value, batch, taken, next_atoms)
        loss = row_mean(found.loss, batch)  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(online.values())), self._config.grad_clip)
        q = self._values.expected(taken)  # [B]
        stats = {
            "loss": loss,
            "mean_td_error": tf.reduce_mean(found.error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
            "grad_norm": norm,
            **found.stats,
        }
        # A projection cuts an infinite reward down to its edge, where the loss no longer shows it.
        finite = tf.math.is_finite(loss + norm + tf.reduce_mean(batch["reward"]))
        return Gradients({"q": gradients}, stats, finite, {"priority": tf.stop_gradient(found.priority)})

    def _next_atoms(self, batch: Batch, number: Tensor, online: Tensors) -> Tensor:
        """Return the target network's values of the greedy next action, [B, atoms]; with double_q the online one chooses."""
        atoms = self._atoms(
            self._nets.target_net, self._nets.target, batch["next_obs"], (number, NEXT)
        )  # [B, n, atoms]
        choosing = atoms
        if self._config.double_q:
            choosing = self._atoms(self._nets.net, online, batch["next_obs"], (number, CHOICE))  # [B, n, atoms]
        best = self._values.greedy(choosing, batch["next_obs"])  # [B]
        return tf.stop_gradient(self._values.chosen(atoms, best))  # [B, atoms]

    def _atoms(self, net: NetSpec, weights: Tensors, obs: Tensor, draw: tuple[Tensor, int]) -> Tensor:
        """Return the values of all actions, [B, n, atoms]; ``draw``: (update number, stream) of the noise."""
        return self._values.atoms(TFNet(net, weights, layer_noise(net, self._seed, *draw))(obs))  # [B, n, atoms]


def _mean_losses(value: ValueSpec, batch: Batch, taken: Tensor, next_atoms: Tensor) -> ValueLosses:
    target = losses.value_target(batch["reward"], batch["discount"], next_atoms[:, 0])  # [B]
    error = target - taken[:, 0]  # [B]
    return ValueLosses(huber(error, KAPPA), tf.abs(error), error, {})


def _categorical_losses(value: ValueSpec, batch: Batch, taken: Tensor, next_atoms: Tensor) -> ValueLosses:
    probabilities, support = tf.nn.softmax(next_atoms), value.support()  # [B, atoms], [atoms]
    target = losses.projected(batch["reward"], batch["discount"], probabilities, value.low, value.high)  # [B, atoms]
    rows = losses.cross_entropy(target, taken)  # [B]
    error = tf.reduce_sum((target - tf.nn.softmax(taken)) * support, axis=-1)  # [B]
    return ValueLosses(rows, rows, error, {"edge_mass": tf.reduce_mean(target[:, 0] + target[:, -1])})


def _quantile_losses(value: ValueSpec, batch: Batch, taken: Tensor, next_atoms: Tensor) -> ValueLosses:
    reward, discount = tf.expand_dims(batch["reward"], 1), tf.expand_dims(batch["discount"], 1)  # [B, 1], [B, 1]
    target = losses.value_target(reward, discount, next_atoms)  # [B, atoms]
    errors = losses.quantile_errors(taken, target)  # [B, atoms, atoms]
    priority = tf.reduce_mean(tf.abs(errors), axis=[1, 2])  # [B]
    return ValueLosses(losses.quantile_huber(errors, KAPPA), priority, tf.reduce_mean(errors, axis=[1, 2]), {})


Losses: TypeAlias = Callable[[ValueSpec, Batch, Tensor, Tensor], ValueLosses]  # (value, batch, taken, next_atoms)
LOSSES: dict[str, Losses] = {
    "scalar": _mean_losses,
    "categorical": _categorical_losses,
    "quantile": _quantile_losses,
}
"""The losses of each kind of values."""
