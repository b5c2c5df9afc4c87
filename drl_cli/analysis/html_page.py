"""The frame of a page of HTML that loads nothing: style in light and dark mode, tables, and text that is escaped.

User: ``html_report``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from drl_cli.analysis import svg_curves

STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1c2430;--faint:#5b6675;--line:#d9dee6;--box:#f5f7fa;--s0:#0072b2;
--s1:#c04e00;--s2:#007d5b;--s3:#a8517f;--s4:#2b7fb5;--s5:#a36f00;--s6:#333;--s7:#7d7300}
@media(prefers-color-scheme:dark){:root{--page:#14181f;--ink:#e4e8ee;--faint:#9aa5b4;--line:#2f3846;--box:#1c222c;
--s0:#56a8e8;--s1:#ff8a4a;--s2:#3fcf9f;--s3:#e79ac4;--s4:#8ccaf5;--s5:#f0b840;--s6:#ddd;--s7:#f0e442}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1100px;padding:16px;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.5rem 0 .3rem;overflow-wrap:anywhere}p{margin:.4rem 0;overflow-wrap:anywhere}
.faint,figcaption{color:var(--faint);font-size:.875rem}figure{margin:.5rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line)}
th{color:var(--faint);font-weight:600}td.number,th.number{text-align:right;white-space:nowrap}
td.key,td.value{font-family:ui-monospace,monospace;font-size:.8125rem}
td.key{min-width:9rem;overflow-wrap:anywhere}td.value{min-width:7rem;max-width:26rem;overflow-wrap:anywhere}
details{border:1px solid var(--line);border-radius:6px;padding:.5rem .8rem;margin:.5rem 0;background:var(--box)}
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;background:var(--box);border-radius:6px}
svg text{font:12px system-ui,sans-serif;fill:var(--faint)}svg path{fill:none;stroke-linejoin:round}
.narrow{display:none}@media(max-width:600px){.narrow{display:block}.wide{display:none}}
.grid{stroke:var(--line)}.goal{stroke:var(--faint);stroke-dasharray:4 4}
.mean{stroke-width:2.2}.raw{stroke-width:.8;opacity:.4}.partial{stroke-width:1.4;stroke-dasharray:1.5 3}
svg .band{stroke:none;opacity:.18}video{max-width:100%;border-radius:6px}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.875rem}.legend svg{width:28px;height:10px;background:none}
.legend span{display:inline-flex;align-items:center;gap:.4rem;overflow-wrap:anywhere}
""" + "".join(
    f".s{n}{{stroke:var(--s{n})}}svg .band.s{n},svg .dot.s{n}{{fill:var(--s{n})}}" for n in range(svg_curves.COLORS)
)


def document(title: str, parts: Iterable[str]) -> str:
    """Return the page with the HTML ``parts`` as its body; ``title`` is escaped here."""
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be loaded, whatever a browser or a mistake would ask for.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';media-src data:\">"
    )
    return (
        f"{head}<title>{text(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def size(parts: Iterable[str]) -> int:
    """Return the bytes of ``parts`` in a page."""
    return sum(len(part.encode("utf-8", "replace")) + 1 for part in parts)


def text(value: object) -> str:
    """Return ``value`` as text of a page, safe in an attribute too."""
    return html.escape(str(value), quote=True)


def number(value: float | None) -> str:
    """Return a number with four digits, whole ones in full; a dash for None."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 10_000 else f"{value:,.4g}"


def seconds(value: float | None) -> str:
    """Return seconds as ``12.3 s``, ``4.5 min`` or ``6.7 h``; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), keys: bool = False) -> str:
    """Return a table of cells that are escaped here; ``numbers``: columns aligned right; ``keys``: key, value, ..."""
    right = set(numbers)
    names = dict.fromkeys(right, ' class="number"') | ({0: ' class="key"', 1: ' class="value"'} if keys else {})
    head = "".join(f"<th{names.get(n, '') if n in right else ''}>{text(cell)}</th>" for n, cell in enumerate(heads))
    lines = ("".join(f"<td{names.get(n, '')}>{text(c)}</td>" for n, c in enumerate(row)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
