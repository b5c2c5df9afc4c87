"""Learning curves and shares of time as SVG for a page of HTML: text that scales, and colours that follow the page's theme.

Used by ``html_report``. Points, smoothing and bands are ``curves``'s; colours are classes of the page (``s0`` to ``s7``), so
that light and dark mode share one drawing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from drl_cli.analysis.curves import Panel, short

COLORS, DASHES = 8, ("", "7 3", "2 3")
RAW_LINES, RAW_POINTS = 40, 400  # single runs that a panel shows, and the points of each
MARGINS = (52, 12, 14, 40)  # left, right, top, bottom
TICKS = 5


class Size(NamedTuple):
    """Width and height of a drawing in the units of its view box, which are pixels where it is shown in full."""

    width: int
    height: int


class _Frame:
    """The plane of a drawing: from values to places in it, and its axes with their ticks."""

    def __init__(self, size: Size, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.size, self._x, self._y = size, _widened(x), _widened(y)
        left, right, top, bottom = MARGINS
        self.left, self.right, self.top, self.bottom = left, size.width - right, top, size.height - bottom

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where (x, y) is drawn."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - self._y[0]) / (self._y[1] - self._y[0])
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)

    def path(self, x: Iterable[float], y: Iterable[float]) -> str:
        """Return the ``d`` of a path through points; NaN interrupts it."""
        words, is_down = [], False
        for one, other in zip(x, y, strict=True):
            if not (math.isfinite(one) and math.isfinite(other)):
                is_down = False
                continue
            across, down = self.place(one, other)
            words.append(f"{'L' if is_down else 'M'}{across:.1f} {down:.1f}")
            is_down = True
        return "".join(words)

    def axes(self, labels: tuple[str, str]) -> list[str]:
        """Return grid, ticks and the labels of x and y."""
        lines = []
        for value in _ticks(*self._y):
            _, down = self.place(self._x[0], value)
            lines.append(f'<path class="grid" d="M{self.left} {down:.1f}H{self.right}"/>')
            lines.append(f'<text x="{self.left - 6}" y="{down + 4:.1f}" text-anchor="end">{short(value)}</text>')
        for value in _ticks(*self._x, TICKS if self.size.width > 400 else 3):
            across, _ = self.place(value, self._y[0])
            lines.append(f'<text x="{across:.1f}" y="{self.bottom + 16}" text-anchor="middle">{short(value)}</text>')
        x_label, y_label = labels
        lines.append(f'<text x="{self.right}" y="{self.bottom + 33}" text-anchor="end">{html.escape(x_label)}</text>')
        if y_label:
            lines.append(f'<text x="{self.left}" y="{self.bottom + 33}">↑ {html.escape(y_label)}</text>')
        return lines


def curves(panel: Panel, places: Mapping[str, int], labels: tuple[str, str], size: Size) -> str:
    """Return the SVG of a Panel: single runs thin, means thick with their band, the goal as a dashed line.

    places: {label of a bundle: number of its colour}; labels: those of the x and the y axis.
    """
    values = [v for b in panel.bundles for v in (*(line.y for line in b.lines), b.low, b.high)]
    inside = np.concatenate([*values, np.array([] if panel.goal is None else [panel.goal])])
    inside = inside[np.isfinite(inside)]
    frame = _Frame(size, (panel.grid[0], panel.grid[-1]), (float(inside.min()), float(inside.max())))
    parts = frame.axes(labels)
    if panel.goal is not None:
        _, down = frame.place(panel.grid[0], panel.goal)
        parts.append(f'<path class="goal" d="M{frame.left} {down:.1f}H{frame.right}"/>')
        parts.append(f'<text x="{frame.left + 4}" y="{down - 4:.1f}">goal {panel.goal:g}</text>')
    has_raw = sum(len(bundle.lines) for bundle in panel.bundles) <= RAW_LINES
    for bundle in panel.bundles:
        color, dashes = style(places[bundle.label])
        band = np.isfinite(bundle.low)
        if band.any():
            there, back = (
                frame.path(panel.grid[band], bundle.low[band]),
                (panel.grid[band][::-1], bundle.high[band][::-1]),
            )
            parts.append(f'<path class="band {color}" d="{there}{frame.path(*back).replace("M", "L", 1)}Z"/>')
        for line in bundle.lines if has_raw else ():
            kept = _spread(len(line.x), RAW_POINTS)
            parts.append(f'<path class="raw {color}" d="{frame.path(line.x[kept], line.y[kept])}"/>')
        whole = np.where(bundle.complete, bundle.mean, np.nan)
        parts.append(f'<path class="partial {color}" d="{frame.path(panel.grid, bundle.mean)}"/>')
        parts.append(f'<path class="mean {color}"{dashes} d="{frame.path(panel.grid, whole)}"/>')
        parts += [_dot(frame, line.x[-1], line.y[-1], color) for line in bundle.lines if len(line.x) == 1]
    return _svg(size, f"{labels[1]} on {panel.env} over {labels[0]}", parts)


def shares(x: Sequence[float], lines: Mapping[str, Sequence[float]], labels: tuple[str, str], size: Size) -> str:
    """Return the SVG of named shares, 0 to 1, over x; the n-th has the colour ``sn``."""
    frame = _Frame(size, (min(x), max(x)), (0.0, 1.0))
    kept = _spread(len(x), RAW_POINTS)
    across = np.asarray(x, float)[kept]
    parts = frame.axes(labels)
    for number, values in enumerate(lines.values()):
        color, dashes = style(number)
        parts.append(f'<path class="mean {color}"{dashes} d="{frame.path(across, np.asarray(values, float)[kept])}"/>')
    return _svg(size, f"{labels[1]} over {labels[0]}", parts)


def style(place: int) -> tuple[str, str]:
    """Return (class of the colour, attribute with the dashes) of the curve number ``place``."""
    dashes = DASHES[place // COLORS % len(DASHES)]
    return f"s{place % COLORS}", f' stroke-dasharray="{dashes}"' if dashes else ""


def _svg(size: Size, title: str, parts: Sequence[str]) -> str:
    start = f'<svg viewBox="0 0 {size.width} {size.height}" role="img" aria-label="{html.escape(title)}">'
    return start + "".join(parts) + "</svg>"


def _dot(frame: _Frame, x: float, y: float, color: str) -> str:
    across, down = frame.place(x, y)
    return f'<circle class="dot {color}" cx="{across:.1f}" cy="{down:.1f}" r="3"/>'


def _spread(count: int, most: int) -> np.ndarray:
    """Return at most ``most`` indices over ``count``, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _widened(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    if high > low:
        return low, high
    room = abs(low) * 0.1 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Return round numbers between ``low`` and ``high``, about ``count`` of them."""
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]
