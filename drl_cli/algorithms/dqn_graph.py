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

from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses import action_value as losses
from drl_cli.algorithms.losses.value import huber
from drl_cli.algorithms.value_net_graph import RATES, ValueNet
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.forward_tf import TFNet, values_of
from drl_cli.policies.layers_tf import layer_noise
from drl_cli.tf1.adam import clipped
from drl_cli.tf1.graph import Gradients, transition_columns
from drl_cli.tf1.tensorflow import tf

NOW, CHOICE, NEXT = 0, 1, 2  # streams of random numbers within an update: Q(s), argmax at s', the value there
KAPPA = 1.0  # where Huber's loss turns from a square into a line, in returns


def build(config, spec, initial, seed, scope):
    """Build the variables in the current graph and return the LearnerGraph.

    ``config``: DQNConfig or one of its kin; ``spec``: PolicySpec; ``initial``: {name: array} of
    ``dqn_nets.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every variable's name.
    """
    update = _Update(config, spec, initial, seed, scope)
    return learner_graph(transition_columns(config, spec), RATES, update, spec, scope)


class _Update:
    """The variables and the two halves of an update over them."""

    def __init__(self, config, spec, initial, seed, scope):
        self._config, self._seed, self._value = config, seed, spec.value
        self._values = TFActionValues(spec)
        self._losses = {"scalar": _of_means, "categorical": _of_atoms, "quantile": _of_quantiles}[spec.value.kind]
        self._nets = ValueNet(config, spec, initial, scope)
        self.variables, self.number, self.apply = self._nets.variables, self._nets.number, self._nets.apply

    def gradients(self, batch, number):
        """See LearnerGraph: gradients of the net for ``batch`` at update ``number``."""
        learnt = values_of(self._nets.learnt)
        # targets
        next_atoms = self._next_atoms(batch, number, learnt)  # [B, atoms]
        # loss: the mean over the batch, each row with its weight
        atoms = self._atoms(self._nets.net, learnt, batch["obs"], (number, NOW))  # [B, n, atoms]
        taken = self._values.chosen(atoms, batch["action"])  # [B, atoms]
        rows, priority, error, more = self._losses(self._value, batch, taken, next_atoms)  # [B], [B], [B]
        loss = tf.reduce_mean(rows * batch["weight"] if "weight" in batch else rows)  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(learnt.values())), self._config.grad_clip)
        q = self._values.expected(taken)  # [B]
        stats = {
            "loss": loss,
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
            "grad_norm": norm,
            **more,
        }
        # A projection cuts an infinite reward down to its edge, where the loss no longer shows it.
        finite = tf.math.is_finite(loss + norm + tf.reduce_mean(batch["reward"]))
        return Gradients({"q": gradients}, stats, finite, {"priority": tf.stop_gradient(priority)})

    def _next_atoms(self, batch, number, learnt):
        """What is believed of the best next action, [B, atoms]."""
        atoms = self._atoms(
            self._nets.target_net, self._nets.target, batch["next_obs"], (number, NEXT)
        )  # [B, n, atoms]
        choosing = atoms
        if self._config.double_q:
            choosing = self._atoms(self._nets.net, learnt, batch["next_obs"], (number, CHOICE))  # [B, n, atoms]
        best = self._values.greedy(choosing, batch["next_obs"])  # [B]
        return tf.stop_gradient(self._values.chosen(atoms, best))  # [B, atoms]

    def _atoms(self, net, weights, obs, draw):
        """The values of all actions, [B, n, atoms]; ``draw``: (update number, stream) of the noise."""
        return self._values.atoms(TFNet(net, weights, layer_noise(net, self._seed, *draw))(obs))  # [B, n, atoms]


# What each kind of value learns: (its loss [B], priority [B], error of the expectation [B], more statistics).


def _of_means(value, batch, taken, next_atoms):
    target = losses.value_target(batch["reward"], batch["discount"], next_atoms[:, 0])  # [B]
    error = target - taken[:, 0]  # [B]
    return huber(error, KAPPA), tf.abs(error), error, {}


def _of_atoms(value, batch, taken, next_atoms):
    chances, support = tf.nn.softmax(next_atoms), value.support()  # [B, atoms], [atoms]
    target = losses.projected(batch["reward"], batch["discount"], chances, value.low, value.high)  # [B, atoms]
    rows = losses.cross_entropy(target, taken)  # [B]
    error = tf.reduce_sum((target - tf.nn.softmax(taken)) * support, axis=-1)  # [B]
    return rows, rows, error, {"edge_mass": tf.reduce_mean(target[:, 0] + target[:, -1])}


def _of_quantiles(value, batch, taken, next_atoms):
    reward, discount = tf.expand_dims(batch["reward"], 1), tf.expand_dims(batch["discount"], 1)  # [B, 1], [B, 1]
    target = losses.value_target(reward, discount, next_atoms)  # [B, atoms]
    errors = losses.quantile_errors(taken, target)  # [B, atoms, atoms]
    priority = tf.reduce_mean(tf.abs(errors), axis=[1, 2])  # [B]
    return losses.quantile_huber(errors, KAPPA), priority, tf.reduce_mean(errors, axis=[1, 2]), {}
