"""Strict reading of YAML and JSON: from text to plain data, with the line of every key.

Used by ``experiment`` for files and flags. YAML is read as 1.2 core (``1e-4`` is a number, ``on`` a string, ``010``
ten) and only the part of it that is plain data: no anchors, aliases, merge keys, dates, directives, several documents,
nor tags but those of plain scalars (``!!float``). Limits keep a hostile file from costing time or memory. Every refusal is
a ConfigError with line and column.

Source: YAML 1.2.2 §10.3.2 (core schema). Deviation: infinities and NaN are refused, keys must be text.
"""

import json

import yaml

from drl_cli.config.where import origin
from drl_cli.config.yaml_scalars import MAX_TEXT, RefusedError, scalar
from drl_cli.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_NODES = 10_000
MAX_DEPTH = 32

TAGS = {f"tag:yaml.org,2002:{kind.__name__}": kind for kind in (float, int, bool, str)}
"""Tags of plain scalars (``!!float 1e5``), as rl-baselines3-zoo writes them."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml_text(text, where):
    """Return (mapping, {path: line}) of a YAML text; ``where`` names it in messages. Raises ConfigError."""
    data, lines = read_yaml(text, where)
    return _mapping(data, where), lines


def load_json_text(text, where):
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
    except ConfigError:  # a text that is JSON but not YAML; its values are good, its lines unknown
        lines = {}
    return _mapping(data, where), lines


def read_yaml(text, where):
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


class _Builder:
    """Builds plain data from YAML's parse events, so that nothing is constructed before it was looked at."""

    def __init__(self, name):
        self.name = name
        self.data = None
        self.lines = {}
        self._stack = []  # of [container, path, pending key or None, line of pending key]
        self._nodes = 0
        self._documents = 0

    def take(self, event):
        """Add one event of ``yaml.parse``."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._refuse(event, "a second document; one file holds one mapping")
            if event.version or event.tags:
                self._refuse(event, "directives (%…) are not allowed")
        elif isinstance(event, yaml.AliasEvent):
            self._refuse(event, f"aliases (*{event.anchor}) are not allowed; write the value out")
        elif isinstance(event, yaml.NodeEvent):
            self._node(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._stack.pop()

    def _node(self, event):
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
        container = {} if isinstance(event, yaml.MappingStartEvent) else []
        path = self._place(event, container)
        self._stack.append([container, path, None])

    def _scalar(self, event):
        try:
            value = _of_tag(event) if event.tag else scalar(event.value) if event.implicit[0] else event.value
        except ValueError as error:
            self._refuse(event, str(error))
        if isinstance(value, str) and len(value) > MAX_TEXT:
            self._refuse(event, f"a value of {len(value)} characters (limit {MAX_TEXT})")
        self._place(event, value)

    def _place(self, event, value):
        """Put a value where it belongs, or keep it as the key of the next one; return its path."""
        if not self._stack:
            self.data = value
            return ()
        container, path, pending = self._stack[-1]
        if isinstance(container, list):
            container.append(value)
            path = (*path, len(container) - 1)
        elif pending is None:
            self._keep_key(event, container, value)
            return path
        else:
            container[pending] = value
            self._stack[-1][2] = None
            return (*path, pending)
        self.lines[path] = event.start_mark.line + 1
        return path

    def _keep_key(self, event, container, key):
        if not isinstance(key, str):
            shown = "a list or mapping" if isinstance(key, (list, dict)) else json.dumps(key)
            self._refuse(event, f"{shown} is used as a key; keys are text (put it in quotes if it is meant)")
        if key == "<<" and event.implicit[0]:
            self._refuse(event, "merge keys (<<) are not allowed; write the keys out")
        path = (*self._stack[-1][1], key)
        if key in container:
            self._refuse(event, f"the key {key[:60]!r} is given twice, first in line {self.lines[path]}")
        self.lines[path] = event.start_mark.line + 1
        self._stack[-1][2] = key

    def _refuse(self, event, text):
        mark = event.start_mark
        raise ConfigError(f"{self.name}: line {mark.line + 1}, column {mark.column + 1}: {text}.")


def _of_tag(event):
    """Return the value of a scalar with one of TAGS; only what is written so already. Raises ValueError."""
    kind, value = TAGS[event.tag], scalar(event.value)
    if kind is str:
        return event.value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise RefusedError(f"{event.value[:40]!r} is no {event.tag.rpartition(':')[2]}")
    return value


def _check_size(text, where):
    size = len(text)  # characters; bytes are counted where a file is read
    if size > MAX_BYTES:
        raise ConfigError(f"{origin(where).name}: {size:,} characters (limit {MAX_BYTES:,}).")


def _mapping(data, where):
    if isinstance(data, dict):
        return data
    if data is None:
        raise ConfigError(f"{origin(where).name}: empty; a mapping of keys to values is needed.")
    kind = "a list" if isinstance(data, list) else json.dumps(data)[:60]
    raise ConfigError(f"{origin(where).name}: {kind} where a mapping of keys to values is needed.")


def _unique(pairs):
    found = {}
    for name, value in pairs:
        if name in found:
            raise RefusedError(f"the key {name[:60]!r} is given twice")
        found[name] = value
    return found


def _no_constant(name):
    raise RefusedError(f"{name} is not a finite number")


def _check_limits(data, where):
    """Refuse too many values, too deep ones and too long texts; without recursion."""
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


def _json_lines(text, where):
    """Return the lines of a JSON text, nearly all of which is YAML too. Raises ConfigError where it is not."""
    return read_yaml(text.replace("\t", " "), where)[1]
