"""From the declaration of a key to words: what it allows, a walk over all keys of a schema, and their rows.

Used by ``config.parse`` for its messages; ``drl algorithms``, ``drl explain`` and the documentation print the rows.
"""

import types
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from drl_cli.config.plain_data import value_at
from drl_cli.config.schema import Section
from drl_cli.config.sections.exploration import ExplorationConfig


def section_of(field):
    """Return the Section class that a field holds, or None for a plain value."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def key_name(name, field):
    """Return the key as it is typed: the alias where the field is named with a trailing underscore."""
    return field.alias or name


def fields_of(schema):
    """Return {key: FieldInfo} of a Section class, under the names that are typed."""
    return {key_name(name, field): field for name, field in schema.model_fields.items()}


def leaves(schema, prefix=()):
    """Yield (path, FieldInfo) for every key of a schema that holds a value, those of its sections included."""
    for name, field in fields_of(schema).items():
        path = (*prefix, name)
        section = section_of(field)
        if section:
            yield from leaves(section, path)
        else:
            yield path, field


def allowed(field):
    """Return what a key allows, in words: ``a whole number ≥ 1, or null``."""
    extra = field.json_schema_extra or {}
    if extra.get("allowed"):
        return extra["allowed"]
    section = section_of(field)
    if section:
        return "a mapping with the keys " + ", ".join(fields_of(section))
    return _words(field.annotation, field.metadata)


def words(kind):
    """Return the texts that a key of this type takes by name: those of its Literals."""
    if get_origin(kind) is Literal:
        return [value for value in get_args(kind) if isinstance(value, str)]
    return [word for part in get_args(kind) for word in words(part)]


def _words(kind, metadata=()):
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        inner = [item for note in notes for item in (note.metadata if isinstance(note, FieldInfo) else [note])]
        return _words(kind, [*inner, *metadata])
    if get_origin(kind) in (Union, types.UnionType):
        parts = sorted(get_args(kind), key=lambda part: part is type(None))
        return ", or ".join(_words(part, () if part is type(None) else metadata) for part in parts)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    simple = {bool: "true or false", type(None): "null", str: "a text", int: "a whole number", float: "a number"}
    if kind in (int, float):
        return simple[kind] + _bounds(metadata)
    if kind in simple:
        return simple[kind]
    return "a list" if get_origin(kind) is tuple else "a mapping"


def _bounds(metadata):
    found = {}
    for note in metadata:
        for name in ("ge", "gt", "le", "lt"):
            if getattr(note, name, None) is not None:
                found[name] = _number(getattr(note, name))
    low = found.get("ge", found.get("gt"))
    high = found.get("le", found.get("lt"))
    if low is not None and high is not None:
        return f" in {'[' if 'ge' in found else '('}{low}, {high}{']' if 'le' in found else ')'}"
    if low is not None:
        return f" {'≥' if 'ge' in found else '>'} {low}"
    if high is not None:
        return f" {'≤' if 'le' in found else '<'} {high}"
    return ""


def _number(value):
    return str(int(value)) if float(value).is_integer() else str(value)


def keys(schema):
    """Return one dict for each key of a Section class, those of its sections included: what is most its own first.

    key: dotted name. default: plain data. unit: text or None. allowed: in words. meaning. section: first part of the name
    or None. needs: [other key, least value] without which it has no effect, or None. rllib and why: RLlib 1.0.1's default
    where ours differs, and the reason; both missing where it does not.
    """
    defaults = schema().model_dump(mode="json", by_alias=True)
    rows = []
    for path, field in leaves(schema):
        notes = field.json_schema_extra or {}
        row = {
            "key": ".".join(path),
            "default": value_at(defaults, path),
            "unit": notes.get("unit"),
            "allowed": allowed(field),
            "meaning": field.description,
            "section": path[0] if len(path) > 1 else None,
            "needs": list(notes["needs"]) if notes.get("needs") else None,
        }
        if "rllib" in notes:
            row |= {"rllib": notes["rllib"], "why": notes["why"]}
        rows.append(row)
    return sorted(rows, key=lambda row: _depth(schema, row["key"].partition(".")[0]))


def own_keys(config):
    """Return rows, as ``keys``, for keys in a recorded ``config`` (plain data) that no schema of an algorithm lists.

    They are those of a registered exploration; where it is not registered in this process, only names are known.
    """
    given = config.get("exploration_config")
    if not isinstance(given, dict):
        return []
    schema = ExplorationConfig.schema_for(given)
    known = {row["key"]: row for row in keys(schema)}
    meaning = f"A key of {given.get('type')}, which is registered by a module: --import MODULE."
    unknown = {"default": None, "unit": None, "allowed": None, "meaning": meaning, "needs": None}
    rows = [known.get(name, {"key": name, **unknown}) for name in given if name not in ExplorationConfig.model_fields]
    return [{**row, "key": f"exploration_config.{row['key']}", "section": "exploration_config"} for row in rows]


def _depth(schema, name):
    """Return how far up the bases of ``schema`` the class is that says something of the key ``name``."""
    fields = {key_name(own, field): own for own, field in schema.model_fields.items()}
    own = fields[name]
    return next(n for n, base in enumerate(schema.__mro__) if own in base.__dict__.get("__annotations__", {}))
