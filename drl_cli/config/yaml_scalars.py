"""Plain scalars of YAML 1.2 core: from text to None, bool, int, float or str.

Used by ``config.strict_yaml`` and ``config.assignments``. Source: YAML 1.2.2 §10.3.2; infinities and NaN are refused.
"""

import math
import re

MAX_TEXT = 4096  # characters of one value
MAX_DIGITS = 400  # beyond it int() refuses or is slow, and nothing that is configured needs it

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCT = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF|Infinity)|\.nan|\.NaN|\.NAN|NaN")


class RefusedError(ValueError):
    """A value that is well-formed but not allowed; the caller adds the place."""


def scalar(text):
    """Return the value of a plain (unquoted) YAML 1.2 core scalar: None, bool, int, float or str.

    Raises ValueError for numbers that are not finite or absurdly long.
    """
    if len(text) > MAX_TEXT:
        raise RefusedError(f"a value of {len(text)} characters (limit {MAX_TEXT})")
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _NOT_FINITE.fullmatch(text):
        raise RefusedError(f"{text} is not a finite number")
    if _INT.fullmatch(text) or _OCT.fullmatch(text) or _HEX.fullmatch(text):
        return _whole(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise RefusedError(f"{text[:40]} is too large for a number")
        return value
    return text


def _whole(text):
    if len(text) > MAX_DIGITS:
        raise RefusedError(f"a number of {len(text)} digits (limit {MAX_DIGITS})")
    if text.startswith("0o"):
        return int(text[2:], 8)
    if text.startswith("0x"):
        return int(text[2:], 16)
    return int(text)
