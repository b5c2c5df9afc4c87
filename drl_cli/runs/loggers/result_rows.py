"""A result dict as plain data and as one flat row. Users: the other files of this room."""

import json
import math

import numpy as np


def plain(value):
    """Return ``value`` as strict JSON data: NumPy values as numbers and lists, what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def flatten(result, prefix=""):
    """Return ``{"a/b": value}`` of a nested dict, in its order; lists stay lists, empty dicts vanish."""
    flat = {}
    for key, value in result.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def numbers(result):
    """Return ``{"a/b": number}`` of the numbers in a nested plain dict, bools left out."""
    flat = flatten(result).items()
    return {name: value for name, value in flat if isinstance(value, (int, float)) and not isinstance(value, bool)}


def cell(value):
    """Return the text of one csv cell: empty for None, JSON for lists."""
    if value is None:
        return ""
    if isinstance(value, list):
        return json.dumps(value, allow_nan=False)
    return value
