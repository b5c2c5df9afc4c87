"""Tables that rich sets, as lines of plain text: for the commands whose columns are numbers.

Imports rich only where a table is made. Tables without rich, which wrap their last column, are ``cli.tables``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from drl_cli.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from drl_cli.cli.terminal import Session

UNLIMITED = 10_000  # columns of a table that is not cut


def grid(
    names: Sequence[str], left: Sequence[str] = (), folded: Sequence[str] = (), padding: tuple[int, int] = (0, 2)
) -> Table:
    """Return a Table without rules: bold headings, the columns in ``left`` set flush left and the others right.

    ``folded``: columns whose cells may take several lines. ``padding``: blanks before and after each cell.
    """
    from rich.table import Table

    before, after = padding
    made = Table(box=None, pad_edge=False, padding=(0, after, 0, before), header_style="bold")
    for name in names:
        is_folded = name in folded
        made.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=not is_folded,
            overflow="fold" if is_folded else "ellipsis",
        )
    return made


def ruled(names: Sequence[str], left: Sequence[str], padding: tuple[int, int], console: Console) -> Table:
    """Return such a Table with a rule below its headings, where ``console`` can show one."""
    from rich import box

    made = grid(names, left, padding=padding)
    made.box = box.SIMPLE_HEAD if terminal.is_unicode(console.file) else None
    return made


def widen(console: Console, table: Table) -> None:
    """Give ``console`` the columns that ``table`` needs: a line that is too long is better than a number that is cut."""
    widest = table.__rich_measure__(console, console.options.update(max_width=UNLIMITED)).maximum
    console.width = max(console.width, widest)


def console(session: Session) -> Console:
    """Return a rich Console on stdout: as wide as the terminal or COLUMNS; without either, nothing is cut."""
    made = terminal.rich_console(sys.stdout, session)
    if shutil.get_terminal_size((0, 0)).columns == 0 and not terminal.is_terminal(sys.stdout):
        made.width = UNLIMITED
    return made


def rendered(parts: Iterable[RenderableType], rich_console: Console) -> list[str]:
    """Return the lines of what rich prints for each of ``parts``, without the blanks at their ends."""
    with rich_console.capture() as capture:
        for part in parts:
            rich_console.print(part, soft_wrap=isinstance(part, str))
    return [line.rstrip() for line in capture.get().rstrip().splitlines()]
