"""The nets of DDPG, TD3 and APEX_DDPG as plain data: made before TensorFlow is loaded.

Used by the trainer (the policy's spec, its first weights) and by ``algorithms.ddpg_graph`` (all nets).
"""

from drl_cli.policies import net_builders
from drl_cli.policies.policy_spec import Dense, NetSpec, PolicySpec
from drl_cli.randomness import generator

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates"]

HEAD_SCALE = 0.1  # of the policy's head: first actions in the middle of the bounds, where tanh still has a slope


def policy_spec(config, spaces):
    """Return the PolicySpec of a deterministic policy for ``spaces`` (see ``envs.make.describe``).

    Where workers compute first priorities, the critics travel with it as judging nets.
    """
    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = _layers(config.actor_hiddens, config.actor_hidden_activation, config)
    net = NetSpec(name="policy", layers=layers, heads=(("mean", action.size),), **seen)
    spec = PolicySpec((net,), "deterministic", action=action, **about)
    if not config.worker_side_prioritization:
        return spec
    return PolicySpec((net, critic_spec(config, spec)), "deterministic", action=action, **about)


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    acting = spec.nets[0]
    return NetSpec(
        name="critic",
        inputs=(*acting.inputs, ("action", spec.action.size)),
        layers=_layers(config.critic_hiddens, config.critic_hidden_activation, config),
        heads=(("q", 1),),
        copies=2 if config.twin_q else 1,
        **net_builders.sight(acting),
    )


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, critics and the targets of both, drawn from ``seed`` alone."""
    rng = generator(seed, "init")
    weights = spec.nets[0].initial_weights(rng, head_scale=HEAD_SCALE)
    weights.update(critic_spec(config, spec).initial_weights(rng))
    return net_builders.with_targets(weights)


def updates_per_target_update(config):
    """Return every how many updates the targets move: a multiple of the policy's delay, since they move with it."""
    delay = config.policy_delay
    return delay * max(1, round(net_builders.updates_per_target_update(config) / delay))


def target_updates(config, updates):
    """Return how often the targets have moved after ``updates`` updates."""
    return updates // updates_per_target_update(config)


def _layers(hiddens, activation, config):
    return tuple(Dense(units, activation, config.layer_norm) for units in hiddens)
