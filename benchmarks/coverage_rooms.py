"""Line and branch coverage of the tests by room (subpackage of ``drl_cli``), as a table.

    coverage run -m pytest -n 2 --dist loadgroup --no-loadscope-reorder   # or any part of the tests; parts add up
    python benchmarks/coverage_rooms.py

Joins the data files that ``coverage run`` has left in this folder, those of xdist's processes and of started commands too.
"""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

COUNTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def measured() -> dict[str, dict[str, int]]:
    """Return {file: counts} of all data of ``coverage run`` here; ends with coverage's own message where there is none."""
    command = [sys.executable, "-m", "coverage"]
    if list(Path().glob(".coverage.*")) and subprocess.call([*command, "combine", "-q", "--append"]):
        sys.exit(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        if subprocess.call([*command, "json", "-q", "-o", str(path)]):
            sys.exit(1)
        return {name: of_file["summary"] for name, of_file in json.loads(path.read_text())["files"].items()}


def by_room(files: dict[str, dict[str, int]]) -> dict[str, list[int]]:
    """Return {room: the sums of COUNTS}; modules that are in no room count as ``drl_cli``."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for name, counts in files.items():
        inside = Path(name).parts[Path(name).parts.index("drl_cli") + 1 :]
        room = inside[0] if len(inside) > 1 else "drl_cli"
        rooms[room] = [total + counts[key] for total, key in zip(rooms[room], COUNTS, strict=True)]
    return rooms


def row(name: str, counts: list[int]) -> str:
    """Return a line of the table."""
    lines, statements, taken, branches = counts
    shares = (
        f"{100 * part / whole:6.1f} %" if whole else "       -"
        for part, whole in ((lines, statements), (taken, branches))
    )
    return f"{name:14} {statements:6} lines {next(shares)}   {branches:6} branches {next(shares)}"


if __name__ == "__main__":
    rooms = by_room(measured())
    for room in sorted(rooms, key=lambda name: rooms[name][0] / max(rooms[name][1], 1)):
        print(row(room, rooms[room]))
    print(row("all", [sum(column) for column in zip(*rooms.values(), strict=True)]))
