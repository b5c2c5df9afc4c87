"""A policy as plain data: its nets, its distribution, its action bounds.

A spec is built without TensorFlow, goes into the checkpoint's manifest, is enough to play, and is what workers get.
``networks.forward`` runs it in NumPy, ``tf1.build`` makes the same nets as graph variables; the names of
``weight_shapes`` are the wire protocol between the two. Used by the algorithms (which make specs), the workers, the
tester, rollout and evaluate (which run them) and the checkpoint (which stores ``to_dict``).
"""

import dataclasses
import json
import math

import numpy as np

from drl_cli.errors import CheckpointError

ACTIVATIONS = ("relu", "tanh", "elu", "swish", "linear")
HEADS = {"squashed_gaussian": ("mean", "log_std")}  # distribution -> the heads that it reads, each of the action's size
MAX_UNITS, MAX_LAYERS = 65_536, 64  # a manifest from elsewhere must not make us allocate without bound
_MOST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class Dense:
    """A fully connected layer: ``units`` outputs, optional layer normalisation before the activation."""

    units: int
    activation: str = "relu"
    layer_norm: bool = False


@dataclasses.dataclass(frozen=True)
class NetSpec:
    """One net: its inputs are concatenated along the last axis, run through ``layers`` and end in linear ``heads``.

    ``inputs`` and ``heads`` are pairs (name, size). With ``copies > 1`` every variable has a leading axis of that
    length: twin critics are one batched matmul.
    """

    name: str
    inputs: tuple
    layers: tuple
    heads: tuple
    copies: int = 1

    @property
    def input_size(self):
        """Number of input columns."""
        return sum(size for _, size in self.inputs)

    def weight_shapes(self):
        """Return {variable name: shape} in the order in which the net uses them."""
        lead = (self.copies,) if self.copies > 1 else ()
        shapes, width = {}, self.input_size
        for index, layer in enumerate(self.layers):
            scope = f"{self.name}/dense_{index}"
            shapes[f"{scope}/kernel"] = (*lead, width, layer.units)
            shapes[f"{scope}/bias"] = (*lead, layer.units)
            if layer.layer_norm:
                shapes[f"{scope}/norm_scale"] = (*lead, layer.units)
                shapes[f"{scope}/norm_offset"] = (*lead, layer.units)
            width = layer.units
        for head, size in self.heads:
            shapes[f"{self.name}/{head}/kernel"] = (*lead, width, size)
            shapes[f"{self.name}/{head}/bias"] = (*lead, size)
        return shapes

    def initial_weights(self, rng, head_scale=1.0):
        """Return {name: float32 array}: Glorot-uniform kernels (Glorot & Bengio 2010, eq. 16), zero biases.

        ``rng`` is a ``numpy.random.Generator``; ``head_scale`` multiplies the kernels of the heads. Initial weights are
        drawn in NumPy so that they exist before TensorFlow is loaded and do not depend on its version.
        """
        heads = tuple(f"{self.name}/{head}/kernel" for head, _ in self.heads)
        weights = {}
        for name, shape in self.weight_shapes().items():
            if name.endswith("/kernel"):
                limit = math.sqrt(6.0 / (shape[-2] + shape[-1])) * (head_scale if name in heads else 1.0)
                weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
            else:
                weights[name] = np.full(shape, 1.0 if name.endswith("norm_scale") else 0.0, np.float32)
        return weights


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """Bounds of a Box action, each a tuple of A floats, and how a policy's action becomes the environment's.

    With ``normalize`` the policy acts in [-1, 1] and ``to_env`` rescales; otherwise it acts in the environment's
    units. ``clip`` cuts what goes to the environment at its bounds (exploration noise may leave them).
    """

    low: tuple
    high: tuple
    normalize: bool = True
    clip: bool = True

    @property
    def size(self):
        """Number of action dimensions A."""
        return len(self.low)

    def policy_bounds(self):
        """Return (low, high), float32 [A] each: the bounds in which the policy acts."""
        if self.normalize:
            return -np.ones(self.size, np.float32), np.ones(self.size, np.float32)
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """Everything needed to act: the acting nets, the distribution over their heads, observation and action spaces.

    ``obs_shape`` is the shape of one observation; ``state`` the shapes of the recurrent state, ``()`` for feed-forward
    nets.
    """

    nets: tuple
    distribution: str
    obs_shape: tuple
    action: ActionSpec
    state: tuple = ()

    def weight_shapes(self):
        """Return {variable name: shape} of all acting nets."""
        return {name: shape for net in self.nets for name, shape in net.weight_shapes().items()}

    def weight_names(self):
        """Return the names of all acting variables, in order."""
        return list(self.weight_shapes())

    def to_dict(self):
        """Return the spec as JSON-able data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data):
        """Rebuild a spec from ``to_dict``'s data, which may come from somebody else's file.

        Raises CheckpointError for anything that is not exactly a spec of this version.
        """
        try:
            nets = tuple(_net_from(net) for net in data["nets"])
            action = ActionSpec(
                low=tuple(float(x) for x in data["action"]["low"]),
                high=tuple(float(x) for x in data["action"]["high"]),
                normalize=bool(data["action"]["normalize"]),
                clip=bool(data["action"]["clip"]),
            )
            spec = cls(nets, str(data["distribution"]), _sizes(data["obs_shape"]), action, tuple(data["state"]))
            # Whatever the conversions above bent ("false", 64.5) or left out (a key of another version) shows here.
            if json.loads(json.dumps(spec.to_dict())) != json.loads(json.dumps(data)):
                raise ValueError("it has keys or values that no description of this version has")
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise CheckpointError(f"The policy's description cannot be read ({reason}).") from error
        problem = spec.misfit()
        if problem:
            raise CheckpointError(f"The policy's description asks for what this version cannot run: {problem}.")
        return spec

    def misfit(self):
        """Return in words why this spec cannot act, or None: its parts must fit one another and this version."""
        action, size = self.action, self.action.size
        if self.distribution not in HEADS or self.state != ():
            known = ", ".join(HEADS)
            return (
                f"distribution {self.distribution[:60]!r}, state {str(self.state)[:60]}. Known distributions: {known}"
            )
        if len(self.nets) != 1 or self.nets[0].copies != 1:
            return f"{len(self.nets)} nets of {[net.copies for net in self.nets][:5]} copies; one net of one copy acts"
        if self.nets[0].input_size != math.prod(self.obs_shape):
            return f"a net of {self.nets[0].input_size} inputs for observations of shape {self.obs_shape}"
        expected = tuple((head, size) for head in HEADS[self.distribution])
        if size < 1 or self.nets[0].heads != expected:
            return f"heads {str(self.nets[0].heads)[:100]} for {size} action dimensions"
        if len(action.high) != size or not all(
            -_MOST < low < high < _MOST for low, high in zip(action.low, action.high)
        ):
            return f"action bounds from {str(action.low)[:60]} to {str(action.high)[:60]}"
        return None


def _sizes(values):
    sizes = tuple(int(value) for value in values)
    if any(not 1 <= size <= MAX_UNITS for size in sizes):
        raise ValueError(f"sizes {sizes} are not between 1 and {MAX_UNITS}")
    return sizes


def _net_from(data):
    layers = tuple(
        Dense(_sizes([layer["units"]])[0], str(layer["activation"]), bool(layer["layer_norm"]))
        for layer in data["layers"]
    )
    if len(layers) > MAX_LAYERS:
        raise ValueError(f"{len(layers)} layers; at most {MAX_LAYERS} are allowed")
    if any(layer.activation not in ACTIVATIONS for layer in layers):
        raise ValueError(f"an activation that is none of {', '.join(ACTIVATIONS)}")
    pairs = [tuple((str(name), _sizes([size])[0]) for name, size in data[key]) for key in ("inputs", "heads")]
    return NetSpec(str(data["name"]), pairs[0], layers, pairs[1], _sizes([data["copies"]])[0])
