"""One run's rows of results → its score: a number, how it was measured, and when a goal was first reached.

Used by ``drl compare``. Rows are the nested dicts of result.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drl_cli.config.result_names import ratings

Row = Mapping[str, Any]
"""A nested result of one iteration, a line of result.json."""

KINDS = ("last", "best", "training")
MEANING = {
    "last": "mean of the last greedy evaluation of each run (its fresh, confirming episodes where there are some)",
    "best": "mean of the best greedy evaluation of each run; the maximum over many evaluations is biased upwards",
    "training": "mean of the last training episodes of each run, exploration included",
}


@dataclass(frozen=True)
class Score:
    """value; steps (env steps when it was measured); seconds (of training, when its row was written); episodes."""

    value: float
    steps: int
    seconds: float | None
    episodes: int | None = None


def score(rows: Iterable[Row], kind: str = "last", at: int | None = None) -> Score | None:
    """Return the Score of a run, or None when it has none (yet).

    kind: one of ``KINDS``. at: only what was measured within that many env steps counts.
    """
    found = list(trained(rows) if kind == "training" else evaluations(rows))
    found = [one for one in found if at is None or one.steps <= at]
    if not found:
        return None
    return max(found, key=lambda one: one.value) if kind == "best" else found[-1]


def evaluations(rows: Iterable[Row]) -> list[Score]:
    """Yield the Score of every greedy evaluation, once each; a confirmed one counts with its fresh episodes."""
    found = {}
    for row in rows:
        seen = row.get("evaluation") or {}
        value, number = seen.get("episode_reward_mean"), seen.get("training_iteration")
        if value is None or number is None:
            continue
        episodes, fresh = seen.get("episodes_this_iter"), seen.get("confirmed_reward_mean")
        if fresh is not None:
            value, episodes = fresh, seen.get("confirmed_episodes")
        first = found.get(number)
        seconds = first.seconds if first else row.get("time_total_s")
        found[number] = Score(value, seen.get("timesteps_total") or 0, seconds, episodes)
    return list(found.values())


def trained(rows: Iterable[Row]) -> Iterator[Score]:
    """Yield the Score of every row that has ended episodes in its window."""
    for row in rows:
        if row.get("episode_reward_mean") is not None:
            yield Score(row["episode_reward_mean"], row.get("timesteps_total") or 0, row.get("time_total_s"))


def reached(rows: Iterable[Row], goal: float, kind: str = "last") -> Score | None:
    """Return the first Score at or above ``goal``, or None."""
    found = trained(rows) if kind == "training" else evaluations(rows)
    return next((one for one in found if one.value >= goal), None)


def elo(rows: Iterable[Row], at: int | None = None) -> float | None:
    """Return the newest Elo rating of the policy that learns by self-play, within ``at`` env steps; None without one."""
    found = None
    for row in rows:
        if at is None or (row.get("timesteps_total") or 0) <= at:
            found = next(iter(ratings(row).values()), found)
    return found
