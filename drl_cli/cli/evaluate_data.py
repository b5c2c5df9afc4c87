"""``drl evaluate --data``: off-policy estimates from recorded experience, as a table or as JSON. Used by ``cli.evaluate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import figures, group, rich_tables, terminal, values
from drl_cli.cli.options import typed_object

if TYPE_CHECKING:
    from rich.console import Console

    from drl_cli.analysis.checkpoint_estimates import Candidate
    from drl_cli.cli.terminal import Session

PLAYING = ("episodes", "max_steps", "explore", "seed", "env")
"""Options of ``drl evaluate`` that only apply where episodes are played."""
RECORDED = ("gamma", "epsilon")
"""Options that only apply to recorded episodes."""
HEADING = "From recorded episodes"
SHARE = values.Number(0.0, 1.0)

OPTIONS = [
    group.option(
        "--data",
        metavar="PATH",
        multiple=True,
        group=HEADING,
        help="Estimate from recorded experience instead of playing: a file, folder, glob or minari://ID; repeatable.",
    ),
    group.option("--gamma", type=SHARE, metavar="X", group=HEADING, help="Discount factor. [default: that of the run]"),
    group.option(
        "--epsilon",
        type=SHARE,
        metavar="X",
        group=HEADING,
        help="Epsilon of an epsilon-greedy policy. [default: that of the run at that checkpoint]",
    ),
]
ROWS = (
    ("behaviour", ("behaviour",)),
    ("IS per step", ("is", "per_step")),
    ("IS per episode", ("is", "per_episode")),
    ("WIS per step", ("wis", "per_step")),
    ("WIS per episode", ("wis", "per_episode")),
)


def expect_fitting(context: click.Context, with_data: bool) -> None:
    """Refuse options that have no effect with, or without, ``--data``."""
    for name in PLAYING if with_data else RECORDED:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            text = f"{option} has no effect with --data: nothing is played." if with_data else f"{option} needs --data."
            raise click.UsageError(text, context)


def run(session: Session, checkpoints: Sequence[str], flags: Mapping[str, Any], as_json: bool) -> None:
    """Estimate the policy of each of ``checkpoints`` and print the table, or one JSON document."""
    from drl_cli import confidence
    from drl_cli.analysis import checkpoint_estimates

    config = typed_object(flags["config"], "--config")
    what = checkpoint_estimates.estimate_options(config, flags["data"], flags["gamma"], flags["epsilon"])
    candidates = [checkpoint_estimates.Candidate(path, what, flags["latest"]) for path in checkpoints]
    rows, noted = [], set()
    for number, candidate in enumerate(candidates, 1):
        terminal.say(f"Estimating {number} of {len(candidates)}: {candidate.path}")
        found, notes = candidate.estimate()
        for note in notes:
            if note not in noted:
                terminal.say(f"Note: {note}.")
        noted.update(notes)
        for doubt in checkpoint_estimates.doubts(found):
            prefix = f"{number}: " if len(candidates) > 1 else ""
            terminal.say(f"Warning: {prefix}{doubt}.", session, "yellow")
        rows.append(_facts(candidate) | found)
    document = {"data": list(what.data), "confidence": confidence.CONFIDENCE, "checkpoints": rows}
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps(document, allow_nan=False))
        return
    for line in table(document, terminal.rich_console(sys.stdout, session)):
        output.line(line)


def _facts(candidate: Candidate) -> dict[str, Any]:
    counters = candidate.facts["counters"]
    return {
        "path": str(candidate.path),
        "algorithm": candidate.facts["algorithm"],
        "env": candidate.facts["env"],
        "training_iteration": counters["training_iteration"],
        "timesteps_total": counters["timesteps_total"],
    }


def table(document: Mapping[str, Any], console: Console) -> list[str]:
    """Return the lines of the table for ``document`` (what --json prints), rendered for a rich Console."""
    grid = rich_tables.ruled(("", "estimate", "return", "95 %", "gain"), ["estimate"], (1, 1), console)
    for number, row in enumerate(document["checkpoints"], 1):
        for name, at in ROWS:
            grid.add_row(str(number) if name == ROWS[0][0] else "", name, *_cells(row, at))
    rich_tables.widen(console, grid)
    heads = [line for number, row in enumerate(document["checkpoints"], 1) for line in _lines(number, row)]
    return rich_tables.rendered([*heads, grid], console)


def _lines(number: int, row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    left = f", {row['incomplete']:,} more are incomplete" if row["incomplete"] else ""
    return (
        f"{number}  {row['path']}",
        f"   {row['algorithm']} on {row['env']}, iteration {row['training_iteration']}, "
        f"{figures.count(row['timesteps_total'])} steps; policy: {row['policy']}",
        f"   {row['episodes']:,} recorded episodes, {figures.count(row['steps'])} steps{left}",
        f"   discount {row['gamma']:g}, effective sample size {row['effective_sample_size']:,.1f} episodes",
    )


def _cells(row: Mapping[str, Any], at: tuple[str, ...]) -> tuple[str, str, str]:
    estimate = row
    for name in at:
        estimate = estimate[name]
    before, mean = row["behaviour"]["mean"], estimate["mean"]
    gain = "" if at == ("behaviour",) or mean is None or before <= 0 else f"x {mean / before:.3g}"
    between = (
        "-"
        if estimate["low"] is None or estimate["high"] is None
        else f"[{_short(estimate['low'])}, {_short(estimate['high'])}]"
    )
    return _short(mean), between, gain


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    size = abs(value)
    if value and not 1e-3 <= size < 1e6:
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= 1 or not value else f"{value:.3g}"
