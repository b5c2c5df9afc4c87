"""Cutting the tables of a run back to a checkpoint, so that a resumed run's curves join. Users: ``experiments``."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drl_cli.checkpoints import replace_file
from drl_cli.config.result_names import NUMBER_FIELDS

_NUMBERS: dict[tuple[str, ...], list[str]] = {}  # of the fields that are numbers: {their place in a row: their names}
for _field in NUMBER_FIELDS:
    *_place, _name = _field.split("/")
    _NUMBERS.setdefault(tuple(_place), []).append(_name)


def read_rows(run_folder: Path | str) -> list[dict[str, Any]]:
    """Return the rows of ``result.json`` (dicts); torn or malformed lines are left out, no file is no rows."""
    path = Path(run_folder) / "result.json"
    if not path.exists():
        return []
    rows = (_row(line) for line in path.read_bytes().split(b"\n")[:-1])  # what follows the last newline is torn
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
        value is None or type(value) in (int, float) for value in map(holder.get, names)
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
    text = path.read_bytes().decode("utf-8", "replace")
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
