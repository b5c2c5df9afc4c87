"""``Where``: which file and line, or which flag, a key came from; messages name it.

Made by ``config.strict_yaml`` and ``experiment``, read by ``config.parse``.
"""


class Where:
    """The origin of a mapping's keys: a name (``"tuned.yaml"``, ``"--config"``), and the line of each known path."""

    def __init__(self, name, lines=None, overlay=None):
        """``lines``: path (a tuple of keys and list positions) → line number; ``overlay``: path → another name."""
        self.name = name
        self._lines = lines or {}
        self._overlay = overlay or {}

    def place(self, path=()):
        """Return ``"tuned.yaml:12"`` or ``"--config"`` for a path; without a line, that of its nearest parent."""
        path = tuple(path)
        for length in range(len(path), -1, -1):
            part = path[:length]
            if part in self._overlay:
                return self._overlay[part]
            if part in self._lines:
                return f"{self.name}:{self._lines[part]}"
        return self.name

    def inside(self, *path):
        """Return the origin of the mapping that is found under ``path``."""
        size = len(path)
        lines = {key[size:]: line for key, line in self._lines.items() if key[:size] == path}
        overlay = {key[size:]: name for key, name in self._overlay.items() if key[:size] == path}
        return Where(self.name, lines, overlay)

    def over(self, names):
        """Return a copy in which the paths of ``names`` (path → name) came from elsewhere."""
        return Where(self.name, self._lines, {**self._overlay, **names})


def origin(where):
    """Return ``where`` as a Where; a string is the name of an origin without lines."""
    return where if isinstance(where, Where) else Where(str(where))
