"""A policy as plain data: its networks, its distribution, its observations and actions.

A spec is built without TensorFlow, stored in the checkpoint's manifest, sent to workers, and sufficient for playing.
Used by the algorithms (which create specs), the workers, the tester, rollout and evaluate (which run them) and the
checkpoint (which stores ``to_dict``; ``policies.policy_from_manifest`` reads it back).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.policies import custom_distributions, filters
from drl_cli.policies.action_specs import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    MAX_UNITS,
    Actions,
    ActionSpec,
    CompositeSpec,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
)
from drl_cli.policies.nets import ACTIVATIONS, Conv, Dense, NetSpec
from drl_cli.policies.team_spec import TeamSpec

if TYPE_CHECKING:
    from drl_cli.policies.nets import Shapes

__all__ = [
    "ACTIVATIONS",
    "ActionSpec",
    "CompositeSpec",
    "Conv",
    "Dense",
    "DiscreteSpec",
    "MultiBinarySpec",
    "MultiDiscreteSpec",
    "NetSpec",
    "PolicySpec",
    "TeamSpec",
    "ValueSpec",
]

ACTIONS_OF = {
    "squashed_gaussian": "Box",
    "deterministic": "Box",
    "gaussian": "Box",
    "categorical": "Discrete",
    "q": "Discrete",
    "joint_q": "MultiDiscrete",
    "multi_categorical": "MultiDiscrete",
    "multi_bernoulli": "MultiBinary",
    "composite": "Composite",
    "hybrid": "Composite",
    "custom": "",
}
"""The distributions, and the kind of actions that each is over; "" is any."""
SCORED = (
    "gaussian",
    "categorical",
    "multi_categorical",
    "multi_bernoulli",
    "composite",
    "custom",
)  # those with log-probabilities in NumPy
VALUE_HEAD = ("value", 1)
VALUE_KINDS = ("scalar", "categorical", "quantile")
OBS_DTYPES = ("float32", "uint8")
MAX_LAYERS = 64  # as MAX_UNITS: a manifest from elsewhere must not make us allocate without bound
MAX_PIXELS = 2**24
MAX_OUTPUTS = 2**22  # of a head: actions times atoms
MAX_JOINT = 256  # joint choices of a "hybrid" policy, each of which its critics value
_MOST = float(np.finfo(np.float32).max)


def joint_misfit(action: CompositeSpec) -> str | None:
    """Return in words why no Gaussian over Boxes with joint choices is over ``action``, or None."""
    others = sorted({part.kind for part in action.parts} - {"Box", "Discrete"})
    if others:
        return f"parts that are {' and '.join(others)}, where Box and Discrete ones are allowed"
    if action.joint_choices() > MAX_JOINT:
        return f"{action.joint_choices():,} joint choices of its Discrete parts, where {MAX_JOINT} are allowed"
    return None


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

    def support(self) -> np.ndarray:
        """Return the values of the atoms of a categorical head, float32 [atoms]."""
        return np.linspace(self.low, self.high, self.atoms, dtype=np.float32)

    def misfit(self) -> str | None:
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

    ``nets[0]`` is the acting network; further nets are critics (for a worker's initial priorities, or the state value).
    ``obs_shape`` is the shape of one observation, or of one frame if ``frames`` of them are stacked along the last axis;
    ``state`` the shapes of the recurrent state, ``()`` for feed-forward nets; ``value`` describes the heads of a "q"
    distribution.

    ``scored``: acting records the log-probability of each action, and a net has a head "value": the acting one where both
    are shared, else the second. ``mask``: (start, n) where n numbers of the observation from ``start`` on say which of n
    Discrete actions are allowed (above ½), ``()`` if all are. ``filter``: observations, except for the mask, are normalised
    before they enter a network; ``scaled``: training rewards are scaled (``policies.filters``).
    ``team``: the acting net sees one agent's part of the observation and acts for it; actions are those of all agents. With as
    many copies as agents each has weights of its own. A recurrent state is [A, …] then, and a net with a head "value" beside
    the acting one sees the state before the agent's part.
    ``previous``: a recurrent net also receives the previous action (one-hot, or within ±1; zeros at the
    start of an episode) and its reward, which are the last part of ``state``.
    ``custom``: (name, options as JSON) of the registered distribution (``policies.custom_distributions``) where
    ``distribution`` is "custom", else ``()``.
    ``log_std_min``: lower bound of the log standard deviations of a "gaussian".
    """

    nets: tuple[NetSpec, ...]
    distribution: str
    obs_shape: tuple[int, ...]
    action: Actions
    state: tuple[tuple[int, ...], ...] = ()
    obs_dtype: str = "float32"
    frames: int = 1
    value: ValueSpec | None = None
    scored: bool = False
    mask: tuple[int, ...] = ()
    filter: bool = False
    scaled: bool = False
    previous: bool = False
    team: TeamSpec | None = None
    custom: tuple[str, ...] = ()
    log_std_min: float = LOG_STD_MIN

    @property
    def sees_images(self) -> bool:
        """Whether an observation is an image."""
        return len(self.obs_shape) == 3

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Shape of what the acting net looks at: ``frames`` observations stacked along the last axis."""
        if self.frames == 1:
            return tuple(self.obs_shape)
        return (*self.obs_shape[:-1], self.obs_shape[-1] * self.frames)

    @property
    def previous_size(self) -> int:
        """How many numbers the previous action and reward are, 0 where they are not seen."""
        return self.action.size + 1 if self.previous else 0

    @property
    def value_spec(self) -> ValueSpec:
        """What the heads of a "q" distribution hold. Raises ValueError for any other distribution."""
        if self.value is None:
            raise ValueError(f"the distribution {self.distribution} has no action values")
        return self.value

    @property
    def is_noisy(self) -> bool:
        """Whether the acting net draws some of its weights at every act."""
        net = self.nets[0]
        return net.noisy_heads or any(layer.noisy for layer in (*net.layers, *net.head_layers))

    @property
    def stepwise(self) -> tuple[str, ...]:
        """Names of the state's columns that a trajectory keeps for every step, not for a sequence's start alone."""
        return (f"state_{len(self.state) - 1}",) if self.previous else ()

    def weight_shapes(self) -> Shapes:
        """Return {variable name: shape} of all nets and filters."""
        nets = {name: shape for net in self.nets for name, shape in net.weight_shapes().items()}
        return nets | filters.weight_shapes(self)

    def weight_names(self) -> list[str]:
        """Return the names of all variables, in order."""
        return list(self.weight_shapes())

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON-able data."""
        data = dataclasses.asdict(self)
        data["action"]["kind"] = self.action.kind
        if isinstance(self.action, CompositeSpec):
            for part, described in zip(self.action.parts, data["action"]["parts"], strict=True):
                described["kind"] = part.kind
        return data

    def misfit(self) -> str | None:
        """Return in words why this spec cannot act, or None: its parts must fit one another and this version."""
        if self.distribution not in ACTIONS_OF:
            return f"distribution {self.distribution[:60]!r}. Known distributions: {', '.join(ACTIONS_OF)}"
        return (
            self._nets_misfit()
            or self._state_misfit()
            or self._inputs_misfit()
            or self._value_misfit()
            or self.action.misfit()
            or (self.value.misfit() if self.value else None)
            or self._heads_misfit()
            or self._scores_misfit()
            or self._sight_misfit()
            or self._team_misfit()
        )

    def _nets_misfit(self) -> str | None:
        """Whether there is one net that acts, and every net has a name of its own."""
        if not self.nets or self.nets[0].copies not in (1, self.team.count if self.team else 1):
            return f"{len(self.nets)} nets of {[net.copies for net in self.nets][:5]} copies; one net of one copy acts"
        if len({net.name for net in self.nets}) < len(self.nets):
            return f"several nets of one name: {', '.join(net.name[:60] for net in self.nets[:5])}"
        for net in self.nets:
            plain = all(isinstance(layer, Dense) and not (layer.layer_norm or layer.noisy) for layer in net.layers)
            if net.unit_kernels and not (net.batch_norm and plain and not net.head_layers and not net.noisy_heads):
                return (
                    f"kernels of unit length without batch normalisation or in other than plain layers: {net.name[:60]}"
                )
        return None

    def _state_misfit(self) -> str | None:
        """Whether the recurrent state is that of the acting net, and no other net has one."""
        net = self.nets[0]
        if not set(net.free_heads) <= {head for head, _ in net.heads}:
            return f"free heads {str(net.free_heads)[:60]} that are no heads"
        if self.previous and not net.lstm:
            return "previous actions and rewards for a net without recurrent cells"
        before = ((self.previous_size,),) if self.previous else ()
        own = tuple((self.team.count, *shape) if self.team else shape for shape in net.state_shapes)
        if self.state != own + before or (net.lstm and (net.batch_norm or net.sde)):
            return f"the recurrent state {str(self.state)[:60]} for a net of {net.lstm} recurrent cells"
        if any(judge.lstm for judge in self.nets[1:]):
            return "recurrent cells in a critic network"
        return None

    def _inputs_misfit(self) -> str | None:
        """Whether the acting net takes such observations."""
        net = self.nets[0]
        size = (self.team.obs if self.team else math.prod(self.stacked_shape)) + self.previous_size
        end = net.image_at + math.prod(net.image)
        holds = net.image == self.stacked_shape or (len(self.stacked_shape) == 1 and net.image_at >= 0 and end <= size)
        if net.input_size != size or (net.image and not holds):
            return f"a net of {net.input_size} inputs for observations of shape {self.stacked_shape}"
        if self.obs_dtype not in OBS_DTYPES or (self.obs_dtype == "uint8" and not net.image):
            return f"observations of {self.obs_dtype[:60]} for a net of {net.image or 'numbers'}"
        return None

    def _value_misfit(self) -> str | None:
        """Whether there are action values for the distribution that needs them, and for no other."""
        if (self.distribution == "q") != (self.value is not None):
            return f"values {str(self.value)[:100]} for the distribution {self.distribution}"
        return None

    def _heads_misfit(self) -> str | None:
        if (self.distribution == "custom") != bool(self.custom) or (self.custom and self.team is not None):
            return f"the registered distribution {str(self.custom)[:60]} for the distribution {self.distribution}"
        if ACTIONS_OF[self.distribution] not in ("", self.action.kind):
            return f"the distribution {self.distribution} over {self.action.kind} actions"
        if not LOG_STD_MIN <= self.log_std_min <= LOG_STD_MAX:
            return f"a lower bound of {self.log_std_min} for log standard deviations"
        if self.distribution == "hybrid" and isinstance(self.action, CompositeSpec):
            problem = joint_misfit(self.action)
            if problem:
                return problem
        heads = tuple(head for head in self.nets[0].heads if not self.scored or head != VALUE_HEAD)
        if heads not in self._possible_heads():
            return f"heads {str(self.nets[0].heads)[:100]} for {self.action.size} action dimensions"
        return None

    def _scores_misfit(self) -> str | None:
        """Whether something says what the acting net's states are worth, where actions are scored."""
        if not self.scored:
            return None
        if self.distribution not in SCORED:
            return f"scored actions of the distribution {self.distribution}"
        judges = [net.heads for net in self.nets[1:]]
        if judges != ([] if VALUE_HEAD in self.nets[0].heads else [(VALUE_HEAD,)]):
            return f"judging heads {str(judges)[:100]} beside the acting net's {str(self.nets[0].heads)[:100]}"
        acting = self.nets[0]
        seen = (("state", self.team.state[1]), *acting.inputs) if self.team else acting.inputs
        look = (seen, acting.image, acting.image_at, acting.copies)
        if any((net.inputs, net.image, net.image_at, net.copies) != look for net in self.nets[1:]):
            return "a net for values that looks at something else than the one that acts"
        return None

    def _sight_misfit(self) -> str | None:
        """Whether mask and filter fit the observations."""
        vector = len(self.obs_shape) == 1
        if self.filter and ((self.nets[0].image and not vector) or self.frames > 1):
            return "a filter of observations that are images"
        if not self.mask:
            return None
        start, count = self.mask if len(self.mask) == 2 else (-1, 0)
        fits = vector and self.action.kind == "Discrete" and not self.custom and count == self.action.size
        if not fits or start < 0 or start + count > self.obs_shape[0]:
            return f"the mask {str(self.mask)[:60]} for {self.action.size} actions and observations of {self.obs_shape}"
        return None

    def _team_misfit(self) -> str | None:
        """Whether a team's parts are those of the observations, and its actions those of its agents."""
        if self.team is None:
            return "action values of a team without a team" if self.distribution == "joint_q" else None
        if len(self.obs_shape) != 1 or self.frames != 1 or self.filter or self.mask or self.previous:
            return (
                f"a team in observations of {self.obs_shape}, {self.frames} frames, that are filtered or masked as one"
            )
        acted = (
            self.action.nvec if isinstance(self.action, MultiDiscreteSpec) else (self.team.widest,) * self.team.count
        )
        if self.action.size != sum(acted) or (self.action.kind == "MultiDiscrete" and acted != self.team.actions):
            return f"{self.action.size} action dimensions of a team of {self.team.actions}"
        return self.team.misfit(self.obs_shape[0])

    def _possible_heads(self) -> tuple[Any, ...]:
        if self.custom:
            return (custom_distributions.of(self).heads,)
        if isinstance(self.action, CompositeSpec):
            return (self.action.joint_heads() if self.distribution == "hybrid" else self.action.heads(),)
        size = self.team.widest if self.team else self.action.size
        if self.distribution == "joint_q":
            return ((("q", size),),)
        if self.distribution == "q":
            atoms = self.value_spec.atoms
            return ((("q", size * atoms),), (("value", atoms), ("advantage", size * atoms)))
        if self.distribution in ("squashed_gaussian", "gaussian"):
            return ((("mean", size), ("log_std", size)),)
        return ((("mean" if self.distribution == "deterministic" else "logits", size),),)
