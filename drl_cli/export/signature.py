"""What goes into an exported policy and what comes out: names, dtypes, shapes, in words. Needs NumPy alone.

The same in every format, so that a program changes its runtime and nothing else. Shapes are without the leading axis of rows,
which is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from drl_cli.policies.action_specs import Actions, ActionSpec

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec

ACTION_DTYPES = {"Box": "float32", "Discrete": "int64", "MultiDiscrete": "int64", "MultiBinary": "int8"}


class Port(NamedTuple):
    """An input or output: ``shape`` of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str


def inputs(spec: PolicySpec) -> list[Port]:
    """Return the Ports of what a policy (PolicySpec) takes, in order: obs, state_0 …, reward."""
    ports = [Port("obs", spec.obs_dtype, tuple(spec.stacked_shape), _obs(spec))]
    for index, shape in enumerate(spec.state):
        meaning = f"zeros at an episode's start, then next_state_{index} of the step before"
        ports.append(Port(f"state_{index}", "float32", tuple(shape), meaning))
    if spec.previous:
        meaning = "what the environment gave for the last action, 0 at an episode's start"
        ports.append(Port("reward", "float32", (), meaning))
    return ports


def outputs(spec: PolicySpec) -> list[Port]:
    """Return the Ports of what a policy (PolicySpec) gives, in order: action, next_state_0 …"""
    action = Port("action", ACTION_DTYPES[spec.action.kind], tuple(spec.action.shape), _action(spec.action))
    states = [
        Port(f"next_state_{index}", "float32", tuple(shape), f"state_{index} of the next step")
        for index, shape in enumerate(spec.state)
    ]
    return [action, *states]


def _obs(spec: PolicySpec) -> str:
    what = (
        "the observation"
        if spec.frames == 1
        else f"the last {spec.frames} observations along the last axis, oldest first"
    )
    if spec.frames > 1:
        what += "; the first one repeated at an episode's start"
    inner = []
    if spec.nets[0].image and spec.obs_dtype == "uint8":
        inner.append("scaling of bytes")
    if spec.filter:
        inner.append("the observation filter")
    within = f"; {' and '.join(inner)} is inside" if inner else ""
    mask = ""
    if spec.mask:
        start, count = spec.mask
        mask = f"; its numbers {start} to {start + count - 1} say which actions are allowed (1)"
    return what + within + mask


def _action(action: Actions) -> str:
    if isinstance(action, ActionSpec):
        clipped = ", clipped to its bounds" if action.clip else ""
        return f"in the environment's units{clipped}"
    if action.kind == "MultiBinary":
        return "switches, 0 or 1"
    return "action index"
