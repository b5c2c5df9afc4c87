"""Which trial is best, and the file that says so. Used by ``search.run_search`` and for the table.

A trial's score is its last value of the search's metric. Where the stop rules name a goal for it, all trials that reached it
are equally good, and the one that needed fewer env steps comes first.
"""

import math
import statistics
import textwrap

import yaml

from drl_cli.algorithms import table
from drl_cli.config import variants
from drl_cli.config.parse import read
from drl_cli.config.plain_data import redact
from drl_cli.config.result_names import COMPARE
from drl_cli.config.rllib import semantics


def key(data, result):
    """Return what sorts results (flat dicts of numbers) of a search, the best first."""
    score = score_of(data, result)
    if score is None:
        return (1, 0.0, 0.0)
    sign = -1.0 if data["mode"] == "max" else 1.0
    goal = data["goal"]
    if goal is not None and data["mode"] == "max":
        score = min(score, goal)
    return (0, sign * score, float((result or {}).get("timesteps_total") or 0))


def score_of(data, result):
    """Return the value of the metric in a result, or None."""
    value = (result or {}).get(data["metric"])
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def ranked(data, trials):
    """Return the numbers of the trials that have a score, best first; those that failed and rescored ones left out."""
    scored = {
        number: trial
        for number, trial in trials.items()
        if "rescore" not in trial["point"]
        and trial["state"] != "failed"
        and score_of(data, trial.get("result")) is not None
    }
    return sorted(scored, key=lambda number: key(data, scored[number]["result"]))


def rescoring_points(data, trials, first):
    """Return the points that train the best trials again on seeds that no trial has used; numbered from ``first``."""
    seeds = variants.fresh_seeds(data, data["write"]["seeds"])
    points = []
    for number in ranked(data, trials)[: data["write"]["top"]]:
        for seed in seeds:
            point = trials[number]["point"]
            values = {name: value for name, value in point["values"].items() if name != "seed"}
            points.append({**point, "values": values, "seed": seed, "trial": first + len(points), "rescore": number})
    return points


def rescored(data, trials):
    """Return [(trial, scores, representative)] of what was trained again, the best mean first.

    ``representative`` is the number of the run whose score is the median one (the lower of two): neither lucky nor unlucky.
    """
    groups = {}
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
            order = sorted(good, key=lambda number: key(data, trials[number]["result"]))
            keys = [key(data, trials[number]["result"]) for number in good]
            mean = tuple(statistics.fmean(column) for column in zip(*keys, strict=True))
            scores = [score_of(data, trials[number]["result"]) for number in numbers]
            found.append((mean, origin, scores, order[len(order) // 2]))
    return [entry[1:] for entry in sorted(found)]


def missed(data, trials):
    """Return one line for each thing demanded that the mean over an experiment's finished trials does not reach.

    Demanded are its own ``pass_criteria``, and of each experiment what ``--assert`` says (``data["demands"]``).
    """
    lines = []
    for index, experiment in enumerate(data["experiments"]):
        done = [t for t in trials.values() if t["point"]["experiment"] == index and t["state"] == "finished"]
        done = [t.get("result") or {} for t in done if "rescore" not in t["point"]]
        criteria = [(field, ">=", least) for field, least in (experiment["mapping"].get("pass_criteria") or {}).items()]
        for field, sign, asked in [*criteria, *data.get("demands", ())]:
            values = [row[field] for row in done if isinstance(row.get(field), (int, float))]
            mean = statistics.fmean(values) if values else None
            if mean is None or not COMPARE[sign](mean, asked):
                told = "was never measured" if mean is None else f"is {mean:.6g} on average over {len(values)} trials"
                lines.append(f"{experiment['name']}: {field} {told}; required {sign} {asked:g}")
    return lines


def _left_to_flags(mapping):
    """Return {key: value} that must stand in a file for it to mean what ``mapping``, made of flags, does."""
    row = table.find(mapping["run"])
    if row not in table.ALGORITHMS:
        return {}
    config, _, _ = read(row, mapping.get("config", {}), "the search", table.rows())
    return semantics.said(config)


def file_text(data, trials, command):
    """Return the text of the file that ``-f`` runs: the best of what was trained again, with the seed that shows its score."""
    ranking = rescored(data, trials)
    origin, _, shown = ranking[0]
    point, result = trials[shown]["point"], trials[shown]["result"]
    experiment = data["experiments"][point["experiment"]]
    mapping = variants.filled(experiment, point)
    for name in ("num_samples", "max_failures", "resources_per_trial", "local_dir"):
        mapping.pop(name, None)
    if not experiment.get("is_from_file"):  # a file that leaves these out means RLlib's
        mapping["config"] = {**mapping.get("config", {}), **_left_to_flags(mapping)}
    compared = sum("rescore" not in trial["point"] for trial in trials.values())
    seeds = ", ".join(str(seed) for seed in variants.fresh_seeds(data, data["write"]["seeds"]))
    lines = [
        f"Found by: {command}",
        f"Compared {compared} trials by {data['metric']} at their end; the best were trained again on seeds {seeds}:",
        *(f"  trial {number}: {_summary(scores)}{_steps(trials, number)}" for number, scores, _ in ranking),
        f"This is trial {origin}. With the seed below it ended at {score_of(data, result):.6g} "
        f"after {result.get('timesteps_total'):,.0f} env steps.",
    ]
    lines += _doubts(data, mapping)
    told = redact(mapping)
    if told != mapping:
        lines.append("A secret in it is not written down; put it in the place of ***.")
    body = yaml.safe_dump({experiment["name"]: told}, sort_keys=False, allow_unicode=True, width=120)
    wrapped = [part for line in lines for part in textwrap.wrap(line, 118, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in wrapped) + body


def _summary(scores):
    spread = f" ± {statistics.stdev(scores):.3g}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.6g}{spread} ({', '.join(f'{score:.6g}' for score in scores)})"


def _steps(trials, origin):
    """Return the mean of the env steps that the runs of a trial took."""
    own = [t["result"]["timesteps_total"] for t in trials.values() if t["point"].get("rescore") == origin]
    return f" after {statistics.fmean(own):,.0f} env steps on average"


def _doubts(data, mapping):
    """Return lines on what a run of the file needs, and why it may end elsewhere."""
    lines = [f"It needs: --import {name}" for name in data["flags"].get("imports") or ()]
    if (mapping.get("config") or {}).get("num_workers"):
        lines.append("With workers no two runs are the same: expect a score like the ones above.")
    if any(field.startswith("time_") for field in mapping.get("stop") or {}):
        lines.append("It stops by the clock: on another machine it ends elsewhere.")
    if data["scheduler"]["name"] == "PopulationBasedTraining":
        lines.append("PBT changed its values while it trained; these are the last ones, from the start.")
    return lines
