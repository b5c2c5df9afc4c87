"""The nets of SAC as plain data: made before TensorFlow is loaded, so that workers can start while it loads.

Used by the trainer (the policy's spec, its first weights), by ``algorithms.sac_graph`` (all nets), and by ``tqc_nets`` and
``crossq_nets``, whose nets differ in a part.
"""

from drl_cli.policies import net_builders
from drl_cli.policies.net_builders import target_updates
from drl_cli.policies.policy_spec import DiscreteSpec, NetSpec, PolicySpec
from drl_cli.randomness import generator

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates"]


def policy_spec(config, spaces):
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    Box actions: a squashed Gaussian, with state-dependent exploration when the config says ``use_sde``. Discrete actions: a
    softmax.
    """
    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = net_builders.layers(config.policy_model)
    if isinstance(action, DiscreteSpec):
        net = NetSpec(name="policy", layers=layers, heads=(("logits", action.n),), **seen)
        return PolicySpec((net,), "categorical", action=action, mask=net_builders.mask(spaces), **about)
    heads = (("mean", action.size), ("log_std", action.size))
    net = NetSpec(name="policy", layers=layers, heads=heads, sde=config.use_sde, **seen)
    return PolicySpec((net,), "squashed_gaussian", action=action, **about)


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``.

    For Box actions the value of the state and an action, for Discrete ones the value of every action in the state.
    """
    if spec.distribution == "categorical":
        inputs, heads = spec.nets[0].inputs, (("q", spec.action.n),)
    else:
        inputs, heads = (*spec.nets[0].inputs, ("action", spec.action.size)), (("q", 1),)
    layers, copies = net_builders.layers(config.Q_model), 2 if config.twin_q else 1
    return NetSpec("critic", inputs, layers, heads, copies, **net_builders.sight(spec.nets[0]))


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone."""
    policy, critics = first_weights(config, spec, critic_spec(config, spec), seed)
    return policy | net_builders.with_targets(critics)


def first_weights(config, spec, critics, seed):
    """Return ({name: float32 array} of the policy, the same of ``critics`` (NetSpec)), drawn from ``seed`` alone.

    The policy's heads start small: mean near zero, so that the first actions are spread by the noise and not pushed
    against the bounds by a random net. State-dependent deviations start at ``log_std_init``.
    """
    rng = generator(seed, "init")
    policy = spec.nets[0].initial_weights(rng, head_scale=0.1, log_std=config.log_std_init)
    return policy, critics.initial_weights(rng)
