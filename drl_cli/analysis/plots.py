"""Learning curves as a picture: the one file that imports matplotlib. User: ``drl plot``.

A panel an environment; thin lines are single runs as recorded, thick ones the smoothed mean over seeds, dotted where some
runs have ended already; the band is around the mean where all runs are there. Drawn without a display (Agg, SVG, PDF).
Colours: Okabe and Ito 2008, which the colour-blind can distinguish; beyond eight groups they are repeated with other dashes.
"""

from __future__ import annotations

import math

import matplotlib

matplotlib.use("Agg")

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drl_cli.analysis.curves import Panel, short

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
COLUMNS = 3  # panels side by side
PANEL_SIZE = (6.4, 4.0)  # inches
SMALL_PANEL_SIZE = (4.6, 3.2)
DPI = 150
RAW_LINES = 40  # beyond that many runs in a panel, single runs cannot be distinguished
INSIDE = 4  # curves whose legend fits into a panel without covering them
ROW_HEIGHT, SIGN_WIDTH, LETTER_WIDTH = 0.19, 0.55, 0.068  # inches of a legend below the panels
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "svg.hashsalt": "drl",  # the same curves give the same file
}


def draw(
    panels: Sequence[Panel],
    labels: Mapping[str, str],
    target: Path | str | BinaryIO,
    file_format: str,
    raw: bool = True,
) -> None:
    """Draw Panels (see ``analysis.curves``) into ``target``, a path or a binary file.

    labels: {"x", "y", "title", "band"}, strings; title and band may be empty. file_format: "png", "svg" or "pdf". raw: also
    draw single runs. Raises OSError.
    """
    with matplotlib.rc_context(STYLE):
        # One label has one colour in all panels.
        places = {label: n for n, label in enumerate(dict.fromkeys(b.label for p in panels for b in p.bundles))}
        figure, axes = _canvas(len(panels))
        for panel, axis in zip(panels, axes, strict=True):
            _draw_panel(axis, panel, places, raw and sum(len(b.lines) for b in panel.bundles) <= RAW_LINES)
            axis.set_title(panel.env, loc="left", fontweight="bold", fontsize="medium")
            axis.set_xlabel(labels["x"])
        axes[0].set_ylabel(labels["y"])
        if len(places) > INSIDE:
            _legend_below(figure, axes, labels["band"])
        else:
            if labels["band"]:
                figure.supxlabel(labels["band"], x=0.995, ha="right", fontsize=7, color="#777777")
            for axis in axes:
                axis.legend(frameon=False, fontsize=8, loc="best")
        if labels["title"]:
            figure.suptitle(labels["title"], x=0.01, ha="left")
        empty = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file_format)
        figure.savefig(target, format=file_format, dpi=DPI, metadata=empty)


def _canvas(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(count, COLUMNS)
    rows = math.ceil(count / columns)
    width, height = PANEL_SIZE if count == 1 else SMALL_PANEL_SIZE
    figure = Figure((width * columns, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def _draw_panel(axis: Axes, panel: Panel, places: Mapping[str, int], raw: bool) -> None:
    if panel.goal is not None:
        axis.axhline(panel.goal, color="#999999", linewidth=1, linestyle=(0, (2, 2)))
        axis.annotate(f"goal {panel.goal:g}", (1.01, panel.goal), xycoords=("axes fraction", "data"), fontsize=8,
                      color="#777777", ha="left", va="center", annotation_clip=False)  # fmt: skip
    for bundle in panel.bundles:
        place = places[bundle.label]
        color, dashes = COLORS[place % len(COLORS)], DASHES[place // len(COLORS) % len(DASHES)]
        if raw:
            for line in bundle.lines:
                single = {"marker": ".", "markersize": 3} if len(line.x) < 30 else {}
                axis.plot(line.x, line.y, color=color, linewidth=0.7, alpha=0.3, **single)
        seeds = f" ({len(bundle.lines)} seeds)" if len(bundle.lines) > 1 else ""
        whole = bundle.mean.copy()
        whole[~bundle.complete] = math.nan
        axis.plot(panel.grid, bundle.mean, color=color, linewidth=1.4, linestyle=(0, (1.2, 1.2)), alpha=0.8)
        axis.plot(panel.grid, whole, color=color, linewidth=2, linestyle=dashes, label=bundle.label + seeds)
        axis.fill_between(panel.grid, bundle.low, bundle.high, color=color, alpha=0.18, linewidth=0)
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _place: short(value)))
    axis.margins(x=0.01)


def _legend_below(figure: Figure, axes: Sequence[Axes], note: str) -> None:
    """Put one legend for all panels below them, ``note`` above it, and make the figure as much higher as it takes."""
    curves = {}
    for axis in axes:
        for curve, label in zip(*axis.get_legend_handles_labels(), strict=True):
            curves.setdefault(label, curve)
    width, height = figure.get_size_inches()
    columns = max(1, int(width / (SIGN_WIDTH + LETTER_WIDTH * max(map(len, curves)))))
    figure.set_size_inches(width, height + ROW_HEIGHT * (math.ceil(len(curves) / columns) + bool(note)))
    legend = figure.legend(
        curves.values(), curves, loc="outside lower left", ncols=columns, frameon=False, fontsize=8,
        title=note, title_fontsize=7, alignment="left",
    )  # fmt: skip
    legend.get_title().set_color("#777777")
