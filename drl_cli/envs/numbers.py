"""What environments answer with, as numbers that the rest of the program can use. Used by whoever steps environments."""

import math

import numpy as np


def as_number(reward):
    """Return a reward as a float; an array of one element is one too (``float`` refuses it from NumPy 2.4 on)."""
    return float(reward) if isinstance(reward, float) else float(np.asarray(reward, np.float64).item())


def is_finite(obs, reward):
    """Whether every element of ``obs`` and ``reward`` is finite; the sum of squares settles nearly every case at once."""
    if obs.dtype == np.uint8:
        return math.isfinite(reward)
    flat = obs.ravel()
    return math.isfinite(flat.dot(flat) + reward) or (math.isfinite(reward) and bool(np.isfinite(obs).all()))


def not_finite_error(reward: float) -> FloatingPointError:
    """Return the error of a step whose observation or ``reward`` is not finite."""
    return FloatingPointError(f"observation or reward is not finite (reward {reward})")
