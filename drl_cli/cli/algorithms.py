"""``drl algorithms [NAME]``: what runs, on which spaces, and every key of one algorithm, read from its schema.

Needs neither TensorFlow nor Ray nor gymnasium. The rows are ``algorithms.table``, the keys ``config.key_description``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from drl_cli.algorithms import dataflow, table
from drl_cli.algorithms.row import ALL_ACTIONS
from drl_cli.cli import group, options, shell_words, tables, terminal
from drl_cli.errors import InputError, suggestion
from drl_cli.extras import load

if TYPE_CHECKING:
    from drl_cli.algorithms.row import Algorithm
    from drl_cli.cli.terminal import Session
    from drl_cli.config.schema import Section

EXAMPLES = """
drl algorithms
drl algorithms SAC
drl algorithms PPO --key lr --key model
drl algorithms DQN --json | jq '.keys[] | select(.rllib)'
drl algorithms MINE --import my_module
"""
INDENT = 4


@click.command("algorithms", cls=group.Command, examples=EXAMPLES)
@click.argument("name", required=False, shell_complete=shell_words.algorithms)
@group.option(
    "--key",
    "wanted",
    metavar="WORD",
    multiple=True,
    group="Which",
    shell_complete=shell_words.keys,
    help="Only keys that contain WORD; repeatable.",
)
@options.import_option("Which")
@options.json_option
@options.speech_options
@click.pass_obj
def algorithms(
    session: Session, name: str | None, wanted: tuple[str, ...], imports: tuple[str, ...], as_json: bool
) -> None:
    """List the algorithms, or show one (NAME): spaces, dataflow, and every config key with its default, unit, bounds
    and meaning.

    JSON without NAME: {"algorithms": [{"name", "about", "actions": [...], "observations": [...], "dataflow",
    "tensorflow"}]}. With NAME: one such entry, "dataflow_text", and "keys": [{"key", "default", "unit", "allowed",
    "meaning", "section", "needs", and where RLlib's default differs "rllib" and "why"}].
    """
    options.import_modules(imports)
    output = terminal.Stdout(session)
    if name is None and wanted:
        raise InputError("--key is for one algorithm: drl algorithms NAME --key WORD.")
    if name is None:
        table.names()  # asks installed packages too
        rows = [summary(row) for row in table.rows()]
        lines = overview(rows, terminal.width(), terminal.use_color(sys.stdout, session))
        document = {"algorithms": rows}
    else:
        document = details(table.find(name), wanted)
        lines = sheet(document, terminal.width(), terminal.use_color(sys.stdout, session))
    for line in [json.dumps(document)] if as_json else lines:
        output.line(line)


def summary(row: Algorithm) -> dict[str, Any]:
    """Return the facts of a row of the table, without its keys."""
    schema = load(row.config)
    short, _ = dataflow.of(row)
    return {
        "name": row.name,
        "about": " ".join((schema.__doc__ or "").split()).replace("``", ""),
        "actions": list(row.actions),
        "observations": ["vectors" if kind == "Box1d" else "images" for kind in row.observations],
        "dataflow": short,
        "tensorflow": row.tensorflow,
    }


def details(row: Algorithm, wanted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the summary of a row with its keys; with ``wanted``, those that have one of these words in their name, or
    that a name of another program stands for.
    """
    from drl_cli.config import key_description
    from drl_cli.config.rllib import other_libraries

    schema = cast("type[Section]", load(row.config))
    keys, words = key_description.keys(schema), []
    for word in wanted:
        own, meant = [key["key"] for key in keys if word.lower() in key["key"].lower()], [word.lower()]
        if word.lower() not in own:  # lr is in the names of other keys too
            meant = [*meant, *other_libraries.keys_meant(word, schema)]
        if not own and len(meant) == 1:
            hint = suggestion(word, [key["key"] for key in keys])
            raise InputError(f"{row.name} has no key that contains {word[:60]!r}.{hint}")
        words += meant
    chosen = [key for key in keys if not wanted or any(word in key["key"].lower() for word in words)]
    _, text = dataflow.of(row)
    return {**summary(row), "dataflow_text": text, "keys": chosen}


def overview(rows: Sequence[Mapping[str, Any]], width: int, color: bool = False) -> list[str]:
    """Return the lines of the table of all algorithms."""
    cells = [[row["name"], _actions(row["actions"]), row["dataflow"], row["about"]] for row in rows]
    lines = tables.grid(["name", "actions", "dataflow", "description"], cells, width, color=color)
    more = "ES and ARS take vector observations only, all others images too. All keys of one: drl algorithms NAME"
    return [*lines, "", *tables.paragraph(more, width)]


def sheet(document: Mapping[str, Any], width: int, color: bool = False) -> list[str]:
    """Return the lines that show one algorithm."""
    lines = [click.style(document["name"], bold=True) if color else document["name"]]
    lines += [*tables.paragraph(document["about"], width), ""]
    facts = [
        ("actions", _named(document["actions"])),
        ("observes", ", ".join(document["observations"])),
        ("dataflow", f"{document['dataflow']}. {document['dataflow_text']}"),
        ("trains in", "TensorFlow" if document["tensorflow"] else "NumPy"),
    ]
    for name, text in facts:
        lines += tables.paragraph(text, width, 11, name)
    for key in document["keys"]:
        lines += ["", *key_lines(key, width, color)]
    return lines


def key_lines(key: Mapping[str, Any], width: int, color: bool = False) -> list[str]:
    """Return the lines of one key: its name and default, what it allows, what it means, what RLlib has."""
    from drl_cli.errors import shown

    unit = f" {key['unit']}" if key["unit"] else ""
    name = click.style(key["key"], bold=True) if color else key["key"]
    lines = [f"{name} = {shown(key['default'])}{unit}"]
    lines += tables.paragraph(key["meaning"], width, INDENT)
    lines += tables.paragraph(f"Takes {key['allowed']}.", width, INDENT)
    if key["needs"]:
        lines += tables.paragraph(f"Has no effect while {key['needs'][0]} is below {key['needs'][1]}.", width, INDENT)
    if "why" in key:
        rllib = key["rllib"] if isinstance(key["rllib"], str) else shown(key["rllib"])
        lines += tables.paragraph(f"RLlib: {rllib}; here {key['why']}.", width, INDENT)
    return lines


def _actions(kinds: Sequence[str]) -> str:
    return "any" if set(kinds) == set(ALL_ACTIONS) else _named(kinds)


def _named(kinds: Sequence[str]) -> str:
    """Return the kinds of action spaces by their names in gymnasium."""
    return ", ".join("Dict, Tuple" if kind == "Composite" else kind for kind in kinds)
