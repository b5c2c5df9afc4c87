"""What a policy does when it does not explore, as ONNX nodes: the twin of ``policies.greedy_tf`` and of
``policies.numpy_policy.NumpyPolicy``.

Used by ``onnx_file``. Filter, scaling of bytes, mask, nets, memory, distribution, scaling and clipping of actions are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from drl_cli.errors import InputError
from drl_cli.export.onnx_net import Nodes, OnnxNet
from drl_cli.policies.action_specs import (
    Actions,
    ActionSpec,
    DiscreteSpec,
    MultiBinarySpec,
    box,
    discrete,
    multi_discrete,
    without_parts,
)
from drl_cli.policies.distributions import FILL
from drl_cli.policies.filters import CLIP, EPSILON, MEAN, VAR

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec


class OnnxPolicy:
    """Adds the nodes of ``spec`` (PolicySpec) with ``weights`` ({name: float32 array}) to ``nodes`` (Nodes)."""

    def __init__(self, nodes: Nodes, spec: PolicySpec, weights: Mapping[str, np.ndarray]) -> None:
        self._nodes, self._spec, self._weights = nodes, spec, weights
        self._net = OnnxNet(nodes, spec.nets[0], weights)

    def build(self) -> None:
        """Add everything between the inputs and outputs of ``signature``, by whose names these go. InputError for a team."""
        spec, nodes = self._spec, self._nodes
        if spec.team:
            raise InputError(
                "ONNX: the policy of a team is not exported in this format. Take --format savedmodel or tflite."
            )
        x, state = self._given(), ()
        if spec.state:
            inputs, cells = [x], ("state_0", "state_1")
            if spec.previous:
                reward = nodes.reshaped("reward", [-1, 1])
                inputs.append(nodes("Concat", nodes.columns("state_2", 0, spec.previous_size - 1), reward, axis=-1))
            x, state = self._net.step(self._net.features(inputs), cells)
        else:
            x = self._net.features([x])
        action = self._chosen(x)
        if spec.previous:
            state = (*state, self._noted(action))
        self._to_env(action)
        for index, part in enumerate(state):
            nodes("Identity", part, into=f"next_state_{index}")

    def _given(self) -> str:
        """The observation as the net takes it: bytes scaled, numbers filtered."""
        nodes, net, x = self._nodes, self._spec.nets[0], "obs"
        if self._spec.obs_dtype == "uint8":
            x = nodes("Cast", x, to=TensorProto.FLOAT)
            if net.zero_mean:
                return nodes("Div", nodes("Sub", x, np.float32(128.0)), np.float32(128.0))
            return nodes("Div", x, np.float32(255.0))
        if self._spec.filter:
            deviation = np.sqrt(self._weights[VAR]) + np.float32(EPSILON)
            x = nodes("Div", nodes("Sub", x, self._weights[MEAN]), deviation)
            x = nodes("Clip", x, np.float32(-CLIP), np.float32(CLIP))
        if not net.image and len(self._spec.stacked_shape) > 1:
            x = nodes.reshaped(x, [-1, int(np.prod(self._spec.stacked_shape))])
        return x

    def _chosen(self, x: str) -> str:
        """The greedy action: float32 [N, A] in the policy's bounds, or int64 [N] or [N, k]; switches as bool."""
        nodes, kind = self._nodes, self._spec.distribution
        if kind in ("squashed_gaussian", "deterministic"):
            low, high = box(self._spec.action).policy_bounds()
            squashed = nodes("Mul", nodes("Tanh", self._net.head(x, "mean")), (high - low) / 2)
            return nodes("Add", squashed, (high + low) / 2)
        if kind == "gaussian":
            return self._net.head(x, "mean")
        if kind == "q":
            return self._largest(self._masked(self._values(x)))
        logits = self._net.head(x, "logits")
        if kind == "categorical":
            return self._largest(self._masked(logits))
        if kind == "multi_bernoulli":
            return nodes("Greater", logits, np.float32(0.0))
        each = self._parts(logits)
        columns = [nodes("ArgMax", part, axis=-1, keepdims=1) for part in each]  # [N, 1] each
        return nodes("Concat", *columns, axis=-1) if len(columns) > 1 else columns[0]

    def _parts(self, x: str) -> list[str]:
        """The columns of each choice of a MultiDiscrete action."""
        nvec = multi_discrete(self._spec.action).nvec
        return self._nodes("Split", x, np.asarray(nvec, np.int64), count=len(nvec), axis=-1) if len(nvec) > 1 else [x]

    def _largest(self, values: str) -> str:
        return self._nodes("ArgMax", values, axis=-1, keepdims=0)

    def _values(self, x: str) -> str:
        """Action values [N, n]: dueling streams joined, expectations over atoms."""
        nodes, value, n = self._nodes, self._spec.value_spec, discrete(self._spec.action).n
        shape = [-1, n, value.atoms]
        if "q" in dict(self._spec.nets[0].heads):
            atoms = nodes.reshaped(self._net.head(x, "q"), shape)
        else:
            advantage = nodes.reshaped(self._net.head(x, "advantage"), shape)
            centred = nodes("Sub", advantage, nodes("ReduceMean", advantage, axes=[1], keepdims=1))
            atoms = nodes("Add", nodes.reshaped(self._net.head(x, "value"), [-1, 1, value.atoms]), centred)
        if value.kind == "categorical":
            return nodes("MatMul", nodes("Softmax", atoms, axis=-1), value.support())
        return nodes("ReduceMean", atoms, axes=[-1], keepdims=0)

    def _masked(self, values: str) -> str:
        """``values`` [N, n] with ``FILL`` for what the observation forbids; where it forbids all, all are allowed."""
        if not self._spec.mask:
            return values
        nodes, (start, count) = self._nodes, self._spec.mask
        yes = nodes("Greater", nodes.columns("obs", start, start + count), np.float32(0.5))
        most = nodes("ReduceMax", nodes("Cast", yes, to=TensorProto.FLOAT), axes=[-1], keepdims=1)
        allowed = nodes("Or", yes, nodes("Less", most, np.float32(0.5)))
        return nodes("Where", allowed, values, np.float32(FILL))

    def _noted(self, action: str) -> str:
        """What the next step sees of ``action``, and a reward of 0 to be filled in, [N, size + 1]."""
        nodes, given = self._nodes, self._spec.action
        if isinstance(given, ActionSpec):
            low, high = given.policy_bounds()
            encoded = nodes("Div", nodes("Sub", action, (high + low) / 2), (high - low) / 2)
            encoded = nodes("Clip", encoded, np.float32(-1.0), np.float32(1.0))
        elif given.kind == "MultiBinary":
            encoded = nodes("Cast", action, to=TensorProto.FLOAT)
        else:
            counts = _counts(given)
            columns = nodes.reshaped(action, [-1, len(counts)])
            parts = nodes("Split", columns, np.ones(len(counts), np.int64), count=len(counts), axis=-1)
            each = [nodes("Equal", part, np.arange(n)) for part, n in zip(_listed(parts), counts, strict=True)]
            each = [nodes("Cast", part, to=TensorProto.FLOAT) for part in each]
            encoded = nodes("Concat", *each, axis=-1) if len(each) > 1 else each[0]
        nothing = nodes("Mul", nodes.columns(encoded, 0, 1), np.float32(0.0))
        return nodes("Concat", encoded, nothing, axis=-1)

    def _to_env(self, action: str) -> None:
        nodes, given = self._nodes, without_parts(self._spec.action)
        if isinstance(given, MultiBinarySpec):
            nodes("Cast", action, to=TensorProto.INT8, into="action")
        elif not isinstance(given, ActionSpec):
            nodes("Add", action, np.asarray(given.start, np.int64), into="action")
        else:
            low, high = np.asarray(given.low, np.float32), np.asarray(given.high, np.float32)
            if given.normalize:
                action = nodes("Add", nodes("Mul", action, (high - low) / 2), (high + low) / 2)
            if given.clip:  # Clip takes one bound for all; bounds here are one for each dimension
                action = nodes("Min", nodes("Max", action, low), high)
            nodes("Identity", action, into="action")


def _listed(parts: str | list[str]) -> list[str]:
    return parts if isinstance(parts, list) else [parts]


def _counts(action: Actions) -> list[int]:
    """The number of actions of each choice."""
    return [action.n] if isinstance(action, DiscreteSpec) else list(multi_discrete(action).nvec)
