"""The two text files of a run that grow by a line an iteration. User: ``runs.loggers.run_logger``.

Both keep rows that could not be written (disk full) and write them before the next one, so that a curve has no gap.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drl_cli.checkpoints import replace_file
from drl_cli.config.result_names import flatten

PENDING = 10_000  # rows kept while the disk is full; about 20 MB


def cell(value: Any) -> Any:
    """Return the content of one csv cell: empty for None, JSON for lists."""
    if value is None:
        return ""
    if isinstance(value, list):
        return json.dumps(value, allow_nan=False)
    return value


class _AppendedFile:
    """Bytes appended as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)

    def append(self, data: bytes) -> None:
        """Write ``data``; on an OSError the file is cut back to what it was."""
        before = os.fstat(self._fd).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, before)
            raise

    def close(self) -> None:
        os.close(self._fd)


class JsonLines:
    """``result.json``: one strict JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = _AppendedFile(path)
        self._pending = collections.deque(maxlen=PENDING)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row (nested plain data). Raises OSError; the row then goes out with the next one."""
        self._pending.append(json.dumps(row, allow_nan=False).encode("ascii") + b"\n")
        self._file.append(b"".join(self._pending))
        self._pending.clear()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ProgressCsv:
    """``progress.csv``: the rows flattened with "/"; a new column rewrites the file, old rows get empty cells."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending = collections.deque(maxlen=PENDING)
        self._columns = _read_header(path)
        self._file = _AppendedFile(path)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row (nested plain data). Raises OSError; the row then goes out with the next one."""
        self._pending.append(flatten(row))
        new = [name for flat in self._pending for name in flat if name not in self._columns]
        columns = self._columns + list(dict.fromkeys(new))
        lines = _csv_bytes([cell(flat.get(name)) for name in columns] for flat in self._pending)
        if new:
            self._rewrite(columns, lines)
        else:
            self._file.append(lines)
        self._pending.clear()

    def _rewrite(self, columns: list[str], lines: bytes) -> None:
        with open(self._path, newline="", encoding="utf-8") as file:
            old = list(csv.reader(file))[1:]
        added = [""] * (len(columns) - len(self._columns))
        replace_file(self._path, _csv_bytes([columns, *(row + added for row in old)]) + lines)
        self._file.close()
        self._file = _AppendedFile(self._path)
        self._columns = columns

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _read_header(path: Path) -> list[str]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def _csv_bytes(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")
