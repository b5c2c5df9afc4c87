"""Where the keys of a config came from, for messages and records; and mappings laid over one another that keep track of it.

A ``Where`` is made where a file or a flag is read (``config.assignments``, ``experiments``); ``config.parse`` reads it. In
``Layers`` a later layer wins key by key (sections are merged), and a notice says what it replaced.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from drl_cli.config.plain_data import copied
from drl_cli.errors import shown

Path: TypeAlias = tuple[Any, ...]
"""Keys and list positions that lead to a value."""


class Where:
    """The origin of a mapping's keys: a name (``"tuned.yaml"``, ``"--config"``), and the line of each known path."""

    def __init__(
        self,
        name: str,
        lines: Mapping[Path, int] | None = None,
        overlay: Mapping[Path, str] | None = None,
        renamed: Mapping[Path, Path] | None = None,
    ) -> None:
        """``overlay``: path → another name; ``renamed``: path → the path under which it was read."""
        self.name = name
        self._lines = lines or {}
        self._overlay = overlay or {}
        self._renamed = renamed or {}

    def place(self, path: Path = ()) -> str:
        """Return ``"tuned.yaml:12"`` or ``"--config"`` for a path; without a line, that of its nearest parent.

        With ``", as sample_batch_size"`` at the end where the key was written in another spelling.
        """
        path = tuple(path)
        for length in range(len(path), 0, -1):
            if path[:length] in self._renamed:
                old = self._renamed[path[:length]]
                return f"{self._place_as_read(old + path[length:])}, as {'.'.join(old)}"
        return self._place_as_read(path)

    def _place_as_read(self, path: Path) -> str:
        for length in range(len(path), -1, -1):
            part = path[:length]
            if part in self._overlay:
                return self._overlay[part]
            if part in self._lines:
                return f"{self.name}:{self._lines[part]}"
        return self.name

    def inside(self, *path: Any) -> "Where":
        """Return the origin of the mapping that is found under ``path``."""
        size = len(path)
        whole = self._place_as_read(path)  # where it stands as a part of what was given
        lines = {key[size:]: line for key, line in self._lines.items() if key[:size] == path}
        overlay = {key[size:]: name for key, name in self._overlay.items() if key[:size] == path}
        return Where(self.name, lines, overlay if () in lines else {(): whole, **overlay})

    def over(self, names: Mapping[Path, str]) -> "Where":
        """Return a copy in which the paths of ``names`` (path → name) came from elsewhere."""
        return Where(self.name, self._lines, {**self._overlay, **names})

    def renaming(self, renamed: Mapping[Path, Path]) -> "Where":
        """Return a copy for a mapping in which some paths were renamed: new path → path as it was read."""
        return Where(self.name, self._lines, self._overlay, renamed)


def origin(where: Where | str) -> Where:
    """Return ``where`` as a Where; a string is the name of an origin without lines."""
    return where if isinstance(where, Where) else Where(str(where))


class Layers:
    """A mapping that grows by layers, the origin of its keys, and a notice for each value that was replaced."""

    def __init__(self, mapping: Mapping[str, Any], where: Where) -> None:
        """Start with ``mapping``, whose keys come from ``where``."""
        self.data: dict[str, Any] = copied(mapping)
        self.where = where
        self.notices: list[str] = []

    def add(self, mapping: Mapping[str, Any], where: Where, path: Path = ()) -> None:
        """Lay ``mapping`` over the section at ``path``, its keys from ``where`` (whose paths start there)."""
        for name, value in mapping.items():
            self.set((*path, name), value, where.inside(name))

    def set(self, path: Path, value: Any, where: Where) -> None:
        """Set the value at ``path``; sections on the way are made where they are missing."""
        parent = self.data
        for depth, name in enumerate(path[:-1], 1):
            if not isinstance(parent.get(name), dict):
                self._replaced(path[:depth], parent, {}, where)
                parent[name] = {}
            parent = parent[name]
        name = path[-1]
        if isinstance(value, dict) and isinstance(parent.get(name), dict) and value:
            self.add(value, where, path)
            return
        self._replaced(path, parent, value, where)
        parent[name] = copied(value)
        self.where = self.where.over({path: where.place()})

    def replace(self, name: str, value: Any, where: Where) -> None:
        """Replace the whole value of a top-level key, sections too; its keys come from ``where``."""
        self._replaced((name,), self.data, value, where)
        self.data[name] = copied(value)
        inner = {(name, key): where.place((key,)) for key in value} if isinstance(value, dict) else {}
        self.where = self.where.over({(name,): where.place(), **inner})

    def _replaced(self, path: Path, parent: Mapping[str, Any], value: Any, where: Where) -> None:
        name = path[-1]
        if name in parent and parent[name] != value:
            old = f"{shown(parent[name])} ({self.where.place(path)})"
            self.notices.append(f"{'.'.join(path)}: {shown(value)} ({where.place()}) replaces {old}.")
