"""Groups of runs compared with one another: scores over seeds, intervals, probabilities of improvement. User: ``drl compare``.

Everything is plain data. Scores are defined in ``analysis.scores``, statistics in ``analysis.reward_statistics``.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.analysis import published, reward_statistics, scores
from drl_cli.analysis.scores import Row, Score
from drl_cli.confidence import CONFIDENCE

if TYPE_CHECKING:
    from drl_cli.analysis.run_groups import Group
    from drl_cli.runs.run_summary import Run

UNEQUAL = 1.25  # ratio of the steps of groups from which it is said that they differ


@dataclass(frozen=True)
class CompareOptions:
    """How to compare: score, one of ``scores.KINDS``; at, env steps within which it counts; goal, a score to reach."""

    score: str = "last"
    at: int | None = None
    goal: float | None = None


def compare(
    groups: Iterable[Group], rows_of: Callable[[Run], Sequence[Row]], options: CompareOptions
) -> dict[str, Any]:
    """Compare Groups (see ``analysis.run_groups``).

    rows_of(run) returns the rows of a run's result.json. Returns a dict of plain data: score, at, goal, confidence,
    groups, improvement (pairs on one environment), overall (pairs over several environments), scaled, notices. Groups
    without a single score are left out, which the notices say.
    """
    notices, entries = [], []
    for group in groups:
        entry = _describe(group, rows_of, options, notices)
        if entry:
            entries.append(entry)
    notices += _unequal_steps(entries, options)
    return {
        "score": options.score,
        "at": options.at,
        "goal": options.goal,
        "confidence": CONFIDENCE,
        "groups": entries,
        "improvement": _pairs(entries),
        "overall": _overall(entries),
        "scaled": _scaled(entries),
        "notices": notices,
    }


def _describe(
    group: Group, rows_of: Callable[[Run], Sequence[Row]], options: CompareOptions, notices: list[str]
) -> dict[str, Any] | None:
    runs, without = [], []
    for run in group.runs:
        rows = rows_of(run)
        found = scores.score(rows, options.score, options.at)
        if found is None:
            without.append(run)
            continue
        runs.append(_run_facts(run, found, rows, options))
    name = f"{group.label} on {group.env}"
    if without:
        what = "ended training episodes" if options.score == "training" else "greedy evaluation"
        limit = f" within {options.at:,} steps" if options.at is not None else ""
        hint = "" if options.score == "training" else "; --score training compares training episodes"
        left_out = ", ".join(run.id for run in without)
        notices.append(f"{name}: left out, without {what}{limit}: {left_out}{hint}.")
    if group.repeated:
        seeds = ", ".join(str(seed) for seed in group.repeated)
        notices.append(f"{name}: seed {seeds} occurs more than once; these runs are not independent replicates.")
    unfinished = [run["id"] for run in runs if run["state"] != "finished"]
    if unfinished:
        notices.append(f"{name}: not finished: {', '.join(unfinished)}; their scores are those so far.")
    if not runs:
        return None
    entry = {"label": group.label, "algorithm": group.algorithm, "env": group.env, "runs": runs}
    entry |= reward_statistics.describe_seeds([run["score"] for run in runs])
    seconds = [run["seconds"] for run in runs if run["seconds"] is not None]
    entry["steps"] = statistics.median(run["steps"] for run in runs)
    entry["seconds"] = statistics.median(seconds) if seconds else None
    rated = [run["elo"] for run in runs if run["elo"] is not None]
    entry["elo"] = statistics.fmean(rated) if rated else None
    entry["goal"] = _goal(runs) if options.goal is not None else None
    return entry


def _unequal_steps(entries: Sequence[Mapping[str, Any]], options: CompareOptions) -> list[str]:
    """A line for each environment whose groups were scored after quite different numbers of steps."""
    if options.at is not None:
        return []
    found = []
    for env in dict.fromkeys(entry["env"] for entry in entries):
        steps = [entry["steps"] for entry in entries if entry["env"] == env]
        if max(steps) > UNEQUAL * min(steps):
            least = min(run["steps"] for entry in entries if entry["env"] == env for run in entry["runs"])
            found.append(
                f"{env}: scored after {min(steps):,.0f} to {max(steps):,.0f} steps; --at {least} compares what was "
                "reached by then."
            )
    return found


def _run_facts(run: Run, found: Score, rows: Sequence[Row], options: CompareOptions) -> dict[str, Any]:
    facts = {"path": str(run.path), "id": run.id, "seed": run.seed, "state": run.state, "score": found.value}
    facts |= {"steps": found.steps, "seconds": found.seconds, "episodes": found.episodes}
    facts["elo"] = scores.elo(rows, options.at)
    if options.goal is not None:
        first = scores.reached(rows, options.goal, options.score)
        is_late = first is not None and options.at is not None and first.steps > options.at
        facts["goal_steps"] = None if first is None or is_late else first.steps
        facts["goal_seconds"] = None if first is None or is_late else first.seconds
    return facts


def _goal(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Who reached the goal, and the medians of those that did."""
    steps = [run["goal_steps"] for run in runs if run["goal_steps"] is not None]
    seconds = [run["goal_seconds"] for run in runs if run["goal_seconds"] is not None]
    return {
        "reached": len(steps),
        "steps": statistics.median(steps) if steps else None,
        "seconds": statistics.median(seconds) if seconds else None,
    }


def _values(entry: Mapping[str, Any]) -> list[float]:
    return [run["score"] for run in entry["runs"]]


def _pairs(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The probability of improvement for each two groups of one environment; the better one comes first."""
    found = []
    for x, y in itertools.combinations(entries, 2):
        if x["env"] != y["env"]:
            continue
        if reward_statistics.improvement([(_values(x), _values(y))])["probability"] < 0.5:
            x, y = y, x
        found.append(
            {
                "env": x["env"],
                "x": x["label"],
                "y": y["label"],
                **reward_statistics.improvement([(_values(x), _values(y))]),
            }
        )
    return found


def _overall(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same over all environments that two labels share, where they share several."""
    found = []
    for x, y in itertools.combinations(dict.fromkeys(entry["label"] for entry in entries), 2):
        of = [{e["env"]: _values(e) for e in entries if e["label"] == label} for label in (x, y)]
        shared = [env for env in of[0] if env in of[1]]
        if len(shared) < 2:
            continue
        if reward_statistics.improvement([(of[0][env], of[1][env]) for env in shared])["probability"] < 0.5:
            x, y, of = y, x, of[::-1]
        pairs = [(of[0][env], of[1][env]) for env in shared]
        found.append({"envs": shared, "x": x, "y": y, **reward_statistics.improvement(pairs)})
    return found


def _scaled(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """IQM over several environments, of scores scaled on each one from its lowest run here (0) to its highest (1)."""
    labels = dict.fromkeys(entry["label"] for entry in entries)
    envs = dict.fromkeys(entry["env"] for entry in entries)
    of = {label: {e["env"]: np.asarray(_values(e)) for e in entries if e["label"] == label} for label in labels}
    if len(envs) < 2 or any(set(of[label]) != set(envs) for label in labels) or len(labels) < 2:
        return []  # a label that lacks an environment would be compared on others
    found = []
    ends = {env: (min(of[k][env].min() for k in labels), max(of[k][env].max() for k in labels)) for env in envs}
    for label in labels:
        strata = [(of[label][env] - low) / ((high - low) or 1.0) for env, (low, high) in ends.items()]
        several = any(len(stratum) > 1 for stratum in strata)
        low, high = reward_statistics.stratified_interval(strata, reward_statistics.iqm_of) if several else (None, None)
        value = float(reward_statistics.interquartile_mean(np.concatenate(strata)))
        found.append({"label": label, "envs": list(envs), "iqm": value, "iqm_low": low, "iqm_high": high})
    return found


def against_published(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"figures", "best", "sources", "notices"} for the groups of a ``compare`` document.

    figures: published ones of the same algorithms and environments; best: the highest published one of each environment,
    by any algorithm, among returns as runs here have them.
    """
    found, best, notices = [], [], []
    for env in dict.fromkeys(entry["env"] for entry in document["groups"]):
        algorithms = {entry["algorithm"] for entry in document["groups"] if entry["env"] == env}
        everyone = published.figures(env=env)
        here = [figure for figure in everyone if figure["algorithm"] in algorithms]
        missing = sorted(algorithms - {figure["algorithm"] for figure in here})
        if missing:
            notices.append(f"No figure is shipped for {', '.join(missing)} on {env}.")
        notice = published.version_notice(env, everyone)
        notices += [notice] if notice else []
        found += [{**figure, "compared_with": env} for figure in here]
        alike = [figure for figure in everyone if figure["metric"] is None]
        if alike:
            best.append({**max(alike, key=lambda figure: figure["mean"]), "compared_with": env})
    named = published.sources([figure["source"] for figure in [*found, *best]])
    return {"figures": found, "best": best, "sources": named, "notices": notices}
