"""The nets of MARWIL and BC as plain data: made before TensorFlow is loaded, so that workers can start while it loads.

Used by the trainer (the policy's spec, its first weights) and by ``algorithms.marwil_graph``. With a beta of 0 nothing
is judged, and there is no value.
"""

from drl_cli.algorithms.actor_critic_nets import DISTRIBUTIONS, target_updates
from drl_cli.policies import net_builders
from drl_cli.policies.nets import orthogonal_weights
from drl_cli.policies.policy_spec import VALUE_HEAD, NetSpec, PolicySpec
from drl_cli.randomness import generator

__all__ = ["initial_weights", "policy_spec", "target_updates"]


def policy_spec(config, spaces):
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    The first net is "policy"; values are a head of it, or a net "value" of the same layers.
    """
    model, action = config.model, net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    is_box = action.kind == "Box"
    heads = (("mean", action.size), ("log_std", action.size)) if is_box else (("logits", action.size),)
    layers = net_builders.layers(model)
    is_judged = config.beta > 0
    is_shared = is_judged and config.vf_share_layers
    acting = NetSpec(
        name="policy",
        layers=layers,
        heads=(*heads, VALUE_HEAD) if is_shared else heads,
        free_heads=("log_std",) if is_box and model.free_log_std else (),
        **seen,
    )
    judging = NetSpec(name="value", layers=layers, heads=(VALUE_HEAD,), **seen)
    return PolicySpec(
        nets=(acting, judging) if is_judged and not is_shared else (acting,),
        distribution=DISTRIBUTIONS[action.kind],
        action=action,
        scored=is_judged,
        mask=net_builders.mask(spaces),
        **about,
    )


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of all nets, drawn from ``seed`` alone."""
    del config
    rng = generator(seed, "init")
    return {name: value for net in spec.nets for name, value in orthogonal_weights(net, rng, 0.0).items()}
