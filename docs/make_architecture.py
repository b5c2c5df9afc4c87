"""Draws the rooms of ``drl_cli`` from its imports, and lists what each is for, from the docstrings of the rooms.

    python docs/make_architecture.py FOLDER

Writes ``rooms.svg`` and ``rooms.rst``, which ``docs/architecture.rst`` shows; ``docs/conf.py`` calls ``write`` before each
build. ``tests/test_architecture.py`` reads ``FLOORS`` from here. Of the package nothing is imported but its place.
"""

import ast
import html
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import drl_cli

PACKAGE = Path(drl_cli.__file__).resolve().parent
# A module imports from lower floors, from its own room, and from rooms that stand before its own on its floor.
FLOORS = {
    "ground": "errors events process stop_request version plugins extras node_memory randomness schedules confidence "
    "contracts config",
    "subjects": "tf1 envs policies experience evolution algorithms checkpoints",
    "execution": "runs actors runtime experiments search",
    "faces": "analysis export checks api cli",
}
PARTS = ("Belongs here", "Not here", "Read first")
WIDTH, BOX, GAP, FLOOR, LEFT = 1060, 46, 14, 128, 96
COLOURS = ("#7a869a", "#2f7ebc", "#2a9d6f", "#b5651d")


class Room(NamedTuple):
    """A folder of the package, or a file at its top, with what its docstring says."""

    name: str
    floor: int
    about: str
    parts: dict[str, str]  # "Belongs here", "Not here", "Read first"; empty for a file
    files: int
    lines: int


def room(name: str, floor: int) -> Room:
    """Return what the source says of a room.

    Raises ValueError where the docstring of a folder lacks one of ``PARTS``.
    """
    folder = PACKAGE / name
    sources = sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{name}.py"]
    header = folder / "__init__.py" if folder.is_dir() else sources[0]
    text = ast.get_docstring(ast.parse(header.read_text(encoding="utf-8"))) or ""
    about, *paragraphs = [re.sub(r"\s+", " ", paragraph) for paragraph in text.split("\n\n")]
    parts = {part: p.removeprefix(f"{part}: ") for p in paragraphs for part in PARTS if p.startswith(f"{part}: ")}
    if folder.is_dir() and len(parts) != len(PARTS):
        raise ValueError(f"{header}: the docstring must have the paragraphs {', '.join(PARTS)}")
    lines = sum(source.read_text(encoding="utf-8").count("\n") for source in sources)
    return Room(name, floor, about, parts, sum(source.name != "__init__.py" for source in sources), lines)


def rooms() -> list[Room]:
    """Return all rooms, ground first."""
    return [room(name, floor) for floor, names in enumerate(FLOORS.values()) for name in names.split()]


def arrows() -> Counter[tuple[str, str]]:
    """Return how many imports lead from each room to each other one, imports inside functions included."""
    found: Counter[tuple[str, str]] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drl_cli":
                modules = [node.module] if "." in str(node.module) else [f"drl_cli.{a.name}" for a in node.names]
                for module in modules:
                    target = str(module).split(".")[1]
                    if target != parts[0] and not parts[0].startswith("__"):
                        found[parts[0], target] += 1
    return found


def svg() -> str:
    """Return the drawing: a row of boxes for each floor, the ground at the bottom, an arrow from a room to what it imports."""
    names, known = [(floor, inside.split()) for floor, inside in FLOORS.items()], {r.name: r for r in rooms()}
    height = FLOOR * len(names) - 36
    at: dict[str, tuple[float, float, float]] = {}
    boxes: list[str] = []
    for number, (floor, inside) in enumerate(names):
        y = height - FLOOR * (number + 1) + 66
        width = (WIDTH - LEFT - GAP * len(inside)) / len(inside)
        boxes.append(f'<text x="6" y="{y + BOX / 2 + 4:.0f}" class="floor">{html.escape(floor)}</text>')
        for place, name in enumerate(inside):
            x = LEFT + place * (width + GAP)
            at[name] = (x + width / 2, y, y + BOX)
            one, size = known[name], 11 if width > 80 else 9
            boxes.append(
                f"<g><title>{html.escape(f'{name}: {one.about}')}</title>"
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BOX}" rx="5" fill="{COLOURS[number]}"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + 20}" class="room" font-size="{size}">{name}</text>'
                f'<text x="{x + width / 2:.1f}" y="{y + 36}" class="size">{one.lines:,}</text></g>'
            )
    lines = []
    for (start, end), count in sorted(arrows().items()):
        if start in at and end in at and known[start].floor > known[end].floor:
            (x0, _, bottom), (x1, top, _) = at[start], at[end]
            bend = (top - bottom) / 2
            lines.append(
                f'<path d="M{x0:.1f},{bottom} C{x0:.1f},{bottom + bend:.0f} {x1:.1f},{top - bend:.0f} {x1:.1f},{top}" '
                f'stroke="{COLOURS[known[start].floor]}" stroke-width="{min(4.0, 0.5 + count / 14):.1f}">'
                f"<title>{start} imports {end}: {count} times</title></path>"
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
        "<style>.floor{font-size:12px;fill:#888;font-weight:bold}.room{fill:#fff;text-anchor:middle;font-weight:bold}"
        ".size{fill:#fff;font-size:9px;text-anchor:middle;opacity:.85}path{fill:none;opacity:.33}path:hover{opacity:1}"
        f"</style>{''.join(lines)}{''.join(boxes)}</svg>\n"
    )


def rst() -> str:
    """Return one table of all folders: what belongs there, what does not, and the file to read first."""
    lines = [".. list-table::", "    :header-rows: 1", "    :widths: 12 40 34 14", ""]
    for cells in [("room", *(part.lower() for part in PARTS)), *_cells()]:
        lines += [f"    {'*' if place == 0 else ' '} - {cell}" for place, cell in enumerate(cells)]
    return "\n".join([*lines, ""])


def _cells() -> list[tuple[str, ...]]:
    return [(f"``{r.name}/``", *(r.parts[part] for part in PARTS)) for r in reversed(rooms()) if r.parts]


def write(folder: Path | str) -> None:
    """Write ``rooms.svg`` and ``rooms.rst`` into ``folder``, which is made."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / "rooms.svg").write_text(svg(), encoding="utf-8")
    (place / "rooms.rst").write_text(rst(), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
