"""The net of action values that DQN and R2D2 learn: the learnt weights, their target, what acts, and how these move.

Used by ``algorithms.dqn_graph`` and ``algorithms.r2d2_graph``.
"""

import numpy as np

from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import variables_of
from drl_cli.tf1.adam import Adam
from drl_cli.tf1.polyak import every, follow
from drl_cli.tf1.tensorflow import tf

RATES = ("lr",)


class ValueNet:
    """Variables of the net of ``spec`` and of its target; ``number`` counts updates.

    ``learnt`` and ``target`` map names to variables; ``net`` and ``target_net`` are their NetSpecs. What acts is the learnt
    weights, or with ``policy_average`` a running average of them.
    """

    def __init__(self, config, spec, initial, scope):
        """Arguments as an algorithm's ``build`` has them."""
        self._config = config
        self.net, self.target_net = spec.nets[0], net_builders.target_of(spec.nets[0])
        self._target_every = net_builders.updates_per_target_update(config)
        shapes = self.net.weight_shapes()
        self._acting = self.learnt = variables_of(shapes, initial, scope)
        if config.policy_average:
            self.learnt = variables_of(shapes, initial, scope + "learnt_")
        self.target = variables_of(self.target_net.weight_shapes(), initial, scope, trainable=False)
        self.number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)
        self._adam = Adam(scope + "q", self.learnt, epsilon=config.adam_epsilon)

    def variables(self):
        """All but the counter."""
        groups = [self._acting, self.target, self._adam.variables]
        if self.learnt is not self._acting:
            groups.append(self.learnt)
        return [variable for group in groups for variable in group.values()]

    def apply(self, parts, rates, number):
        """See LearnerGraph: change the weights with ``parts``, then let target and average follow."""
        self._adam.apply(parts["q"], rates["lr"])
        learnt = list(self.learnt.values())

        def move_target():
            follow(list(self.target.values()), learnt, self._config.tau)

        every(self._target_every, number, move_target, phase=self._target_every - 1)
        if self.learnt is not self._acting:
            follow(list(self._acting.values()), learnt, 1.0 - self._config.policy_average)
