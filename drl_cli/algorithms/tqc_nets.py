"""The nets of TQC as plain data: SAC's policy, critics that end in quantiles. Made before TensorFlow is loaded.

Used by the trainer and by ``algorithms.tqc_graph``.
"""

from drl_cli.algorithms.sac_nets import first_weights, policy_spec
from drl_cli.policies import net_builders
from drl_cli.policies.net_builders import target_updates
from drl_cli.policies.policy_spec import NetSpec

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates"]


def critic_spec(config, spec):
    """Return the NetSpec of the ``num_critics`` critics of ``n_quantiles`` quantiles each that fit ``spec``."""
    acting = spec.nets[0]
    inputs = (*acting.inputs, ("action", spec.action.size))
    heads = (("quantiles", config.n_quantiles),)
    layers = net_builders.layers(config.Q_model)
    return NetSpec("critic", inputs, layers, heads, config.num_critics, **net_builders.sight(acting))


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone."""
    policy, critics = first_weights(config, spec, critic_spec(config, spec), seed)
    return policy | net_builders.with_targets(critics)
