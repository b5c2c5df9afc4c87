"""The films of training that a run has made since the last look. Users: ``tensorboard_events`` and ``to_wandb``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class NewFilms:
    """Films of ``record_env`` in the order in which they were finished; those that are there at first are not new."""

    def __init__(self, run_folder: Path | str, facts: Mapping[str, Any] | None) -> None:
        """``facts``: what params.json holds, or None."""
        wish = ((facts or {}).get("config") or {}).get("record_env")
        self._folder = None
        if wish:
            self._folder = Path(wish).expanduser() if isinstance(wish, str) else Path(run_folder, "videos")
        self._seen = set(self._paths())

    def __call__(self) -> list[Path]:
        """Return the paths of the films that were not there at the last call."""
        found = [path for path in self._paths() if path not in self._seen]
        self._seen.update(found)
        return found

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("episode-*.mp4")) if self._folder else []
