"""The nets of APPO as plain data: those of every actor-critic, whose policy has a target beside it in the learner alone.

Used by the trainer (the policy's spec, its first weights, how often targets have moved).
"""

from drl_cli.algorithms.actor_critic_nets import initial_weights, policy_spec

__all__ = ["initial_weights", "policy_spec", "target_updates"]


def target_updates(config, updates):
    """Return how often the target policy has been copied after ``updates`` gradient steps."""
    return updates // (config.target_update_frequency * config.num_sgd_iter)
