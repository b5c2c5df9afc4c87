"""``drl plot RUN…``: learning curves as png, svg or pdf, in the terminal, or as JSON.

Points, smoothing and bands are ``analysis.curves``; matplotlib and plotext are loaded only when something is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drl_cli.analysis import run_groups
from drl_cli.cli import group, options, run_options, shell_words, terminal, values
from drl_cli.cli.view import GOALS
from drl_cli.config.result_names import (
    EVALUATION_REWARD,
    NUMBER_FIELDS,
    TRAINING_REWARD,
    flatten,
    is_number_field,
    policy_in,
)
from drl_cli.errors import ConfigError, RunFolderError, suggestion

if TYPE_CHECKING:
    from drl_cli.analysis.curves import Panel
    from drl_cli.analysis.run_groups import Group
    from drl_cli.cli.terminal import Session
    from drl_cli.runs.run_summary import Run

EXAMPLES = """
drl plot RUN --terminal
drl plot ~/ray_results/sac ~/ray_results/td3 -o curves.png
drl plot sac td3 --field evaluation/episode_reward_mean --over seconds -o curves.svg
drl plot RUN_1 RUN_2 --label "lr 1e-4" --label "lr 3e-4" -o rates.png
drl plot RUN --field info/learner/default_policy/mean_q -o q.pdf
drl plot sac --json | jq '.panels[0].groups[0].mean'
"""
FORMATS = ("png", "svg", "pdf")
REWARD = TRAINING_REWARD
WHAT, HOW, WHERE = "What to draw", "How to draw it", "Where to"
TERMINAL_LINES = (12, 30)  # of a drawing, at least and at most
Y_LABELS = {
    REWARD: "return of training episodes",
    EVALUATION_REWARD: "return of greedy evaluations",
    "episode_len_mean": "length of training episodes",
}

_plot_options = options.apply(
    [
        group.option(
            "--field",
            metavar="FIELD",
            default=REWARD,
            group=WHAT,
            shell_complete=shell_words.fields,
            help="Any numeric field of result.json.",
        ),
        group.option(
            "--over",
            type=values.OneOf(("steps", "seconds", "updates")),
            default="steps",
            group=WHAT,
            help="Quantity on the x axis.",
        ),
        group.option(
            "--by",
            type=values.OneOf(("config", "algorithm", "experiment", "run")),
            default="config",
            group=WHAT,
            help="Which runs share a curve: same config apart from the seed, same algorithm, same experiment; run draws each.",
        ),
        group.option(
            "--label",
            "labels",
            metavar="TEXT",
            multiple=True,
            group=WHAT,
            help="Label of each RUN, in the same order; the runs of a folder, and RUNs with the same label, share a curve.",
        ),
        run_options.local_dir_option(WHAT),
        group.option(
            "--smooth",
            type=values.Number(0, 0.5),
            metavar="SHARE",
            default=0.02,
            group=HOW,
            help="Standard deviation of the Gaussian kernel, as a fraction of each curve's length; 0: no smoothing.",
        ),
        group.option(
            "--band",
            type=values.OneOf(("ci", "sd", "range", "none")),
            default="ci",
            group=HOW,
            help="Band around the mean over seeds: 95 % bootstrap interval, sd, range, or none.",
        ),
        group.option("--no-raw", is_flag=True, group=HOW, help="Omit the thin lines of individual runs."),
        group.option("--title", metavar="TEXT", default="", group=HOW, help="Title of the plot."),
        group.option(
            "-o", "--out", metavar="FILE", group=WHERE, help="File to write: .png, .svg or .pdf; - for stdout."
        ),
        group.option(
            "--format",
            "file_format",
            type=values.OneOf(FORMATS),
            group=WHERE,
            help="Format, if the file name does not say.",
        ),
        group.option(
            "--terminal", "in_terminal", is_flag=True, group=WHERE, help="Draw in the terminal, as without -o."
        ),
        group.option(
            "--json", "as_json", is_flag=True, group=WHERE, help="Print the curves as one JSON document on stdout."
        ),
        options.quiet_option(),
        options.speech_options,
    ]
)


@click.command("plot", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="RUN...", nargs=-1, required=True, shell_complete=shell_words.runs)
@_plot_options
@click.pass_obj
def plot(
    session: Session,
    words: tuple[str, ...],
    out: str | None,
    file_format: str | None,
    in_terminal: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Plot the learning curves of runs: the smoothed mean over seeds with its interval, and single runs as thin lines.

    RUN is an id, a name, a path, or a folder of runs. Runs that differ only in the seed form one curve; each environment
    gets a plot of its own. Where some seeds have ended earlier, the mean of the others continues as a dotted line while
    they are at least half.

    JSON: {"field", "over", "smooth", "band", "panels": [{"env", "goal", "groups": [{"label", "algorithm", "runs": [{
    "path", "seed", "x": [...], "y": [...]}], "mean": {"x": [...], "y": [...], "low": [...], "high": [...], "complete":
    [...]}}]}]}; complete is false where not all runs extend that far.
    """
    target = _target(out, file_format, as_json, in_terminal)
    groups = _groups(words, flags)
    panels = _panels(groups, flags)
    labels = _labels(flags)
    if as_json:
        terminal.Stdout(session).json_line(_document(panels, groups, flags))
    if target is not None:
        _write(target, panels, labels, not flags["no_raw"])
        if out != "-" and not flags["quiet"]:
            terminal.say(f"Wrote {out}")
    if in_terminal or (target is None and not as_json):
        _draw(session, panels, labels)


def _target(out: str | None, file_format: str | None, as_json: bool, in_terminal: bool) -> tuple[str, str] | None:
    """Return (path or "-", format), or None without a picture to write. Raises ConfigError for one that cannot be."""
    if out is None:
        if file_format:
            raise ConfigError(f"--format {file_format} needs a file: -o curves.{file_format}, or -o - for stdout.")
        return None
    if out == "-":
        if as_json or in_terminal:
            raise ConfigError("-o - writes the plot to stdout, where --json and --terminal write too. Name a file.")
        if terminal.is_terminal(sys.stdout):
            raise ConfigError("-o - writes the plot to stdout, which is a terminal. Name a file, or use --terminal.")
        return "-", file_format or "png"
    suffix = Path(out).suffix.removeprefix(".").lower()
    if file_format is None and suffix not in FORMATS:
        hint = suggestion(suffix, FORMATS)
        raise ConfigError(f"-o {out}: plots are .png, .svg or .pdf.{hint} Or give --format.")
    return out, file_format or suffix


def _groups(words: tuple[str, ...], flags: Mapping[str, Any]) -> list[Group]:
    if not is_number_field(flags["field"]):
        hint = suggestion(flags["field"], NUMBER_FIELDS)
        raise ConfigError(f"--field: {flags['field'][:100]!r} is not a numeric field of a result.{hint}")
    runs = run_options.open_runs(words, flags["local_dirs"])
    return run_groups.group(runs, flags["by"], _given_labels(words, flags))


def _given_labels(words: tuple[str, ...], flags: Mapping[str, Any]) -> dict[Path, str] | None:
    """Return {path of a run: what --label calls it}, None without --label. Raises ConfigError unless each RUN has one."""
    labels = flags["labels"]
    if not labels:
        return None
    if len(labels) != len(words):
        raise ConfigError(f"--label: {len(labels)} for {len(words)} RUNs. Give one for each RUN, in their order.")
    named = {}
    for word, label in zip(words, labels, strict=True):
        for run in run_options.open_runs([word], flags["local_dirs"]):
            named.setdefault(run.path, label)
    return named


def _panels(groups: Sequence[Group], flags: Mapping[str, Any]) -> list[Panel]:
    from drl_cli.analysis import curves
    from drl_cli.runs.loggers.tables import read_rows

    panels, empty, goals, known = {}, [], {}, set()
    for one in groups:
        lines = []
        for run in one.runs:
            rows = list(read_rows(run.path))
            x, y = curves.points(rows, flags["field"], flags["over"])
            if len(x):
                lines.append(curves.Line(str(run.path), run.seed, x, y))
                goals.setdefault(one.env, set()).add(_goal(run, flags["field"]))
            else:
                empty.append(run.id)
                known.update(flatten(rows[-1]) if rows else ())
        if lines:
            panels.setdefault(one.env, []).append(curves.Bundle(one.label, lines))
    if empty:
        terminal.say(
            f"Skipped, because they have no value of {flags['field']} over {flags['over']}: {', '.join(empty)}"
        )
    if not panels:
        hint = suggestion(flags["field"], sorted(known))
        raise RunFolderError(f"none of these runs has a value of {flags['field']} over {flags['over']} yet.{hint}")
    made = []
    for env, bundles in panels.items():
        (goal, *others) = goals[env]
        made.append(curves.panel(env, bundles, flags["smooth"], flags["band"], None if others else goal))
    return made


def _goal(run: Run, field: str) -> float | None:
    stop = run.params.get("stop") or {}
    goals = (stop.get(name) for name in GOALS) if field in GOALS else ()
    return next((goal for goal in goals if isinstance(goal, (int, float))), None)


def _labels(flags: Mapping[str, Any]) -> dict[str, Any]:
    from drl_cli.analysis import curves

    band = curves.BANDS[flags["band"]]
    notes = [f"band: {band} over seeds"] if band else []
    notes += [f"smoothed over {flags['smooth']:.1%} of each curve"] if flags["smooth"] else []
    return {
        "x": curves.AXES[flags["over"]][2],
        "y": Y_LABELS.get(flags["field"], _name(flags["field"])),
        "title": flags["title"],
        "band": "; ".join(notes),
    }


def _name(field: str) -> str:
    """Return the last part of a field's name, which says what it is; of a policy's field all of it."""
    return field if policy_in(field) and field not in NUMBER_FIELDS else field.rpartition("/")[2]


def _write(target: tuple[str, str], panels: Sequence[Panel], labels: Mapping[str, str], raw: bool) -> None:
    """Write the picture to stdout, or to a file that is put in place only when it is whole."""
    from drl_cli.analysis import plots

    out, file_format = target
    if out == "-":
        plots.draw(panels, labels, sys.stdout.buffer, file_format, raw)
        sys.stdout.buffer.flush()
        return
    run_options.write_whole(out, lambda path: plots.draw(panels, labels, path, file_format, raw))


def _draw(session: Session, panels: Sequence[Panel], labels: Mapping[str, str]) -> None:
    from drl_cli.analysis import terminal_plots

    lines = terminal.lines()
    height = max(TERMINAL_LINES[0], min(TERMINAL_LINES[1], lines - 4 - max(len(panel.bundles) for panel in panels)))
    output = terminal.Stdout(session)
    colored, is_unicode = terminal.use_color(sys.stdout, session), terminal.is_unicode(sys.stdout)
    for panel in panels:
        for line in terminal_plots.draw(panel, labels, (terminal.width() - 1, height), colored, is_unicode):
            output.line(line)


def _document(panels: Sequence[Panel], groups: Sequence[Group], flags: Mapping[str, Any]) -> dict[str, Any]:
    algorithms = {(one.env, one.label): one.algorithm for one in groups}
    panel_entries = []
    for panel in panels:
        entries = []
        for bundle in panel.bundles:
            runs = [{"path": li.path, "seed": li.seed, "x": li.x.tolist(), "y": li.y.tolist()} for li in bundle.lines]
            mean = {"x": panel.grid, "y": bundle.mean, "low": bundle.low, "high": bundle.high}
            mean = {name: values.tolist() for name, values in mean.items()}
            entries.append(
                {
                    "label": bundle.label,
                    "algorithm": algorithms[panel.env, bundle.label],
                    "runs": runs,
                    "mean": {**mean, "complete": bundle.complete.tolist()},
                }
            )
        panel_entries.append({"env": panel.env, "goal": panel.goal, "groups": entries})
    return {**{name: flags[name] for name in ("field", "over", "smooth", "band")}, "panels": panel_entries}
