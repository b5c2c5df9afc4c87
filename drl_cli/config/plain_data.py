"""Nested plain data, as files and records hold it: copies, look-up by path, and secrets that must not be written.

Values that look like secrets never reach a file: params.json, versions.json, the manifest of a checkpoint.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

# token_file names a file, which is no secret.
SECRET = re.compile(r"(?:token|secret|passw|api_?key|credential)(?!_file\b)", re.IGNORECASE)
SECRET_IN_TEXT = re.compile(
    r"""(["']?[\w.-]*(?:token|secret|passw|api_?key|credential)(?!_file\b)[\w-]*["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,}]+)""",
    re.IGNORECASE,
)
HIDDEN = "***"

MAX_TEXT = 4096  # characters of a string value
MAX_DEPTH = 32  # of nested values


def copied(value: Any) -> Any:
    """Return a deep copy of the mappings and lists in ``value``."""
    if isinstance(value, dict):
        return {name: copied(inner) for name, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def value_at(mapping: Any, path: Sequence[str]) -> Any:
    """Return what nested mappings hold at ``path``, None where there is nothing."""
    for name in path:
        mapping = mapping.get(name) if isinstance(mapping, dict) else None
    return mapping


def has_path(mapping: object, path: Sequence[str]) -> bool:
    """Return whether nested mappings hold something at ``path``, be it None."""
    for name in path:
        if not isinstance(mapping, dict) or name not in mapping:
            return False
        mapping = mapping[name]
    return True


def redact(data: Any) -> Any:
    """Return plain data with the value of every key that looks like a secret replaced by ``***``."""
    if isinstance(data, dict):
        return {key: HIDDEN if SECRET.search(str(key)) else redact(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [redact(item) for item in data]
    return data


def redact_command(arguments: Iterable[str]) -> list[str]:
    """Return the words of a command line with values of secret-looking keys and options replaced by ``***``."""
    words, hide = [], False
    for word in arguments:
        words.append(HIDDEN if hide else SECRET_IN_TEXT.sub(rf"\g<1>{HIDDEN}", word))
        hide = not hide and word.startswith("-") and "=" not in word and bool(SECRET.search(word))
    return words


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
