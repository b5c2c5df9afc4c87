"""Soft actor-critic for Discrete actions: expectations over all actions in place of draws.

Used by ``algorithms.sac_graph``. Source: Christodoulou 2019, "Soft Actor-Critic for Discrete Action Settings" (arXiv
1910.07207).

Deviations:
- The entropy target is a fraction of ln n that the config sets; the paper's 0.98 asks for coin flips where n is 2.
- Both critics are in the actor's loss, as in the paper; RLlib's has the first alone.
- No random number is drawn in an update.
"""

from drl_cli.algorithms import sac_nets
from drl_cli.algorithms.losses.value import expected_soft_td_target, squared, td_error
from drl_cli.algorithms.max_entropy_actor_graph import Actor, Choice
from drl_cli.algorithms.max_entropy_critics_graph import Judgement, Targets, head_of
from drl_cli.algorithms.max_entropy_update_graph import SoftUpdate
from drl_cli.policies.forward_tf import values_of, variables_of
from drl_cli.tf1.tensorflow import tf


def build(config, spec, initial, scope):
    """Build the variables in the current graph and return the LearnerGraph; arguments as ``sac.build`` has them."""
    actor = Actor(config, spec, initial, scope, weighed)
    critics = LowestOfAll(config, sac_nets.critic_spec(config, spec), initial, scope)
    return SoftUpdate(config, spec, actor, critics, scope).graph()


def weighed(heads, number, stream):
    """Return the Choice of a categorical policy: all actions [B, n] with their probabilities; nothing is drawn."""
    logp = tf.nn.log_softmax(heads["logits"])  # [B, n]
    return Choice(None, logp, tf.exp(logp))


class LowestOfAll:
    """Critics of a state that value every action, [C, B, n]; ``soft_critics`` says what each method does."""

    def __init__(self, config, net, initial, scope):
        """``net``: NetSpec with the input obs and the head "q" of one value for each action."""
        self._net = net
        self.trained = variables_of(net.weight_shapes(), initial, scope)
        self._targets = Targets(config, net, self.trained, initial, scope)

    def variables(self):
        """See ``soft_critics``."""
        return [*self.trained.values(), *self._targets.weights.values()]

    def values(self):
        """See ``soft_critics``."""
        return values_of(self.trained)

    def judge(self, values, batch, acting, alpha):
        """See ``soft_critics``: the squared TD error of the action taken."""
        following = acting.following(batch)
        next_q = head_of(self._targets.net, self._targets.weights, "q", batch["next_obs"])  # [C, B, n]
        chances, logp = following.probabilities, following.logp  # [B, n], [B, n]
        target = expected_soft_td_target(batch["reward"], batch["discount"], next_q, chances, logp, alpha)  # [B]
        every_q = self.every(values, batch["obs"])  # [C, B, n]
        # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
        q = tf.reduce_sum(every_q * tf.one_hot(batch["action"], every_q.shape[-1]), axis=-1)  # [C, B]
        error = td_error(q, target)  # [C, B]
        return Judgement(squared(error), q, error)

    def every(self, values, obs):
        """Return Q of all actions in ``obs`` [B, …], [C, B, n]."""
        return head_of(self._net, values, "q", obs)  # [C, B, n]

    def worth(self, values, batch, acting, choice):
        """See ``soft_critics``."""
        return self.every(values, batch["obs"])  # [C, B, n]

    def settle(self, statistics, number):
        """See ``soft_critics``: the targets follow."""
        self._targets.settle(number)
