"""The nets of SAC as plain data: made before TensorFlow is loaded, so that workers can start while it loads.

Used by the trainer (the policy's spec, its first weights) and by ``algorithms.sac`` (all nets).
"""

import dataclasses

import numpy as np

from drl_cli.configs.replay import intensity
from drl_cli.data.randomness import generator
from drl_cli.networks.spec import ActionSpec, Dense, NetSpec, PolicySpec


def policy_spec(config, spaces):
    """Return the PolicySpec of a squashed Gaussian policy for ``spaces`` (see ``acting.envs.describe``)."""
    obs_size = int(np.prod(spaces["obs"]["shape"]))
    low, high = (_bounds(spaces["action"], side) for side in ("low", "high"))
    action = ActionSpec(
        low=low,
        high=high,
        normalize=config.normalize_actions,
        clip=config.clip_actions,
    )
    net = NetSpec(
        name="policy",
        inputs=(("obs", obs_size),),
        layers=_layers(config.policy_model),
        heads=(("mean", action.size), ("log_std", action.size)),
    )
    return PolicySpec((net,), "squashed_gaussian", tuple(spaces["obs"]["shape"]), action)


def critic_spec(config, spec):
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    obs = spec.nets[0].inputs[0]
    return NetSpec(
        name="critic",
        inputs=(obs, ("action", spec.action.size)),
        layers=_layers(config.Q_model),
        heads=(("q", 1),),
        copies=2 if config.twin_q else 1,
    )


def initial_weights(config, spec, seed):
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone.

    The policy's heads start small: mean near zero, so that the first actions are spread by the noise and not pushed
    against the bounds by a random net.
    """
    rng = generator(seed, "init")
    weights = spec.nets[0].initial_weights(rng, head_scale=0.1)
    critic = critic_spec(config, spec)
    critics = critic.initial_weights(rng)
    weights.update(critics)
    weights.update({target_name(name): value.copy() for name, value in critics.items()})
    return weights


def updates_per_target_update(config):
    """Return every how many updates the targets move, from a frequency in env steps (0: after every update)."""
    updates_per_step = intensity(config) / config.train_batch_size
    return max(1, round(config.target_network_update_freq * updates_per_step))


def target_updates(config, updates):
    """Return how often the targets have moved after ``updates`` updates."""
    return updates // updates_per_target_update(config)


def target_of(critic):
    """Return the NetSpec of the target critics."""
    return dataclasses.replace(critic, name="target_critic")


def target_name(name):
    """Return the target critics' name for the critics' variable ``name``."""
    return "target_" + name


def _bounds(space, side):
    """One float per dimension; ``describe`` writes a single one where many bounds are equal."""
    return tuple(float(x) for x in np.broadcast_to(space[side], space["shape"]).ravel())


def _layers(model):
    return tuple(Dense(units, model.fcnet_activation, model.layer_norm) for units in model.fcnet_hiddens)
