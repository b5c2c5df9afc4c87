"""Which runs, and in which order: the filters and sort keys that ``drl runs`` and ``drl runs rm`` share."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from drl_cli.runs.search_folders import ListedSearch, trial_of

if TYPE_CHECKING:
    from drl_cli.runs.run_summary import Run

Listed = TypeVar("Listed", bound="Run | ListedSearch")
SORTS = ("started", "best", "steps", "time", "size", "algorithm", "env", "state")
_LARGEST_FIRST = {"started": "started", "best": "best", "steps": "steps", "time": "seconds", "size": "size"}


@dataclass(frozen=True)
class Wanted:
    """Filters; one that is None or empty lets everything pass.

    states; algorithms; envs and experiments, shell patterns; searches, ids; older_than and newer_than, seconds since the run
    was last heard of. Letters may be of either case.
    """

    states: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    older_than: float | None = None
    newer_than: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no filter at all."""
        return self == Wanted()


def select(runs: Iterable[Run], wanted: Wanted, now: float | None = None) -> list[Run]:
    """Return those of ``runs`` that pass the filters ``wanted``; ``now``: seconds since the epoch."""
    now = time.time() if now is None else now
    return [run for run in runs if _passes(run, wanted, now)]


def _passes(run: Run, wanted: Wanted, now: float) -> bool:
    age = now - (run.updated or run.started or 0.0)
    return (
        (not wanted.states or run.state in wanted.states)
        and _matches(run.algorithm, wanted.algorithms)
        and _matches(run.env, wanted.envs)
        and _matches(run.experiment, wanted.experiments)
        and (not wanted.searches or (trial_of(run.path) or ("",))[0] in wanted.searches)
        and (wanted.older_than is None or age > wanted.older_than)
        and (wanted.newer_than is None or age <= wanted.newer_than)
    )


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns)


def order(runs: Iterable[Listed], by: str = "started", reverse: bool = False) -> list[Listed]:
    """Return ``runs`` sorted by one of ``SORTS``: numbers from the largest, words from A; no value comes last."""
    named = _LARGEST_FIRST.get(by)
    newest_first = sorted(runs, key=lambda run: (run.started or 0.0, run.path.name), reverse=True)
    if named is None:
        return sorted(newest_first, key=lambda run: getattr(run, by).lower(), reverse=reverse)
    known = [run for run in newest_first if getattr(run, named) is not None]
    known.sort(key=lambda run: getattr(run, named), reverse=not reverse)
    return known + [run for run in newest_first if getattr(run, named) is None]
