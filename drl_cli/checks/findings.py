"""A finding of a check, with the command that fixes it. Used by ``drl doctor``, ``drl env check`` and ``--plan``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"


class Finding(NamedTuple):
    """What was checked, its state (ok, note, warn, fail), the message, and the command that fixes it."""

    what: str
    state: str
    text: str
    mend: str | None = None


def failed(findings: Sequence[Finding]) -> bool:
    """Whether any of ``findings`` failed."""
    return any(one.state == FAIL for one in findings)
