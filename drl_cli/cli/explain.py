"""``drl explain RUN|FILE``: each setting of a run, or of what a file would run, and where it comes from.

The settings come from ``experiments.provenance``. Needs neither TensorFlow nor Ray.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import group, options, run_options, shell_words, tables, terminal
from drl_cli.config.storage_uri import is_uri
from drl_cli.errors import InputError, RunFolderError, suggestion

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl explain cartpole-ppo
drl explain ~/ray_results/default/RUN --given
drl explain my_file.yaml -s lr=0.001 --key lr
drl explain RUN --json | jq '.experiments[0].rows[] | select(.from)'
"""
WHICH, OVER = "Which values", "Over a file"


@click.command("explain", cls=group.Command, examples=EXAMPLES)
@click.argument("target", metavar="RUN|FILE", shell_complete=shell_words.runs_and_files)
@group.option("--given", is_flag=True, group=WHICH, help="Only values that were set or derived, no defaults.")
@group.option(
    "--key", "wanted", metavar="WORD", multiple=True, group=WHICH, help="Only keys that contain WORD; repeatable."
)
@group.option("--run", metavar="NAME", group=OVER, shell_complete=shell_words.algorithms, help="As for drl train -f.")
@group.option("--env", metavar="ID", group=OVER, shell_complete=shell_words.environments, help="As for drl train -f.")
@group.option("--config", metavar="OBJECT", group=OVER, help="As for drl train -f.")
@group.option("-s", "--set", metavar="KEY=VALUE", multiple=True, group=OVER, help="As for drl train -f; repeatable.")
@options.import_option(OVER)
@options.json_option
@options.speech_options
@click.pass_obj
def explain(
    session: Session,
    target: str,
    given: bool,
    wanted: tuple[str, ...],
    as_json: bool,
    imports: tuple[str, ...],
    **over: Any,
) -> None:
    """Show for each setting of RUN (a run folder or its URI), or of what FILE would run, where it comes from.

    FILE is a path or the name of a tuned file. Sources are file:line, a flag, another spelling that was read as the key, or
    the default, with RLlib's where it differs. For a search, the settings that its trials share are shown, and what is
    searched over.

    JSON: {"experiments": [{"run", "env", "env_asked", "folder" of a run, "trials" of a search, "rows": [{"key", "value",
    "from" (null for a default), "default", "unit", "meaning", "stands_for" for a null that is resolved, "rllib" and "why"
    where RLlib differs}]}]}. A value that is searched over is what stands in the file.
    """
    from drl_cli.experiments import provenance

    kind, found = _found(target)
    flags = {name: list(value) if isinstance(value, tuple) else value for name, value in over.items() if value}
    if kind == "run" and flags:
        names = ", ".join("-s" if name == "set" else f"--{name}" for name in flags)
        raise InputError(f"{names}: {found} is a run, whose values are fixed; use them with a file.")
    if kind == "run":
        options.import_modules(imports)
        experiments = provenance.of_run(found)
    else:
        experiments = provenance.of_file(found, {**flags, "imports": list(imports)})
    for one in experiments:
        one["rows"] = chosen(one["rows"], given, wanted)
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps({"experiments": experiments}))
        return
    for number, one in enumerate(experiments):
        for line in ["", *lines_of(one, session)] if number else lines_of(one, session):
            output.line(line)


def _found(target: str) -> tuple[str, Path]:
    """Return ("run", its folder) or ("file", its path) of what ``target`` names; of a URI the records are fetched."""
    from drl_cli.experiments import provenance

    if is_uri(target):
        return "run", Path(run_options.place(target, wanted="records"))
    try:
        return provenance.find(target)
    except InputError as unknown:
        return "run", _by_id(target, unknown)


def _by_id(word: str, unknown: InputError) -> Path:
    """Return the folder of the run that is meant by an id or a name. Raises ``unknown`` where there is none."""
    from drl_cli.runs import find

    roots = run_options.roots([])
    try:
        find.find_runs([word], roots)
    except RunFolderError:
        raise unknown from None
    return find.find_run(word, roots)


def chosen(rows: Sequence[Mapping[str, Any]], given: bool, wanted: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return the rows to show. Raises InputError for a word that no key has in it."""
    for word in wanted:
        if not any(word.lower() in row["key"].lower() for row in rows):
            hint = suggestion(word, [row["key"].removeprefix("config.") for row in rows])
            raise InputError(f"No key contains {word[:60]!r}.{hint}")
    return [
        row
        for row in rows
        if (row["from"] is not None or not given)
        and (not wanted or any(word.lower() in row["key"].lower() for word in wanted))
    ]


def lines_of(one: Mapping[str, Any], session: Session) -> list[str]:
    """Return the lines of one experiment: what was given first, then the defaults."""
    width, color = terminal.width(), terminal.use_color(sys.stdout, session)
    lines = [f"{one['run']} on {one['env']}" + (f", {one['trials']} trials" if "trials" in one else "")]
    if one.get("env_asked") not in (None, one["env"]):
        lines.append(f"{one['env_asked']} was requested and runs as {one['env']}.")
    if one.get("folder"):
        lines.append(one["folder"])
    folders = sorted({folder for row in one["rows"] if (folder := _folder(row["from"]))})
    lines += [f"Files are in {folder}" for folder in folders[:1] if len(folders) == 1]
    given = [row for row in one["rows"] if row["from"] is not None]
    rest = [row for row in one["rows"] if row["from"] is None]
    for rows in (given, rest):
        if rows:
            cells = [[row["key"].removeprefix("config."), _value(row), whence(row, len(folders) == 1)] for row in rows]
            lines += ["", *tables.grid(["key", "value", "where from"], cells, width, color=color)]
    return lines


def _folder(place: str | None) -> str:
    """Return the folder of a place in a file, an empty string for any other."""
    return os.path.dirname(place.partition(", as ")[0]) if place and not place.startswith("-") else ""


def whence(row: Mapping[str, Any], is_short: bool = False) -> str:
    """Return in words where the value of a row came from; ``is_short``: without the folder of the file."""
    from drl_cli.errors import shown

    source = row["from"] or "default"
    if is_short and _folder(source):
        source = source[len(_folder(source)) :].lstrip("/")
    if "stands_for" in row:
        source += f", stands for {row['stands_for']:g}"
    if "why" in row:
        rllib = row["rllib"] if isinstance(row["rllib"], str) else shown(row["rllib"])
        source += f" (RLlib: {rllib})"
    return source


def _value(row: Mapping[str, Any]) -> str:
    from drl_cli.errors import shown

    text = shown(row["value"])
    return text if len(text) <= 32 else text[:31] + ("…" if terminal.is_unicode(sys.stdout) else "~")
