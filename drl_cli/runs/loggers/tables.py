"""The two text files of a run that grow by a line an iteration, and how they are cut back to a checkpoint.

Users: ``runs.loggers.run_logger``, ``experiments``. Both keep rows that could not be written (disk full) and write them before
the next one, so that a curve has no gap; both are cut back when a run is resumed, so that its curves join.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drl_cli.checkpoints import replace_file
from drl_cli.config.result_names import NUMBER_FIELDS, flatten
from drl_cli.runs.run_folder import open_record, whole_lines

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


_NUMBERS: dict[tuple[str, ...], list[str]] = {}  # of the fields that are numbers: {their place in a row: their names}
for _field in NUMBER_FIELDS:
    *_place, _name = _field.split("/")
    _NUMBERS.setdefault(tuple(_place), []).append(_name)


def read_rows(run_folder: Path | str) -> list[dict[str, Any]]:
    """Return the rows of ``result.json`` (dicts); torn or malformed lines are left out, no file is no rows."""
    rows = map(_row, whole_lines(Path(run_folder) / "result.json"))
    return [row for row in rows if row is not None]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line, parse_constant=lambda _: None)
    except ValueError:
        return None
    return row if is_row(row) else None


def is_row(row: Any) -> bool:
    """Whether ``row`` is one of result.json: an object whose number fields are numbers or null, with its iteration."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("training_iteration"), int)
        and all(_holds_numbers(_at(row, place), names) for place, names in _NUMBERS.items())
    )


def _at(row: Any, place: tuple[str, ...]) -> Any:
    """The value at ``place`` (keys from the outside in), {} where there is none."""
    for name in place:
        row = row.get(name) if isinstance(row, dict) else row
        if row is None:
            return {}
    return row


def _holds_numbers(holder: Any, names: Iterable[str]) -> bool:
    return isinstance(holder, dict) and all(
        value is None or type(value) is float or (type(value) is int and abs(value) < 2**63)
        for value in map(holder.get, names)
    )


def join(run_folder: Path | str, iteration: int) -> dict[str, Any] | None:
    """Cut rows beyond ``iteration`` and torn lines from result.json and progress.csv; the old file stays as ``.bak``.

    Returns the last row that is left (a dict) or None. Raises OSError.
    """
    folder = Path(run_folder)
    rows = [row for row in read_rows(folder) if row["training_iteration"] <= iteration]
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    _replace(folder / "result.json", text.encode("ascii"))
    _replace(folder / "progress.csv", _cut_csv(folder / "progress.csv", iteration))
    return rows[-1] if rows else None


def _cut_csv(path: Path, iteration: int) -> bytes:
    if not path.exists():
        return b""
    with open_record(path) as file:
        text = file.read().decode("utf-8", "replace")
    lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))
    if not lines or "training_iteration" not in lines[0]:
        return b""
    column = lines[0].index("training_iteration")
    kept = [row for row in lines[1:] if len(row) == len(lines[0]) and row[column].isdecimal()]
    kept = [row for row in kept if int(row[column]) <= iteration]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([lines[0], *kept] if kept else [])
    return out.getvalue().encode("utf-8")


def _replace(path: Path, data: bytes) -> None:
    if not path.exists() or path.read_bytes() == data:
        return
    # A copy, not a rename: at every moment there is a file under the real name.
    shutil.copyfile(path, path.with_name(path.name + ".bak"))
    replace_file(path, data)
