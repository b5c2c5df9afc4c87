"""``drl example list | show | run``: the tuned files that come with drl.

``experiments.tuned_files`` reads their headers; ``run`` is ``drl train -f NAME`` and takes every option of ``drl train``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from drl_cli.algorithms import table
from drl_cli.cli import figures, group, options, shell_words, tables, terminal
from drl_cli.cli.train import train
from drl_cli.errors import suggestion
from drl_cli.experiments import tuned_files

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session
    from drl_cli.experiments.tuned_files import Example

TABLE = {
    "list": ("drl_cli.cli.example:list_examples", "List the tuned files with their goals and how long they took."),
    "show": ("drl_cli.cli.example:show_example", "Show one: its purpose, its measurements, its settings."),
    "get": ("drl_cli.cli.example:show_example", "The same as show; RLlib's name for it."),
    "run": ("drl_cli.cli.example:run_example", "Train with one; takes every option of drl train."),
}
EXAMPLES = """
drl example list
drl example list --run PPO
drl example list lunarlander sac
drl example show cartpole-ppo
drl example run cartpole-ppo --seed 1
"""
LIST_EXAMPLES = """
drl example list
drl example list --env CartPole-v1
drl example list --run SAC --json
"""
RUN_EXAMPLES = """
drl example run cartpole-ppo
drl example run lunarlander-continuous-sac --seed 3 -s num_workers=0
drl example run pendulum-sac --plan
"""
WIDE = 100  # columns from which algorithm and environment have columns of their own


example = group.command_group(
    "example",
    TABLE,
    EXAMPLES,
    "Tuned files come with drl: tested settings, each with its goal and the time it took to reach it.",
)


@click.command("list", cls=group.Command, examples=LIST_EXAMPLES)
@click.argument("words", metavar="[WORD]...", nargs=-1)
@group.option(
    "--run", metavar="NAME", group="Which", shell_complete=shell_words.algorithms, help="Only those of one algorithm."
)
@group.option(
    "--env",
    metavar="ID",
    group="Which",
    shell_complete=shell_words.environments,
    help="Only those for one environment, in any version.",
)
@options.json_option
@options.speech_options
@click.pass_obj
def list_examples(session: Session, words: tuple[str, ...], run: str | None, env: str | None, as_json: bool) -> None:
    """List the tuned files; with WORDs, those that contain every one of them in name, algorithm or environment.

    took: median over seeds, from the start of the process until fresh episodes confirmed the goal; held: runs of all whose
    next three evaluations averaged at what is to be held; - where not measured.

    JSON: {"examples": [{"name", "run", "env", "about", "notes", "goal", "target", "held_at", "seeds", "took": [...],
    "median_s", "worst_s", "env_steps", "held": [RUNS, OF], "machine", "workers", "path"}]}.
    """
    if run is not None:
        run = table.find(run).name
    found = tuned_files.matching(tuned_files.every(), words, run, env)
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps({"examples": [one._asdict() for one in found]}))
        return
    if not found:
        every = tuned_files.every()
        known = [word for one in every for word in (one.name, one.run, one.env, *one.name.split("-"))]
        hint = next((text for word in (*words, env or "") if (text := suggestion(word, known))), "")
        terminal.say(f"No tuned file matches.{hint} drl example list shows all.")
        return
    for line in listing(found, terminal.width(), terminal.use_color(sys.stdout, session)):
        output.line(line)


def listing(found: Sequence[Example], width: int, color: bool = False) -> list[str]:
    """Return the lines of the table of ``found`` (Examples)."""
    is_wide = width >= WIDE
    headings = ["name", *(["algorithm", "environment"] if is_wide else []), "goal", "took", "worst", "steps", "held"]
    headings += ["workers"] if is_wide else []
    rows = []
    for one in found:
        middle = [one.run, one.env] if is_wide else []
        took, worst = _seconds(one.median_s), _seconds(one.worst_s)
        rows.append([one.name, *middle, _short(one.target), took, worst, figures.count(one.env_steps), _held(one)])
        rows[-1] += [_workers(one)] if is_wide else []
    right = range(headings.index("goal"), len(headings))
    return tables.grid(headings, rows, width, right, color)


def _held(one: Example) -> str:
    return "-" if one.held is None else "{}/{}".format(*one.held)


def _workers(one: Example) -> int | str:
    return "-" if one.workers is None else one.workers


@click.command("show", cls=group.Command, examples="drl example show lunarlander-continuous-sac")
@click.argument("name", shell_complete=shell_words.tuned_files)
@options.json_option
@options.speech_options
@click.pass_obj
def show_example(session: Session, name: str, as_json: bool) -> None:
    """Show the tuned file NAME: its purpose, its measurements, its settings.

    JSON: one entry of drl example list --json, and "text", the whole file.
    """
    from drl_cli.config.assignments import read_text

    one = tuned_files.find(name)
    text = read_text(one.path)
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps({**one._asdict(), "text": text}))
        return
    for line in sheet(one, text, terminal.width()):
        output.line(line)


def sheet(one: Example, text: str, width: int) -> list[str]:
    """Return the lines that show an Example whose file holds ``text``."""
    dot = " - " if not terminal.is_unicode(sys.stdout) else " · "
    lines = [f"{one.name}{dot}{one.run} on {one.env}", "", *tables.paragraph(one.about, width), ""]
    lines += _reflowed(one.notes, width)
    facts = [("goal", [one.goal]), ("seeds", [one.seeds]), ("took", one.took), ("machine", [one.machine])]
    for name, entries in [*facts, ("file", [one.path])]:
        for number, entry in enumerate(entries):
            lines += tables.paragraph(entry, width, 10, name if number == 0 else None)
    settings = [line for line in text.splitlines() if not line.startswith("#")]
    return [*lines, "", *settings, "", f"Run it   drl example run {one.name}"]


def _reflowed(notes: Sequence[str], width: int) -> list[str]:
    """Return the paragraphs and list items of ``notes`` wrapped to ``width``, an empty line after each paragraph or list.

    Commands, which are indented, stay as they are.
    """
    lines: list[str] = []
    for is_text, block in groupby(notes, key=bool):
        if is_text:
            written = list(block)
            if written[0].startswith(" "):
                lines += written
            else:
                for part in re.split(r"\n(?=- )", "\n".join(written)):
                    lines += tables.paragraph(part, width, 2 if part.startswith("- ") else 0, "")
            lines.append("")
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}"


@click.command("run", cls=group.Command, examples=RUN_EXAMPLES)
@click.argument("name", shell_complete=shell_words.tuned_files)
@click.pass_context
def run_example(context: click.Context, name: str, **asked: Any) -> int:
    """Train with the tuned file NAME; options override its settings, as with drl train -f."""
    found = tuned_files.find(name)
    return context.invoke(train, config_file=found.name, **asked)


run_example.params += [parameter for parameter in train.params if parameter.name != "config_file"]
