"""A replay on another node than the run's: the same replay, whose file for a checkpoint is read in blocks.

Placed by ``custom_resources_for_replay`` or ``memory_for_replay`` (``runtime.placement``); ``runtime.replay_shards`` reads the
file, which this part writes to a temporary folder of its own node. Neither process holds a second copy of the contents.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from drl_cli.extras import load


class ReplayElsewhere:
    """Has the methods of the replay that it holds, except that ``save`` becomes ``save_apart``, ``read`` and ``end_save``."""

    def __init__(self, kind: str, *args: Any) -> None:
        """``kind``: the replay's class, "module:Class"; ``args``: its own."""
        self._replay = load(kind)(*args)
        self._folder: Path | None = None

    def __getattr__(self, name: str) -> Any:
        """Return a method of the replay."""
        return getattr(self._replay, name)

    def save_apart(self, compress: bool) -> tuple[str, int, dict[str, Any]]:
        """Write the replay's file on this node; returns (its name, its size in bytes, what ``save`` returns)."""
        self.end_save()
        self._folder = Path(tempfile.mkdtemp(prefix="drl-replay-"))
        facts = self._replay.save(self._folder, compress)
        (name,) = os.listdir(self._folder)
        return name, (self._folder / name).stat().st_size, facts

    def read(self, name: str, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes of the file from byte ``offset`` on."""
        if self._folder is None:
            raise ValueError("nothing was saved")
        with open(self._folder / name, "rb") as file:
            file.seek(offset)
            return file.read(count)

    def end_save(self) -> None:
        """Remove the file."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
