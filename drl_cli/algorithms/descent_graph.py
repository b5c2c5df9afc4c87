"""Gradient steps on an actor-critic: towers, the clip of the norm, Adam, the counter of updates.

Used by the graphs of PPO, A2C and PG.
"""

import numpy as np

from drl_cli.tf1.adam import Adam, clipped
from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.towers import Sums, Towers, devices_of

ALSO = ("total_loss", "grad_norm")  # statistics of every step, beside those of the loss


class Descent:
    """The optimiser of all trained weights of an ActorCritic ``net``; ``number`` counts updates."""

    def __init__(self, config, net, scope):
        """``scope`` (ending in "/") goes before every variable's name."""
        self._net, self._clip = net, config.grad_clip
        self.towers = Towers(devices_of(config), config.xla)
        self.trained = {name: net.variables[name] for name in net.trained}
        self._adam = Adam(scope + "policy", self.trained, epsilon=config.adam_epsilon)
        self.number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)

    def variables(self):
        """Return {exact name: variable} of the net, the optimiser and the counter (as ``num_updates``)."""
        found = {variable.op.name: variable for variable in self._net.variables.values()}
        return found | self._adam.variables | {"num_updates": self.number}

    def gradients(self, loss, minibatch):
        """Return (gradients of the sum of ``loss``, Sums) with the present weights.

        ``loss(values, minibatch)`` returns Sums; ``values``: {name: tensor} of all variables of the net.
        """
        values = self._net.values()
        trained = {name: values[name] for name in self.trained}
        return self.towers.gradients(lambda weights, piece: loss(values | weights, piece), trained, minibatch)

    def step(self, gradients, sums, rate):
        """Take one step with the gradients of a sum; returns ({name: scalar}: means and tops, whether it was finite).

        A step that is not finite is not taken.
        """
        count = tf.maximum(sums.count, 1.0)
        gradients, norm = clipped([gradient / count for gradient in gradients], self._clip)
        total = sums.loss / count

        def apply():
            self._adam.apply(gradients, rate)
            self.number.assign_add(1)
            return tf.constant(True)

        finite = tf.cond(tf.math.is_finite(total + norm), apply, lambda: tf.constant(False))
        means = {name: value / count for name, value in sums.stats.items()}
        return means | sums.tops | {"total_loss": total, "grad_norm": norm}, finite


def summed(loss, stats, mask, tops=()):
    """Return the Sums of ``loss`` [B] and ``stats`` {name: [B]} over the valid steps of ``mask`` [B].

    ``tops``: {name: [B], at least 0}, of which the largest counts.
    """
    added = {name: tf.reduce_sum(mask * rows) for name, rows in stats.items()}
    largest = {name: tf.reduce_max(mask * rows) for name, rows in dict(tops).items()}
    return Sums(tf.reduce_sum(mask * loss), added, largest, tf.reduce_sum(mask))
