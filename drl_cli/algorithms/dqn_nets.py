"""The net of DQN and its kin as plain data: made before TensorFlow is loaded, so that workers can start while it loads.

Used by the trainer (the policy's spec, its first weights), ``algorithms.dqn_graph`` and ``algorithms.r2d2_nets``.
Sources: dueling streams, Wang et al. 2016; atoms, Bellemare et al. 2017; quantiles, Dabney et al. 2018; noisy layers,
Fortunato et
al. 2018; keys from RLlib's DQN.

Deviations: with ``model.layer_norm`` the layers of the streams are normalised too.
"""

from drl_cli.policies import net_builders
from drl_cli.policies.net_builders import target_updates
from drl_cli.policies.policy_spec import Dense, NetSpec, PolicySpec, ValueSpec
from drl_cli.randomness import generator

__all__ = ["initial_weights", "policy_spec", "target_updates"]

STREAM_ACTIVATION = "relu"  # RLlib's, whatever the layers in front of the streams have


def policy_spec(config, spaces):
    """Return the PolicySpec of a policy over action values for ``spaces`` (see ``envs.make.describe``).

    ``config``: DQNConfig or one of its kin: ``n_quantiles`` asks for quantiles, ``num_atoms`` above 1 for a distribution over
    atoms. Noise, as in Rainbow, is in the layers of the streams and in their outputs.
    """
    return values_spec(config, spaces, _value(config))


def values_spec(config, spaces, value, lstm=0):
    """Return the PolicySpec over action values that ``value`` (ValueSpec) describes, with ``lstm`` recurrent cells."""
    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    heads = (("value", value.atoms), ("advantage", action.n * value.atoms))
    streams = (Dense(units, STREAM_ACTIVATION, config.model.layer_norm, config.noisy) for units in config.hiddens)
    net = NetSpec(
        name="q",
        layers=net_builders.layers(config.model),
        heads=heads if config.dueling else (("q", action.n * value.atoms),),
        head_layers=tuple(streams),
        noisy_heads=config.noisy,
        lstm=lstm,
        **seen,
    )
    mask = net_builders.mask(spaces)
    return PolicySpec((net,), "q", action=action, value=value, state=net.state_shapes, mask=mask, **about)


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of the net and its target, drawn from ``seed`` alone."""
    return net_builders.with_targets(spec.nets[0].initial_weights(generator(seed, "init"), sigma=config.sigma0))


def _value(config):
    quantiles = getattr(config, "n_quantiles", None)
    if quantiles is not None:
        return ValueSpec("quantile", quantiles)
    if config.num_atoms == 1:
        return ValueSpec()
    return ValueSpec("categorical", config.num_atoms, float(config.v_min), float(config.v_max))
