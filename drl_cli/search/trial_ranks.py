"""Which trial is best, and the file of experiments that trains it again. Used by ``search.run_search`` and for the table.

A trial's score is its last value of the search's metric. Where the stop rules name a goal for it, all trials that reached it
are equally good, and the one that needed fewer env steps comes first.
"""

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from drl_cli.algorithms import table
from drl_cli.config import search_space
from drl_cli.config.parse import read
from drl_cli.config.plain_data import redact
from drl_cli.config.result_names import COMPARE
from drl_cli.config.rllib import semantics
from drl_cli.experiments.search_data import Point, SearchData
from drl_cli.search.search_record import Trials

Numbers = Mapping[str, float]
"""A flat result: numbers by field."""


def key(data: SearchData, result: Numbers | None) -> tuple[int, float, float]:
    """Return what sorts results of a search, the best first."""
    score = score_of(data, result)
    if score is None:
        return (1, 0.0, 0.0)
    sign = -1.0 if data["mode"] == "max" else 1.0
    goal = data["goal"]
    if goal is not None and data["mode"] == "max":
        score = min(score, goal)
    return (0, sign * score, float((result or {}).get("timesteps_total") or 0))


def score_of(data: SearchData, result: Numbers | None) -> float | None:
    """Return the value of the metric in a result, or None."""
    value = (result or {}).get(data["metric"])
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def ranked(data: SearchData, trials: Trials) -> list[int]:
    """Return the numbers of the trials that have a score, best first; those that failed and rescored ones left out."""
    scored = {
        number: trial
        for number, trial in trials.items()
        if "rescore" not in trial["point"]
        and trial["state"] != "failed"
        and score_of(data, trial.get("result")) is not None
    }
    return sorted(scored, key=lambda number: key(data, scored[number].get("result")))


def rescoring_points(data: SearchData, trials: Trials, first: int) -> list[Point]:
    """Return the points that train the best trials again on seeds that no trial has used; numbered from ``first``."""
    seeds = _fresh_seeds(data)
    points: list[Point] = []
    for number in ranked(data, trials)[: data["write"]["top"] if data["write"] else 0]:
        for seed in seeds:
            point = trials[number]["point"]
            values = {name: value for name, value in point["values"].items() if name != "seed"}
            points.append({**point, "values": values, "seed": seed, "trial": first + len(points), "rescore": number})
    return points


def rescored(data: SearchData, trials: Trials) -> list[tuple[int, list[float], int]]:
    """Return [(trial, scores, representative)] of what was trained again, the best mean first.

    ``representative`` is the number of the run whose score is the median (the lower of two).
    """
    groups: dict[int, list[int]] = {}
    for number, trial in trials.items():
        if "rescore" in trial["point"]:
            groups.setdefault(trial["point"]["rescore"], []).append(number)
    found = []
    for origin, numbers in groups.items():
        good = [
            n
            for n in numbers
            if trials[n]["state"] == "finished" and score_of(data, trials[n].get("result")) is not None
        ]
        if len(good) == len(numbers):
            order = sorted(good, key=lambda number: key(data, trials[number].get("result")))
            keys = [key(data, trials[number].get("result")) for number in good]
            mean = tuple(statistics.fmean(column) for column in zip(*keys, strict=True))
            scores = [
                score for number in numbers if (score := score_of(data, trials[number].get("result"))) is not None
            ]
            found.append((mean, origin, scores, order[len(order) // 2]))
    return [entry[1:] for entry in sorted(found)]


def missed(data: SearchData, trials: Trials) -> list[str]:
    """Return one line for each criterion that the mean over an experiment's finished trials does not reach.

    The criteria are its own ``pass_criteria``, and for every experiment those of ``--assert`` (``data["demands"]``).
    """
    lines = []
    for index, experiment in enumerate(data["experiments"]):
        of_it = [t for t in trials.values() if t["point"]["experiment"] == index and "rescore" not in t["point"]]
        done: list[Numbers] = [t.get("result") or {} for t in of_it if t["state"] == "finished"]
        criteria = [(field, ">=", least) for field, least in (experiment["mapping"].get("pass_criteria") or {}).items()]
        for field, sign, threshold in [*criteria, *data.get("demands", ())]:
            values = [row[field] for row in done if isinstance(row.get(field), (int, float))]
            mean = statistics.fmean(values) if values else None
            if mean is None or not COMPARE[sign](mean, threshold):
                reached = (
                    "was never measured" if mean is None else f"is {mean:.6g} on average over {len(values)} trials"
                )
                lines.append(f"{experiment['name']}: {field} {reached}; required {sign} {threshold:g}")
    return lines


def _fresh_seeds(data: SearchData) -> list[int]:
    return search_space.fresh_seeds(data, data["write"]["seeds"] if data["write"] else 0)


def _left_to_flags(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return {key: value} that a file must contain to mean what ``mapping``, made of flags, means."""
    row = table.find(mapping["run"])
    if row.name not in table.ROWS:
        return {}
    config, _, _ = read(row, mapping.get("config", {}), "the search", table.rows())
    return {} if config is None else semantics.said(config)


def file_text(data: SearchData, trials: Trials, command: str) -> str:
    """Return the text of the file for ``-f``: the best of what was trained again, with the seed that reproduces its score."""
    ranking = rescored(data, trials)
    origin, _, shown = ranking[0]
    point, result = trials[shown]["point"], trials[shown].get("result") or {}
    experiment = data["experiments"][point["experiment"]]
    mapping = search_space.filled(experiment, point)
    for name in ("num_samples", "max_failures", "resources_per_trial", "local_dir"):
        mapping.pop(name, None)
    if not experiment.get("is_from_file"):  # a file that leaves these out means RLlib's
        mapping["config"] = {**mapping.get("config", {}), **_left_to_flags(mapping)}
    compared = sum("rescore" not in trial["point"] for trial in trials.values())
    seeds = ", ".join(str(seed) for seed in _fresh_seeds(data))
    lines = [
        f"Found by: {command}",
        f"Compared {compared} trials by {data['metric']} at their end; the best were trained again on seeds {seeds}:",
        *(f"  trial {number}: {_summary(scores)}{_steps(trials, number)}" for number, scores, _ in ranking),
        f"This is trial {origin}. With the seed below it ended at {score_of(data, result):.6g} "
        f"after {result.get('timesteps_total'):,.0f} env steps.",
    ]
    lines += _doubts(data, mapping)
    redacted = redact(mapping)
    if redacted != mapping:
        lines.append("Secrets are not written; replace *** with them.")
    body = yaml.safe_dump({experiment["name"]: redacted}, sort_keys=False, allow_unicode=True, width=120)
    wrapped = [part for line in lines for part in textwrap.wrap(line, 118, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in wrapped) + body


def _summary(scores: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(scores):.3g}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.6g}{spread} ({', '.join(f'{score:.6g}' for score in scores)})"


def _steps(trials: Trials, origin: int) -> str:
    """Return the mean of the env steps that the runs of a trial took."""
    own = [(t.get("result") or {})["timesteps_total"] for t in trials.values() if t["point"].get("rescore") == origin]
    return f" after {statistics.fmean(own):,.0f} env steps on average"


def _doubts(data: SearchData, mapping: Mapping[str, Any]) -> list[str]:
    """Return lines on what a run of the file needs, and why its result may differ."""
    lines = [f"It needs: --import {name}" for name in data["flags"].get("imports") or ()]
    if (mapping.get("config") or {}).get("num_workers"):
        lines.append("With workers runs are not reproducible exactly: expect a score like those above.")
    if any(field.startswith("time_") for field in mapping.get("stop") or {}):
        lines.append("It has a time limit: on another machine it ends at another step.")
    if data["scheduler"]["name"] == "PopulationBasedTraining":
        lines.append("PBT changed its values while it trained; these are the last ones, from the start.")
    return lines
