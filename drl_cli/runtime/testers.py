"""Several testers called as one: the episodes of an evaluation are shared out, their scores joined again.

Used by ``runtime.assembly``. What an episode scores depends on the weights and its seed alone (``actors.tester``), so that
the number of testers changes when scores are there, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from drl_cli.contracts import Call, Handle

SHARED = "evaluate"  # what testers share out


class ManyTesters:
    """Handles of testers; called as one."""

    is_remote = True

    def __init__(self, handles: Iterable[Handle]) -> None:
        """``handles``: those of the testers."""
        self.handles = tuple(handles)

    def call(self, method: str, version: int, seeds: Any) -> Call:
        """Call ``evaluate(version, part of seeds)`` on each tester; returns a reference to all episodes, as ``seeds`` come.

        Any other ``method`` is called on the first tester alone.
        """
        if method != SHARED:
            return self.handles[0].call(method, version, seeds)
        size, more = divmod(len(seeds), len(self.handles))
        calls, start = [], 0
        for index, handle in enumerate(self.handles):
            end = start + size + (index < more)
            if end > start:
                calls.append(handle.call(method, version, seeds[start:end]))
            start = end
        return _Joined(calls)


class _Joined:
    """The outcome of several calls whose results are lists, as one."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return all(call.done() for call in self._calls)

    def result(self, timeout: float | None = None) -> list[Any]:
        """Return the lists one after the other, or raise what the first of the calls that failed raised."""
        return [episode for call in self._calls for episode in call.result(timeout)]
