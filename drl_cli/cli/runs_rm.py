"""``drl runs rm``: list what would be removed, ask for confirmation, remove. The removal itself is ``runs.remove``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import figures, group, options, run_options, run_table, shell_words, terminal
from drl_cli.errors import InputError

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session
    from drl_cli.runs.run_summary import Run
    from drl_cli.runs.select import Wanted

EXAMPLES = """
drl runs rm 1a2b3c4d
drl runs rm my-experiment --yes
drl runs rm --state died --state failed --dry-run
drl runs rm --env 'Pendulum*' --older-than 7d --keep-best 1
"""
HOW = "How"


@click.command("rm", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="[RUN]...", nargs=-1, shell_complete=shell_words.runs)
@run_options.filter_options
@group.option(
    "--keep-best",
    type=options.POSITIVE,
    metavar="N",
    group=HOW,
    help="Keep the N best runs of each algorithm on each environment.",
)
@group.option("--dry-run", is_flag=True, group=HOW, help="Only show what would be removed.")
@group.option("-y", "--yes", is_flag=True, group=HOW, help="Do not ask for confirmation.")
@options.quiet_option("Print only questions, warnings and errors.")
@options.json_option
@options.speech_options
@click.pass_obj
def rm(
    session: Session,
    words: tuple[str, ...],
    keep_best: int | None,
    dry_run: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
    local_dirs: tuple[str, ...],
    **filters: Any,
) -> None:
    """Remove runs with everything in them: those named, or all that match the filters, or both.

    RUN is an id, a name, a path, or a folder of runs. Nothing outside the folder of results is touched, nothing that is not
    a run of drl, and no run whose process is alive. Asks for confirmation first; --yes is required where stdin is not a
    terminal.

    JSON: {"removed": [{"path", "size"}], "spared": [{"path", "reason"}], "freed", "dry_run"}, sizes in bytes.
    """
    roots, wanted = run_options.roots(local_dirs), run_options.filters_of(**filters)
    if not words and wanted.is_empty:
        raise InputError("Which runs? Name them (drl runs shows their ids), or filter: --state died, --older-than 7d.")
    chosen_runs, spared = _choose(words, wanted, roots, keep_best)
    if chosen_runs and not quiet:
        for line in run_table.table(chosen_runs, terminal.rich_console(sys.stderr, session)):
            terminal.say(line)
    for run, reason in spared:
        if not quiet:
            terminal.say(f"Spared: {run.path} {reason}")
    if chosen_runs and not (dry_run or yes) and not _is_agreed(chosen_runs):
        terminal.say("Nothing was removed.")
        return
    removed = [(run, run.size if dry_run else _remove(run, roots)) for run in chosen_runs]
    freed = sum(size for _, size in removed)
    if as_json:
        removed_entries = [{"path": str(run.path), "size": size} for run, size in removed]
        kept = [{"path": str(run.path), "reason": reason} for run, reason in spared]
        document = {"removed": removed_entries, "spared": kept, "freed": freed, "dry_run": dry_run}
        terminal.Stdout(session, keep_going=True).json_line(document)
    elif not quiet:
        verb = "Would free" if dry_run else "Freed"
        runs = f"{len(removed)} run{'' if len(removed) == 1 else 's'}"
        terminal.Stdout(session, keep_going=True).line(f"{verb} {figures.size(freed)} of {runs}.")


def _choose(
    words: tuple[str, ...], wanted: Wanted, roots: Sequence[Path], keep_best: int | None
) -> tuple[list[Run], list[tuple[Run, str]]]:
    """Return (runs to remove, [(run, why it is spared)]). Raises InputError for a named run that may not be removed."""
    from drl_cli.runs import find, remove, run_summary, select

    if words:
        candidates = [run_summary.read(path) for path in find.find_runs(words, roots)]
    else:
        candidates = find.read_all(roots)[0]
    chosen = select.select(candidates, wanted)
    problems = [(run, remove.check(run, roots)) for run in chosen]
    refused = [f"{run.path} {reason}" for run, reason in problems if reason]
    if words and refused:
        more = "" if len(refused) == len(chosen) else " Nothing was removed."
        raise InputError("; ".join(refused) + "." + more)
    chosen_runs = [run for run, reason in problems if reason is None]
    spared = [(run, reason) for run, reason in problems if reason]
    if keep_best:
        left = remove.keep_best(chosen_runs, keep_best)
        spared += [(run, "is among the best") for run in chosen_runs if run not in left]
        chosen_runs = left
    return chosen_runs, spared


def _is_agreed(chosen_runs: Sequence[Run]) -> bool:
    """Ask whether ``chosen_runs`` may be removed. Raises InputError where stdin is not a terminal."""
    size = figures.size(sum(run.size for run in chosen_runs))
    text = f"Remove {'this run' if len(chosen_runs) == 1 else f'these {len(chosen_runs)} runs'} ({size})?"
    if not sys.stdin.isatty():
        raise InputError(f"{text} Not a terminal: pass --yes, or look first with --dry-run.")
    return click.confirm(text, err=True)


def _remove(run: Run, roots: Sequence[Path]) -> int:
    from drl_cli.runs import remove

    return remove.remove(run, roots)
