"""From a mapping of keys to a frozen config, or to all that is wrong with it at once.

Used by ``experiments`` (flags, files, resumed runs) and wherever a config is read back from a checkpoint. Each problem is one
line: the key's path, what was given, what is allowed, the nearest valid key, and the file and line or the flag.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from drl_cli.config.environment_variables import read_too_late
from drl_cli.config.key_description import allowed, fields_of, key_name, leaves, section_of, words
from drl_cli.config.origins import Path, Where, origin
from drl_cli.config.plain_data import has_path
from drl_cli.config.rllib.aliases import renamed
from drl_cli.config.rllib.refused_keys import UNBUILT_SECTIONS, refusal
from drl_cli.config.schema import MisfitError, SchemaRow, Section, notes_of
from drl_cli.config.search_space import FORMS, name_of
from drl_cli.config.sections import evaluation_overrides
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.model import REPLACED, OwnNetwork
from drl_cli.errors import ConfigError, nearest, shown, suggestion
from drl_cli.events import report
from drl_cli.extras import load

MAX_SHOWN = 10

S = TypeVar("S", bound=Section)
Refusal: TypeAlias = Callable[[Path], str | None]
"""Says why the key at a path, which a schema lacks, is refused; None for a key that is simply unknown."""


def parse(algorithm: SchemaRow, mapping: Any, where: Where | str, rows: Iterable[SchemaRow] = ()) -> CommonKeys:
    """Return the frozen config of ``algorithm`` that ``mapping`` describes.

    Args:
        algorithm: a row of ``algorithms.table`` (its ``name``, and ``config``, the dotted name of the schema).
        mapping: plain data as it was read: keys of the config, nested.
        where: a Where, or the name of the place the mapping came from.
        rows: all rows, so that a key of another algorithm is refused with the names of those that have it.

    Raises ConfigError with every problem (10 shown). Reports a ``notice`` event for other spellings that are read, and for
    keys that have no effect.
    """
    config, problems, notices = read(algorithm, mapping, where, rows)
    if config is None:
        raise _refused(problems, f"the config of {algorithm.name}")
    for text in notices:
        report("notice", text=text)
    return config


def refuse(problems: Sequence[str], what: str) -> None:
    """Raise a ConfigError that lists ``problems`` (10 shown, then a count), if there are any."""
    if problems:
        raise _refused(problems, what)


def _refused(problems: Sequence[str], what: str) -> ConfigError:
    if len(problems) == 1:
        return ConfigError(problems[0])
    lines = [f"{len(problems)} problems in {what}:", *(f"  {line}" for line in problems[:MAX_SHOWN])]
    if len(problems) > MAX_SHOWN:
        lines.append(f"  … and {len(problems) - MAX_SHOWN} more")
    return ConfigError("\n".join(lines))


class ReadConfig(NamedTuple):
    """What was read of a mapping: the config, or None where there are ``problems``; and ``notices``.

    ``given``: the mapping in this program's spelling. ``where.place(path)`` says where a key of it stands, and in which
    spelling it is written there.
    """

    config: CommonKeys | None
    problems: list[str]
    notices: list[str]
    given: dict[str, Any]
    where: Where


def read(
    algorithm: SchemaRow, mapping: Any, where: Where | str, rows: Iterable[SchemaRow] = ()
) -> tuple[CommonKeys | None, list[str], list[str]]:
    """Return (config or None, problems, notices); as ``parse``, for callers that find more problems themselves."""
    return read_given(algorithm, mapping, where, rows)[:3]


def read_given(algorithm: SchemaRow, mapping: Any, where: Where | str, rows: Iterable[SchemaRow] = ()) -> ReadConfig:
    """Return a ReadConfig; as ``read``, for callers that record where each key was given."""
    where = origin(where)
    if not isinstance(mapping, dict):
        problem = f"config: {shown(mapping)} is not a mapping of keys to values{_at(where, ())}."
        return ReadConfig(None, [problem], [], {}, where)
    schema = load(algorithm.config)
    given, moved, problems, notices = renamed(mapping, where, schema)
    mapping, of_evaluation, more_notices = evaluation_overrides.settled(given, schema, where)
    problems, notices = problems + of_evaluation, notices + more_notices
    where = where.renaming(moved)
    listing = f" drl algorithms {algorithm.name} lists the keys."
    reader = _Reader(schema, where, lambda path: refusal(path, algorithm.name, schema, rows), listing)
    config, more = _validated(mapping, reader)
    problems += more
    if config is None or problems:
        return ReadConfig(None, problems, notices, given, where)
    return ReadConfig(config, problems, notices + _idle(config, mapping, where), given, where)


def origins(schema: type[Section], read: ReadConfig) -> dict[str, str]:
    """Return {dotted key: place} of the keys of ``schema`` that the mapping of which ``read`` was made gives.

    A place is ``"tuned.yaml:12"`` or ``"--config"``, with ``", as sample_batch_size"`` after it where the key was written in a
    spelling of RLlib's that is not ours. What is missing is at its default.
    """
    return {".".join(path): read.where.place(path) for path, _ in leaves(schema) if has_path(read.given, path)}


def _idle(config: CommonKeys, mapping: Mapping[str, Any], where: Where) -> list[str]:
    """Return a notice for each key that is given, differs from its default and has no effect beside the others."""
    found: list[str] = []
    values = {key_name(name, field): getattr(config, name) for name, field in type(config).model_fields.items()}
    for path, field in leaves(type(config)):
        (name, *inner), needs = path, notes_of(field)["needs"]
        if inner or not needs or name not in mapping or values[name] == field.default:
            continue
        other, least = needs
        if (getattr(config, other) or 0) < least:
            found.append(f"{name} has no effect while {other} is {shown(getattr(config, other))}{_at(where, path)}.")
    late = read_too_late(config.extra_python_environs_for_driver)
    key = "extra_python_environs_for_driver"
    found += [f"{key}: {late}{_at(where, (key,))}."] if late else []
    return found + _replaced(config, where)


def own_network(config: Section) -> OwnNetwork | None:
    """Return the section ``model`` of a config, None where it has none that may name a registered network."""
    model = dict(config).get("model")  # a registered algorithm's keys are its own
    return model if isinstance(model, OwnNetwork) else None


def _replaced(config: Section, where: Where) -> list[str]:
    """Return a notice for each key of ``model`` that a registered network replaces."""
    model = own_network(config)
    if model is None or model.custom_model is None:
        return []
    fields = type(model).model_fields
    given = [
        name for name in REPLACED if name in model.model_fields_set and getattr(model, name) != fields[name].default
    ]
    return [
        f"model.{name} has no effect beside model.custom_model, whose arguments are model.custom_model_config"
        f"{_at(where, ('model', name))}."
        for name in given
    ]


def read_section(schema: type[S], mapping: Any, where: Where | str, refusal: Refusal) -> tuple[S | None, list[str]]:
    """Return (section or None, problems) for a mapping that is no algorithm's config.

    ``refusal``: of keys that the schema lacks, see ``Refusal``.
    """
    section, problems = _validated(mapping, _Reader(schema, origin(where), refusal))
    return (None if problems else section), problems


class _Reader(NamedTuple):
    """What it takes to read a mapping: its schema, where its keys come from, why others are refused.

    ``listing``: where all keys are listed, for a key that resembles none.
    """

    schema: type[Section]
    where: Where
    refusal: Refusal
    listing: str = ""


def _validated(mapping: Mapping[str, Any], reader: _Reader) -> tuple[Any, list[str]]:
    known, problems = _split(mapping, reader.schema, (), reader)
    try:
        return reader.schema.model_validate(known), problems
    except ValidationError as error:
        return None, problems + _wrong_values(error, reader.schema, known, reader.where)


def _at(where: Where, path: Path) -> str:
    return f" ({where.place(path)})"


def _split(
    mapping: Mapping[str, Any], schema: type[Section], path: Path, reader: _Reader
) -> tuple[dict[str, Any], list[str]]:
    """Return (the mapping with the schema's keys only, problems of the other keys), sections included."""
    known: dict[str, Any] = {}
    problems: list[str] = []
    fields = fields_of(schema)
    for name, value in mapping.items():
        here = (*path, name)
        if name not in fields:
            inside = value if name in UNBUILT_SECTIONS and isinstance(value, dict) and value else ()
            problems += [_unknown((*here, inner), fields, reader) for inner in inside] or [
                _unknown(here, fields, reader)
            ]
            continue
        section = section_of(fields[name])
        if section and isinstance(value, dict):
            value, inner = _split(value, section.schema_for(value), here, reader)
            problems += inner
        known[name] = value
    return known, problems


def _unknown(path: Path, fields: Mapping[str, FieldInfo], reader: _Reader) -> str:
    """Return the problem of a key that the schema does not have."""
    dotted = ".".join(map(str, path))
    if len(dotted) > 100:
        dotted = dotted[:97] + "…"
    if not dotted.isprintable():  # line breaks, halves of surrogate pairs
        dotted = ascii(dotted)
    reason = reader.refusal(path)
    if reason:
        return f"{dotted}: {reason.rstrip('.')}{_at(reader.where, path)}."
    return f"{dotted}: unknown key{_at(reader.where, path)}.{_hint(path, fields, reader.schema) or reader.listing}"


def _hint(path: Path, fields: Mapping[str, FieldInfo], schema: type[Section]) -> str:
    name = str(path[-1])
    if tuple(path) in {tuple(found) for found, _ in leaves(schema)}:
        return f" It has {', '.join(fields)}."  # what else is given there asks for a section of other keys
    prefix = "".join(f"{part}." for part in path[:-1])
    everywhere = {".".join(found) for found, _ in leaves(schema)}
    if name in everywhere and "." in name:
        section, _, last = name.rpartition(".")
        return f" Write it as a section: {section}: {{{last}: …}}."
    homes = sorted(found for found in everywhere if found.rpartition(".")[2] == name)
    if homes:
        return " It belongs in " + " or ".join(homes[:3]) + "."
    by_last = {found.rpartition(".")[2]: found for found in sorted(everywhere, reverse=True)}
    close = nearest(name, {**by_last, **fields}, count=1)
    if close:
        return f" Did you mean '{prefix + close[0] if close[0] in fields else by_last[close[0]]}'?"
    return f" It has {', '.join(fields)}." if path[:-1] else ""


def _wrong_values(error: ValidationError, schema: type[Section], known: Mapping[str, Any], where: Where) -> list[str]:
    """Return one problem for each key whose value pydantic refused."""
    problems: dict[Path, str] = {}
    for item in error.errors(include_url=False, include_input=False):
        path, field = _field_at(schema, item["loc"])
        cause: Any = item["ctx"]["error"] if item["type"] == "value_error" and "ctx" in item else None
        if isinstance(cause, MisfitError):  # of a whole section: its values do not go together
            path = (*path, *cause.key.split("."))
            problems[path] = f"{'.'.join(path)}: {cause}{_at(where, path)}."
            continue
        if field is None:
            problems.setdefault(path, f"{cause or item['msg']} ({where.place(path)}).")
            continue
        if path in problems and not cause:
            continue
        value: Any = known
        for name in path:
            value = value[name]
        if isinstance(value, dict) and not cause:
            cause = _as_search(value)
        why = f": {cause}" if cause else ""
        problems[path] = (
            f"{'.'.join(path)}: {shown(value)} is not allowed{why}; it takes {allowed(field)}{_at(where, path)}."
            f"{suggestion(value, words(field.annotation)) if isinstance(value, str) else ''}"
        )
    return list(problems.values())


def _as_search(value: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a mapping in the place of a value if it looks like values to search over, else None."""
    if name_of(value):
        return "values are searched over by drl train only"
    close = nearest(next(iter(value)), FORMS, count=1) if len(value) == 1 else ()
    return f"to search over it, write {{{close[0]}: …}}" if close else None


def _field_at(schema: type[Section], loc: Sequence[int | str]) -> tuple[Path, FieldInfo | None]:
    """Return the path of the deepest key in an error's location, and its field (None for the whole config)."""
    path: list[str] = []
    field, section = None, schema
    for part in loc:
        fields = fields_of(section) if section else {}
        if not isinstance(part, str) or part not in fields:
            break
        path.append(part)
        field = fields[part]
        section = section_of(field)
    return tuple(path), field
