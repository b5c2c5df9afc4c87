"""Click classes of all commands: lazy import from a table, and help with examples first and options in sections.

``CommandTable`` is the class of groups; the commands of this folder are built from ``Command`` and ``option``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

import drl_cli.cli.preferences as preferences
from drl_cli.errors import suggestion
from drl_cli.extras import load

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
Decorator = Callable[[Any], Any]  # what click.option returns


def _write_examples(formatter: click.HelpFormatter, examples: str) -> None:
    lines = [line for line in examples.strip().splitlines() if line]
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{' ' * formatter.current_indent}$ {line}\n")


def option(*names: str, group: str = preferences.LAST_GROUP, **keywords: Any) -> Decorator:
    """``click.option`` in the section ``group`` of the help, which shows a default that is a number or word."""
    keywords.setdefault(
        "show_default", not isinstance(keywords.get("default"), bool | None) and keywords["default"] != ""
    )
    return click.option(*names, cls=preferences.GroupedOption, group=group, **keywords)


class _WithPreferences(click.Command):
    """A command below the root whose options take the user's own defaults (see ``preferences``) where they are not typed."""

    table: Mapping[str, tuple[str, str]] = {}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse ``args``; where help is requested no default is looked for."""
        if parent is not None and not {"-h", "--help"} & set(args) and not extra.get("resilient_parsing"):
            words = [*parent.command_path.split()[1:], info_name or ""]
            root = parent.find_root().command
            commands = root.table if isinstance(root, _WithPreferences) else {}
            extra = {"default_map": preferences.of(self, words, commands, self.table), **extra}
        return super().make_context(info_name, args, parent=parent, **extra)


def write_options(command: click.Command, examples: str, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of ``command``, then one section for each group of its options."""
    _write_examples(formatter, examples)
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record and isinstance(parameter, click.Option):  # arguments are in the usage line and the description
            heading = parameter.group if isinstance(parameter, preferences.GroupedOption) else preferences.LAST_GROUP
            sections.setdefault(heading, []).append(record)
    sections[preferences.LAST_GROUP] = sections.pop(preferences.LAST_GROUP, [])
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


class Command(_WithPreferences):
    """A click command whose help shows ``examples`` (one per line) first, then its options in sections."""

    def __init__(self, *arguments: Any, examples: str = "", **keywords: Any) -> None:
        keywords.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*arguments, **keywords)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then one section for each group of options, in the order of their first option."""
        write_options(self, self.examples, ctx, formatter)


class CommandTable(_WithPreferences, click.Group):
    """A group with a table of commands, ``{name: (dotted name of the command, one line of help)}``.

    A command is imported when it is invoked, not when it is listed in the help. ``closing`` is printed last, verbatim.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]] | None = None,
        examples: str = "",
        closing: str = "",
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.table = table or {}
        self.examples = examples
        self.closing = closing

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command ``cmd_name``, or None."""
        return cast(click.Command, load(self.table[cmd_name][0])) if cmd_name in self.table else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command that ``args`` start with; an unknown one is refused with the closest name."""
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            known = ", ".join(self.table)
            ctx.fail(f"No such command '{name}'.{suggestion(name, self.table)} Commands: {known}.")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions: the commands, from the table without importing any, then the options."""
        found = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the commands and the options."""
        _write_examples(formatter, self.examples)
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the closing text."""
        if self.closing:
            formatter.write_paragraph()
            formatter.write(self.closing)


def command_group(name: str, table: Mapping[str, tuple[str, str]], examples: str, text: str) -> CommandTable:
    """Return a group of the commands in ``table`` (see ``CommandTable``), which prints its help if no command is given.

    ``name``: the name of the group; ``examples``: one per line; ``text``: the description in its help.
    """

    @click.group(
        name,
        cls=CommandTable,
        table=table,
        examples=examples,
        help=text,
        invoke_without_command=True,
        context_settings=CONTEXT_SETTINGS,
    )
    @click.pass_context
    def shown(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    return shown
