"""``drl diff A B``: the differences between two runs or files. The comparison is ``runs.config_diff``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import figures, group, options, rich_tables, run_options, shell_words, terminal
from drl_cli.errors import ConfigError, RunFolderError, suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from drl_cli.cli.terminal import Session
    from drl_cli.config.origins import Where
    from drl_cli.runs.config_diff import Side

EXAMPLES = """
drl diff 1a2b3c4d 5e6f7a8b
drl diff RUN lunarlander-continuous-sac
drl diff pendulum-sac pendulum-td3
drl diff mine.yaml:first mine.yaml:second --json
"""


@click.command("diff", cls=group.Command, examples=EXAMPLES)
@click.argument("a", metavar="A", shell_complete=shell_words.runs_and_files)
@click.argument("b", metavar="B", shell_complete=shell_words.runs_and_files)
@run_options.local_dir_option()
@group.option(
    "--all", "everything", is_flag=True, group=run_options.WHICH, help="Also show what is equal or left at its default."
)
@options.import_option(run_options.WHICH)
@options.quiet_option("Print only the rows, no explanations.")
@options.json_option
@options.speech_options
@click.pass_obj
def diff(
    session: Session,
    a: str,
    b: str,
    local_dirs: tuple[str, ...],
    everything: bool,
    imports: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Show how two experiments differ: algorithm, environment, stop rules, config, versions.

    A and B are runs (an id, a name, a path), searches (an id) or experiment files (a path, or the name of a tuned file);
    FILE:NAME picks one experiment of several. Values that are searched over are shown as they were given. A value in
    parentheses is the default of its algorithm; "-" means that a side has no such key.

    JSON: {"a": SIDE, "b": SIDE, "differences": [{"key", "a", "b", "a_has", "b_has", "a_default", "b_default"}],
    "hidden"}, SIDE: {"name", "kind", "algorithm", "env"}; hidden counts the keys that only one algorithm has and that
    are at their defaults.
    """
    from drl_cli.runs import config_diff

    options.import_modules(imports)
    roots = run_options.roots(local_dirs)
    left, right = _side(a, roots), _side(b, roots)
    rows, hidden = config_diff.differences(left, right, everything)
    output = terminal.Stdout(session)
    if as_json:
        output.json_line(document(left, right, rows, hidden))
        return
    for line in table(left, right, rows, rich_tables.console(session)) if rows else ():
        output.line(line)
    if quiet:
        return
    if not rows:
        terminal.say(f"{a} and {b} do not differ in any key.")
    if hidden:
        terminal.say(f"{hidden} keys that only one of them has are at their defaults; --all shows them.")


def _side(word: str, roots: Sequence[Path]) -> Side:
    """Return the Side that ``word`` means: a file of experiments if there is one of that name, else a run."""
    from drl_cli.experiments import experiment_files
    from drl_cli.runs import config_diff, search_folders

    name, _, experiment = word.rpartition(":")
    if not name or not _is_file(name, experiment_files):
        name, experiment = word, ""
    if _is_file(name, experiment_files):
        found = experiment_files.load(name)
        _, mapping, where = _picked(name, found, experiment)
        return config_diff.side_of_file(word, mapping, where)
    record = search_folders.find_record(word.partition(":")[0], roots)
    if record:
        found = search_folders.experiments(record)
        _, mapping, where = _picked(word.partition(":")[0], found, word.partition(":")[2])
        return config_diff.side_of_file(word, mapping, where, "search")
    try:
        return config_diff.side_of_run(run_options.open_run(word, roots))
    except RunFolderError as error:
        shipped = suggestion(Path(name).name.removesuffix(".yaml"), experiment_files.shipped())
        raise RunFolderError(f"{error}{shipped and f' Or a tuned file?{shipped}'}") from error


def _picked(
    name: str, found: Sequence[tuple[str, Mapping[str, Any], Where]], experiment: str
) -> tuple[str, Mapping[str, Any], Where]:
    """Return the one of ``found`` [(name, mapping, Where)] that is called ``experiment``, or the only one for ""."""
    known = [key for key, _, _ in found]
    if experiment and experiment not in known:
        hint = suggestion(experiment, known)
        raise ConfigError(f"{name}: no experiment {experiment!r} in it.{hint} Experiments: {', '.join(known)}.")
    if not experiment and len(found) > 1:
        raise ConfigError(
            f"{name}: holds several experiments, pick one as {name}:{known[0]}. It has: {', '.join(known)}."
        )
    return found[known.index(experiment) if experiment else 0]


def _is_file(name: str, files: ModuleType) -> bool:
    path = Path(name).expanduser()
    if path.suffix in files.SUFFIXES and path.is_file():
        return not (path.parent / "params.json").is_file()
    return not path.exists() and name.removesuffix(".yaml") in files.shipped()


def document(left: Side, right: Side, rows: Sequence[tuple[str, Any, Any]], hidden: int) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    from drl_cli.runs.config_diff import MISSING

    differences = [
        {
            "key": key,
            "a": None if a is MISSING else a,
            "b": None if b is MISSING else b,
            "a_has": a is not MISSING,
            "b_has": b is not MISSING,
            "a_default": left.is_default(key),
            "b_default": right.is_default(key),
        }
        for key, a, b in rows
    ]
    sides = {
        name: {"name": side.name, "kind": side.kind, "algorithm": side.algorithm, "env": side.env}
        for name, side in (("a", left), ("b", right))
    }
    return {**sides, "differences": differences, "hidden": hidden}


def table(left: Side, right: Side, rows: Sequence[tuple[str, Any, Any]], console: Console) -> list[str]:
    """Return the lines of the table of ``rows`` (see ``config_diff.differences``)."""
    from rich.text import Text

    grid = rich_tables.grid(())
    ascii_only, room = not terminal.is_unicode(sys.stdout), max(12, (console.width - 30) // 2)
    names = [figures.shorten(side.label, room, ascii_only) for side in (left, right)]
    grid.add_column("key", overflow="fold", max_width=max(20, 2 * console.width // 5))
    for name in names:
        grid.add_column(name, overflow="fold", min_width=12)
    for key, a, b in rows:
        shown = [Text(*_shown(side, key, value)) for side, value in ((left, a), (right, b))]
        grid.add_row(key.removeprefix("config."), *shown)
    return rich_tables.rendered([grid], console)


def _shown(side: Side, key: str, value: Any) -> tuple[str, str]:
    """(text, style) of a cell."""
    from drl_cli.runs.config_diff import MISSING

    if value is MISSING:
        return "-", "dim"
    text = value if isinstance(value, str) and value else json.dumps(value)
    return (f"({text})", "dim") if side.is_default(key) else (text, "")
