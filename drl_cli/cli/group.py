"""How commands are found and how their help is laid out: examples first, options in groups, nothing loaded early.

``CommandTable`` is the class of groups; the commands of this folder are built from ``Command`` and ``option``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import CompletionItem

import drl_cli.cli.preferences as preferences
from drl_cli.errors import suggestion
from drl_cli.extras import load

if TYPE_CHECKING:
    from click.core import OptionHelpExtra

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
Decorator = Callable[[Any], Any]  # what click.option returns
LAST_GROUP = "Output"  # where an option without a heading stands, --help among them


def _write_examples(formatter: click.HelpFormatter, examples: str) -> None:
    lines = [line for line in (examples or "").strip().splitlines() if line]
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{' ' * formatter.current_indent}$ {line}\n")


class GroupedOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *arguments: Any, group: str = LAST_GROUP, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Leave the range out of the help: a message names it when it matters."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def option(*names: str, group: str = LAST_GROUP, **keywords: Any) -> Decorator:
    """``click.option`` with the heading ``group`` under which the help shows it."""
    return click.option(*names, cls=GroupedOption, group=group, **keywords)


def _with_preferences(
    command: click.Command,
    info_name: str | None,
    args: Sequence[str],
    parent: click.Context | None,
    extra: dict[str, Any],
) -> dict[str, Any]:
    """Return ``extra`` with the user's own defaults for a command below the root, unless help is requested."""
    if parent is None or {"-h", "--help"} & set(args) or extra.get("resilient_parsing"):
        return extra
    words = [*parent.command_path.split()[1:], info_name or ""]
    table = getattr(parent.find_root().command, "table", {})
    return {"default_map": preferences.of(command, words, table), **extra}


def write_options(command: click.Command, examples: str, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of ``command``, then one section for each group of its options."""
    _write_examples(formatter, examples)
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record and isinstance(parameter, click.Option):  # arguments are in the usage line and the description
            sections.setdefault(getattr(parameter, "group", LAST_GROUP), []).append(record)
    sections[LAST_GROUP] = sections.pop(LAST_GROUP, [])
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


class Command(click.Command):
    """A click command whose help shows ``examples`` (one a line) first and its options under their headings."""

    def __init__(self, *arguments: Any, examples: str = "", **keywords: Any) -> None:
        keywords.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*arguments, **keywords)
        self.examples = examples

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse ``args``; options that are not typed take the user's own defaults (see ``preferences``)."""
        return super().make_context(
            info_name, args, parent=parent, **_with_preferences(self, info_name, args, parent, extra)
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then one section for each group of options, in the order of their first option."""
        write_options(self, self.examples, ctx, formatter)


class CommandTable(click.Group):
    """A group whose commands stand in a table ``{name: (dotted name of the command, one line of help)}``.

    A command is imported when it is typed, not when help lists it. ``closing`` is printed under everything, as it is.
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

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse ``args``; options that are not typed take the user's own defaults (see ``preferences``)."""
        return super().make_context(
            info_name, args, parent=parent, **_with_preferences(self, info_name, args, parent, extra)
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command ``cmd_name``, or None."""
        return cast(click.Command, load(self.table[cmd_name][0])) if cmd_name in self.table else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` start with; an unknown one is refused with the nearest name."""
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            known = ", ".join(self.table)
            ctx.fail(f"No such command '{name}'.{suggestion(name, self.table)} Commands: {known}.")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a shell may complete: the commands, from the table, without importing any; then the options."""
        found = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, commands, options."""
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


def of_commands(name: str, table: Mapping[str, tuple[str, str]], examples: str, text: str) -> CommandTable:
    """Return the group ``name`` of the commands in ``table`` (see ``CommandTable``); without a command it prints its help."""

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
