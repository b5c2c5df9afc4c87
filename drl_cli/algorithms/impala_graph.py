"""IMPALA: an actor-critic that learns from what older policies did, corrected by V-trace.

Source: Espeholt et al. 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(arXiv 1802.01561), section 4.2; keys and their meaning from RLlib's IMPALA. ``algorithms.stream_update_graph`` names
the deviations.
"""

from drl_cli.algorithms.losses.policy_gradient import policy_gradient_loss
from drl_cli.algorithms.stream_update_graph import StreamUpdate
from drl_cli.policies.actor_critic_tf import ActorCritic


def build(config, spec, initial, seed, scope):
    """Build the variables in the current graph and return the BatchGraph.

    ``config``: IMPALAConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``actor_critic_nets.initial_weights``;
    ``seed`` is not used: nothing here is random; ``scope`` (ending in "/") goes before every variable's name.
    """
    net = ActorCritic(spec, initial, scope, looped=config.xla)
    return StreamUpdate(config, spec, net, scope, _LogLikelihood()).graph()


class _LogLikelihood:
    """Make what turned out well more likely: −log π(a|x)·advantage, the advantage having its importance weight."""

    stats, variables = (), {}

    def before(self, batch):
        return None

    def log_rho(self, now, batch, before):
        return now.logp - batch["logp"]  # [E, T]

    def policy_loss(self, now, batch, before, advantage):
        return policy_gradient_loss(now.logp, advantage), {}  # [E, T]

    def after(self, number, stats):
        """Nothing follows the policy."""
