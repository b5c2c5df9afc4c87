"""``drl compare RUN…``: algorithms over seeds, as tables or as JSON. The statistics are ``analysis.comparison``."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.analysis import published, run_groups
from drl_cli.analysis.scores import MEANING
from drl_cli.cli import figures, group, options, rich_tables, run_options, shell_words, terminal, values
from drl_cli.errors import RunFolderError

if TYPE_CHECKING:
    from rich.console import Console

    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl compare ~/ray_results/sac ~/ray_results/td3
drl compare sac td3 --goal 200 --at 200000
drl compare sac --against published
drl compare sac --json | jq '.groups[] | {label, iqm, iqm_low, iqm_high}'
"""
HOW = "How to compare"

_compare_options = options.apply(
    [
        group.option(
            "--score",
            type=values.OneOf(("last", "best", "training")),
            default="last",
            group=HOW,
            help="Score of a run: its last or best greedy evaluation, or its last training episodes.",
        ),
        group.option(
            "--at",
            type=options.POSITIVE,
            metavar="STEPS",
            group=HOW,
            help="Use only scores reached within this many env steps.",
        ),
        group.option(
            "--goal",
            type=values.Number(),
            metavar="SCORE",
            group=HOW,
            help="Also report which runs reached SCORE, and how soon.",
        ),
        group.option(
            "--by",
            type=values.OneOf(("config", "algorithm", "experiment")),
            default="config",
            group=HOW,
            help="Which runs count as replicates: same config apart from the seed, same algorithm, or same experiment.",
        ),
        group.option(
            "--against",
            type=values.OneOf(("published",)),
            group=HOW,
            help="Add the scores that other projects publish, with their conditions.",
        ),
        run_options.local_dir_option(HOW),
        options.quiet_option("Print only the tables."),
        options.json_option,
        options.speech_options,
    ]
)


@click.command("compare", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="RUN...", nargs=-1, required=True, shell_complete=shell_words.runs)
@_compare_options
@click.pass_obj
def compare(
    session: Session,
    words: tuple[str, ...],
    score: str,
    at: int | None,
    goal: float | None,
    by: str,
    against: str | None,
    local_dirs: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare algorithms over seeds: mean, interquartile mean, 95 % intervals, probability of improvement.

    RUN is an id, a name, a path, or a folder of runs. Runs of one algorithm and environment that differ only in the seed
    are replicates. sd is over seeds (n - 1); intervals are percentile bootstraps over seeds, stratified by environment. P(X
    > Y) is the probability that a run of X scores higher than a run of Y.

    JSON: {"score", "at", "goal", "confidence", "groups": [{"label", "algorithm", "env", "runs": [{"path", "id", "seed",
    "state", "score", "steps", "seconds", "episodes", "elo"}], "n", "mean", "sd", "mean_low", "mean_high", "iqm", "iqm_low",
    "iqm_high", "min", "max", "steps", "seconds", "elo", "goal": {"reached", "steps", "seconds"}}], "improvement": [{"env", "x",
    "y", "probability", "low", "high"}], "overall": [...], "scaled": [{"label", "envs", "iqm", "iqm_low", "iqm_high"}],
    "notices": [...], "published": {"figures": [...], "best": [...], "sources": {...}, "notices": [...]}}.
    """
    from drl_cli.analysis import comparison
    from drl_cli.runs.loggers.tables import read_rows

    runs = run_options.open_runs(words, local_dirs)
    groups = run_groups.group(runs, by)
    asked = comparison.CompareOptions(score, at, goal)
    document = comparison.compare(groups, lambda run: read_rows(run.path), asked)
    if not document["groups"]:
        raise RunFolderError(" ".join(document["notices"]) or "there is nothing to compare.")
    document["published"] = comparison.against_published(document) if against else None
    output = terminal.Stdout(session)
    if as_json:
        output.json_line(document)
        return
    for line in _page(document, rich_tables.console(session), quiet):
        output.line(line)
    notices = [*document["notices"], *((document["published"] or {}).get("notices", ()))]
    for line in notices:
        terminal.say(line)


def _page(document: Mapping[str, Any], console: Console, quiet: bool) -> list[str]:
    """Return the lines of all tables, and of what explains them unless ``quiet``."""
    lines = []
    for env in dict.fromkeys(entry["env"] for entry in document["groups"]):
        entries = [entry for entry in document["groups"] if entry["env"] == env]
        lines += [env, *_scores(document, entries, console), ""]
        pairs = [pair for pair in document["improvement"] if pair["env"] == env]
        lines += [*_improvement(pairs, console), ""] if pairs else []
        if document["published"]:
            lines += [*_published(document["published"], env, console), ""]
    if document["overall"] or document["scaled"]:
        lines += [
            "All environments together",
            *_improvement(document["overall"], console),
            *_scaled(document, console),
            "",
        ]
    if not quiet:
        meaning = MEANING[document["score"]]
        lines += _wrapped(f"Score: {meaning}.", console)
        if any(1 < entry["n"] < 5 for entry in document["groups"]):
            lines += _wrapped("With fewer than five seeds the intervals are unreliable.", console)
        lines += _sources(document["published"], console) if document["published"] else []
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _scores(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], console: Console) -> list[str]:
    pm = terminal.plus_minus(sys.stdout)
    names = ["", "seeds", f"mean {pm} sd", "IQM [95 %]", "steps", "time"]
    rated = any(entry["elo"] is not None for entry in entries)
    names += ["Elo"] if rated else []
    names += [f"to {document['goal']:g}"] if document["goal"] is not None else []
    grid = rich_tables.grid(names, left=[""], folded=[""])
    number = figures.score
    for entry in entries:
        sd = "" if entry["sd"] is None else f" {pm} {number(entry['sd'])}"
        iqm = f"{number(entry['iqm'])} {figures.interval(entry['iqm_low'], entry['iqm_high'])}".rstrip()
        cells = [entry["label"], str(entry["n"]), number(entry["mean"]) + sd, iqm]
        cells += [figures.count(entry["steps"]), figures.clock(entry["seconds"])]
        if rated:
            cells.append("" if entry["elo"] is None else f"{entry['elo']:,.0f}")
        if document["goal"] is not None:
            cells.append(_reached(entry))
        grid.add_row(*cells)
    return rich_tables.rendered([grid], console)


def _reached(entry: Mapping[str, Any]) -> str:
    goal = entry["goal"]
    share = f"{goal['reached']}/{entry['n']}"
    return (
        share if not goal["reached"] else f"{share}, {figures.count(goal['steps'])}, {figures.clock(goal['seconds'])}"
    )


ONE_SEED = "P(X > Y) cannot be estimated from a single run. Train more seeds with --seeds 0..4."


def _improvement(pairs: Sequence[Mapping[str, Any]], console: Console) -> list[str]:
    estimated = [pair for pair in pairs if pair["low"] is not None]
    grid = rich_tables.grid(["", "probability", "95 %"], left=[""], folded=[""])
    for pair in estimated:
        grid.add_row(
            f"P({pair['x']} > {pair['y']})", f"{pair['probability']:.2f}", f"[{pair['low']:.2f}, {pair['high']:.2f}]"
        )
    lines = rich_tables.rendered([grid], console) if estimated else []
    return [*lines, *([ONE_SEED] if len(estimated) < len(pairs) else [])]


def _scaled(document: Mapping[str, Any], console: Console) -> list[str]:
    if not document["scaled"]:
        return []
    grid = rich_tables.grid(["", "scaled IQM", "95 %"], left=[""], folded=[""])
    for entry in document["scaled"]:
        between = "" if entry["iqm_low"] is None else f"[{entry['iqm_low']:.2f}, {entry['iqm_high']:.2f}]"
        grid.add_row(entry["label"], f"{entry['iqm']:.2f}", between)
    note = "Scaled: 0 is the lowest run of each environment, 1 the highest."
    return [*rich_tables.rendered([grid], console), note]


def _published(figures_known: Mapping[str, Any], env: str, console: Console) -> list[str]:
    found = sorted((f for f in figures_known["figures"] if f["compared_with"] == env), key=lambda f: -f["mean"])
    best = [figure for figure in figures_known["best"] if figure["compared_with"] == env and figure not in found]
    if not found and not best:
        return [f"No published score for {env} comes with drl."]
    alike = [figure for figure in found if figure["metric"] is None]
    lines = _figures([*alike, *best], best, env, console) if alike or best else []
    unlike = [figure for figure in found if figure["metric"] is not None]
    if unlike:
        lines += ["", OTHER_METRICS] if lines else [OTHER_METRICS]
        lines += _figures(unlike, (), env, console)
    return lines


OTHER_METRICS = "Published with another metric (see below), not comparable with these scores:"


def _figures(
    found: Sequence[Mapping[str, Any]], best: Sequence[Mapping[str, Any]], env: str, console: Console
) -> list[str]:
    pm = terminal.plus_minus(sys.stdout)
    family = published.family(env)
    names = ["published", "", "version", f"mean {pm} sd", "steps", "measures", "seeds"]
    grid = rich_tables.grid(names, left=names[:3], folded=names[:3])
    for figure in found:
        sd = "" if figure["sd"] is None else f" {pm} {figures.score(figure['sd'])}"
        name = figure["algorithm"] + (f" ({figure['note']})" if figure["note"] else "")
        grid.add_row(
            figure["source"],
            name + (" *" if figure in best else ""),
            figure["env"].removeprefix(family).removeprefix("-"),
            figures.score(figure["mean"]) + sd,
            "" if figure["steps"] is None else figures.count(figure["steps"]),
            figure["measures"],
            "" if figure["seeds"] is None else str(figure["seeds"]),
        )
    lines = rich_tables.rendered([grid], console)
    return [*lines, *(["* the highest published score, by another algorithm"] if best else [])]


def _sources(figures_known: Mapping[str, Any], console: Console) -> list[str]:
    lines = []
    for name, facts in figures_known["sources"].items():
        text = f"{name}: {facts['name']}, read {facts['read']}, {facts['url']}. Conditions: {facts['conditions']}."
        text += f" Metric: {facts['metric']}." if facts.get("metric") else ""
        lines += _wrapped(text, console, "  ")
    return lines


def _wrapped(text: str, console: Console, indent: str = "") -> list[str]:
    width = min(console.width, 100) - 1
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
