"""Mappings laid over one another: a file, then flags; each value remembers where it came from.

Used by ``experiments.spec``. A later layer wins key by key (sections are merged); what it replaced is said.
"""

from drl_cli.config.key_description import shown


class Layers:
    """A mapping that grows by layers, the origin of its keys, and a notice for each value that was replaced."""

    def __init__(self, mapping, where):
        """Start with ``mapping``, whose keys come from ``where`` (a Where)."""
        self.data = _copy(mapping)
        self.where = where
        self.notices = []

    def add(self, mapping, where, path=()):
        """Lay ``mapping`` over the section at ``path``, its keys from ``where`` (a Where whose paths start there)."""
        for name, value in mapping.items():
            self.set((*path, name), value, where.inside(name))

    def set(self, path, value, where):
        """Set the value at ``path`` (a tuple of keys, made where missing)."""
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
        parent[name] = _copy(value)
        self.where = self.where.over({path: where.place()})

    def replace(self, name, value, where):
        """Replace the whole value of a top-level key, sections too; its keys come from ``where``."""
        self._replaced((name,), self.data, value, where)
        self.data[name] = _copy(value)
        inner = {(name, key): where.place((key,)) for key in value} if isinstance(value, dict) else {}
        self.where = self.where.over({(name,): where.place(), **inner})

    def _replaced(self, path, parent, value, where):
        name = path[-1]
        if name in parent and parent[name] != value:
            old = f"{shown(parent[name])} ({self.where.place(path)})"
            self.notices.append(f"{'.'.join(path)}: {shown(value)} ({where.place()}) replaces {old}.")


def _copy(value):
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
