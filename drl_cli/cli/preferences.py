"""The user's own defaults of options: DRL_… variables and a configuration file.

Used by ``group.Command`` when a command is called. What is typed comes first, then (for ``drl train``) what an experiment's
file or a resumed run says, then variables, then the file, then the program's own defaults. The file is
``$XDG_CONFIG_HOME/drl/config.yaml`` (or ``.json``; ``~/.config/drl`` without that variable)::

    local-dir: /data/results      # for every command that has the option
    train:
      checkpoint-freq: 50
    evaluate: {episodes: 100}

Variables are named alike: ``DRL_LOCAL_DIR``, ``DRL_TRAIN_CHECKPOINT_FREQ``. Options that say what one command is to do, such as
--run or --resume, have no defaults. Sources: XDG Base Directory Specification 0.8; clig.dev on configuration.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

import drl_cli.cli.terminal as terminal
from drl_cli.errors import ConfigError, nearest, suggestion

if TYPE_CHECKING:
    from click.core import OptionHelpExtra

    from drl_cli.config.origins import Where

LAST_GROUP = "Output"  # where an option without a heading stands, --help among them

EVERYWHERE = ("local-dir", "import", "quiet", "json", "no-color", "debug", "log-format")
"""Options that may be set for all commands at once."""

OF_ONE_CALL = {"What to train", "When to stop", "Resuming", "Many runs at once"}
"""Headings whose options describe a single call."""

LASTING = ("import", "strict-env")
"""Options under these headings that may have defaults all the same."""

NEVER = ("run", "env", "config", "help", "assert")
NAMES = ("config.yaml", "config.yml", "config.json")


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


def of(
    command: click.Command,
    words: Sequence[str],
    table: Mapping[str, tuple[str, str]],
    below: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Return {name of a parameter: value} of a click ``command`` whose full name are ``words`` (without ``drl``).

    ``table``: the names of all commands; ``below``: of those below this one. Raises ConfigError with file and key,
    or variable, for what cannot be a default.
    """
    options = _options(command)
    found = {}
    of_file, of_variables = (
        _of_file(words, options, (table, below), environ),
        _of_variables(words, options, below, environ),
    )
    for path, value, place in [*of_file, *of_variables]:
        option = options.get(path)
        if option is None:
            raise ConfigError(f"{place}: {_refusal(path, command, words, options)}")
        found[option.name] = _value(option, command, value, f"{place}: {path}")
    return found


def file_of(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the user's file, None where there is none. Raises ConfigError where there are two."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "drl"
    there = [home / name for name in NAMES if (home / name).is_file()]
    if len(there) > 1:
        raise ConfigError(f"{there[0]} and {there[1].name}: two files of defaults. Keep one of them.")
    return there[0] if there else None


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return {long name without dashes: option} of the options of ``command`` that may have defaults."""
    found = {}
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        names = [name.removeprefix("--") for name in option.opts if name.startswith("--")]
        heading = option.group if isinstance(option, GroupedOption) else LAST_GROUP
        is_of_one_call = heading in OF_ONE_CALL and not set(names) & set(LASTING)
        if not is_of_one_call and not set(names) & set(NEVER):
            found |= dict.fromkeys(names, option)
    return found


def _of_file(
    words: Sequence[str],
    options: Mapping[str, click.Option],
    tables: tuple[Mapping[str, Any], Mapping[str, Any]],
    environ: Mapping[str, str],
) -> Iterator[tuple[str, Any, str]]:
    """Yield (option's name, value, place) of the file: what holds for all commands first.

    ``tables``: the names of all commands, and those of the commands below this one.
    """
    path, (table, below) = file_of(environ), tables
    data, where = _read(path) if path else ({}, None)
    if where is None:
        return
    sections = [name for name in data if name in table and isinstance(data[name], dict)]
    for key, value in data.items():
        name, place = _dashed(key), f"{where.place((key,))}"
        if key in sections:
            continue
        if key in table:
            raise ConfigError(f"{place}: {key}: expected a mapping of options to values, not {value!r:.60}.")
        if name not in EVERYWHERE:
            raise ConfigError(f"{place}: {key[:60]}: {_unknown_at_the_top(name, options, words, table)}")
        if name in options:
            yield name, value, place
    section, at = data, ()
    for word in words:
        section, at = (section.get(word) if isinstance(section, dict) else None), (*at, word)
    for key, value in section.items() if isinstance(section, dict) else ():
        if not (isinstance(value, dict) and key in below):
            yield _dashed(key), value, f"{where.place((*at, key))}: {'.'.join(at)}"


def _unknown_at_the_top(
    name: str, options: Mapping[str, click.Option], words: Sequence[str], table: Mapping[str, tuple[str, str]]
) -> str:
    if name in options:
        return f"this option belongs to a command. Write {' '.join(words)}: {{{name}: …}}."
    known = suggestion(name, (*EVERYWHERE, *table))
    return f"neither a command nor an option that all commands share.{known} Shared are {', '.join(EVERYWHERE)}."


def _of_variables(
    words: Sequence[str],
    options: Mapping[str, click.Option],
    below: Mapping[str, tuple[str, str]],
    environ: Mapping[str, str],
) -> Iterator[tuple[str, Any, str]]:
    """Yield (option's name, value, place) of the variables: those for all commands first."""
    others = tuple(_variable("", name) + "_" for name in below)
    prefix = "DRL_" + "_".join(words).upper().replace("-", "_") + "_"
    for name in EVERYWHERE:
        variable = _variable("DRL_", name)
        if variable in environ and name in options and variable != "DRL_DEBUG":  # Session reads that one itself
            yield name, _parts(options[name], environ[variable]), variable
    for variable in sorted(environ):
        rest = variable.removeprefix(prefix)
        if variable.startswith(prefix) and not (others and rest.startswith(others)):
            name = _dashed(rest.lower())
            yield name, _parts(options.get(name), environ[variable]), variable
    _warn_of_misspelt(environ)


def _parts(option: click.Option | None, text: str) -> str | list[str]:
    """Several values of one option are separated by ``:``, as in PATH."""
    return text.split(os.pathsep) if option is not None and option.multiple else text


def _warn_of_misspelt(environ: Mapping[str, str]) -> None:
    """Warn of variables that look like a misspelt one for all commands."""
    known = {_variable("DRL_", name) for name in EVERYWHERE}
    for variable in sorted(environ):
        close = nearest(variable, known, 1) if variable.startswith("DRL_") and variable not in known else []
        if close and abs(len(variable) - len(close[0])) <= 2:
            terminal.say(f"Warning: {variable} is not a variable that drl reads. Did you mean {close[0]}?")


def _variable(prefix: str, name: str) -> str:
    return prefix + name.upper().replace("-", "_")


def _refusal(name: str, command: click.Command, words: Sequence[str], options: Mapping[str, click.Option]) -> str:
    called = f"drl {' '.join(words)}"
    names = {word.removeprefix("--") for option in command.params for word in option.opts if word.startswith("--")}
    if name in names:
        return f"{name} describes a single call of {called}. Type it, or write it to a file for drl train -f."
    return f"{name[:60]} is not an option of {called}.{suggestion(name, options)}"


def _value(option: click.Option, command: click.Command, value: Any, place: str) -> Any:
    """Return ``value`` as the option's own type. Raises ConfigError."""
    context = click.Context(command, **command.context_settings)
    given = value if isinstance(value, list) else [value]
    if isinstance(value, dict) or (isinstance(value, list) and not option.multiple) or value is None:
        raise ConfigError(f"{place}: {value!r:.60} is not a valid value of an option.")
    if isinstance(value, bool) and not (option.is_flag or option.is_bool_flag):
        raise ConfigError(
            f"{place}: {value!r} is not a valid value of {option.opts[-1]}, which takes {option.metavar}."
        )
    try:
        read = [option.type.convert(one, option, context) for one in given]
    except click.BadParameter as error:
        raise ConfigError(f"{place}: {error.message.rstrip('.')}.") from error
    return read if option.multiple else read[0]


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _read(path: Path) -> tuple[dict[str, Any], Where | None]:
    from drl_cli.config import assignments

    text = assignments.read_text(path)
    meaning = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not meaning:
        return {}, None  # a file whose lines are all comments
    return assignments.load_file(path)
