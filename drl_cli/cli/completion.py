"""``drl completion SHELL``: the completion script for a shell. The completions themselves are ``cli.shell_words``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from drl_cli.cli import group, options, terminal, values
from drl_cli.errors import InputError

EXAMPLES = """
echo 'eval "$(drl completion bash)"' >> ~/.bashrc
echo 'eval "$(drl completion zsh)"' >> ~/.zshrc
drl completion fish > ~/.config/fish/completions/drl.fish
"""
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DRL_COMPLETE"  # by which a shell's call for completions is known (cli.main)


@click.command("completion", cls=group.Command, examples=EXAMPLES)
@click.argument("shell", type=values.OneOf(SHELLS), metavar="|".join(SHELLS))
@options.speech_options
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, algorithms, environments, tuned files and runs.

    The shell has to run it: see the examples, then open a new shell.
    """
    completer = get_completion_class(shell)
    if completer is None:
        raise InputError(f"click cannot complete words in {shell}.")
    made = completer(context.find_root().command, {}, "drl", VARIABLE)
    try:
        script = made.source()
    except RuntimeError as error:  # an old bash, or none
        raise InputError(f"{error} Use zsh or fish.") from error
    terminal.Stdout(context.obj).line(script.rstrip("\n"))
