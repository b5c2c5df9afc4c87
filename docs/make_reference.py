"""Writes the reference: every command with its options, every algorithm with its keys, every tuned file, from the program.

    python docs/make_reference.py FOLDER

``docs/conf.py`` calls ``write`` before each build, so that nothing of it is kept in the repository and nothing can go stale.
Read are the click commands, the schemas of ``drl_cli.config``, ``algorithms.table`` and the headers of the tuned files;
neither TensorFlow nor Ray is loaded.
"""

import inspect
import re
import sys
from pathlib import Path

import click

from drl_cli.algorithms import dataflow, table
from drl_cli.cli import drl, endings
from drl_cli.config import key_rows
from drl_cli.config.key_description import shown
from drl_cli.experiments import tuned_files
from drl_cli.extras import load

TITLE, SECTION, PART = "=", "-", "~"
SPEECH = ("-h", "--help", "--no-color", "--debug")
"""Options of every command, told once."""


def escaped(text):
    """Return ``text`` so that reStructuredText shows it as it is."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def heading(text, line):
    """Return the lines of a heading."""
    return [text, line * max(len(text), 4), ""]


def code(text):
    """Return ``text`` as an inline literal."""
    return f"``{text}``"


def indented(lines):
    """Return ``lines`` as the body of a directive."""
    return [f"    {line}" if line else "" for line in lines]


def table_of(header, rows, widths):
    """Return the lines of a list-table; cells are reStructuredText."""
    lines = [".. list-table::", "    :header-rows: 1", f"    :widths: {widths}", ""]
    for row in (header, *rows):
        lines += [f"    {'*' if index == 0 else ' '} - {cell}" for index, cell in enumerate(row)]
    return [*lines, ""]


def commands():
    """Yield (words behind ``drl``, click command) for every command of the tree, groups before what is in them."""
    yield from _below((), drl)


def _below(words, command):
    if words:
        yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from _below((*words, name), command.get_command(None, name))


def label_of(words):
    """Return the name under which other pages point at a command: ``:ref:`drl-runs-rm```."""
    return "-".join(("drl", *words))


def about(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return escaped(" ".join(command.get_short_help_str(limit=200).split()))


def shown_options(command):
    """Return the options that a command's help shows, but those of every command."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return [one for one in options if not set(one.opts) & set(SPEECH)]


def command_lines(words, command):
    """Return the lines about one command: usage, what it does, its examples, its options under their headings."""
    context = click.Context(command, info_name=words[-1], **command.context_settings)
    usage = " ".join(("drl", *words, *command.collect_usage_pieces(context)))
    lines = [f".. _{label_of(words)}:", "", *heading(f"drl {' '.join(words)}", SECTION)]
    lines += [".. code-block:: text", "", f"    {usage}", ""]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += [escaped(" ".join(paragraph.replace("\b", "").split())), ""]
    if command.examples:
        typed = [f"$ {line}" for line in command.examples.strip().splitlines()]
        lines += [".. code-block:: console", "", *indented(typed), ""]
    sections = {}
    for option in shown_options(command):
        sections.setdefault(getattr(option, "group", "Options"), []).append(option)
    for name, options in sections.items():
        lines += [f"*{name}*", ""]
        for option in options:
            names, text = option.get_help_record(context)
            lines += [code(" ".join(names.split())), f"    {escaped(' '.join(text.split()))}", ""]
    return lines


def commands_page():
    """Return the page of all commands."""
    lines = heading("Commands", TITLE) + [
        "Every command takes ``-h`` (``--help``), ``--no-color`` (so does ``NO_COLOR=1``) and ``--debug``, which shows "
        "tracebacks (so does ``DRL_DEBUG=1``).",
        "Options of ``rllib`` that have no work to do here are answered in a line of their own: :doc:`/keys`. "
        "What ``--json`` prints: :doc:`/scripts`.",
        "",
    ]
    rows = [(f":ref:`drl {' '.join(words)} <{label_of(words)}>`", about(one)) for words, one in commands()]
    lines += [*table_of(("command", "what it does"), rows, "30 70"), *heading("Exit codes", SECTION)]
    lines += table_of(("code", "meaning"), [(n, escaped(text)) for n, text in endings.EXIT_CODES.items()], "10 90")
    for words, command in commands():
        lines += command_lines(words, command)
    return lines


def key_lines(key):
    """Return the lines of one key: name, default and unit, what it means and takes, what RLlib has."""
    unit = f" {key['unit']}" if key["unit"] else ""
    text = f"{key['meaning']} Takes {key['allowed']}."
    if key["needs"]:
        text += f" Has no effect while {key['needs'][0]} is below {key['needs'][1]}."
    if "why" in key:
        rllib = key["rllib"] if isinstance(key["rllib"], str) else shown(key["rllib"])
        text += f" RLlib: {rllib}; here {key['why']}."
    return [f"{code(key['key'])} = {code(shown(key['default']))}{escaped(unit)}", f"    {escaped(text)}", ""]


def algorithm_page(row):
    """Return the page of one algorithm, what is most its own first; sections under headings of their own."""
    schema = load(row.config)
    _, flow = dataflow.of(row)
    lines = [f".. _algorithm-{row.name}:", "", *heading(row.name, TITLE)]
    lines += [" ".join((schema.__doc__ or "").split()), ""]
    sees = " and ".join("vectors" if kind == "Box1d" else "images" for kind in row.observations)
    lines += [f":actions: {', '.join(row.actions)}", f":sees: {sees}", f":dataflow: {escaped(flow)}"]
    lines += [f":learns in: {'TensorFlow' if row.tensorflow else 'NumPy'}"]
    files = [one.name for one in tuned_files.every() if one.run == row.name]
    lines += [f":tuned files: {', '.join(map(code, files)) or 'none'}", ""]
    keys = key_rows.keys(schema)
    lines += heading("Keys", SECTION)
    for key in keys:
        lines += key_lines(key) if key["section"] is None else []
    for section in dict.fromkeys(key["section"] for key in keys if key["section"]):
        lines += heading(section, PART)
        for key in keys:
            lines += key_lines(key) if key["section"] == section else []
    return lines


def algorithms_page():
    """Return the page that lists the algorithms."""
    lines = heading("Algorithms and their keys", TITLE)
    lines += [
        "Keys go into ``--config``, ``-s KEY=VALUE`` or the ``config`` of a file; ``drl algorithms NAME`` prints the same. "
        "Null means that the value follows from others.",
        "",
    ]
    rows = []
    for row in table.built_in():
        short, _ = dataflow.of(row)
        about = " ".join((load(row.config).__doc__ or "").split())
        rows.append((f":ref:`{row.name} <algorithm-{row.name}>`", ", ".join(row.actions), escaped(short), about))
    lines += table_of(("--run", "actions", "dataflow", "what it is"), rows, "14 22 14 50")
    return [*lines, ".. toctree::", "    :hidden:", "", *indented([row.name for row in table.built_in()]), ""]


def tuned_page():
    """Return the page of the tuned files, from their headers."""
    lines = heading("Tuned files", TITLE) + [
        "``drl train -f NAME``. What was measured for each, as its header tells it; the clock runs from the start of the "
        "process to a goal that 50 fresh episodes confirm. :doc:`/measured` has the conditions.",
        "",
    ]
    for one in tuned_files.every():
        lines += [*heading(one.name, SECTION), escaped(one.about), ""]
        lines += [f":algorithm: :ref:`{one.run} <algorithm-{one.run}>`", f":environment: {code(one.env)}"]
        facts = {"goal": one.goal, "seeds": one.seeds, "took": " ".join(one.took), "machine": one.machine}
        lines += [f":{name}: {escaped(text)}" for name, text in facts.items() if text]
        lines += [""]
    return lines


def pages():
    """Return {name of a file: its text}."""
    made = {"commands.rst": commands_page(), "tuned.rst": tuned_page(), "algorithms/index.rst": algorithms_page()}
    made |= {f"algorithms/{row.name}.rst": algorithm_page(row) for row in table.built_in()}
    return {name: "\n".join(line.rstrip() for line in lines).rstrip() + "\n" for name, lines in made.items()}


def write(folder):
    """Write the pages into ``folder``; one that is as it was is left alone, so that Sphinx need not read it again."""
    for name, text in pages().items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
