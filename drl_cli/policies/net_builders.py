"""From spaces and a config to the parts of nets that every algorithm has: inputs, layers, actions, targets.

Light: used by the modules of algorithms before TensorFlow is loaded. ``spaces`` is what ``envs.make.describe`` returns, with
``frames``, how many observations are stacked along the last axis.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from drl_cli.config.sections.model import OwnNetwork, conv_filters
from drl_cli.config.sections.replay import intensity
from drl_cli.config.sections.rollout import filter_misfits
from drl_cli.errors import ConfigError
from drl_cli.plugins import ACTION_DISTS
from drl_cli.policies import custom_models
from drl_cli.policies.nets import Residual
from drl_cli.policies.policy_spec import (
    ActionSpec,
    CompositeSpec,
    Conv,
    Dense,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
)

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.config.sections.model import FullyConnected, Vision
    from drl_cli.config.sections.on_policy import OnPolicyNetwork
    from drl_cli.envs.env_spec import EnvSpec, SpaceSpec
    from drl_cli.policies.action_specs import Actions, PartActions
    from drl_cli.policies.nets import Layer, NetSpec, Weights


class HiddenKeys(Protocol):
    """The keys that say of which kind hidden layers are."""

    @property
    def layer_norm(self) -> bool: ...

    @property
    def residual_blocks(self) -> bool: ...


class ReplayTargets(Protocol):
    """The config of an algorithm with a replay whose target networks move every so many env steps."""

    @property
    def train_batch_size(self) -> int: ...

    @property
    def training_intensity(self) -> float | None: ...

    @property
    def target_network_update_freq(self) -> int: ...


def observation(config: CommonKeys, spaces: EnvSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (keywords of PolicySpec, keywords of NetSpec) that describe the observations of ``spaces``.

    ConfigError for a filter over images, and for a custom model that cannot be made for them; InputError for an unknown one.
    """
    space, frames = spaces["obs"], spaces.get("frames", 1)
    shape = tuple(space["shape"])
    for text in filter_misfits(config, shape):
        raise ConfigError(text)
    is_image = len(shape) == 3
    stacked = (*shape[:-1], shape[-1] * frames)
    policy = {
        "obs_shape": shape,
        "obs_dtype": "uint8" if is_image and space["dtype"] == "uint8" else "float32",
        "frames": frames,
        "filter": config.observation_filter != "NoFilter",
        "scaled": config.reward_scaling,
    }
    net: dict[str, Any] = {"inputs": (("obs", math.prod(stacked)),)}
    if is_image:
        net |= {"image": stacked, "zero_mean": config.model.zero_mean}
    if config.model.custom_model is not None:
        net["custom"] = custom_models.reference(config.model)
        custom_models.made(net["custom"], stacked)
    elif is_image:
        net["convs"] = convolutions(config.model, *shape[:2])
    elif "board" in spaces and config.model.conv_filters:
        net["image_at"], *board = spaces["board"]
        net |= {"image": tuple(board), "convs": convolutions(config.model, *board[:2])}
    return policy, net


def convolutions(model: Vision, height: int, width: int) -> tuple[Conv, ...]:
    """Return the convolutions of ``model`` for images of ``height`` and ``width``, in pixels. Raises as ``conv_filters``."""
    filters = conv_filters(model, height, width)
    return tuple(
        Conv(count, kernel, stride, model.conv_activation, padding) for count, kernel, stride, padding in filters
    )


def sight(acting: NetSpec) -> dict[str, Any]:
    """Return the keywords of a NetSpec that sees observations as ``acting`` (NetSpec) does, with weights of its own."""
    return {name: getattr(acting, name) for name in ("image", "image_at", "convs", "zero_mean", "custom")}


def action(config: CommonKeys, spaces: EnvSpec) -> Actions:
    """Return what describes the actions of ``spaces``: one of ``policies.action_specs``."""
    space = spaces["action"]
    if space["kind"] == "Composite":
        return CompositeSpec(tuple(_part(config, part) for part in space["parts"]))
    return _part(config, space)


def _part(config: CommonKeys, space: SpaceSpec) -> PartActions:
    if space["kind"] == "Discrete":
        return DiscreteSpec(space["n"], space["start"])
    if space["kind"] == "MultiDiscrete":
        return MultiDiscreteSpec(tuple(space["nvec"]), tuple(space["start"]))
    if space["kind"] == "MultiBinary":
        return MultiBinarySpec(space["n"])
    low, high = (_bounds(space, side) for side in ("low", "high"))
    return ActionSpec(low, high, config.normalize_actions, config.clip_actions)


def drawing_heads(action: Actions) -> tuple[tuple[str, int], ...]:
    """Return (name, size) of the heads of a policy that draws ``action`` from Gaussians, softmaxes and switches."""
    if isinstance(action, CompositeSpec):
        return action.heads()
    if action.kind == "Box":
        return (("mean", action.size), ("log_std", action.size))
    return (("logits", action.size),)


def mask(spaces: EnvSpec) -> tuple[int, ...]:
    """Return (start, n) of the action mask in the observations of ``spaces``, ``()`` where they have none."""
    return tuple(spaces.get("mask", ()))


def custom_distribution(model: OnPolicyNetwork, spaces: EnvSpec) -> tuple[str, ...]:
    """Return (name, options as JSON) of the registered distribution that ``model`` names, ``()`` for none.

    Raises ConfigError for observations with an action mask, and InputError for an unknown name.
    """
    if model.custom_action_dist is None:
        return ()
    ACTION_DISTS.find(model.custom_action_dist)
    if mask(spaces):
        raise ConfigError(
            "model.custom_action_dist: these observations have an action mask, which only the built-in distributions obey. "
            "Leave it out."
        )
    return model.custom_action_dist, json.dumps(model.custom_model_config, sort_keys=True)


def layers(model: FullyConnected) -> tuple[Layer, ...]:
    """Return the layers of a fully connected section, ``hidden_layers`` of its keys.

    () where a custom model stands in their place.
    """
    if isinstance(model, OwnNetwork) and model.custom_model is not None:
        return ()
    return hidden_layers(model.fcnet_hiddens, model.fcnet_activation, model)


def hidden_layers(hiddens: tuple[int, ...], activation: str, kind: HiddenKeys) -> tuple[Layer, ...]:
    """Return one Dense layer for each of ``hiddens`` units, or with residual blocks a single Residual of as many blocks."""
    if kind.residual_blocks:
        return (Residual(hiddens[0], len(hiddens), activation),)
    return tuple(Dense(units, activation, kind.layer_norm) for units in hiddens)


def recurrent_critics(
    acting: NetSpec, layers: tuple[Layer, ...], cells: int, actions: int, copies: int
) -> tuple[NetSpec, NetSpec]:
    """Return the NetSpecs of an LSTM of ``cells`` over what ``acting`` observes, and of critics over it and an action.

    ``layers`` are the hidden layers of either, ``actions`` the numbers of an action, ``copies`` how many critics there are.
    """
    from drl_cli.policies.policy_spec import NetSpec

    memory = NetSpec("critic_memory", acting.inputs, layers, (), lstm=cells, **sight(acting))
    inputs = (("memory", cells), ("action", actions))
    return memory, NetSpec("critic", inputs, layers, (("q", 1),), copies)


def target_of(net: NetSpec) -> NetSpec:
    """Return the NetSpec of the target of ``net``."""
    return dataclasses.replace(net, name=target_name(net.name))


def target_name(name: str) -> str:
    """Return the target's name for the net or variable ``name``."""
    return "target_" + name


def with_targets(weights: Weights) -> dict[str, np.ndarray]:
    """Return ``weights`` ({name: array}) and a copy of each under its target's name."""
    return dict(weights) | {target_name(name): value.copy() for name, value in weights.items()}


def updates_per_target_update(config: ReplayTargets) -> int:
    """Return every how many updates the targets move, from a frequency in env steps (0: after every update)."""
    updates_per_step = intensity(config) / config.train_batch_size
    return max(1, round(config.target_network_update_freq * updates_per_step))


def target_updates(config: ReplayTargets, updates: int) -> int:
    """Return how often the targets have moved after ``updates`` updates."""
    return updates // updates_per_target_update(config)


def _bounds(space: SpaceSpec, side: str) -> tuple[float, ...]:
    """One float per dimension; ``describe`` writes a single one where many bounds are equal."""
    return tuple(float(x) for x in np.broadcast_to(space[side], space["shape"]).ravel())
