"""A policy as plain data: its nets, its distribution, its observations and actions.

A spec is built without TensorFlow, goes into the checkpoint's manifest, is enough to play, and is what workers get.
Used by the algorithms (which make specs), the workers, the tester, rollout and evaluate (which run them) and the
checkpoint (which stores ``to_dict``; ``networks.reading`` reads it back).
"""

import dataclasses
import math

import numpy as np

from drl_cli.networks import filtering
from drl_cli.networks.nets import ACTIVATIONS, Conv, Dense, NetSpec

__all__ = ["ACTIVATIONS", "ActionSpec", "Conv", "Dense", "DiscreteSpec", "NetSpec", "PolicySpec", "ValueSpec"]

DISTRIBUTIONS = ("squashed_gaussian", "deterministic", "categorical", "q")
VALUE_KINDS = ("scalar", "categorical", "quantile")
OBS_DTYPES = ("float32", "uint8")
MAX_UNITS, MAX_LAYERS = 65_536, 64  # a manifest from elsewhere must not make us allocate without bound
MAX_PIXELS = 2**24
MAX_OUTPUTS = 2**22  # of a head: actions times atoms
_MOST = float(np.finfo(np.float32).max)


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

    @property
    def shape(self):
        """Shape of one action, (A,)."""
        return (len(self.low),)

    @property
    def dtype(self):
        """Name of the actions' dtype."""
        return "float32"

    def policy_bounds(self):
        """Return (low, high), float32 [A] each: the bounds in which the policy acts."""
        if self.normalize:
            return -np.ones(self.size, np.float32), np.ones(self.size, np.float32)
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)

    def misfit(self):
        """Return in words why these bounds cannot be acted in, or None."""
        fits = len(self.high) == self.size >= 1
        if not fits or not all(-_MOST < low < high < _MOST for low, high in zip(self.low, self.high, strict=True)):
            return f"action bounds from {str(self.low)[:60]} to {str(self.high)[:60]}"
        return None


@dataclasses.dataclass(frozen=True)
class DiscreteSpec:
    """``n`` actions; the policy counts them from 0, the environment from ``start``."""

    n: int
    start: int = 0

    @property
    def size(self):
        """Number of actions n."""
        return self.n

    @property
    def shape(self):
        """Shape of one action: a scalar."""
        return ()

    @property
    def dtype(self):
        """Name of the actions' dtype."""
        return "int32"

    def misfit(self):
        """Return in words why there is nothing to choose from, or None."""
        fits = 1 <= self.n <= MAX_UNITS and abs(self.start) < 2**31
        return None if fits else f"{self.n} actions from {self.start} on"


@dataclasses.dataclass(frozen=True)
class ValueSpec:
    """What a head of action values holds: one number each, or ``atoms`` of them.

    "categorical": the logits of ``atoms`` values evenly spaced from ``low`` to ``high`` (Bellemare et al. 2017, C51).
    "quantile": ``atoms`` quantiles (Dabney et al. 2018).
    """

    kind: str = "scalar"
    atoms: int = 1
    low: float = 0.0
    high: float = 0.0

    def support(self):
        """Return the values of the atoms of a categorical head, float32 [atoms]."""
        return np.linspace(self.low, self.high, self.atoms, dtype=np.float32)

    def misfit(self):
        """Return in words why such values cannot be, or None."""
        fits = self.kind in VALUE_KINDS and 1 <= self.atoms <= MAX_UNITS
        if self.kind == "scalar":
            fits = fits and self.atoms == 1
        if self.kind == "categorical":
            fits = fits and self.atoms > 1 and -_MOST < self.low < self.high < _MOST
        return None if fits else f"values {str(self)[:100]}"


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """Everything needed to act: the nets, the distribution over the first one's heads, observations and actions.

    ``nets[0]`` acts; further nets judge (a worker's first priorities). ``obs_shape`` is the shape of one observation, of one
    frame where ``frames`` of them are stacked along the last axis; ``state`` the shapes of the recurrent state, ``()`` for
    feed-forward nets; ``value`` says what the heads of a "q" distribution hold. ``filter`` normalises observations before any
    net sees them, ``scaled`` puts the rewards that are learnt from on a common scale (``networks.filtering``).
    """

    nets: tuple
    distribution: str
    obs_shape: tuple
    action: ActionSpec | DiscreteSpec
    state: tuple = ()
    obs_dtype: str = "float32"
    frames: int = 1
    value: ValueSpec | None = None
    filter: bool = False
    scaled: bool = False

    @property
    def stacked_shape(self):
        """Shape of what the acting net looks at: ``frames`` observations stacked along the last axis."""
        if self.frames == 1:
            return tuple(self.obs_shape)
        return (*self.obs_shape[:-1], self.obs_shape[-1] * self.frames)

    def weight_shapes(self):
        """Return {variable name: shape} of all nets and filters."""
        nets = {name: shape for net in self.nets for name, shape in net.weight_shapes().items()}
        return nets | filtering.weight_shapes(self)

    def weight_names(self):
        """Return the names of all variables, in order."""
        return list(self.weight_shapes())

    def to_dict(self):
        """Return the spec as JSON-able data."""
        data = dataclasses.asdict(self)
        data["action"]["kind"] = "Discrete" if isinstance(self.action, DiscreteSpec) else "Box"
        return data

    def misfit(self):
        """Return in words why this spec cannot act, or None: its parts must fit one another and this version."""
        if self.distribution not in DISTRIBUTIONS:
            return f"distribution {self.distribution[:60]!r}. Known distributions: {', '.join(DISTRIBUTIONS)}"
        if not self.nets or self.nets[0].copies != 1:
            return f"{len(self.nets)} nets of {[net.copies for net in self.nets][:5]} copies; one net of one copy acts"
        if len({net.name for net in self.nets}) < len(self.nets):
            return f"several nets of one name: {', '.join(net.name[:60] for net in self.nets[:5])}"
        net = self.nets[0]
        if self.state != net.state_shapes or (net.lstm and (net.batch_norm or net.sde)):
            return f"the recurrent state {str(self.state)[:60]} for a net of {net.lstm} recurrent cells"
        if any(judge.lstm for judge in self.nets[1:]):
            return "recurrent cells in a net that only judges"
        if net.input_size != math.prod(self.stacked_shape) or (net.image and net.image != self.stacked_shape):
            return f"a net of {net.input_size} inputs for observations of shape {self.stacked_shape}"
        if self.obs_dtype not in OBS_DTYPES or (self.obs_dtype == "uint8" and not net.image):
            return f"observations of {self.obs_dtype[:60]} for a net of {net.image or 'numbers'}"
        if self.filter and (net.image or self.frames > 1):
            return "a filter of observations that are images"
        if (self.distribution == "q") != (self.value is not None):
            return f"values {str(self.value)[:100]} for the distribution {self.distribution}"
        return self.action.misfit() or (self.value.misfit() if self.value else None) or self._heads_misfit()

    def _heads_misfit(self):
        box = isinstance(self.action, ActionSpec)
        if box != (self.distribution in ("squashed_gaussian", "deterministic")):
            return f"the distribution {self.distribution} over {'continuous' if box else 'discrete'} actions"
        if self.nets[0].heads not in self._possible_heads():
            return f"heads {str(self.nets[0].heads)[:100]} for {self.action.size} action dimensions"
        return None

    def _possible_heads(self):
        size = self.action.size
        if self.distribution == "q":
            atoms = self.value.atoms
            return ((("q", size * atoms),), (("value", atoms), ("advantage", size * atoms)))
        return {
            "squashed_gaussian": ((("mean", size), ("log_std", size)),),
            "deterministic": ((("mean", size),),),
            "categorical": ((("logits", size),),),
        }[self.distribution]
