"""The nets of CrossQ as plain data: SAC's with batch normalisation, and no targets. Made before TensorFlow is loaded.

Used by the trainer and by ``algorithms.crossq_graph``.
"""

import dataclasses

from drl_cli.algorithms import sac_nets

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates"]


def policy_spec(config, spaces):
    """Return the PolicySpec of a squashed Gaussian policy with batch normalisation for ``spaces``."""
    spec = sac_nets.policy_spec(config, spaces)
    return dataclasses.replace(spec, nets=(dataclasses.replace(spec.nets[0], batch_norm=True),))


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    return dataclasses.replace(sac_nets.critic_spec(config, spec), batch_norm=True)


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy and critics, drawn from ``seed`` alone."""
    policy, critics = sac_nets.first_weights(config, spec, critic_spec(config, spec), seed)
    return policy | critics


def target_updates(config, updates):
    """Return how often targets have moved after ``updates`` updates: there are none."""
    return 0
