"""Conservative Q-learning: SAC from recorded data, whose critics are held down where the data is silent.

For Box actions here, for Discrete ones in ``algorithms.cql_discrete_graph``. The penalty, the multiplier and the warm start by
cloning are in ``algorithms.conservative_critics_graph``.

Source: Kumar et al. 2020 (arXiv 2006.04779), CQL(H) with the importance-weighted estimate of its appendix F, over uniform
actions and the policy's in this state and in the next; keys and their meaning from RLlib's CQL.

Deviations, beside those of ``conservative``, ``algorithms.losses.conservative``, ``soft_update`` and ``soft_actor``:
- Uniform actions have the density of the policy's bounds (RLlib: that of [-1, 1], whatever they are).
- The policy's update n is a clone's for n < ``bc_iters`` (RLlib: one fewer).
"""

from drl_cli.algorithms import cql_discrete_graph, sac_nets
from drl_cli.algorithms.conservative_critics_graph import Conservative
from drl_cli.algorithms.losses.conservative import sampled_soft_maximum
from drl_cli.algorithms.max_entropy_actor_graph import Actor, drawn
from drl_cli.algorithms.max_entropy_critics_graph import LowestOf
from drl_cli.algorithms.max_entropy_update_graph import SoftUpdate
from drl_cli.policies.distributions_tf import TFSquashedGaussian
from drl_cli.tf1.stateless_random import stateless_normal, stateless_uniform
from drl_cli.tf1.tensorflow import tf

UNIFORM, OWN, FOLLOWING = 2, 3, 4  # streams of random numbers within an update, beside those of ``soft_actor``


def build(config, spec, initial, seed, scope):
    """Build CQL's variables in the current graph and return its LearnerGraph.

    ``config``: CQLConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``sac_nets.initial_weights``; ``seed`` keys the
    noise; ``scope`` (ending in "/") goes before every variable's name.
    """
    if spec.distribution == "categorical":
        return cql_discrete_graph.build(config, spec, initial, scope)
    actor = Actor(config, spec, initial, scope, drawn(spec, seed))
    plain = LowestOf(config, sac_nets.critic_spec(config, spec), initial, scope)
    critics = Conservative(config, plain, BoxActions(config, spec, seed, plain), scope)
    return SoftUpdate(config, spec, actor, critics, scope).graph()


class BoxActions:
    """What critics say of all actions of a Box, from draws; what ``Conservative`` asks for."""

    def __init__(self, config, spec, seed, critics):
        """``critics``: a LowestOf; ``seed`` keys the draws."""
        self._count, self._temperature, self._seed = config.num_actions, config.temperature, seed
        self._critics, self._size = critics, spec.action.size
        self._distribution = TFSquashedGaussian(*spec.action.policy_bounds())

    def soft_maximum(self, values, batch, acting):
        """Return the soft maximum of Q over all actions, [C, B], from three times ``num_actions`` of them."""
        rows = batch["obs"].shape[0]
        own = self._drawn(acting.heads(batch["obs"]), acting.number, OWN)  # [B, N, A], [B, N]
        following = self._drawn(acting.heads(batch["next_obs"]), acting.number, FOLLOWING)  # [B, N, A], [B, N]
        uniform = stateless_uniform([rows, self._count, self._size], self._seed, acting.number, UNIFORM)  # [B, N, A]
        anywhere, density = self._distribution.spread(uniform)  # [B, N, A], a float
        action = tf.concat([anywhere, own[0], following[0]], axis=1)  # [B, 3N, A]
        log_density = tf.concat([tf.fill([rows, self._count], density), own[1], following[1]], axis=1)  # [B, 3N]
        q = self._critics.several(values, batch["obs"], action)  # [C, B, 3N]
        return sampled_soft_maximum(q, log_density, self._temperature)  # [C, B]

    def _drawn(self, heads, number, stream):
        """N draws of the policy in each state with their log-densities."""
        noise = stateless_normal([heads["mean"].shape[0], self._count, self._size], self._seed, number, stream)
        each = {name: tf.expand_dims(heads[name], 1) for name in ("mean", "log_std")}  # [B, 1, A]
        return self._distribution.sample(each, noise)  # [B, N, A], [B, N]

    def logp(self, batch, acting):
        """Return the log-density of the recorded actions, [B]."""
        return self._distribution.logp(acting.heads(batch["obs"]), batch["action"])  # [B]
