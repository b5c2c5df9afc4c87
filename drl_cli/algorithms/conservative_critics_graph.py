"""Critics made conservative: what they say of actions that the data does not show is pushed down, the data's held up.

Used by ``algorithms.cql_graph`` (Box) and ``cql_discrete``, which say what the soft maximum over all actions is and how
likely a recorded action is. Wraps the critics of SAC (``soft_critics`` describes the interface).

Source: Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning" (arXiv 2006.04779); keys from RLlib's
CQL.

Deviations:
- The penalty has half its weight, since the TD error's square has: RLlib and the authors' code weigh it against δ² (the paper
  against ½·δ²).
- The multiplier α′ is one for all critics, as in RLlib; it is kept within ``MOST`` either way by moving it back behind a step.
  RLlib clips what enters the loss: a multiplier beyond the clip has no gradient and never comes back.
- ``grad_clip`` bounds the norm of the multiplier's gradient and the critics' together.
- ``min_q_weight`` counts with the multiplier too: the gap that is held to the threshold is weighted, as in RLlib.
"""

import math

import numpy as np

from drl_cli.algorithms.losses.conservative import multiplier_loss
from drl_cli.policies.forward_tf import values_of, variables_of
from drl_cli.tf1.tensorflow import tf

MULTIPLIER = "critic/log_alpha_prime"
MOST = 1e6  # largest multiplier, and the smallest is 1 / MOST; RLlib's bound


class Conservative:
    """Critics whose losses hold down Q where the data is silent; ``soft_critics`` says what each method does."""

    def __init__(self, config, critics, actions, scope):
        """``critics``: those that are made conservative.

        ``actions``: ``soft_maximum(values, batch, acting)`` [C, B] of what the critics say of all actions, and ``logp(batch,
        acting)`` of the recorded ones, [B] or [B, 1].
        """
        self._config, self._critics, self._actions = config, critics, actions
        self._multiplier = {}
        if config.lagrangian:
            self._multiplier = variables_of({MULTIPLIER: ()}, {MULTIPLIER: np.float32(0.0)}, scope)
        self.trained = critics.trained | self._multiplier

    def variables(self):
        """See ``soft_critics``."""
        return [*self._critics.variables(), *self._multiplier.values()]

    def values(self):
        """See ``soft_critics``."""
        return self._critics.values() | values_of(self._multiplier)

    def judge(self, values, batch, acting, alpha):
        """See ``soft_critics``: the squared TD error and the penalty of each critic."""
        config = self._config
        judged = self._critics.judge(values, batch, acting, alpha)
        gap = self._actions.soft_maximum(values, batch, acting) - judged.q  # [C, B]
        weighted = config.min_q_weight * gap  # [C, B]
        stats = {"cql_gap": tf.reduce_mean(gap)}
        if not config.lagrangian:
            return judged._replace(losses=judged.losses + 0.5 * weighted, stats=stats)
        log_multiplier = values[MULTIPLIER]  # scalar
        multiplier = tf.stop_gradient(tf.exp(log_multiplier))  # scalar
        copies = float(gap.shape[0])
        dual = multiplier_loss(log_multiplier, weighted, config.lagrangian_thresh) / copies  # [C, B]
        stats |= {"alpha_prime_value": multiplier, "alpha_prime_loss": tf.reduce_mean(dual) * copies}
        return judged._replace(losses=judged.losses + 0.5 * multiplier * weighted + dual, stats=stats)

    def worth(self, values, batch, acting, choice):
        """See ``soft_critics``: for the first ``bc_iters`` updates how likely the recorded action is, then Q."""
        worth = self._critics.worth(values, batch, acting, choice)  # [C, B], or [C, B, n]
        if not self._config.bc_iters:
            return worth
        return tf.where_v2(acting.number < self._config.bc_iters, self._actions.logp(batch, acting)[None], worth)

    def settle(self, statistics, number):
        """See ``soft_critics``: the targets follow, the multiplier stays within its bounds."""
        self._critics.settle(statistics, number)
        for variable in self._multiplier.values():
            variable.assign(tf.clip_by_value(variable.read_value(), -math.log(MOST), math.log(MOST)))
