"""A PolicySpec from the plain data of a manifest, which may come from elsewhere: exactly a spec, or refused.

Used by ``policies.numpy_policy``. Manifests of versions before images, discrete actions, recurrent cells and
log-probabilities lack the keys of those; their values are the defaults then.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drl_cli.config.result_names import POLICY_ID
from drl_cli.errors import CheckpointError
from drl_cli.policies.action_specs import LOG_STD_MIN, MAX_PARTS
from drl_cli.policies.nets import ACTIVATIONS, Conv, Dense, NetSpec, Residual
from drl_cli.policies.policy_spec import (
    MAX_LAYERS,
    MAX_OUTPUTS,
    MAX_PIXELS,
    MAX_UNITS,
    ActionSpec,
    CompositeSpec,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
    PolicySpec,
    ValueSpec,
)
from drl_cli.policies.team_spec import MAX_AGENTS, TeamSpec

if TYPE_CHECKING:
    from drl_cli.policies.action_specs import Actions, PartActions

_LATER = {
    "obs_dtype": "float32",
    "frames": 1,
    "value": None,
    "scored": False,
    "mask": (),
    "filter": False,
    "scaled": False,
    "previous": False,
    "team": None,
    "custom": (),
    "log_std_min": LOG_STD_MIN,
}


DEFAULT_POLICY = "default_policy"
"""The id of the policy of a run with one."""


def policy_specs(facts: Mapping[str, Any]) -> dict[str, PolicySpec]:
    """Return {policy id: PolicySpec} of the facts of a manifest: ``default_policy`` alone, or those of several agents.

    Raises what ``policy_spec`` raises, and CheckpointError where a policy is missing or has no proper id.
    """
    policies, agents = facts.get("policies"), facts.get("agents")
    known = policies if isinstance(policies, dict) else {}
    ids: Any = agents.get("policies") if isinstance(agents, dict) else None
    wanted = list(ids) if isinstance(ids, dict) and ids else [DEFAULT_POLICY]
    for name in wanted:
        if name not in known or not POLICY_ID.fullmatch(name):
            raise CheckpointError(f"The manifest holds no policy named {name[:100]}.")
    return {name: policy_spec(known[name]) for name in wanted}


def policy_spec(data: Any) -> PolicySpec:
    """Rebuild a PolicySpec from ``to_dict``'s data. Raises CheckpointError for anything that is not exactly one.

    InputError where it names a custom model or a distribution that is not registered.
    """
    try:
        whole = _completed(data)
        spec = PolicySpec(
            nets=tuple(_net(net) for net in whole["nets"]),
            distribution=str(whole["distribution"]),
            obs_shape=_sizes(whole["obs_shape"], MAX_PIXELS),
            action=_action(whole["action"]),
            state=tuple(_sizes(shape) for shape in whole["state"]),
            obs_dtype=str(whole["obs_dtype"]),
            frames=_sizes([whole["frames"]])[0],
            value=_value(whole["value"]),
            scored=bool(whole["scored"]),
            mask=_sizes(whole["mask"], MAX_PIXELS, least=0),
            filter=bool(whole["filter"]),
            scaled=bool(whole["scaled"]),
            previous=bool(whole["previous"]),
            team=_team(whole["team"]),
            custom=_custom(whole["custom"]),
            log_std_min=float(whole["log_std_min"]),
        )
        # Whatever the conversions bent ("false", 64.5) or left out (a key of another version) shows here.
        if json.loads(json.dumps(spec.to_dict())) != json.loads(json.dumps(whole)):
            raise ValueError("it has keys or values that no description of this version has")
        problem = spec.misfit()
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise CheckpointError(f"The policy's description cannot be read ({reason}).") from error
    if problem:
        raise CheckpointError(f"This version does not support the policy's description: {problem}.")
    return spec


def _completed(data: Any) -> dict[str, Any]:
    """Return ``data`` with the defaults of what older versions did not write."""
    whole = _LATER | dict(data)
    net = _defaults(NetSpec)
    dense = _defaults(Dense)
    whole["nets"] = [
        net | dict(given) | {"layers": [dict(x) if _is_residual(x) else dense | dict(x) for x in given["layers"]]}
        for given in data["nets"]
    ]
    whole["action"] = {"kind": "Box"} | dict(data["action"])
    return whole


def _defaults(kind: type) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}


def _action(data: Any) -> Actions:
    if data["kind"] == "Composite":
        if len(data["parts"]) > MAX_PARTS:
            raise ValueError(f"more parts of an action than the {MAX_PARTS} that are allowed")
        return CompositeSpec(tuple(_part(part) for part in data["parts"]))
    return _part(data)


def _part(data: Any) -> PartActions:
    if data["kind"] == "Discrete":
        return DiscreteSpec(int(data["n"]), int(data["start"]))
    if data["kind"] == "MultiDiscrete":
        return MultiDiscreteSpec(_sizes(data["nvec"]), tuple(int(start) for start in data["start"]))
    if data["kind"] == "MultiBinary":
        return MultiBinarySpec(_sizes([data["n"]])[0])
    if data["kind"] != "Box":
        raise ValueError(f"actions of the kind {str(data['kind'])[:60]!r}")
    low, high = (tuple(float(x) for x in data[side]) for side in ("low", "high"))
    return ActionSpec(low, high, bool(data["normalize"]), bool(data["clip"]))


def _value(data: Any) -> ValueSpec | None:
    if data is None:
        return None
    return ValueSpec(str(data["kind"]), _sizes([data["atoms"]])[0], float(data["low"]), float(data["high"]))


def _team(data: Any) -> TeamSpec | None:
    if data is None:
        return None
    if len(data["agents"]) > MAX_AGENTS:
        raise ValueError(f"more agents than the {MAX_AGENTS} that are allowed")
    parts = {name: tuple(int(x) for x in data[name]) for name in ("mask", "alive", "rewards", "state")}
    obs = _sizes([data["obs"]], MAX_PIXELS)[0]
    return TeamSpec(tuple(str(agent) for agent in data["agents"]), obs, _sizes(data["actions"]), **parts)  # type: ignore[arg-type]


def _sizes(values: Any, most: int = MAX_UNITS, least: int = 1) -> tuple[int, ...]:
    sizes = tuple(int(value) for value in values)
    if any(not least <= size <= most for size in sizes):
        raise ValueError(f"sizes {sizes} are not between {least} and {most}")
    return sizes


def _net(data: Any) -> NetSpec:
    blocks = sum(_sizes([layer["blocks"]])[0] for layer in data["layers"] if _is_residual(layer))
    if len(data["layers"]) + blocks + len(data["convs"]) + len(data["head_layers"]) > MAX_LAYERS:
        raise ValueError(f"more layers than the {MAX_LAYERS} that are allowed")
    inputs, heads = (
        tuple((str(name), _sizes([size], most)[0]) for name, size in data[key])
        for key, most in (("inputs", MAX_PIXELS), ("heads", MAX_OUTPUTS))
    )
    flags = {name: bool(data[name]) for name in ("zero_mean", "noisy_heads", "batch_norm", "unit_kernels", "sde")}
    net = NetSpec(
        name=str(data["name"]),
        inputs=inputs,
        layers=tuple(_residual(layer) if _is_residual(layer) else _dense(layer) for layer in data["layers"]),
        heads=heads,
        copies=_sizes([data["copies"]])[0],
        image=_sizes(data["image"]),
        image_at=_sizes([data["image_at"]], MAX_PIXELS, least=0)[0],
        convs=tuple(_conv(conv) for conv in data["convs"]),
        head_layers=tuple(_dense(layer) for layer in data["head_layers"]),
        lstm=_sizes([data["lstm"]], least=0)[0],
        free_heads=tuple(str(head) for head in data["free_heads"]),
        custom=_custom(data["custom"]),
        **flags,
    )
    if net.custom:
        net.dense_inputs()  # InputError where it is not registered: the name is looked up, nothing is imported
    if any(side < 1 for shape in net.image_shapes() for side in shape) or (net.convs and len(net.image) != 3):
        raise ValueError(f"convolutions that an image of shape {net.image} is too small for")
    return net


def _custom(data: Any) -> tuple[str, ...]:
    custom = tuple(str(text) for text in data)
    if custom and (len(custom) != 2 or not isinstance(json.loads(custom[1]), dict)):
        raise ValueError("a registered class that is no name with its arguments")
    return custom


def _dense(data: Any) -> Dense:
    activation = _activation(data["activation"])
    return Dense(_sizes([data["units"]])[0], activation, bool(data["layer_norm"]), bool(data["noisy"]))


def _is_residual(data: Any) -> bool:
    return "blocks" in data


def _residual(data: Any) -> Residual:
    units, blocks = _sizes([data["units"], data["blocks"]])
    return Residual(units, blocks, _activation(data["activation"]))


def _conv(data: Any) -> Conv:
    filters, kernel, stride = _sizes([data["filters"], data["kernel"], data["stride"]])
    if data["padding"] not in ("same", "valid"):
        raise ValueError("a padding that is neither same nor valid")
    return Conv(filters, kernel, stride, _activation(data["activation"]), data["padding"])


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ValueError(f"an activation that is none of {', '.join(ACTIVATIONS)}")
    return name
