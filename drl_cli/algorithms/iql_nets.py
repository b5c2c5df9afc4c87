"""The nets of IQL as plain data: policy, critics, a state's value. Made before TensorFlow is loaded.

Used by the trainer (the policy's spec, its first weights) and by ``algorithms.iql_graph`` (all nets).
"""

from drl_cli.policies import net_builders
from drl_cli.policies.net_builders import target_updates
from drl_cli.policies.policy_spec import Dense, DiscreteSpec, NetSpec, PolicySpec
from drl_cli.randomness import generator

__all__ = ["critic_spec", "initial_weights", "policy_spec", "target_updates", "value_spec"]

HEAD_SCALE = 0.1  # of the policy's head: first actions in the middle of the bounds


def policy_spec(config, spaces):
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    Box actions: a Gaussian with deviations that no state changes, as the paper's; it is not squashed, so that recorded actions
    at the bounds are actions like others. Discrete actions: a softmax.
    """
    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = _layers(config.actor_hiddens, config.actor_hidden_activation, config)
    if isinstance(action, DiscreteSpec):
        net = NetSpec(name="policy", layers=layers, heads=(("logits", action.n),), **seen)
        return PolicySpec((net,), "categorical", action=action, mask=net_builders.mask(spaces), **about)
    heads = (("mean", action.size), ("log_std", action.size))
    net = NetSpec(name="policy", layers=layers, heads=heads, free_heads=("log_std",), **seen)
    return PolicySpec((net,), "gaussian", action=action, **about)


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``.

    For Box actions the value of the state and an action, for Discrete ones the value of every action in the state.
    """
    if spec.distribution == "categorical":
        return _judge(config, spec, "critic", (), ("q", spec.action.n), 2 if config.twin_q else 1)
    return _judge(config, spec, "critic", (("action", spec.action.size),), ("q", 1), 2 if config.twin_q else 1)


def value_spec(config, spec):
    """Return the NetSpec of the value of a state, with the critics' layers."""
    return _judge(config, spec, "value", (), ("value", 1), 1)


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, value, critics and target critics, drawn from ``seed`` alone."""
    rng = generator(seed, "init")
    policy = spec.nets[0].initial_weights(rng, head_scale=HEAD_SCALE)
    critics = critic_spec(config, spec).initial_weights(rng)
    return policy | value_spec(config, spec).initial_weights(rng) | net_builders.with_targets(critics)


def _judge(config, spec, name, more, head, copies):
    """A net that sees what the acting one sees, and ``more`` inputs."""
    acting = spec.nets[0]
    layers = _layers(config.critic_hiddens, config.critic_hidden_activation, config)
    return NetSpec(name, (*acting.inputs, *more), layers, (head,), copies, **net_builders.sight(acting))


def _layers(hiddens, activation, config):
    return tuple(Dense(units, activation, config.layer_norm) for units in hiddens)
