"""Tables and hanging paragraphs of plain text, fitted to a width; no library, so that ``drl doctor`` can use them too.

Used by the commands that list things. Pure functions: rows in, lines out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drl_cli.checks.findings import Finding

GAP = 2  # blanks between columns
FINDING_TONES = {"ok": "green", "note": None, "warn": "yellow", "fail": "red"}
MIN_LAST = 24  # columns that the last, wrapped column keeps when the table is wider than the screen


def grid(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    width: int,
    right: Container[int] = (),
    color: bool = False,
) -> list[str]:
    """Return the lines of a table: columns as wide as needed, the last one wrapped into what is left of ``width``.

    A first cell longer than half of the width has a line of its own, the rest of its row stands below.
    ``right``: numbers of the columns that are set flush right. ``color``: bold headings.
    """
    shown = [[str(cell) for cell in row] for row in rows]
    half = max(width // 2, len(headings[0]))
    sizes = [max([len(heading), *(len(row[i]) for row in shown)]) for i, heading in enumerate(headings)]
    sizes[0] = max([len(headings[0]), *(len(row[0]) for row in shown if len(row[0]) <= half)])
    before = sum(sizes[:-1]) + GAP * (len(sizes) - 1)
    room = max(min(sizes[-1], MIN_LAST), width - before)
    lines = []
    for number, row in enumerate([list(headings), *shown]):
        if len(row[0]) > sizes[0]:
            lines.append(row[0])
            row = ["", *row[1:]]
        wrapped = [row[-1]] if len(row[-1]) <= room else textwrap.wrap(row[-1], room, break_on_hyphens=False) or [""]
        for depth, last in enumerate(wrapped):
            cells = [*(row[:-1] if depth == 0 else [""] * (len(row) - 1)), last]
            padded = [_set(cell, sizes[i], i in right, i == len(cells) - 1, room) for i, cell in enumerate(cells)]
            line = (" " * GAP).join(padded).rstrip()
            lines.append(click.style(line, bold=True) if color and number == 0 else line)
    return lines


def _set(cell: str, size: int, is_right: bool, is_last: bool, room: int) -> str:
    if is_last:
        return cell.rjust(min(size, room)) if is_right else cell
    return cell.rjust(size) if is_right else cell.ljust(size)


def paragraph(text: str, width: int, indent: int = 0, first: str | None = None) -> list[str]:
    """Return the lines of ``text`` wrapped to ``width`` with ``indent`` leading blanks.

    ``first``: what stands in the first line instead of the blanks; "" for nothing at all.
    """
    blanks = " " * indent
    head = blanks if first is None else first.ljust(indent) if first else ""
    return textwrap.wrap(
        " ".join(text.split()),
        max(width, indent + MIN_LAST),
        initial_indent=head,
        subsequent_indent=blanks,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head.rstrip()]


def finding_lines(findings: Sequence[Finding], width: int, color: bool = False, quiet: bool = False) -> list[str]:
    """Return the lines of Findings: state, subject, text, and below it the command that fixes it."""
    shown = [one for one in findings if not quiet or one.state in ("warn", "fail")]
    size = max((len(one.what) for one in shown), default=0) + 2
    lines = []
    for one in shown:
        state = f"{one.state:<6}"
        body = paragraph(one.text, width, 6 + size, state + one.what)
        if color and FINDING_TONES[one.state]:
            body[0] = click.style(state, fg=FINDING_TONES[one.state]) + body[0][6:]
        lines += body
        if one.mend:
            lines.append(" " * (6 + size) + f"$ {one.mend}")  # never wrapped: it is to be pasted
    return lines
