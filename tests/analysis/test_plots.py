"""The picture and the drawing in the terminal."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest

from drl_cli.analysis import curves, plots, terminal_plots
from drl_cli.analysis.curves import Bundle, Line

LABELS = {"x": "environment steps", "y": "return", "title": "A title", "band": "band: 95 %"}


def panels(count=1, groups=2):
    """``count`` panels of ``groups`` groups of three runs."""
    made = []
    for place in range(count):
        bundles = [
            Bundle(f"ALG{n}", [Line("p", s, np.arange(40.0) * 500, np.arange(40.0) * (n + 1) + s) for s in range(3)])
            for n in range(groups)
        ]
        made.append(curves.panel(f"Env-v{place}", bundles, 0.02, "ci", goal=30.0))
    return made


def size_of_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_png_is_a_picture_of_the_documented_size():
    out = io.BytesIO()
    plots.draw(panels(), LABELS, out, "png")
    assert size_of_png(out.getvalue()) == (960, 600)


def test_svg_holds_the_texts_and_repeats_byte_for_byte():
    files = []
    for _ in range(2):
        out = io.BytesIO()
        plots.draw(panels(), LABELS, out, "svg")
        files.append(out.getvalue())
    assert files[0] == files[1]
    for text in (b"Env-v0", b"ALG0 (3 seeds)", b"environment steps", b"goal 30", b"A title", b"band: 95 %"):
        assert b"<!-- " + text + b" -->" in files[0]


def test_pdf_is_one():
    out = io.BytesIO()
    plots.draw(panels(), LABELS, out, "pdf", raw=False)
    assert out.getvalue()[:5] == b"%PDF-"


def test_every_environment_has_a_panel_three_in_a_row():
    out = io.BytesIO()
    plots.draw(panels(4), LABELS, out, "png")
    assert size_of_png(out.getvalue()) == (3 * 690, 2 * 480)


def test_legend_of_many_curves_stands_below_the_panels():
    figures = []
    draw = plots.Figure.savefig

    def saved(figure, *arguments, **keywords):
        draw(figure, *arguments, **keywords)
        figures.append(figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots.Figure, "savefig", saved)
        plots.draw(panels(groups=10), LABELS, io.BytesIO(), "png")
    (figure,) = figures
    (axis,), (legend,) = figure.axes, figure.legends
    assert axis.get_legend() is None and len(legend.get_texts()) == 10
    assert not legend.get_window_extent().overlaps(axis.get_tightbbox())


def test_single_runs_are_drawn_unless_they_are_not_wanted():
    def lines(raw):
        out = io.BytesIO()
        plots.draw(panels(), LABELS, out, "svg", raw)
        return out.getvalue().count(b"stroke-width: 0.7")

    assert (lines(True), lines(False)) == (6, 0)


def test_a_label_has_one_colour_in_all_panels():
    first, second = panels(2)
    del second.bundles[0]
    out = io.BytesIO()
    plots.draw([first, second], LABELS, out, "svg", raw=False)
    thick = re.findall(r"stroke: (#\w+); stroke-width: 2", out.getvalue().decode())
    assert thick.count("#d55e00") == 2 * thick.count("#0072b2") > 0


def test_terminal_drawing_without_colour_has_a_character_a_group_and_no_escapes():
    (panel,) = panels()
    lines = terminal_plots.draw(panel, LABELS, (60, 15), colored=False, is_unicode=True)
    text = "\n".join(lines)
    assert "\x1b" not in text and max(len(line) for line in lines) <= 60
    assert "Env-v0: return" in lines[0] and lines[-3:] == ["  ** ALG0 (3 seeds)", "  oo ALG1 (3 seeds)", "  ·· goal 30"]
    assert len(lines) == 15 + 3 and "*" in "".join(lines[1:-4]) and "o" in "".join(lines[1:-4])
    assert re.search(r"0\s+4875\s+9750\s+14.62k\s+19.5k", text)


def test_terminal_drawing_without_unicode_is_ascii():
    (panel,) = panels(groups=1)
    text = "\n".join(terminal_plots.draw(panel, LABELS, (60, 15), colored=False, is_unicode=False))
    assert text.isascii() and "+-----" in text and "|" in text


def test_terminal_drawing_with_colour_uses_braille():
    (panel,) = panels()
    text = "\n".join(terminal_plots.draw(panel, LABELS, (60, 15), colored=True, is_unicode=True))
    assert "\x1b[38;5;39m" in text and re.search("[\u2801-\u28ff]", text)


@pytest.mark.parametrize("module, library", [("curves", "matplotlib"), ("plots", "plotext"), ("comparison", "plotext")])
def test_drawing_libraries_are_loaded_only_where_they_draw(module, library):
    code = (
        f"import sys, drl_cli.analysis.{module}; print({library!r} in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
