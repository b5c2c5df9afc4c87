"""From the rows of runs to curves that can be drawn: points, one grid for all, smoothed, mean and band over seeds.

Used by ``drl plot``; ``plots`` and ``terminal_plots`` draw what is made here. Rows are the nested dicts of result.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from drl_cli.analysis.reward_statistics import mean_band
from drl_cli.config.result_names import flatten

if TYPE_CHECKING:
    from drl_cli.analysis.scores import Row

HUGE = 1e300  # larger numbers are not drawn
GRID = 400  # points of a curve after smoothing
AXES = {  # name -> (the field of a row, that of an evaluation, the label of the axis)
    "steps": ("timesteps_total", "evaluation/timesteps_total", "environment steps"),
    "seconds": ("time_total_s", "time_total_s", "seconds of training"),
    "updates": ("info/num_updates", "evaluation/num_updates", "updates"),
}
EVALUATION = "evaluation/"
BANDS = {
    "ci": "95 % interval of the mean",
    "sd": "one standard deviation",
    "range": "lowest and highest seed",
    "none": "",
}


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass
class Line:
    """One run: x and y [P] as recorded, and smooth [G] on the grid of its panel (NaN where the run has no points)."""

    path: str
    seed: int | None
    x: np.ndarray
    y: np.ndarray
    smooth: np.ndarray = field(default_factory=_nothing)


@dataclass
class Bundle:
    """The runs of one group: label, lines, and on the grid of the panel mean, low and high [G].

    complete [G]: whether all runs have got there. Elsewhere the mean is of those that have, as long as they are at least
    half of them, and there is no band: a mean that jumps whenever a run ends is no curve.
    """

    label: str
    lines: list[Line]
    mean: np.ndarray = field(default_factory=_nothing)
    low: np.ndarray = field(default_factory=_nothing)
    high: np.ndarray = field(default_factory=_nothing)
    complete: np.ndarray = field(default_factory=_nothing)


@dataclass
class Panel:
    """One environment: its grid [G], bundles, and the reward that all its runs aim at, or None."""

    env: str
    grid: np.ndarray
    bundles: list[Bundle] = field(default_factory=list)
    goal: float | None = None


def points(rows: Iterable[Row], name: str, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (x, y), each [P], of the field ``name`` over ``axis`` (a key of ``AXES``), x rising.

    An evaluation counts once, at the moment whose weights it scored; rows without a value are left out.
    """
    evaluated = name.startswith(EVALUATION)
    across = AXES[axis][1 if evaluated else 0]
    found, seen = {}, set()
    for row in rows:
        flat = flatten(row)
        x, y, which = flat.get(across), flat.get(name), flat.get("evaluation/training_iteration")
        if not (_is_number(x) and _is_number(y)) or (evaluated and which in seen):
            continue
        seen.add(which)
        found[float(x)] = float(y)
    ordered = sorted(found)
    return np.array(ordered), np.array([found[x] for x in ordered])


def panel(env: str, bundles: list[Bundle], smooth: float, band: str, goal: float | None = None) -> Panel:
    """Lay the Bundles of one environment over one grid and return the Panel.

    smooth: standard deviation of the Gaussian kernel as a share of each curve's own length; 0 draws straight lines between the
    points. band: a key of ``BANDS``.
    """
    lines = [line for bundle in bundles for line in bundle.lines]
    grid = np.linspace(min(line.x[0] for line in lines), max(line.x[-1] for line in lines), GRID)
    for line in lines:
        line.smooth = smoothed(line.x, line.y, grid, smooth)
    for bundle in bundles:
        values = np.stack([line.smooth for line in bundle.lines])
        there = ~np.isnan(values)
        bundle.complete = np.asarray(there.all(axis=0))
        bundle.mean, bundle.low, bundle.high = (np.full(GRID, np.nan) for _ in range(3))
        if band != "none" and len(bundle.lines) > 1 and bundle.complete.any():
            _, low, high = mean_band(values[:, bundle.complete], band)
            bundle.low[bundle.complete], bundle.high[bundle.complete] = low, high
        most = 2 * there.sum(axis=0) >= len(bundle.lines)
        bundle.mean[most] = np.nanmean(values[:, most], axis=0)
    return Panel(env, grid, bundles, goal)


def smoothed(x: np.ndarray, y: np.ndarray, grid: np.ndarray, share: float) -> np.ndarray:
    """Return the curve through (x, y) on ``grid`` [G], smoothed by a Gaussian kernel; NaN outside of the curve.

    Local linear regression over the curve's own part of the grid: a straight line stays one up to its ends, where a mean
    would draw a rising curve's first points too high (Fan 1992, JASA 87(420)).
    """
    inside = (grid >= x[0]) & (grid <= x[-1])
    values = np.full(len(grid), np.nan)
    if not inside.any():  # a run of one point, or one between two points of the grid
        values[np.argmin(np.abs(grid - x[-1]))] = y[-1]
        return values
    own = grid[inside]
    drawn = np.interp(own, x, y)
    width = share * (x[-1] - x[0])
    if width > 0:
        away = (own[None, :] - own[:, None]) / width
        weights = np.exp(-0.5 * away**2)
        zeroth, first, second = ((weights * away**power).sum(axis=1) for power in (0, 1, 2))
        level, slope = weights @ drawn, (weights * away) @ drawn
        spread = zeroth * second - first**2  # 0 where only the point itself has a weight
        flat = spread <= 1e-12 * zeroth**2
        drawn = np.where(flat, level / zeroth, (second * level - first * slope) / np.where(flat, 1.0, spread))
    values[inside] = drawn
    return values


def short(value: float) -> str:
    """A tick's text: 1500000 → ``1.5M``; below 10,000 as it is, with at most four digits."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 10_000):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < HUGE
