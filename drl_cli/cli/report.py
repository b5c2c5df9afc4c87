"""``drl report RUN…``: one page of HTML about runs. The page is ``analysis.html_report``; needs neither TensorFlow nor Ray."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drl_cli.analysis import run_groups
from drl_cli.cli import group, options, run_options, shell_words, terminal
from drl_cli.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from drl_cli.analysis.html_report import ReportedRun
    from drl_cli.cli.terminal import Session
    from drl_cli.runs.run_summary import Run

EXAMPLES = """
drl report RUN
drl report ~/ray_results/sac ~/ray_results/td3 -o report.html
drl report RUN_1 RUN_2 --title "Two learning rates" -o rates.html
"""
SUFFIXES = (".html", ".htm")
KINDS = ("bottleneck", "goal", "held")  # events that the page shows


@click.command("report", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="RUN...", nargs=-1, required=True, shell_complete=shell_words.runs)
@group.option("-o", "--out", metavar="FILE", default="report.html", help="File to write, .html.")
@group.option("--title", metavar="TEXT", default="", help="Title of the page. [default: algorithms and environments]")
@options.import_option(run_options.WHICH)
@run_options.local_dir_option()
@options.quiet_option()
@options.speech_options
@click.pass_obj
def report(
    session: Session,
    words: tuple[str, ...],
    out: str,
    title: str,
    imports: tuple[str, ...],
    local_dirs: tuple[str, ...],
    quiet: bool,
) -> None:
    """Write a report of runs: one HTML file, which opens offline and loads nothing.

    RUN is an id, a name, a path, or a folder of runs. The page shows the summary in words, scores and learning curves
    with intervals over seeds, every setting and its source, what took the time, evaluations, films (a small one is
    embedded), checkpoints and versions. Several runs are compared; those that differ only in the seed are replicates. The
    file is at most 5 MB.
    """
    from drl_cli.analysis import comparison, html_report

    _check_name(out)
    options.import_modules(imports)
    runs = run_options.open_runs(words, local_dirs)
    groups = run_groups.group(runs)
    reported = {run.path: _reported(run) for run in runs}
    if not any(one.rows for one in reported.values()):
        raise RunFolderError("none of these runs has a result yet. drl watch RUN shows one that has just started.")
    table = comparison.compare(groups, lambda run: reported[run.path].rows, comparison.CompareOptions("last"))
    text = html_report.page(title or _title(runs), groups, reported, table)
    run_options.write_whole(out, lambda path: path.write_text(text, encoding="utf-8", errors="replace"))
    if not quiet:
        terminal.say(f"Wrote {out}", session)


def _check_name(out: str) -> None:
    """Raise ConfigError for a file to write that is no page."""
    path = Path(out).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"-o {out}: a report is an .html file, such as -o {path.stem or 'report'}.html.")


def _title(runs: Sequence[Run]) -> str:
    algorithms, environments = dict.fromkeys(run.algorithm for run in runs), dict.fromkeys(run.env for run in runs)
    return f"{', '.join(algorithms)} on {', '.join(environments)}"


def _reported(run: Run) -> ReportedRun:
    """Return what the folder of a run holds; records that are missing or damaged count as empty."""
    from drl_cli.analysis.html_report import ReportedRun
    from drl_cli.experiments import provenance
    from drl_cli.runs.loggers.tables import read_rows
    from drl_cli.runs.run_folder import read_record

    try:
        versions = read_record(run.path / "versions.json") or {}
    except RunFolderError:  # a damaged record costs its lines, not the report
        versions = {}
    (explained,) = provenance.of_run(run.path)
    films = sorted((run.path / "videos").glob("*.mp4"), key=lambda film: film.name)
    return ReportedRun(run, read_rows(run.path), explained["rows"], versions, _events(run.path), films)


def _events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a run that the page shows, each with its time as ``at``, in seconds since the epoch."""
    from drl_cli.runs.run_folder import whole_lines
    from drl_cli.runs.run_summary import epoch

    found = []
    for line in whole_lines(path / "events.jsonl"):
        if not any(f'"{kind}"'.encode() in line for kind in KINDS):
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("kind") in KINDS:
            found.append({**event, "at": epoch(event.get("time"))})
    return found
