"""Strict reading of YAML and JSON: from text to plain data, with the line of every key.

Used by ``config.assignments`` for files and flags. YAML is read as 1.2 core (``1e-4`` is a number, ``on`` a string, ``010``
ten) and only the part of it that is plain data: no anchors, aliases, merge keys, dates, directives, several documents,
nor tags but those of plain scalars (``!!float``). Every refusal is a ConfigError with line and column.

Limits keep a hostile file from costing time or memory. That is why PyYAML's events are read one by one, and not the result
of a ``SafeLoader``: it builds everything first, and recurses as deep as the file is nested.

Source: YAML 1.2.2 §10.3.2 (core schema). Deviation: infinities and NaN are refused, keys must be strings.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import yaml

from drl_cli.config.origins import Path, Where, origin
from drl_cli.config.plain_data import MAX_DEPTH, MAX_TEXT
from drl_cli.errors import ConfigError

MAX_DIGITS = 400  # beyond it int() refuses or is slow, and nothing that is configured needs it
MAX_BYTES = 1_000_000
MAX_NODES = 10_000

TAGS = {f"tag:yaml.org,2002:{kind.__name__}": kind for kind in (float, int, bool, str)}
"""Tags of plain scalars (``!!float 1e5``), as rl-baselines3-zoo writes them."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Scalar: TypeAlias = bool | int | float | str | None
Lines: TypeAlias = dict[Path, int]
"""Path of a key → the line that it stands in."""

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF|Infinity)|\.nan|\.NaN|\.NAN|NaN")


class RefusedError(ValueError):
    """A value that is well-formed but not allowed; the caller adds the place."""


def scalar(text: str) -> Scalar:
    """Return the value of a plain (unquoted) YAML 1.2 core scalar: None, bool, int, float or str.

    Raises RefusedError for numbers that are not finite or absurdly long.
    """
    if len(text) > MAX_TEXT:
        raise RefusedError(f"a value of {len(text)} characters (limit {MAX_TEXT})")
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        raise RefusedError(f"{text} is not a finite number")
    if _WHOLE.fullmatch(text):
        return _whole(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise RefusedError(f"{text[:40]} is too large for a number")
        return value
    return text


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise RefusedError(f"a number of {len(text)} digits (limit {MAX_DIGITS})")
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def load_yaml_text(text: str, where: Where | str) -> tuple[dict[str, Any], Lines]:
    """Return (mapping, {path: line}) of a YAML text; ``where`` names it in messages. Raises ConfigError."""
    data, lines = read_yaml(text, where)
    return _mapping(data, where), lines


def load_json_text(text: str, where: Where | str) -> tuple[dict[str, Any], Lines]:
    """Return (mapping, {path: line}) of a JSON text; ``where`` names it in messages. Raises ConfigError."""
    _check_size(text, where)
    try:
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=scalar, parse_int=scalar
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{origin(where).name}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{origin(where).name}: nested deeper than {MAX_DEPTH} levels.") from error
    except ValueError as error:
        _json_lines(text, where)  # the YAML reader refuses the same things, and knows where they are
        raise ConfigError(f"{origin(where).name}: {error}.") from error
    _check_limits(data, where)
    try:
        lines = _json_lines(text, where)
    except ConfigError:  # JSON that is not YAML: its values are good, its lines unknown
        lines = {}
    return _mapping(data, where), lines


def read_yaml(text: str, where: Where | str) -> tuple[Any, Lines]:
    """Return (data, {path: line}) of a YAML text with one document of any kind. Raises ConfigError."""
    _check_size(text, where)
    builder = _Builder(origin(where).name)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{builder.name}: not valid YAML{place}: {error.problem or error.context}.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{builder.name}: not valid YAML: {str(error).splitlines()[0]}.") from error
    except (ValueError, RecursionError) as error:  # characters that cannot be encoded, such as half of a surrogate pair
        raise ConfigError(f"{builder.name}: not valid YAML: {str(error)[:200]}.") from error
    return builder.data, builder.lines


@dataclass
class _Open:
    """A mapping or list whose end has not come, and the key of a mapping that has no value yet."""

    container: dict[str, Any] | list[Any]
    path: Path
    key: str | None = None


class _Builder:
    """Builds plain data from YAML's parse events, so that nothing is constructed before it was looked at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: Any = None
        self.lines: Lines = {}
        self._stack: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Add one event of ``yaml.parse``."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._refuse(event, "a second document; one file holds one mapping")
            if event.version or event.tags:
                self._refuse(event, "directives (%…) are not allowed")
        elif isinstance(event, yaml.AliasEvent):
            self._refuse(event, f"aliases (*{event.anchor}) are not allowed; write the value out")
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            self._node(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._stack.pop()

    def _node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor:
            self._refuse(event, f"anchors (&{event.anchor}) are not allowed; write the value out where it is needed")
        if event.tag and not (isinstance(event, yaml.ScalarEvent) and event.tag in TAGS):
            self._refuse(event, f"tags ({event.tag[:60]}) are not allowed; only plain data is read")
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(event, f"more than {MAX_NODES} values")
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
            return
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        container: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Open(container, self._place(event, container)))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        try:
            value = (
                _of_tag(event.tag, event.value)
                if event.tag
                else scalar(event.value)
                if event.implicit[0]
                else event.value
            )
        except ValueError as error:
            self._refuse(event, str(error))
        if isinstance(value, str) and len(value) > MAX_TEXT:
            self._refuse(event, f"a value of {len(value)} characters (limit {MAX_TEXT})")
        self._place(event, value)

    def _place(self, event: yaml.NodeEvent, value: Any) -> Path:
        """Put a value where it belongs, or keep it as the key of the next one; return its path."""
        if not self._stack:
            self.data = value
            return ()
        inside = self._stack[-1]
        if isinstance(inside.container, list):
            inside.container.append(value)
            path = (*inside.path, len(inside.container) - 1)
            self.lines[path] = event.start_mark.line + 1
            return path
        if inside.key is None:
            self._keep_key(event, inside, inside.container, value)
            return inside.path
        path = (*inside.path, inside.key)
        inside.container[inside.key] = value
        inside.key = None
        return path

    def _keep_key(self, event: yaml.NodeEvent, inside: _Open, container: dict[str, Any], key: Any) -> None:
        if not isinstance(key, str):
            shown = "a list or mapping" if isinstance(key, (list, dict)) else json.dumps(key)
            self._refuse(event, f"{shown} is used as a key; keys are strings (put it in quotes if it is meant)")
        if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            self._refuse(event, "merge keys (<<) are not allowed; write the keys out")
        path = (*inside.path, key)
        if key in container:
            self._refuse(event, f"the key {key[:60]!r} is given twice, first in line {self.lines[path]}")
        self.lines[path] = event.start_mark.line + 1
        inside.key = key

    def _refuse(self, event: yaml.Event, text: str) -> NoReturn:
        mark = event.start_mark
        raise ConfigError(f"{self.name}: line {mark.line + 1}, column {mark.column + 1}: {text}.")


def _of_tag(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with one of TAGS; only what is written so already. Raises ValueError."""
    kind, value = TAGS[tag], scalar(text)
    if kind is str:
        return text
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise RefusedError(f"{text[:40]!r} is no {tag.rpartition(':')[2]}")
    return value


def _check_size(text: str, where: Where | str) -> None:
    size = len(text)  # characters; bytes are counted where a file is read
    if size > MAX_BYTES:
        raise ConfigError(f"{origin(where).name}: {size:,} characters (limit {MAX_BYTES:,}).")


def _mapping(data: Any, where: Where | str) -> dict[str, Any]:
    if isinstance(data, dict):
        return data
    if data is None:
        raise ConfigError(f"{origin(where).name}: empty; a mapping of keys to values is needed.")
    kind = "a list" if isinstance(data, list) else json.dumps(data)[:60]
    raise ConfigError(f"{origin(where).name}: {kind} where a mapping of keys to values is needed.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RefusedError(f"the key {name[:60]!r} is given twice")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise RefusedError(f"{name} is not a finite number")


def _check_limits(data: Any, where: Where | str) -> None:
    """Refuse too many values, too deep ones and too long strings; without recursion."""
    name = origin(where).name
    nodes = 0
    waiting = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        nodes += 1
        children = ()
        if isinstance(value, dict):
            nodes += len(value)
            children = value.values()
        elif isinstance(value, list):
            children = value
        elif isinstance(value, str) and len(value) > MAX_TEXT:
            raise ConfigError(f"{name}: a value of {len(value)} characters (limit {MAX_TEXT}).")
        if children and depth > MAX_DEPTH:
            raise ConfigError(f"{name}: nested deeper than {MAX_DEPTH} levels.")
        if nodes > MAX_NODES:
            raise ConfigError(f"{name}: more than {MAX_NODES} values.")
        waiting.extend((child, depth + 1) for child in children)


def _json_lines(text: str, where: Where | str) -> Lines:
    """Return the lines of a JSON text, nearly all of which is YAML too. Raises ConfigError where it is not."""
    return read_yaml(text.replace("\t", " "), where)[1]
