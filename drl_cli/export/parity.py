"""How far an exported policy is from the NumPy policy of its checkpoint, over sampled observations. NumPy only.

Observations are drawn from what a checkpoint knows of its environment, which is not made: it may need packages or modules that
are not here. Vectors are drawn within their bounds, around the filter's statistics where there is one, else from a wide normal;
images are random bytes and plain ones.

Box actions are compared in the environment's units. Choices are the same or not; where they differ, both may be right: a tie,
in which the better of two nearly equal values is a matter of rounding. Memory is compared step by step, each from the same
state, so that nothing adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drl_cli.errors import ExportFailed
from drl_cli.export import signature
from drl_cli.policies.action_specs import box, multi_discrete
from drl_cli.policies.filters import MEAN, VAR
from drl_cli.policies.numpy_policy import NumpyPolicy

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec

SAMPLES = {"float32": 1024, "uint8": 64}
STEPS = 8  # of policies with memory
TOLERANCE = 1e-4  # of half an action's range, of a state's size (at least 1), of the difference of two values in a tie
WIDTH = 3.0  # standard deviations of a number without bounds and statistics
_WIDEST = 1e6  # of bounds that count as such: larger ones mean that there are none


class Comparison(NamedTuple):
    """``samples`` observations; ``difference``: the largest of a Box action, in the environment's units, None for choices;
    ``differing``: rows with another choice, ``ties`` of them in a tie; ``state``: the largest difference of a memory, or None.
    """

    samples: int
    difference: float | None
    differing: int | None
    ties: int | None
    state: float | None
    tolerance: float = TOLERANCE


def compare(
    policy: NumpyPolicy,
    run: Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]],
    space: Mapping[str, Any],
    seed: int = 0,
) -> Comparison:
    """Return the Comparison of ``run`` ({name: array} → {name: array}) with ``policy`` (NumpyPolicy).

    ``space``: the observation space as a manifest holds it. Raises ExportFailed where they differ by more than ``TOLERANCE``,
    or where names, shapes or dtypes are not those of ``signature``.
    """
    spec, rng = policy.spec, np.random.default_rng(seed)
    rows = SAMPLES[spec.obs_dtype] // (STEPS if spec.state else 1)
    observations, state = Observations(policy, space, rng), policy.initial_state(rows)
    worst, differing, ties, apart = 0.0, 0, 0, 0.0
    for _ in range(STEPS if spec.state else 1):
        obs, before, given = observations.draw(rows), state, _given(policy, state, rng, rows)
        action, state, _ = policy.act(obs, before, None, False)
        found = run({"obs": obs, **given})
        _check_ports(spec, found, rows)
        if policy.is_box:
            worst = max(worst, _of_box(policy, found["action"], policy.to_env(action)))
        else:
            other = (found["action"] != policy.to_env(action)).reshape(rows, -1)
            near = (other & _in_tie(policy, obs, before)).reshape(rows, -1)
            differing, ties = differing + int(other.any(axis=1).sum()), ties + int((other & near).any(axis=1).sum())
            if (other & ~near).any():
                raise ExportFailed(f"it takes other actions for {differing - ties} of {rows} observations")
        apart = max([apart, *(_of_state(found[f"next_state_{i}"], part) for i, part in enumerate(state))])
    samples = rows * (STEPS if spec.state else 1)
    choices = (None, None) if policy.is_box else (differing, ties)
    return Comparison(samples, worst if policy.is_box else None, *choices, apart if spec.state else None)


def _given(
    policy: NumpyPolicy, state: tuple[np.ndarray, ...], rng: np.random.Generator, rows: int
) -> dict[str, np.ndarray]:
    """The state as the function takes it; the reward that came of the last action is noted in ``state`` too."""
    given = {f"state_{index}": part.copy() for index, part in enumerate(state)}
    if policy.spec.previous:
        given["reward"] = rng.normal(0.0, 1.0, rows).astype(np.float32)
        policy.rewarded(state, given["reward"])
    return given


def _check_ports(spec: PolicySpec, found: Mapping[str, np.ndarray], rows: int) -> None:
    for port in signature.outputs(spec):
        array = found.get(port.name)
        if array is None or array.shape != (rows, *port.shape) or array.dtype != port.dtype:
            is_there = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise ExportFailed(f"{port.name} is {is_there} instead of {port.dtype} {(rows, *port.shape)}")


def _of_box(policy: NumpyPolicy, found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of actions [N, A]; ExportFailed where one exceeds what is tolerated."""
    action = box(policy.spec.action)
    half = (np.asarray(action.high, float) - np.asarray(action.low, float)) / 2
    difference = np.abs(found.astype(float) - expected)
    allowed = TOLERANCE * np.maximum(half, np.abs(expected) if not action.clip else 0.0)
    if not (difference <= allowed).all():  # NaN differs too
        raise ExportFailed(
            f"its actions differ by up to {np.nanmax(difference):.3g}, and {TOLERANCE:g} of half the range is allowed"
        )
    return float(difference.max())


def _of_state(found: np.ndarray, expected: np.ndarray) -> float:
    difference = np.abs(found.astype(float) - expected)
    if not (difference <= TOLERANCE * np.maximum(1.0, np.abs(expected))).all():
        raise ExportFailed(f"its recurrent state differs by up to {np.nanmax(difference):.3g} after one step")
    return float(difference.max())


def _in_tie(policy: NumpyPolicy, obs: np.ndarray, state: tuple[np.ndarray, ...]) -> np.ndarray:
    """Whether the two best values of each choice are as good as equal, bool [N, k]."""
    spec, (heads, _) = policy.spec, policy.stepped(obs, state)
    if spec.custom:  # what is a tie is the distribution's own affair: its two forms were compared before it was learnt
        return np.zeros((len(obs), 1), bool)
    if spec.distribution == "multi_bernoulli":
        return np.abs(heads["logits"]) <= TOLERANCE
    if spec.distribution in ("multi_categorical", "joint_q"):
        ends = np.cumsum(multi_discrete(spec.action).nvec)[:-1]
        return np.concatenate([_close(part) for part in np.split(next(iter(heads.values())), ends, axis=-1)], axis=-1)
    values = policy.values(heads) if spec.distribution == "q" else heads["logits"]
    return _close(np.where(policy.allowed(obs), values, -np.inf) if spec.mask else values)


def _close(values: np.ndarray) -> np.ndarray:
    """Whether the two largest of ``values`` [N, n] are within the tolerance, bool [N, 1]."""
    if values.shape[-1] < 2:
        return np.zeros((len(values), 1), bool)
    second, first = np.partition(values, -2, axis=-1)[:, -2:].T
    return (first - second <= TOLERANCE * np.maximum(1.0, np.abs(first)))[:, None]


class Observations:
    """``draw(rows)`` → observations [rows, *stacked_shape] of the policy's dtype."""

    def __init__(self, policy: NumpyPolicy, space: Mapping[str, Any], rng: np.random.Generator) -> None:
        """``policy``: NumpyPolicy; ``space``: the observation space as a manifest holds it; ``rng``: numpy Generator."""
        self._spec, self._rng = policy.spec, rng
        shape = self._spec.obs_shape
        low, high = (_bound(space.get(side), shape) for side in ("low", "high"))
        self._bounded = np.isfinite(low) & np.isfinite(high) & (high - low < _WIDEST)
        self._low, self._high = np.where(self._bounded, low, 0.0), np.where(self._bounded, high, 1.0)
        self._mean, self._deviation = np.zeros(shape), np.full(shape, WIDTH)
        if self._spec.filter and policy.weights is not None:
            self._mean, self._deviation = policy.weights[MEAN], WIDTH * np.sqrt(policy.weights[VAR])

    def draw(self, rows: int) -> np.ndarray:
        """Return ``rows`` observations, the first ones special: all zeros, and at their bounds."""
        frames = [self._frames(rows) for _ in range(self._spec.frames)]
        obs = np.concatenate(frames, axis=-1) if len(frames) > 1 else frames[0]
        if self._spec.mask:
            start, count = self._spec.mask
            obs[:, start : start + count] = self._rng.integers(0, 2, (rows, count))
            obs[:1, start : start + count] = 0.0  # where nothing is allowed everything is
        return obs

    def _frames(self, rows: int) -> np.ndarray:
        shape = (rows, *self._spec.obs_shape)
        if self._spec.obs_dtype == "uint8":
            found = self._rng.integers(0, 256, shape, np.uint8)
            found[:2] = np.reshape([0, 255], (2, *[1] * (len(shape) - 1)))[:rows]
            return found
        normal = self._mean + self._deviation * self._rng.standard_normal(shape)
        found = np.where(
            self._bounded & (not self._spec.filter), self._rng.uniform(self._low, self._high, shape), normal
        )
        special = [
            np.zeros(shape[1:]),
            np.where(self._bounded, self._low, 0.0),
            np.where(self._bounded, self._high, 0.0),
        ]
        found[:3] = special[:rows]
        return found.astype(np.float32)


def _bound(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Bounds as a manifest holds them (null for none, one number for all where all are equal) as float64 ``shape``."""
    filled = np.asarray(np.nan if values is None else values, object)
    return np.broadcast_to(np.where(filled == None, np.nan, filled).astype(float), shape)  # noqa: E711 - element by element
