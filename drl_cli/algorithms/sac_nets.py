"""The nets of SAC as plain data: made before TensorFlow is loaded, so that workers can start while it loads.

Used by the trainer (the policy's spec, its first weights) and by ``algorithms.sac`` (all nets).
"""

from drl_cli.algorithms import describing
from drl_cli.algorithms.describing import target_updates
from drl_cli.data.randomness import generator
from drl_cli.networks.spec import NetSpec, PolicySpec

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates"]


def policy_spec(config, spaces):
    """Return the PolicySpec of a squashed Gaussian policy for ``spaces`` (see ``acting.envs.describe``)."""
    action = describing.action(config, spaces)
    about, seen = describing.observation(config, spaces)
    heads = (("mean", action.size), ("log_std", action.size))
    net = NetSpec(name="policy", layers=describing.layers(config.policy_model), heads=heads, **seen)
    return PolicySpec((net,), "squashed_gaussian", action=action, **about)


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    acting = spec.nets[0]
    return NetSpec(
        name="critic",
        inputs=(*acting.inputs, ("action", spec.action.size)),
        layers=describing.layers(config.Q_model),
        heads=(("q", 1),),
        copies=2 if config.twin_q else 1,
        image=acting.image,
        convs=acting.convs,
        zero_mean=acting.zero_mean,
    )


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone.

    The policy's heads start small: mean near zero, so that the first actions are spread by the noise and not pushed
    against the bounds by a random net.
    """
    rng = generator(seed, "init")
    weights = spec.nets[0].initial_weights(rng, head_scale=0.1)
    return weights | describing.with_targets(critic_spec(config, spec).initial_weights(rng))
