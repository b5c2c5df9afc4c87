"""Returns and advantages in NumPy, for workers, which load no TensorFlow: n-step returns, GAE, returns to go.

``n_step`` works on a fragment [T, N] and serves first priorities (``actors.fragment``); the others work on trajectories [E, T]
(float32, the columns of ``experience.trajectories``), serve ``algorithms.a3c_gradients``, and are those of
``algorithms.losses.returns``: ``tests/experience/test_advantages.py`` compares them.
Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 11 and 16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from drl_cli.experience.columns import Columns


class NStepWindows(NamedTuple):
    """One window from every step on, all [T, N]."""

    reward: np.ndarray  # float32, Σ γ^i r_i over its k steps
    discount: np.ndarray  # float32, γ^k · (1 − terminated)
    last: np.ndarray  # int64, the index of its last step


def n_step(columns: Columns, gamma: float, steps: int) -> NStepWindows:
    """Return the Windows of up to ``steps`` steps of a fragment's ``columns`` (reward, terminated, truncated, [T, N])."""
    reward, terminated = columns["reward"], columns["terminated"]
    ended = terminated | columns["truncated"]
    length = len(reward)
    total, discount = reward.copy(), np.full(reward.shape, gamma, np.float32)
    last = np.repeat(np.arange(length)[:, None], reward.shape[1], axis=1)
    goes_on = ~ended
    for step in range(1, min(steps, length)):
        goes_on = goes_on[: length - step]  # the windows that begin at t < length − step have a step more to take
        total[: length - step] += np.where(goes_on, discount[: length - step] * reward[step:], 0.0)
        discount[: length - step][goes_on] *= np.float32(gamma)
        last[: length - step] += goes_on
        goes_on = goes_on & ~ended[step:]
    discount[np.take_along_axis(terminated, last, 0)] = 0.0
    return NStepWindows(total, discount, last)


def next_values(values: np.ndarray, end_values: np.ndarray, end_at: np.ndarray) -> np.ndarray:
    """Return the value of the observation after each step, [E, T]; arguments as for
    ``algorithms.losses.returns.next_values``."""
    flat = np.zeros(values.size + 1, np.float32)  # one place more takes what is padding
    flat[:-1].reshape(values.shape)[:, :-1] = values[:, 1:]
    flat[end_at] = end_values
    return flat[:-1].reshape(values.shape)


def gae(columns: Columns, values: np.ndarray, following: np.ndarray, lambda_: float) -> np.ndarray:
    """Return the generalised advantage estimates, [E, T]: ``columns`` of reward, discount, trace, mask.

    ``following``: ``next_values``. Padding gives 0. The value's target is this plus ``values``.
    """
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    deltas = reward + discount * following - values
    return _backward(deltas * mask, discount * trace * np.float32(lambda_) * mask)


def returns_to_go(columns: Columns) -> np.ndarray:
    """Return the discounted rewards from each step to the end of its episode, [E, T]; nothing stands in for what was cut."""
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    return _backward(reward * mask, discount * trace * mask)


def _backward(deltas: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return x with x_t = deltas_t + factors_t·x_{t+1}, and nothing after the last step."""
    found, behind = np.empty_like(deltas), np.zeros(len(deltas), np.float32)
    for step in range(deltas.shape[1] - 1, -1, -1):
        behind = deltas[:, step] + factors[:, step] * behind
        found[:, step] = behind
    return found
