"""Any value as data that strict JSON can hold: no NaN, no infinity, nothing but JSON's own types.

Used where what others computed is written down or printed: results, records of searches, infos of environments, ``--json``.
Checkpoints and configs are not cleaned but refused (``checkpoints.files.json_bytes``, ``config.schema``): there a value
that JSON cannot hold is an error.
"""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any, longest: int | None = None) -> Any:
    """Return ``value`` as strict JSON data.

    NumPy arrays and scalars become lists and numbers, tuples and sets become lists, keys become strings, numbers that are
    not finite become None. Any other object becomes its string, cut to ``longest`` characters.
    """
    if isinstance(value, dict):
        return {str(key): plain(item, longest) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, longest) for item in value]
    if isinstance(value, float):  # NumPy's float64 is one, and is written as Python's
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "tolist"):  # a NumPy array or scalar; NumPy itself is not needed here
        return plain(value.tolist(), longest)
    return str(value)[:longest]
