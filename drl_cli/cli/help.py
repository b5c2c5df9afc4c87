"""``drl help [COMMAND]``: the same text as ``drl COMMAND --help``."""

import click

from drl_cli.cli import group, terminal

EXAMPLES = """
drl help
drl help train
drl help checkpoint export
"""


@click.command("help", cls=group.Command, examples=EXAMPLES)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of drl, or of one of its commands."""
    shown = context.find_root()
    for word in words:
        if not isinstance(shown.command, group.CommandTable):
            context.fail(f"{shown.command_path} has no commands below it. Its help: drl help {shown.command_path[4:]}")
        name, command, _ = shown.command.resolve_command(shown, [word])
        if command is None:
            context.fail(f"No such command '{word}'.")
        shown = click.Context(command, info_name=name, parent=shown, **command.context_settings)
    terminal.Stdout(context.obj).line(shown.get_help())
