"""A report of runs as one page of HTML that loads nothing: no script, no link, no font, no picture from elsewhere.

User: ``drl report``. Everything that comes from a run is escaped. The page stays below ``MAX_BYTES``: films and default
values are left out, and named, where they find no room.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli.analysis import curves, html_page, scores, svg_curves
from drl_cli.analysis.curves import BANDS, Panel
from drl_cli.analysis.svg_curves import Size
from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD

if TYPE_CHECKING:
    from drl_cli.analysis.run_groups import Group
    from drl_cli.analysis.scores import Row
    from drl_cli.runs.run_summary import Run

MAX_BYTES = 5_000_000
MAX_FILM = 1_500_000  # bytes of a film that is embedded
WIDE, NARROW = Size(720, 330), Size(350, 250)
SMOOTH = 0.02  # as in ``drl plot``
EVALUATIONS = 20  # rows of the table of evaluations
FIELDS = {EVALUATION_REWARD: "return of greedy evaluations", TRAINING_REWARD: "return of training episodes"}


@dataclass(frozen=True)
class ReportedRun:
    """A run and what is on disk of it.

    rows: of result.json. settings: rows as ``experiments.provenance`` explains them. versions: content of versions.json.
    events: those of events.jsonl. films: paths.
    """

    run: Run
    rows: Sequence[Row]
    settings: Sequence[Mapping[str, Any]]
    versions: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    films: Sequence[Path]


def page(title: str, groups: Sequence[Group], reported: Mapping[Path, ReportedRun], table: Mapping[str, Any]) -> str:
    """Return the page.

    groups: the runs as ``run_groups.group`` has them; reported: {path of a run: ReportedRun}; table: what
    ``comparison.compare`` says of the groups.
    """
    labels = dict.fromkeys(group.label for group in groups)
    places = {label: number for number, label in enumerate(labels)}
    runs = [reported[run.path] for group in groups for run in group.runs]
    single = len(runs) == 1
    head = [f"<h1>{html_page.text(title)}</h1>", *(_sentences(runs[0]) if single else _overview(groups))]
    body = [*_scores(table), *_curves(groups, reported, places), *_configuration(groups, reported)]
    room = MAX_BYTES - 20_000 - html_page.size([*head, *body])
    for one in runs:
        # A run whose details find no room is named: 5 MB hold some hundred.
        part = _run(one, single)
        if html_page.size(part) > room:
            line = f"{one.run.path.name}: left out for size; drl report {one.run.id} shows it."
            part = [f"<p>{html_page.text(line)}</p>"]
        body += part
        room -= html_page.size(part)
    return html_page.document(title, [*head, *_with_defaults(body, groups, reported, room)])


def _sentences(one: ReportedRun) -> list[str]:
    """Return the summary of a run in words."""
    run = one.run
    lines = [
        f"{run.algorithm} on {run.env}, seed {run.seed}: {run.state}{f' ({run.text})' if run.text else ''}, after "
        f"{html_page.number(run.steps)} environment steps in {html_page.seconds(run.seconds)} of training."
    ]
    events = {kind: event for event in one.events if (kind := event.get("kind")) in ("goal", "held")}
    rules = ", ".join(f"{name} = {html_page.number(value)}" for name, value in _stop(run).items())
    lines.append(f"Stop rules: {rules}." if rules else "No stop rule.")
    if goal := events.get("goal"):
        fresh = (
            f", confirmed by {html_page.number(_float(goal.get('confirmed')))} over fresh episodes"
            if goal.get("confirmed")
            else ""
        )
        steps, seconds = _float(goal.get("timesteps_total")), _float(goal.get("seconds"))
        lines.append(
            f"Goal {html_page.number(_float(goal.get('target')))} of {goal.get('metric')} touched with "
            f"{html_page.number(_float(goal.get('value')))} after {html_page.number(steps)} steps and "
            f"{html_page.seconds(seconds)}{fresh}."
        )
    elif any(name in FIELDS for name in _stop(run)):
        lines.append("The goal was not touched.")
    if held := events.get("held"):
        lines.append(
            f"After that, the mean of {held.get('evaluations')} evaluations was {html_page.number(_float(held.get('value')))} "
            f"(to hold: {html_page.number(_float(held.get('target')))})."
        )
    if run.best is not None:
        lines.append(f"Best {run.best_metric}: {html_page.number(run.best)}, in {run.best_checkpoint}.")
    return [
        *(f"<p>{html_page.text(line)}</p>" for line in lines),
        f'<p class="faint">{html_page.text(_made_with(one))}</p>',
    ]


def _made_with(one: ReportedRun) -> str:
    """Return in a line the versions, the machine and the command of a run."""
    known = one.versions
    packages = known.get("packages") or {}
    wanted = [f"{name} {packages[name]}" for name in ("tensorflow", "ray", "gymnasium", "numpy") if name in packages]
    parts = [f"drl {known.get('drl', 'of an unknown version')}", f"Python {known.get('python', 'unknown')}", *wanted]
    parts += [str(known["platform"])] if known.get("platform") else []
    parts += [f"host {one.run.host}"] if one.run.host else []
    command = known.get("command")
    typed = f". Command: {' '.join(map(str, command))}" if isinstance(command, list) and command else ""
    return f"{', '.join(parts)}. Folder: {one.run.path}{typed}"


def _overview(groups: Sequence[Group]) -> list[str]:
    count = sum(len(group.runs) for group in groups)
    lines = [f"{count} runs, {len(groups)} configuration{'s' if len(groups) > 1 else ''}:"]
    for group in groups:
        seeds = ", ".join(str(seed) for seed in group.seeds)
        states = ", ".join(dict.fromkeys(run.state for run in group.runs))
        lines.append(f"{group.label} on {group.env}, seed{'s' if len(group.runs) > 1 else ''} {seeds} ({states}).")
    return [f"<p>{html_page.text(line)}</p>" for line in lines]


def _scores(table: Mapping[str, Any]) -> list[str]:
    """Return the comparison of the groups, as ``drl compare`` computes it."""
    if not table["groups"]:
        return ["<h2>Scores</h2>", *(f"<p>{html_page.text(line)}</p>" for line in table["notices"])]
    rows = []
    for entry in table["groups"]:
        spread = "" if entry["sd"] is None else f" ± {html_page.number(entry['sd'])}"
        between = (
            ""
            if entry["iqm_low"] is None
            else f" [{html_page.number(entry['iqm_low'])}, {html_page.number(entry['iqm_high'])}]"
        )
        cells = [entry["label"], entry["env"], str(entry["n"]), html_page.number(entry["mean"]) + spread]
        rows.append(
            [
                *cells,
                html_page.number(entry["iqm"]) + between,
                html_page.number(entry["steps"]),
                html_page.seconds(entry["seconds"]),
            ]
        )
    heads = ("", "environment", "seeds", "mean ± sd", "IQM [95 %]", "steps", "time")
    note = f"Score: {scores.MEANING[table['score']]}. sd is over seeds; intervals are bootstraps over seeds."
    lines = [note, *table["notices"]]
    shown = ["<h2>Scores</h2>", html_page.table(heads, rows, (2, 3, 4, 5, 6))]
    pairs = [pair for pair in table["improvement"] if pair["low"] is not None]
    if pairs:
        cells = [
            [f"P({p['x']} > {p['y']}) on {p['env']}", f"{p['probability']:.2f}", f"[{p['low']:.2f}, {p['high']:.2f}]"]
            for p in pairs
        ]
        shown.append(html_page.table(("probability of improvement", "", "95 %"), cells, (1, 2)))
    return [*shown, *(f'<p class="faint">{html_page.text(line)}</p>' for line in lines)]


def _curves(groups: Sequence[Group], reported: Mapping[Path, ReportedRun], places: Mapping[str, int]) -> list[str]:
    parts = ["<h2>Learning curves</h2>"]
    for field, label in FIELDS.items():
        panels = _panels(groups, reported, field)
        for panel in panels:
            parts += [
                f"<h3>{html_page.text(f'{label[0].upper()}{label[1:]} on {panel.env}')}</h3>",
                _legend(panel, places),
            ]
            sizes = ((WIDE, "wide"), (NARROW, "narrow"))
            drawn = (
                f'<div class="{name}">{svg_curves.curves(panel, places, (curves.AXES["steps"][2], "return"), size)}</div>'
                for size, name in sizes
            )
            band = f" Band: {BANDS['ci']} over seeds." if any(len(b.lines) > 1 for b in panel.bundles) else ""
            note = f"Thick: mean, smoothed over {SMOOTH:.0%} of each curve; thin: single runs.{band}"
            note += (
                " Dotted: mean of those that have got so far."
                if not all(b.complete.all() for b in panel.bundles)
                else ""
            )
            parts.append(f"<figure>{''.join(drawn)}<figcaption>{html_page.text(note)}</figcaption></figure>")
        if not panels:
            parts.append(f"<p>{html_page.text(f'No {label} yet.')}</p>")
    return parts


def _panels(groups: Sequence[Group], reported: Mapping[Path, ReportedRun], field: str) -> list[Panel]:
    found: dict[str, list[curves.Bundle]] = {}
    goals: dict[str, set[float | None]] = {}
    for group in groups:
        lines = []
        for run in group.runs:
            x, y = curves.points(reported[run.path].rows, field, "steps")
            if len(x):
                lines.append(curves.Line(str(run.path), run.seed, x, y))
                goals.setdefault(group.env, set()).add(_stop(run).get(field))
        if lines:
            found.setdefault(group.env, []).append(curves.Bundle(group.label, lines))
    made = []
    for env, bundles in found.items():
        (goal, *others) = goals[env]
        made.append(curves.panel(env, bundles, SMOOTH, "ci", None if others else goal))
    return made


def _legend(panel: Panel, places: Mapping[str, int]) -> str:
    entries = []
    for bundle in panel.bundles:
        seeds = f" ({len(bundle.lines)} seeds)" if len(bundle.lines) > 1 else ""
        entries.append(_sign(places[bundle.label], bundle.label + seeds))
    return f'<div class="legend">{"".join(entries)}</div>'


def _sign(place: int, label: str) -> str:
    color, dashes = svg_curves.style(place)
    line = f'<svg viewBox="0 0 28 10" aria-hidden="true"><path class="mean {color}"{dashes} d="M0 5H28"/></svg>'
    return f"<span>{line}{html_page.text(label)}</span>"


def _configuration(groups: Sequence[Group], reported: Mapping[Path, ReportedRun]) -> list[str]:
    """Return what was set for each group, and where."""
    parts = ["<h2>Configuration</h2>"]
    for group in groups:
        rows = [row for row in reported[group.runs[0].path].settings if row["from"] is not None]
        name = f"{group.label} on {group.env}" if len(groups) > 1 else "Values that were set or derived"
        note = (
            ""
            if len(group.runs) == 1
            else f'<p class="faint">Of the run with seed {html_page.text(group.runs[0].seed)}.</p>'
        )
        opened = " open" if len(groups) == 1 else ""
        body = html_page.table(("key", "value", "where from", "default"), map(_setting, rows), keys=True)
        parts.append(f"<details{opened}><summary>{html_page.text(name)}</summary>{note}{body}</details>")
    return parts


def _with_defaults(
    parts: list[str], groups: Sequence[Group], reported: Mapping[Path, ReportedRun], room: int
) -> list[str]:
    """Return ``parts`` with the default values of the groups at the end, as far as there is room for them."""
    more = ["<h2>Default values</h2>"]
    for group in groups:
        rows = [row for row in reported[group.runs[0].path].settings if row["from"] is None]
        name = html_page.text(f"{group.label} on {group.env}: {len(rows)} keys")
        cells = ((row["key"].removeprefix("config."), _json(row["value"]), row["meaning"]) for row in rows)
        block = f"<details><summary>{name}</summary>{html_page.table(('key', 'value', 'meaning'), cells, keys=True)}</details>"
        if html_page.size([block]) > room:
            block = f"<p>{name}, left out for size; drl explain {html_page.text(group.runs[0].id)} lists them.</p>"
        more.append(block)
        room -= html_page.size([block])
    return [*parts, *more]


def _setting(row: Mapping[str, Any]) -> list[str]:
    return [row["key"].removeprefix("config."), _json(row["value"]), str(row["from"]), _json(row["default"])]


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _run(one: ReportedRun, single: bool) -> list[str]:
    """Return the sections of a run: evaluations, what it waited for, films, checkpoints."""
    run = one.run
    parts = [*_evaluations(one), *_waiting(one), *_films(one), *_checkpoints(run)]
    if single:
        return parts
    name = f"{run.algorithm} on {run.env}, seed {run.seed}: {run.path.name}"
    return [f"<details><summary>{html_page.text(name)}</summary>", *_sentences(one), *parts, "</details>"]


def _evaluations(one: ReportedRun) -> list[str]:
    found = scores.evaluations(one.rows)
    if not found:
        return ["<h2>Evaluations</h2>", "<p>There are none.</p>"]
    best, shown = max(found, key=lambda score: score.value), found[-EVALUATIONS:]
    kept = shown if best in shown else [best, *shown]
    rows = (
        [
            html_page.number(s.steps),
            html_page.seconds(s.seconds),
            html_page.number(s.episodes),
            html_page.number(s.value),
            "best" if s is best else "",
        ]
        for s in kept
    )
    left = len(found) - len(kept)
    heads = ("steps", "time", "episodes", "mean return", "")
    note = f"The best and the last {EVALUATIONS} of {len(found)}." if left else f"All {len(found)}."
    return ["<h2>Evaluations</h2>", f'<p class="faint">{note}</p>', html_page.table(heads, rows, (0, 1, 2, 3))]


def _waiting(one: ReportedRun) -> list[str]:
    """Return what took the time: shares of each iteration by its timers, and the bottlenecks that were reported."""
    steps, lines = _shares(one.rows)
    parts = ["<h2>Bottleneck over time</h2>"]
    if len(steps) > 1:
        legend = "".join(_sign(number, name) for number, name in enumerate(lines))
        labels = (curves.AXES["steps"][2], "share of the time")
        drawn = (
            f'<div class="{name}">{svg_curves.shares(steps, lines, labels, size)}</div>'
            for size, name in ((WIDE, "wide"), (NARROW, "narrow"))
        )
        note = "Share of each iteration in which the learner learnt, the workers sampled (mean over them), evaluations ran."
        parts.append(f'<div class="legend">{legend}</div>')
        parts.append(f"<figure>{''.join(drawn)}<figcaption>{note} They may overlap.</figcaption></figure>")
    from_start = one.run.started
    rows = [
        [html_page.seconds(_after(event, from_start)), str(event.get("text", ""))]
        for event in one.events
        if event.get("kind") == "bottleneck"
    ]
    if rows:
        parts.append(html_page.table(("after", "bottleneck"), rows, (0,)))
    elif len(steps) < 2:
        parts.append("<p>None was recorded: the run was too short.</p>")
    return parts


def _shares(rows: Sequence[Row]) -> tuple[list[float], dict[str, list[float]]]:
    """Return (env steps, {name: shares}) of the iterations whose timers are known."""
    steps: list[float] = []
    lines: dict[str, list[float]] = {"learning": [], "sampling": [], "evaluations": []}
    before = 0.0
    for row in rows:
        timers, spent = row.get("timers") or {}, row.get("time_this_iter_s")
        evaluated = timers.get("evaluate_s") or 0.0  # of all evaluations so far
        new, before = max(0.0, evaluated - before), evaluated
        if not spent or timers.get("learn_s") is None or row.get("timesteps_total") is None:
            continue
        steps.append(row["timesteps_total"])
        workers = max(1, row.get("num_healthy_workers") or 1)
        seconds = (timers["learn_s"], (timers.get("sample_s") or 0.0) / workers, new)
        for name, value in zip(lines, seconds, strict=True):
            lines[name].append(min(1.0, value / spent))
    return steps, lines


def _films(one: ReportedRun) -> list[str]:
    """Return the newest film that is small enough, and the names of all others."""
    if not one.films:
        return [
            "<h2>Films</h2>",
            f"<p>There are none. drl rollout {html_page.text(one.run.id)} --video-dir videos makes one.</p>",
        ]
    parts, shown = ["<h2>Films</h2>"], None
    for film in reversed(one.films):
        try:
            data = film.read_bytes() if film.stat().st_size <= MAX_FILM else None
        except OSError:  # removed meanwhile, or another user's: the report has the other films
            continue
        if data:
            shown, name = film, html_page.text(film.name)
            source = f"data:video/mp4;base64,{base64.b64encode(data).decode()}"
            parts.append(f'<figure><video controls src="{source}"></video><figcaption>{name}</figcaption></figure>')
            break
    rest = [film for film in one.films if film != shown]
    return parts + [f'<p class="faint">Not embedded: {html_page.text(", ".join(map(str, rest)))}</p>'] * bool(rest)


def _checkpoints(run: Run) -> list[str]:
    rows = [[name, "best" if name == run.best_checkpoint else ""] for name in run.checkpoints]
    if not rows:
        return ["<h2>Checkpoints</h2>", "<p>There are none.</p>"]
    note = f"<p>Play one: <code>drl rollout {html_page.text(run.path)}/{html_page.text(rows[-1][0])}</code></p>"
    return ["<h2>Checkpoints</h2>", html_page.table(("name", ""), rows), note]


def _stop(run: Run) -> dict[str, float]:
    found = run.params.get("stop") or {}
    return {name: value for name, value in found.items() if _float(value) is not None}


def _float(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _after(event: Mapping[str, Any], start: float | None) -> float | None:
    return None if start is None or event.get("at") is None else max(0.0, event["at"] - start)
