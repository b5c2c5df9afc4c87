"""Runs and searches as rows of a table, and as the plain data of ``--json``. Used by ``drl runs`` and ``drl runs rm``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from drl_cli.cli import figures, rich_tables, terminal

if TYPE_CHECKING:
    from rich.console import Console

    from drl_cli.runs.run_summary import Run
    from drl_cli.runs.search_folders import ListedSearch

STYLES = {"running": "cyan", "finished": "green", "interrupted": "yellow", "failed": "red", "died": "red"}
SHORTEST_ENV = 12


def search_facts(search: ListedSearch) -> dict[str, Any]:
    """Return a ListedSearch (see ``runs.search_folders``) as the plain data of ``--json``."""
    names = (
        "id",
        "experiment",
        "algorithm",
        "env",
        "state",
        "started",
        "updated",
        "trials",
        "over",
        "metric",
        "best",
        "best_run",
    )
    facts = {"path": str(search.path), **{name: getattr(search, name) for name in names}}
    return facts | {
        "runs": [run.id for run in search.runs],
        "timesteps_total": search.steps,
        "time_total_s": search.seconds,
        "size": search.size,
    }


def facts(run: Run) -> dict[str, Any]:
    """Return a Run as the plain data of ``--json``."""
    return {
        "path": str(run.path),
        "id": run.id,
        "experiment": run.experiment,
        "algorithm": run.algorithm,
        "env": run.env,
        "seed": run.seed,
        "state": run.state,
        "exit_code": run.exit_code,
        "text": run.text,
        "started": run.started,
        "updated": run.updated,
        "training_iteration": run.iteration,
        "timesteps_total": run.steps,
        "time_total_s": run.seconds,
        "episode_reward_mean": run.reward,
        "best": run.best,
        "best_metric": run.best_metric,
        "best_checkpoint": run.best_checkpoint,
        "checkpoints": list(run.checkpoints),
        "size": run.size,
        "pid": run.pid,
        "host": run.host,
    }


def table(chosen: Sequence[Run | ListedSearch], console: Console, now: float | None = None) -> list[str]:
    """Return the lines of the table of ``chosen`` (Runs), as many columns as fit the console's width."""
    from rich.text import Text

    now = time.time() if now is None else now
    columns = _columns(chosen, now)
    widths = {name: max(len(name), *(len(cell) for cell in cells)) for name, (_, _, cells) in columns.items()}
    room = console.width - sum(widths[name] + 2 for name, (rank, _, _) in columns.items() if rank == 0) + 2
    for rank in range(1, 1 + max(rank for rank, _, _ in columns.values())):
        (name,) = [name for name, (own, _, _) in columns.items() if own == rank]
        if room < widths[name] + 2:
            del columns[name]
        else:
            room -= widths[name] + 2
    env_width = widths["environment"] + min(0, room)
    grid = rich_tables.grid(
        list(columns), left=[name for name, (_, justify, _) in columns.items() if justify == "left"]
    )
    ascii_only = not terminal.is_unicode(sys.stdout)
    for place in range(len(chosen)):
        shown = {name: cells[place] for name, (_, _, cells) in columns.items()}
        shown["environment"] = figures.shorten(shown["environment"], max(SHORTEST_ENV, env_width), ascii_only)
        state = Text(shown["state"], style=STYLES.get(shown["state"], ""))
        grid.add_row(*(state if name == "state" else text for name, text in shown.items()))
    rich_tables.widen(console, grid)
    return rich_tables.rendered([grid], console)


def _columns(
    chosen: Sequence[Run | ListedSearch], now: float
) -> dict[str, tuple[int, Literal["left", "right"], list[str]]]:
    """{heading: (rank, justify, cells)}; columns of rank 0 always show, the others in the order of their ranks."""

    def cells(show: Callable[[Any], str]) -> list[str]:
        return [show(run) for run in chosen]

    trials = cells(lambda run: f"{run.over}/{run.trials}" if hasattr(run, "trials") else "")

    return {
        "id": (0, "left", cells(lambda run: run.id)),
        "state": (0, "left", cells(lambda run: run.state)),
        **({"trials": (0, "right", trials)} if any(trials) else {}),
        "run": (0, "left", cells(lambda run: run.algorithm)),
        "environment": (0, "left", cells(lambda run: run.env)),
        "best": (0, "right", cells(lambda run: figures.reward(run.best))),
        "now": (2, "right", cells(lambda run: figures.reward(run.reward))),
        "steps": (0, "right", cells(lambda run: figures.count(run.steps))),
        "time": (0, "right", cells(lambda run: figures.clock(run.seconds))),
        "size": (0, "right", cells(lambda run: figures.size(run.size))),
        "started": (1, "right", cells(lambda run: "-" if run.started is None else figures.ago(now - run.started))),
        "seed": (3, "right", cells(lambda run: "-" if run.seed is None else str(run.seed))),
        "experiment": (4, "left", cells(lambda run: run.experiment)),
        "folder": (5, "left", cells(lambda run: str(run.path))),
    }
