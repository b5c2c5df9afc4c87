"""From the declaration of a key to words: what it allows, and a walk over all keys of a schema.

Used by ``config.parse`` for its messages, by tests and by listings of keys.
"""

import json
import types
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from drl_cli.config.schema import Section


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


def shown(value):
    """Return a value as it would be typed, cut to 60 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= 60 else text[:57] + "…"


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
