"""Learning curves in the terminal: the one file that imports plotext. User: ``drl plot --terminal``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotext

from drl_cli.analysis.curves import Panel, short

COLORS = (39, 208, 36, 170, 81, 178, 245, 196)  # codes of 256 colours, distinct on dark and on light backgrounds
CHARACTERS = "*o+x#@%&"  # one for each group where there are no colours or no Unicode
TICKS = 5
_ASCII = str.maketrans("┌┐└┘─│├┤┬┴┼·", "++++-|++++++"[:11] + ".")


def draw(panel: Panel, labels: Mapping[str, str], size: tuple[int, int], colored: bool, is_unicode: bool) -> list[str]:
    """Return the lines that show one Panel (see ``analysis.curves``): the mean of each group over its seeds.

    labels: {"x", "y"}, strings. size: (columns, lines) of the picture; a line for each group comes below it. Without
    ``colored`` there is no escape sequence in the text, without ``is_unicode`` no character beyond ASCII.
    """
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(*size)
    figure.title(f"{panel.env}: {labels['y']}")
    figure.label(labels["x"])
    if panel.goal is not None:
        spots = np.linspace(panel.grid[0], panel.grid[-1], size[0] // 2)
        figure.draw(figure.signal(list(spots), [panel.goal] * len(spots), marker=plotext.marker("·")))
    plain = not (colored and is_unicode)
    legend = []
    for place, bundle in enumerate(panel.bundles):
        character, color = CHARACTERS[place % len(CHARACTERS)], COLORS[place % len(COLORS)]
        code = character if plain and (len(panel.bundles) > 1 or not is_unicode) else "braille"
        there = ~np.isnan(bundle.mean)
        x, y = list(panel.grid[there]), list(bundle.mean[there])
        figure.draw(figure.signal(x, y, marker=plotext.marker(code, color)).lines())
        seeds = f" ({len(bundle.lines)} seeds)" if len(bundle.lines) > 1 else ""
        sample = plotext.colorize("━━" if code == "braille" else character * 2, color)
        legend.append(f"  {sample} {bundle.label}{seeds}")
    if panel.goal is not None:
        legend.append(f"  ·· goal {panel.goal:g}")
    ticks = np.linspace(panel.grid[0], panel.grid[-1], TICKS)
    figure.ruler("x").ticks(list(ticks), [short(tick) for tick in ticks])
    text = "\n".join([str(figure.build()), *legend])
    if not colored:
        text = plotext.uncolorize(text)
    if not is_unicode:
        text = text.translate(_ASCII)
    return [line.rstrip() for line in text.splitlines() if line.strip()]
