"""How commands are found and how their help is laid out: examples first, options in groups, nothing loaded early.

``CommandTable`` is the root group; ``Command`` and ``option`` are what the files of this folder build commands from.
"""

import click
from click.shell_completion import CompletionItem

import drl_cli.cli.preferences as preferences
from drl_cli.errors import suggestion
from drl_cli.extras import load

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LAST_GROUP = "Output"  # where an option without a heading stands, --help among them


def _write_examples(formatter, examples):
    lines = [line for line in (examples or "").strip().splitlines() if line]
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{' ' * formatter.current_indent}$ {line}\n")


class GroupedOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *arguments, group=LAST_GROUP, **keywords):
        super().__init__(*arguments, **keywords)
        self.group = group

    def get_help_extra(self, context):
        """Leave the range out of the help: a message names it when it matters."""
        return {name: value for name, value in super().get_help_extra(context).items() if name != "range"}


def option(*names, group=LAST_GROUP, **keywords):
    """``click.option`` with the heading ``group`` under which the help shows it."""
    return click.option(*names, cls=GroupedOption, group=group, **keywords)


def _with_preferences(command, info_name, args, parent, extra):
    """Return ``extra`` with the user's own defaults for a command below the root, unless help is requested."""
    if parent is None or {"-h", "--help"} & set(args) or extra.get("resilient_parsing"):
        return extra
    words = [*parent.command_path.split()[1:], info_name]
    table = getattr(parent.find_root().command, "table", {})
    return {"default_map": preferences.of(command, words, table), **extra}


class Command(click.Command):
    """A click command whose help shows ``examples`` (one a line) first and its options under their headings."""

    def __init__(self, *arguments, examples="", **keywords):
        keywords.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*arguments, **keywords)
        self.examples = examples

    def make_context(self, info_name, args, parent=None, **extra):
        """Parse ``args``; options that are not typed take the user's own defaults (see ``preferences``)."""
        return super().make_context(
            info_name, args, parent=parent, **_with_preferences(self, info_name, args, parent, extra)
        )

    def format_options(self, context, formatter):
        """Write the examples, then one section for each group of options, in the order of their first option."""
        _write_examples(formatter, self.examples)
        sections = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record and isinstance(parameter, click.Option):  # arguments are in the usage line and the description
                sections.setdefault(getattr(parameter, "group", LAST_GROUP), []).append(record)
        sections[LAST_GROUP] = sections.pop(LAST_GROUP, [])
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class CommandTable(click.Group):
    """A group whose commands stand in a table ``{name: (dotted name of the command, one line of help)}``.

    A command is imported when it is typed, not when help lists it. ``closing`` is printed under everything, as it is.
    """

    def __init__(self, *arguments, table=None, examples="", closing="", **keywords):
        super().__init__(*arguments, **keywords)
        self.table = table or {}
        self.examples = examples
        self.closing = closing

    def make_context(self, info_name, args, parent=None, **extra):
        """Parse ``args``; options that are not typed take the user's own defaults (see ``preferences``)."""
        return super().make_context(
            info_name, args, parent=parent, **_with_preferences(self, info_name, args, parent, extra)
        )

    def list_commands(self, _context):
        """Return the names in the table's order."""
        return list(self.table)

    def get_command(self, _context, name):
        """Import and return the command ``name``, or None."""
        return load(self.table[name][0]) if name in self.table else None

    def resolve_command(self, context, arguments):
        """Find the command that ``arguments`` start with; an unknown one is refused with the nearest name."""
        name = arguments[0]
        if name not in self.table and not name.startswith("-"):
            known = ", ".join(self.table)
            context.fail(f"No such command '{name}'.{suggestion(name, self.table)} Commands: {known}.")
        return super().resolve_command(context, arguments)

    def shell_complete(self, context, begun):
        """Return what a shell may complete: the commands, from the table, without importing any; then the options."""
        found = [CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(begun)]
        return found + click.Command.shell_complete(self, context, begun)

    def format_options(self, context, formatter):
        """Write examples, commands, options."""
        _write_examples(formatter, self.examples)
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])
        records = [parameter.get_help_record(context) for parameter in self.get_params(context)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record])

    def format_epilog(self, _context, formatter):
        """Write the closing text."""
        if self.closing:
            formatter.write_paragraph()
            formatter.write(self.closing)


def of_commands(name, table, examples, text):
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
    def shown(context):
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    return shown
