"""``drl help [COMMAND]``: the same text as ``drl COMMAND --help``."""

import inspect
from typing import Any

import click

from drl_cli.cli import endings, group, options, preferences, terminal
from drl_cli.version import __version__

EXAMPLES = """
drl help
drl help train
drl help checkpoint export
drl help --json | jq '.commands[] | .name'
"""


@click.command("help", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@options.json_option
@options.speech_options
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Show the help of drl, or of one of its commands.

    JSON: {"version", "exit_codes": {code: meaning}, "commands": [{"name": all words after drl, "help", "examples": [...],
    "arguments": [{"name", "required", "repeatable"}], "options": [{"names": [...], "group", "help", "metavar", "type",
    "choices": [...] or null, "default", "required", "repeatable", "is_flag"}]}]}, of COMMAND and what is below it.
    """
    shown = context.find_root()
    for word in words:
        if not isinstance(shown.command, group.CommandTable):
            context.fail(f"{shown.command_path} has no commands below it. Its help: drl help {shown.command_path[4:]}")
        name, command, _ = shown.command.resolve_command(shown, [word])
        if command is None:
            context.fail(f"No such command '{word}'.")
        shown = click.Context(command, info_name=name, parent=shown, **command.context_settings)
    output = terminal.Stdout(context.obj)
    if as_json:
        codes = {str(code): meaning for code, meaning in endings.EXIT_CODES.items()}
        output.json_line({"version": __version__, "exit_codes": codes, "commands": _tree(shown)})
        return
    output.line(shown.get_help())


def _tree(context: click.Context) -> list[dict[str, Any]]:
    """Return the command of ``context`` and all below it, as data."""
    command = context.command
    found = [_command(context)]
    if isinstance(command, click.Group):
        below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        for name, one in below:
            found += (
                [] if one is None else _tree(click.Context(one, info_name=name, parent=context, **one.context_settings))
            )
    return found


def _command(context: click.Context) -> dict[str, Any]:
    command = context.command
    parameters = command.get_params(context)
    examples = command.examples if isinstance(command, group.Command | group.CommandTable) else ""
    return {
        "name": context.command_path.partition(" ")[2],
        "help": inspect.cleandoc(command.help or ""),
        "examples": [line for line in examples.splitlines() if line],
        "arguments": [
            {"name": one.make_metavar(context), "required": one.required, "repeatable": one.nargs == -1}
            for one in parameters
            if isinstance(one, click.Argument)
        ],
        "options": [_option(one, context) for one in parameters if isinstance(one, click.Option) and not one.hidden],
    }


def _option(option: click.Option, context: click.Context) -> dict[str, Any]:
    default = option.get_default(context, call=False)
    return {
        "names": [*option.opts, *option.secondary_opts],
        "group": option.group if isinstance(option, preferences.GroupedOption) else preferences.LAST_GROUP,
        "help": option.help,
        "metavar": option.metavar,
        "type": option.type.name,
        "choices": list(option.type.choices) if isinstance(option.type, click.Choice) else None,
        "default": default if isinstance(default, (str, int, float, bool)) else None,
        "required": option.required,
        "repeatable": option.multiple,
        "is_flag": option.is_flag,
    }
