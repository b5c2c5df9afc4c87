"""Objects and assignments as they are typed after ``--config``, ``--stop`` and ``-s``, and the files they name.

Used by ``cli`` and ``experiments``. For shells and templates that eat braces, ``<"num_workers":4>`` is read as
``{"num_workers":4}``.
"""

import os
import re
import stat
from os import PathLike
from typing import Any

from drl_cli.config.origins import Where, origin
from drl_cli.config.strict_yaml import MAX_BYTES, Lines, load_json_text, load_yaml_text, read_yaml, scalar
from drl_cli.errors import ConfigError, reason_of, suggestion

_PLAIN_PAIR = re.compile(r"[A-Za-z_][\w./-]*:\S+")


def read_text(path: str | PathLike[str]) -> str:
    """Return the text of a regular UTF-8 file of at most 1 MB. Raises ConfigError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not hang the command
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file" if missing else reason_of(error)
        raise ConfigError(f"{path}: {why}.{_beside(path) if missing else ''}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ConfigError(f"{path}: not a regular file.")
    with open(handle, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES:,} bytes.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}).") from error


def _beside(path: str | PathLike[str]) -> str:
    """Return `` Did you mean …?`` for the file of the same folder that is called most alike."""
    folder, name = os.path.split(path)
    try:
        return suggestion(name, os.listdir(folder or "."))
    except OSError:
        return ""


def load_file(path: str | PathLike[str]) -> tuple[dict[str, Any], Where]:
    """Return (mapping, Where) of a YAML file, or of a JSON file if its name ends so. Raises ConfigError."""
    text = read_text(path)
    load = load_json_text if str(path).lower().endswith(".json") else load_yaml_text
    data, lines = load(text, str(path))
    return data, Where(str(path), lines)


def parse_object(text: str, where: Where | str) -> tuple[dict[str, Any], Where]:
    """Return (mapping, Where) of what was typed after a flag: a JSON or YAML object, ``<…>``, or ``@file``.

    ``where`` is the flag's name. Raises ConfigError that shows a form that works.
    """
    text = text.strip()
    name = origin(where).name
    if text.startswith("@"):
        return load_file(os.path.expanduser(text[1:]))
    if text.startswith("<") and text.endswith(">") and len(text) > 1:
        text = _braces(text)
    if not text.startswith("{"):
        raise ConfigError(
            f"{name}: {_short(text)} is not an object. Write {name} '{{\"key\": value}}' or {name} @file.yaml"
        )
    data, _ = _flow(text, name)
    for key, value in data.items():
        if value is None and _PLAIN_PAIR.fullmatch(key):
            raise ConfigError(
                f'{name}: {_short(text)} lost its quotes. Write {name} \'{{"{key.partition(":")[0]}": '
                f"{key.partition(':')[2]}}}', with single quotes around the whole."
            )
    return data, Where(name)


def _flow(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    try:
        return load_yaml_text(text, name)
    except ConfigError as error:
        try:  # what YAML refuses but JSON has: tabs between tokens, pairs of \u surrogates
            return load_json_text(text, name)
        except ConfigError:
            raise error from None


def parse_assignment(text: str, where: Where | str = "-s") -> tuple[tuple[str, ...], Any]:
    """Return (("a", "b"), value) of ``a.b=value``; the value is read as YAML. Raises ConfigError."""
    name, equals, value = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    flag = origin(where).name
    if not equals or not all(path):
        raise ConfigError(
            f"{flag}: {_short(text)} is not an assignment. Write {flag} key=value or {flag} section.key=value"
        )
    return path, _value(value.strip(), f"{flag} {name.strip()}")


def _value(text: str, where: str) -> Any:
    if not text:
        raise ConfigError(f"{where}: nothing after the '='. Write null for no value.")
    if text.startswith("<") and text.endswith(">") and len(text) > 1:
        text = _braces(text)
    if text[0] in "{[\"'":
        return read_yaml(text, where)[0]
    try:
        return scalar(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}.") from error


def _braces(text: str) -> str:
    """Turn ``<`` and ``>`` outside quotes into braces."""
    out = []
    quote = None
    before = ""  # the last character outside quotes that is not a blank
    skip = False
    for char in text:
        if skip:
            skip = False
        elif quote:
            skip = char == "\\" and quote == '"'
            quote = None if char == quote else quote
        elif char == '"' or (char == "'" and before in "<{[,:"):
            quote = char
        elif char in "<>":
            char = "{" if char == "<" else "}"
        if not quote and not char.isspace():
            before = char
        out.append(char)
    return "".join(out)


def _short(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "…"
    return repr(shown)
