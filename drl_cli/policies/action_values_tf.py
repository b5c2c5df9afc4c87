"""Action values as graph tensors: the twin of ``policies.distributions.ActionValues`` for learning.

Where observations hold a mask, the best action is the best of those that they allow.

Sources: dueling streams, Wang et al. 2016 (arXiv 1511.06581), eq. 9, here for every atom; atoms as there.
"""

from drl_cli.policies.scored_distributions_tf import allowed, masked
from drl_cli.tf1.tensorflow import tf


class ActionValues:
    """What the heads of a "q" distribution say of n actions, each with ``atoms`` numbers."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a DiscreteSpec and a ValueSpec."""
        self._n, self._value, self._mask = spec.action.n, spec.value, spec.mask

    def atoms(self, heads):
        """Return [B, n, atoms] from {head: [B, size]}: dueling streams joined."""
        size = self._value.atoms
        if "q" in heads:
            return tf.reshape(heads["q"], [-1, self._n, size])  # [B, n, atoms]
        advantage = tf.reshape(heads["advantage"], [-1, self._n, size])  # [B, n, atoms]
        centred = advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)  # [B, n, atoms]
        return tf.expand_dims(heads["value"], 1) + centred  # [B, n, atoms]

    def expected(self, atoms):
        """Return the values, […], of ``atoms`` […, atoms]: a number, an expectation, or the mean of the quantiles."""
        if self._value.kind == "categorical":
            return tf.reduce_sum(tf.nn.softmax(atoms) * self._value.support(), axis=-1)  # […]
        return tf.reduce_mean(atoms, axis=-1)  # […]

    def greedy(self, atoms, obs):
        """Return the best actions, int32 [B], for ``atoms`` [B, n, atoms] at ``obs`` [B, …]."""
        return self.best(self.expected(atoms), obs)  # [B]

    def best(self, values, obs):
        """Return the best actions, int32 […], for ``values`` […, n] at ``obs`` […, *stacked_shape]."""
        values = masked(values, allowed(self._mask, obs)) if self._mask else values  # […, n]
        return tf.argmax(values, axis=-1, output_type=tf.int32)  # […]

    def chosen(self, atoms, action):
        """Return the atoms of one action a row, [B, atoms]; ``atoms`` [B, n, atoms], ``action`` int32 [B]."""
        # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
        mask = tf.expand_dims(tf.one_hot(action, self._n), 2)  # [B, n, 1]
        return tf.reduce_sum(atoms * mask, axis=1)  # [B, atoms]
