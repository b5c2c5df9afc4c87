"""The record of a search, copied beside the runs of its trials in ``storage_path``, so that the search goes on elsewhere.

User: ``search.run_search``. Each trial copies its own run; the process of the search copies the record: before the first trial,
when a trial changes its state or gets a folder, and at the end. ``runs.search_download`` reads it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drl_cli.config import storage_uri
from drl_cli.runs import storage
from drl_cli.runs.run_upload import Uploads
from drl_cli.runs.storage import Storage
from drl_cli.search.search_record import Record


class RecordUpload:
    """The file of a record and its copy."""

    def __init__(self, path: Path, storage_path: str, open_storage: Callable[[str], Storage] = storage.opened) -> None:
        """``path``: of the record; ``storage_path``: the URI below which the runs are."""
        self.folder = path
        self.uri = storage_uri.below(storage_path, path.parent.name, path.name)
        self._open_storage, self._storage = open_storage, None
        self._sent = (0, 0)  # size and mtime in ns of what was sent

    @property
    def moved(self) -> int:
        """How many bytes were sent so far."""
        return self._storage.moved if self._storage else 0

    def copy(self) -> None:
        """Send the record if it has changed. Raises StorageError, OSError."""
        found = self.folder.stat()
        mark = found.st_size, found.st_mtime_ns
        if mark != self._sent:
            self._storage = self._storage or self._open_storage(storage_uri.split(self.uri)[0])
            self._storage.write(self.folder.read_bytes(), self.folder.name)
            self._sent = mark


class Changes:
    """Whether an event changes what a resumed search needs to know of a trial: its state, and the folder of its run."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, kind: str, fields: dict[str, Any]) -> bool:
        """Return whether the event ``kind`` with ``fields`` asks for a copy."""
        if kind != "trial":
            return False
        now = fields.get("state"), fields.get("run_folder")
        before = self._known.get(fields["trial"])
        self._known[fields["trial"]] = now
        return now != before


def begun(record: Record, open_storage: Callable[[str], Storage] = storage.opened) -> Uploads | None:
    """Copy a record for the first time and return what goes on with it; None for a search without a storage.

    Raises StorageError where the storage cannot be written.
    """
    path = record.data["experiments"][0]["mapping"].get("storage_path")
    if not path:
        return None
    upload = RecordUpload(record.path, storage_uri.checked(path), open_storage)
    if upload.uri == storage_uri.checked(str(record.path)):
        return None  # the runs refuse it, with what to do
    upload.copy()
    again = f"drl train --resume {shlex.quote(str(record.path))}"
    return Uploads(upload, lambda: f"To copy what is missing: {again}", Changes(), ("search", "change of a trial"))
