"""From the declaration of a key to words: what it allows, a walk over all keys of a schema, and their rows.

Used by ``config.parse`` for its messages; ``drl algorithms``, ``drl explain`` and the documentation print the rows.
"""

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from typing_extensions import NotRequired

from drl_cli.config.plain_data import value_at
from drl_cli.config.schema import Section, notes_of
from drl_cli.config.sections.exploration import ExplorationConfig


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the Section class that a field holds, or None for a plain value."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def key_name(name: str, field: FieldInfo) -> str:
    """Return the key as it is typed: the alias where the field is named with a trailing underscore."""
    return field.alias or name


def fields_of(schema: type[Section]) -> dict[str, FieldInfo]:
    """Return {key: FieldInfo} of a Section class, under the names that are typed."""
    return {key_name(name, field): field for name, field in schema.model_fields.items()}


def leaves(schema: type[Section], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Yield (path, FieldInfo) for every key of a schema that holds a value, those of its sections included."""
    for name, field in fields_of(schema).items():
        path = (*prefix, name)
        section = section_of(field)
        if section:
            yield from leaves(section, path)
        else:
            yield path, field


def allowed(field: FieldInfo) -> str:
    """Return what a key allows, in words: ``a whole number ≥ 1, or null``."""
    in_words = notes_of(field)["allowed"]
    if in_words:
        return in_words
    section = section_of(field)
    if section:
        return "a mapping with the keys " + ", ".join(fields_of(section))
    return _words(field.annotation, field.metadata)


def words(kind: Any) -> list[str]:
    """Return the strings that a key of this type takes by name: those of its Literals."""
    if get_origin(kind) is Literal:
        return [value for value in get_args(kind) if isinstance(value, str)]
    return [word for part in get_args(kind) for word in words(part)]


def _words(kind: Any, metadata: Iterable[Any] = ()) -> str:
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        inner = [item for note in notes for item in (note.metadata if isinstance(note, FieldInfo) else [note])]
        return _words(kind, [*inner, *metadata])
    if get_origin(kind) in (Union, types.UnionType):
        parts = sorted(get_args(kind), key=lambda part: part is type(None))
        return ", or ".join(_words(part, () if part is type(None) else metadata) for part in parts)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    simple = {bool: "true or false", type(None): "null", str: "a string", int: "a whole number", float: "a number"}
    if kind in (int, float):
        return simple[kind] + _bounds(metadata)
    if kind in simple:
        return simple[kind]
    return "a list" if get_origin(kind) is tuple else "a mapping"


def _bounds(metadata: Iterable[Any]) -> str:
    found = {}
    for note in metadata:
        if isinstance(note, Ge):
            found["ge"] = _number(note.ge)
        elif isinstance(note, Gt):
            found["gt"] = _number(note.gt)
        elif isinstance(note, Le):
            found["le"] = _number(note.le)
        elif isinstance(note, Lt):
            found["lt"] = _number(note.lt)
    low = found.get("ge", found.get("gt"))
    high = found.get("le", found.get("lt"))
    if low is not None and high is not None:
        return f" in {'[' if 'ge' in found else '('}{low}, {high}{']' if 'le' in found else ')'}"
    if low is not None:
        return f" {'≥' if 'ge' in found else '>'} {low}"
    if high is not None:
        return f" {'≤' if 'le' in found else '<'} {high}"
    return ""


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


class KeyRow(TypedDict):
    """A key as ``drl algorithms`` prints it."""

    key: str  # dotted name
    default: Any  # plain data
    unit: str | None
    allowed: str | None  # in words
    meaning: str
    section: str | None  # first part of a dotted name
    needs: list[Any] | None  # [other key, least value] without which it has no effect
    rllib: NotRequired[Any]  # RLlib 1.0.1's default, where ours differs
    why: NotRequired[str]  # the reason for that


def keys(schema: type[Section]) -> list[KeyRow]:
    """Return a row for each key of a Section class, those of its sections included: what is most its own first."""
    defaults = schema().model_dump(mode="json", by_alias=True)
    rows: list[KeyRow] = []
    for path, field in leaves(schema):
        notes = notes_of(field)
        needs = notes["needs"]
        row: KeyRow = {
            "key": ".".join(path),
            "default": value_at(defaults, path),
            "unit": notes["unit"],
            "allowed": allowed(field),
            "meaning": field.description or "",
            "section": path[0] if len(path) > 1 else None,
            "needs": list(needs) if needs else None,
        }
        if "rllib" in notes and "why" in notes:
            row["rllib"], row["why"] = notes["rllib"], notes["why"]
        rows.append(row)
    return sorted(rows, key=lambda row: _depth(schema, row["key"].partition(".")[0]))


def own_keys(config: Mapping[str, Any]) -> list[KeyRow]:
    """Return rows, as ``keys``, for keys in a recorded ``config`` (plain data) that no schema of an algorithm lists.

    They are those of a registered exploration; where it is not registered in this process, only names are known.
    """
    given = config.get("exploration_config")
    if not isinstance(given, dict):
        return []
    schema = ExplorationConfig.schema_for(given)
    known = {row["key"]: row for row in keys(schema)}
    meaning = f"A key of {given.get('type')}, which is registered by a module: --import MODULE."
    section = "exploration_config"
    unknown = KeyRow(key="", default=None, unit=None, allowed=None, meaning=meaning, section=section, needs=None)
    rows: list[KeyRow] = []
    for name in given:
        if name not in ExplorationConfig.model_fields:
            rows.append({**known.get(name, unknown), "key": f"{section}.{name}", "section": section})
    return rows


def _depth(schema: type[Section], name: str) -> int:
    """Return how far up the bases of ``schema`` the class is that declares the key ``name``."""
    fields = {key_name(own, field): own for own, field in schema.model_fields.items()}
    own = fields[name]
    return next(n for n, base in enumerate(schema.__mro__) if own in base.__dict__.get("__annotations__", {}))
