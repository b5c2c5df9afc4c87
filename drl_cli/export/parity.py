"""How far an exported policy is from the NumPy policy of its checkpoint, over sampled observations. NumPy only.

Box actions are compared in the environment's units. Choices are the same or not; where they differ, both may be right: a tie,
in which the better of two nearly equal values is a matter of rounding. Memory is compared step by step, each from the same
state, so that nothing adds up.
"""

from typing import NamedTuple

import numpy as np

from drl_cli.errors import ExportFailed
from drl_cli.export import signature
from drl_cli.export.sample_observations import Observations
from drl_cli.policies.numpy_policy import NumpyPolicy

SAMPLES = {"float32": 1024, "uint8": 64}
STEPS = 8  # of policies with memory
TOLERANCE = 1e-4  # of half an action's range, of a state's size (at least 1), of the difference of two values in a tie


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


def compare(policy, run, space, seed=0):
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


def _given(policy, state, rng, rows):
    """The state as the function takes it; the reward that came of the last action is noted in ``state`` too."""
    given = {f"state_{index}": part.copy() for index, part in enumerate(state)}
    if policy.spec.previous:
        given["reward"] = rng.normal(0.0, 1.0, rows).astype(np.float32)
        policy.rewarded(state, given["reward"])
    return given


def _check_ports(spec, found, rows):
    for port in signature.outputs(spec):
        array = found.get(port.name)
        if array is None or array.shape != (rows, *port.shape) or array.dtype != port.dtype:
            is_there = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise ExportFailed(f"{port.name} is {is_there} instead of {port.dtype} {(rows, *port.shape)}")


def _of_box(policy, found, expected):
    """The largest difference of actions [N, A]; ExportFailed where one exceeds what is tolerated."""
    action = policy.spec.action
    half = (np.asarray(action.high, float) - np.asarray(action.low, float)) / 2
    difference = np.abs(found.astype(float) - expected)
    allowed = TOLERANCE * np.maximum(half, np.abs(expected) if not action.clip else 0.0)
    if not (difference <= allowed).all():  # NaN differs too
        raise ExportFailed(
            f"its actions differ by up to {np.nanmax(difference):.3g}, and {TOLERANCE:g} of half the range is allowed"
        )
    return float(difference.max())


def _of_state(found, expected):
    difference = np.abs(found.astype(float) - expected)
    if not (difference <= TOLERANCE * np.maximum(1.0, np.abs(expected))).all():
        raise ExportFailed(f"its recurrent state differs by up to {np.nanmax(difference):.3g} after one step")
    return float(difference.max())


def _in_tie(policy: NumpyPolicy, obs, state):
    """Whether the two best values of each choice are as good as equal, bool [N, k]."""
    spec, (heads, _) = policy.spec, policy.stepped(obs, state)
    if spec.distribution == "multi_bernoulli":
        return np.abs(heads["logits"]) <= TOLERANCE
    if spec.distribution == "multi_categorical":
        ends = np.cumsum(spec.action.nvec)[:-1]
        return np.concatenate([_close(part) for part in np.split(heads["logits"], ends, axis=-1)], axis=-1)
    values = policy.values(heads) if spec.distribution == "q" else heads["logits"]
    return _close(np.where(policy.allowed(obs), values, -np.inf) if spec.mask else values)


def _close(values):
    """Whether the two largest of ``values`` [N, n] are within the tolerance, bool [N, 1]."""
    if values.shape[-1] < 2:
        return np.zeros((len(values), 1), bool)
    second, first = np.partition(values, -2, axis=-1)[:, -2:].T
    return (first - second <= TOLERANCE * np.maximum(1.0, np.abs(first)))[:, None]
