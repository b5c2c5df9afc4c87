"""Conservative Q-learning for Discrete actions: the soft maximum over all actions is a sum, nothing is drawn.

Used by ``algorithms.cql_graph``. Source: Kumar et al. 2020 (arXiv 2006.04779), eq. 4, over the critics of discrete SAC
(Christodoulou 2019, arXiv 1910.07207).

Deviation: the paper's discrete form is a QR-DQN without a policy. Here it is the actor-critic that CQL is for Box actions,
exact where that one samples: one row, one set of keys of which all but ``num_actions`` work, and a policy with probabilities,
which estimates from recorded data need.
"""

from drl_cli.algorithms import sac_nets
from drl_cli.algorithms.conservative_critics_graph import Conservative
from drl_cli.algorithms.losses.conservative import soft_maximum
from drl_cli.algorithms.max_entropy_actor_graph import Actor
from drl_cli.algorithms.max_entropy_update_graph import SoftUpdate
from drl_cli.algorithms.sac_discrete_graph import LowestOfAll, weighed
from drl_cli.policies.distributions_tf import allowed, masked
from drl_cli.tf1.tensorflow import tf


def build(config, spec, initial, scope):
    """Build the variables in the current graph and return the LearnerGraph; arguments as ``cql.build`` has them."""
    actor = Actor(config, spec, initial, scope, weighed)
    plain = LowestOfAll(config, sac_nets.critic_spec(config, spec), initial, scope)
    critics = Conservative(config, plain, AllActions(config, spec, plain), scope)
    return SoftUpdate(config, spec, actor, critics, scope).graph()


class AllActions:
    """What critics say of all n actions; what ``Conservative`` asks for."""

    def __init__(self, config, spec, critics):
        """``critics``: a LowestOfAll."""
        self._temperature, self._critics, self._mask = config.temperature, critics, spec.mask

    def soft_maximum(self, values, batch, acting):
        """Return the soft maximum of Q over all actions that are allowed, [C, B]."""
        q = self._critics.every(values, batch["obs"])  # [C, B, n]
        if self._mask:
            q = masked(q, tf.broadcast_to(allowed(self._mask, batch["obs"]), q.shape))  # [C, B, n]
        return soft_maximum(q, self._temperature)  # [C, B]

    def logp(self, batch, acting):
        """Return the log-probability of the recorded actions, [B, 1]."""
        logp = tf.nn.log_softmax(acting.heads(batch["obs"])["logits"])  # [B, n]
        return tf.reduce_sum(logp * tf.one_hot(batch["action"], logp.shape[-1]), axis=-1, keepdims=True)  # [B, 1]
