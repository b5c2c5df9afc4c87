"""Normalisation of observations and scaling of rewards, in NumPy: the weights that a filter adds to a policy, and its function.

With ``PolicySpec.filter`` every observation is centred and divided by its running standard deviation before it enters a
network. The filter's weights, ``filter/mean`` and ``filter/var``, are published and checkpointed with those of the networks.
With ``PolicySpec.scaled`` training rewards are divided by the running standard deviation of the discounted return, whose
variance is ``filter/return_var``. ``policies.filters_tf`` is the TensorFlow form, for learning.

The statistics are counts, means and sums of squared deviations (``Moments``). Workers send *increments*, the moments of the
rows of one fragment; ``actors.running_filters`` merges them, in any order. Chan, Golub & LeVeque 1979, "Updating Formulae and
a Pairwise Algorithm for Computing Sample Variances" (in The American Statistician 1983), eq. 2.1. All in float64: in float32
a sum of squares loses the variance if the mean is large.

Sources: RLlib's MeanStdFilter (1.0.1); Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients" (arXiv
2005.12729), reward scaling and observation clipping. Deviations from RLlib:
- An element that has never varied is only centred instead of also being divided by 1e-8: the leg contacts of a lander
  that has not landed yet would enter with 1e8 at the first contact.
- The result is clipped to ±10 standard deviations, as in baselines and stable-baselines3; RLlib does not clip.
- The variance is that of all rows (divided by n), RLlib's by n - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from drl_cli.policies.nets import Shapes, Weights


class FilteredSpec(Protocol):
    """What a filter reads of a PolicySpec, which itself names the filters' weights."""

    @property
    def obs_shape(self) -> Sequence[int]: ...

    @property
    def mask(self) -> Sequence[int]: ...

    @property
    def filter(self) -> bool: ...

    @property
    def scaled(self) -> bool: ...


EPSILON = 1e-8  # beside the deviation
CLIP = 10.0  # deviations
MEAN, VAR, RETURN_VAR = "filter/mean", "filter/var", "filter/return_var"
STREAMS = {"obs": "filter/", "return": "filter/return_"}
"""What statistics are kept of → what the names of its weights, and of the learner's exact moments, begin with."""
_RESOLUTION = float(np.finfo(np.float32).eps)  # a deviation below this share of the mean is the rounding of a constant
_LEAST, _MOST = 1e-30, float(np.finfo(np.float32).max)  # variances that float32 holds with some digits to spare


def weight_shapes(spec: FilteredSpec) -> Shapes:
    """Return {name: shape} of the weights that the filters of ``spec`` (PolicySpec) add; {} without any."""
    shapes = {MEAN: tuple(spec.obs_shape), VAR: tuple(spec.obs_shape)} if spec.filter else {}
    return shapes | ({RETURN_VAR: ()} if spec.scaled else {})


def first_weights(spec: FilteredSpec) -> dict[str, np.ndarray]:
    """Return {name: float32 array} from before anything was seen: observations pass as they are, but for the clipping."""
    return weights_of(spec, None, None)


def weights_of(spec: FilteredSpec, obs: Moments | None, returns: Moments | None) -> dict[str, np.ndarray]:
    """Return {name: float32 array} for Moments of observations and of discounted returns, None where nothing was seen.

    Numbers of an action mask pass unchanged. ``filter/return_var`` is 0 as long as returns have not varied.
    """
    weights = {}
    if spec.filter:
        shape = tuple(spec.obs_shape)
        mean, var = np.zeros(shape), np.zeros(shape)
        if obs is not None:
            mean, var = obs.mean.copy(), obs.variance()
        var[~_varied(mean, var)] = 1.0
        if spec.mask:
            start, count = spec.mask
            mean[start : start + count], var[start : start + count] = 0.0, 1.0
        weights[MEAN] = np.clip(mean, -_MOST, _MOST).astype(np.float32)
        weights[VAR] = np.minimum(var, _MOST).astype(np.float32)
    if spec.scaled:
        var = np.zeros(()) if returns is None else returns.variance()
        known = returns is not None and _varied(returns.mean, var)
        weights[RETURN_VAR] = np.asarray(min(float(var), _MOST) if known else 0.0, np.float32)
    return weights


def _varied(mean: np.ndarray, var: np.ndarray) -> Any:
    return var > np.maximum(np.square(_RESOLUTION * mean), _LEAST)


def reward_scale(weights: Weights | None) -> np.float32 | None:
    """Return by how much rewards are to be divided, or None while ``weights`` ({name: array}, or None) do not know."""
    var = float(weights[RETURN_VAR]) if weights else 0.0
    return np.float32(np.sqrt(var) + EPSILON) if var > 0 else None


class Filter:
    """(x - mean) / (√var + 1e-8), within ±10: float32 [..., *obs_shape] → the same."""

    def __init__(self, spec: FilteredSpec, weights: Weights) -> None:
        """``spec``: PolicySpec with ``filter``; ValueError unless ``weights`` hold a mean and a variance of its shapes."""
        for name, shape in ((name, shape) for name, shape in weight_shapes(spec).items() if name != RETURN_VAR):
            found = weights.get(name)
            if found is None or tuple(found.shape) != shape or found.dtype != np.float32:
                found = "missing" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
                raise ValueError(f"{name}: expected float32 of shape {shape}, found {found}")
        if (weights[VAR] < 0).any():
            raise ValueError(f"{VAR}: a variance below 0")
        self._mean, self._deviation = weights[MEAN], np.sqrt(weights[VAR]) + np.float32(EPSILON)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return ``obs`` normalised, in an array of its own."""
        out = obs - self._mean
        out /= self._deviation
        return np.minimum(np.maximum(out, -CLIP, out=out), CLIP, out=out)  # np.clip costs twice as much


class Moments(NamedTuple):
    """Of ``count`` rows: their ``mean``, and ``m2``, the sum of their squared deviations from it."""

    count: float  # type: ignore[assignment]  # a tuple has a method of that name, which nothing calls here
    mean: np.ndarray  # float64, of the shape of a row
    m2: np.ndarray  # float64, of the shape of a row

    def variance(self) -> np.ndarray:
        """Return the variance over all rows (divided by the count), float64; zeros where there are none."""
        return self.m2 / self.count if self.count else np.zeros_like(self.m2)


def nothing(shape: tuple[int, ...]) -> Moments:
    """Return the Moments of no rows of ``shape``."""
    return Moments(0.0, np.zeros(shape), np.zeros(shape))


def moments(rows: np.ndarray) -> Moments:
    """Return the Moments of ``rows`` [M, …], in two passes."""
    if not len(rows):
        return nothing(rows.shape[1:])
    rows = rows.astype(np.float64)
    mean = rows.mean(axis=0)
    rows -= mean
    return Moments(float(len(rows)), mean, np.einsum("i...,i...->...", rows, rows))


def merged(one: Moments, other: Moments) -> Moments:
    """Return the Moments of the rows of both."""
    if not other.count or not one.count:
        return one if not other.count else other
    count = one.count + other.count
    delta = other.mean - one.mean
    mean = one.mean + delta * (other.count / count)
    return Moments(count, mean, one.m2 + other.m2 + np.square(delta) * (one.count * other.count / count))


def weighted(one: Moments, weight: float) -> Moments:
    """Return the Moments of rows each of which counts as ``weight`` rows."""
    return one if weight == 1.0 else Moments(one.count * weight, one.mean, one.m2 * weight)


def discounted(
    reward: np.ndarray, ends: np.ndarray, running: np.ndarray, gamma: float, length: np.ndarray | None = None
) -> np.ndarray:
    """Return the discounted sums of past rewards, float64 [T, N]: R_t = γ·R_{t−1} + r_t, from 0 where an episode begins.

    ``reward``, ``ends`` (bool: an episode ends with this step) [T, N]; ``running`` [N] float64 is what came before and is
    changed in place to what goes on. ``length`` [N]: real steps of each column, None for all T; sums after them stand still.
    """
    sums = np.empty(reward.shape)
    for step in range(len(reward)):
        following = running * gamma + reward[step]
        running[...] = following if length is None else np.where(step < length, following, running)
        sums[step] = running
        running[ends[step]] = 0.0
    return sums
