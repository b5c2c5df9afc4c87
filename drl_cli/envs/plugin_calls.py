"""Calls of plug-in code: what it raises ends the run with one line that names its file and line.

Used by ``callbacks``, ``actors.custom_evaluation``, ``policies.exploration.custom_exploration`` and the learners.
"""

from __future__ import annotations

import inspect
import json
import os
import traceback
from collections.abc import Callable
from typing import Any

from drl_cli.errors import PluginFailed


def called(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return ``function(*args, **kwargs)``. Raises PluginFailed: ``what`` failed, and the file and line of theirs."""
    try:
        return function(*args, **kwargs)
    except PluginFailed:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        raise PluginFailed(f"{what} failed: {text} ({place(function, error)}).") from error


def place(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """Return ``FILE:LINE`` of the innermost line in the file of ``function`` that ``error`` came through.

    Without an error, and where the call alone was wrong (an argument that it does not take), of the line where it begins.
    """
    function = function.__init__ if isinstance(function, type) else function
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__) if error else []
    if code is None:
        return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(function)
    inside = [frame.lineno for frame in frames if frame.filename == code.co_filename]
    return f"{os.path.abspath(code.co_filename)}:{inside[-1] if inside else code.co_firstlineno}"


def number(value: Any, what: str) -> float:
    """Return ``value`` as a float. Raises PluginFailed, which begins with ``what``, unless it is one number."""
    try:
        if isinstance(value, str) or value is None:
            raise TypeError
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        raise PluginFailed(f"{what} is {str(value)[:60]!r}; one number is needed.") from None


def plain_data(value: Any, what: str) -> Any:
    """Return ``value`` as JSON gives it back. Raises PluginFailed, which begins with ``what``, for what is no plain data."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginFailed(f"{what} is no plain data (numbers, strings, lists, dicts with names): {error}.") from None
