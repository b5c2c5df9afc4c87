"""From a mapping of keys to a frozen config, or to all that is wrong with it at once.

Used by ``experiment`` (flags, files, resumed runs) and by whoever reads a config back from a checkpoint. Each problem
is one line: the key's path, what was given, what is allowed, the nearest valid key, and the file and line or the
flag.
"""

from typing import Any, NamedTuple

from pydantic import ValidationError

from drl_cli.config.environment_variables import read_too_late
from drl_cli.config.key_description import allowed, fields_of, key_name, leaves, section_of, shown, words
from drl_cli.config.rllib.aliases import renamed
from drl_cli.config.rllib.refused_keys import UNBUILT_SECTIONS, refusal
from drl_cli.config.schema import MisfitError
from drl_cli.config.search_space import FORMS, name_of
from drl_cli.config.sections import evaluation_overrides
from drl_cli.config.sections.model import REPLACED
from drl_cli.config.where import Where, origin
from drl_cli.errors import ConfigError, nearest, suggestion
from drl_cli.events import report
from drl_cli.extras import load

MAX_SHOWN = 10


def parse(algorithm, mapping, where, rows=()):
    """Return the frozen config of ``algorithm`` that ``mapping`` describes.

    Args:
        algorithm: a row of ``algorithms.table`` (its ``name``, and ``config``, the dotted name of the schema).
        mapping: plain data as it was read: keys of the config, nested.
        where: a Where, or the name of the place the mapping came from.
        rows: all rows, so that a key of another algorithm is refused with the names of those that have it.

    Raises ConfigError with every problem (10 shown). Other spellings that are read, and keys that have no effect, are
    said with a ``notice`` event.
    """
    config, problems, notices = read(algorithm, mapping, where, rows)
    refuse(problems, f"the config of {algorithm.name}")
    for text in notices:
        report("notice", text=text)
    return config


def refuse(problems, what):
    """Raise a ConfigError that lists ``problems`` (10 shown, then a count), if there are any."""
    if not problems:
        return
    if len(problems) == 1:
        raise ConfigError(problems[0])
    lines = [f"{len(problems)} problems in {what}:", *(f"  {line}" for line in problems[:MAX_SHOWN])]
    if len(problems) > MAX_SHOWN:
        lines.append(f"  … and {len(problems) - MAX_SHOWN} more")
    raise ConfigError("\n".join(lines))


class ReadConfig(NamedTuple):
    """What ``read_given`` returns: the config or None, ``problems`` and ``notices``.

    ``given``: the mapping in this program's spelling; ``where.place(path)`` says where a key of it was given, and in which
    spelling.
    """

    config: Any
    problems: list[str]
    notices: list[str]
    given: dict[str, Any]
    where: "Where | Moved"


def read(algorithm, mapping, where, rows=()):
    """Return (config or None, problems, notices); as ``parse``, for callers that have more problems to tell."""
    return read_given(algorithm, mapping, where, rows)[:3]


def read_given(algorithm, mapping, where, rows=()) -> ReadConfig:
    """Return a ReadConfig; as ``read``, for callers that record where each key was given."""
    where = origin(where)
    if not isinstance(mapping, dict):
        problem = f"config: {shown(mapping)} is not a mapping of keys to values{_at(where, ())}."
        return ReadConfig(None, [problem], [], {}, where)
    schema = load(algorithm.config)
    given, moved, problems, notices = renamed(mapping, where, schema)
    mapping, of_evaluation, more_notices = evaluation_overrides.settled(given, schema, where)
    problems, notices = problems + of_evaluation, notices + more_notices
    where = Moved(where, moved)
    reader = _Reader(schema, where, lambda path: refusal(path, algorithm.name, schema, rows))
    config, more = _validated(mapping, reader)
    problems += more
    if problems:
        return ReadConfig(None, problems, notices, given, where)
    return ReadConfig(config, problems, notices + _idle(config, mapping, where), given, where)


def _idle(config, mapping, where):
    """Return a notice for each key that is given, differs from its default and has no effect beside the others."""
    found, values = (
        [],
        {key_name(name, field): getattr(config, name) for name, field in type(config).model_fields.items()},
    )
    for path, field in leaves(type(config)):
        needs = field.json_schema_extra["needs"]
        if len(path) > 1 or not needs or path[0] not in mapping or values[path[0]] == field.default:
            continue
        other, least = needs
        if (getattr(config, other) or 0) < least:
            found.append(f"{path[0]} has no effect while {other} is {shown(getattr(config, other))}{_at(where, path)}.")
    key = "extra_python_environs_for_driver"
    late = read_too_late(getattr(config, key, {}))
    found += [f"{key}: {late}{_at(where, (key,))}."] if late else []
    return found + _replaced(config, where)


def _replaced(config, where):
    """Return a notice for each key of ``model`` in whose place a network of one's own stands."""
    model = getattr(config, "model", None)
    if getattr(model, "custom_model", None) is None:
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


def read_section(schema, mapping, where, refusal):
    """Return (section or None, problems) for a mapping that is no algorithm's config.

    ``refusal(path)`` says why a key that the schema lacks is refused, or returns None.
    """
    section, problems = _validated(mapping, _Reader(schema, origin(where), refusal))
    return (None if problems else section), problems


class _Reader:
    """What it takes to read a mapping: its schema, where its keys come from, why others are refused."""

    def __init__(self, schema, where, refusal):
        self.schema = schema
        self.where = where
        self.refusal = refusal


def _validated(mapping, reader):
    known, problems = _split(mapping, reader.schema, (), reader)
    try:
        return reader.schema.model_validate(known), problems
    except ValidationError as error:
        return None, problems + _wrong_values(error, reader.schema, known, reader.where)


class Moved:
    """A Where whose paths were partly renamed; asks the original for the old ones."""

    def __init__(self, where, moved):
        self._where = where
        self._moved = moved  # new path → old path

    def place(self, path):
        """Return the place of a path under its new name, with the spelling that stands there."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._moved:
                old = self._moved[path[:length]]
                return f"{self._where.place(old + path[length:])}, as {'.'.join(old)}"
        return self._where.place(path)


def _at(where, path):
    return f" ({where.place(path)})"


def _split(mapping, schema, path, reader):
    """Return (the mapping with the schema's keys only, problems of the other keys), sections included."""
    known, problems = {}, []
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


def _unknown(path, fields, reader):
    """Return the problem of a key that the schema does not have."""
    dotted = ".".join(map(str, path))
    if len(dotted) > 100:
        dotted = dotted[:97] + "…"
    if not dotted.isprintable():  # line breaks, halves of surrogate pairs
        dotted = ascii(dotted)
    reason = reader.refusal(path)
    if reason:
        return f"{dotted}: {reason.rstrip('.')}{_at(reader.where, path)}."
    return f"{dotted}: unknown key{_at(reader.where, path)}.{_hint(path, fields, reader.schema)}"


def _hint(path, fields, schema):
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


def _wrong_values(error, schema, known, where):
    """Return one problem for each key whose value pydantic refused."""
    problems = {}
    for item in error.errors(include_url=False, include_input=False):
        path, field = _field_at(schema, item["loc"])
        cause = item["ctx"]["error"] if item["type"] == "value_error" else None
        if isinstance(cause, MisfitError):  # of a whole section: its values do not go together
            path = (*path, *cause.key.split("."))
            problems[path] = f"{'.'.join(path)}: {cause}{_at(where, path)}."
            continue
        if field is None:
            problems.setdefault(path, f"{cause or item['msg']} ({where.place(path)}).")
            continue
        if path in problems and not cause:
            continue
        value = known
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


def _as_search(value):
    """Return what is wrong with a mapping in the place of a value if it was meant to be searched over, else None."""
    if name_of(value):
        return "values are searched over by drl train only"
    close = nearest(next(iter(value)), FORMS, count=1) if len(value) == 1 else ()
    return f"to search over it, write {{{close[0]}: …}}" if close else None


def _field_at(schema, loc):
    """Return the path of the deepest key in an error's location, and its field (None for the whole config)."""
    path, field = [], None
    for part in loc:
        fields = fields_of(schema) if schema else {}
        if part not in fields:
            break
        path.append(part)
        field = fields[part]
        schema = section_of(field)
    return tuple(path), field
