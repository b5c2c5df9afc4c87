"""The live table of a search, one row per trial, which ``live.LiveScreen`` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drl_cli.cli import figures, search_view, terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.spinner import Spinner

    from drl_cli.cli.search_view import SearchView

TONES = {
    "running": "cyan",
    "failed": "red",
    "finished": "green",
    "stopped": "dim",
    "pending": "dim",
    "interrupted": "yellow",
}
AROUND = 8  # lines that are no row of the table: title, folder, header, the counts below


def picture(
    view: SearchView, seconds: float, rich_console: Console, spinner: Spinner | None = None, interrupted: bool = False
) -> Group:
    """Return the renderable for ``view`` at ``seconds`` since the start, fitted to the console's width and height."""
    plain = not terminal.is_unicode(rich_console.file)
    width = rich_console.width - 1
    head = Text(view.title, style="bold", no_wrap=True)
    head.truncate(width - 9)
    elapsed = figures.clock(seconds)
    head.append(" " * max(1, width - head.cell_len - len(elapsed)) + elapsed, style="not bold cyan")
    notices = _notices(view, width, plain)
    room = max(3, rich_console.height - AROUND - len(notices))
    shown = view.rows(room)
    rows: list[RenderableType] = [
        head,
        Text(figures.shorten(figures.with_tilde(view.record), width, plain), style="dim", no_wrap=True),
        Text(""),
    ]
    rows.append(_table(view, shown, width, plain))
    left = len(view.trials) - len(shown)
    below = view.counts() + (f"; {left} more not shown" if left > 0 else "")
    rows += [Text(below, style="dim", no_wrap=True, overflow="ellipsis"), _now(view, spinner, interrupted), *notices]
    return Group(*rows)


def _table(view: SearchView, shown: Sequence[tuple[int, str, Sequence[Any]]], width: int, plain: bool) -> Table:
    header = view.header()
    columns = search_view.fitting(header, [cells for _, _, cells in shown], width)
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    best = view.best()
    for index in columns:
        words = header[index] in search_view.WORDS
        table.add_column(header[index], justify="left" if words else "right", no_wrap=True, overflow="ellipsis")
    for number, state, cells in shown:
        chosen = [
            Text(cells[index], style=TONES.get(state, "") if header[index] == "state" else "") for index in columns
        ]
        table.add_row(*chosen, style="bold" if number == best else "")
    return table


def _now(view: SearchView, spinner: Spinner | None, interrupted: bool) -> Text | Spinner:
    text = search_view.STOPPING if interrupted else view.phase
    if not text or spinner is None:
        return Text(text or " ", style="yellow" if interrupted else "")
    spinner.text = Text(text, style="yellow" if interrupted else "")
    return spinner


def _notices(view: SearchView, width: int, plain: bool) -> list[Text]:
    failed = [
        (trial["at"], f"trial {number} failed: {trial.get('text')}", "failed")
        for number, trial in view.trials.items()
        if trial["state"] == "failed"
    ]
    lines = []
    for seconds, text, kind in [*view.notices, *failed][-5:]:
        line = Text(no_wrap=True)
        line.append(f"{figures.clock(seconds):>7}  ", style="dim")
        style = {"warning": "yellow", "failed": "red"}.get(kind, "")
        line.append(figures.shorten(" ".join(text.split()), width - 9, plain), style=style)
        lines.append(line)
    return lines
