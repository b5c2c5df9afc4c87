"""Numbers for people: short counts, clocks, rewards, bars and charts of block characters. Pure functions.

Used by the screens, the plain lines and the tables.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.config.result_names import ratings

if TYPE_CHECKING:
    from drl_cli.cli.view import Budget

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*#@"
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float | None) -> str:
    """1234567 → ``1.23M``; below 10,000 with a thousands separator; ``-`` for None."""
    if value is None:
        return "-"
    if abs(value) < 10_000:
        return f"{value:,.0f}"
    for size, letter in UNITS:
        if abs(value) >= size:
            short = value / size
            digits = 2 if abs(short) < 10 else 1 if abs(short) < 100 else 0
            return f"{short:.{digits}f}{letter}"
    return f"{value:,.0f}"


def episodes(value: int | None) -> str:
    """1 → ``1 episode``, 28 → ``28 episodes``."""
    return f"{count(value)} episode{'' if value == 1 else 's'}"


def reward(value: float | None) -> str:
    """One digit after the point, more for small rewards; ``-`` for None."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.1f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def score(value: float) -> str:
    """One digit after the point below 1000, none above; ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def interval(low: float | None, high: float | None) -> str:
    """``[1.0, 2.0]``, or an empty string without one."""
    return "" if low is None or high is None else f"[{score(low)}, {score(high)}]"


def estimates(found: Mapping[str, Any]) -> str:
    """What recorded episodes say of a policy (``off_policy_estimator`` of a result): the steadier estimate, and how sure."""
    method = "wis" if "wis" in found else "is"
    name = method.upper()
    mean, low, high = (found[method].get(f"V_step_{name}{end}") for end in ("", "_low", "_high"))
    between = f" [{reward(low)}, {reward(high)}]" if low is not None and high is not None else ""
    size = found["effective_sample_size"]
    return f"{name} {reward(mean)}{between} discounted, worth {reward(size)} of {found['episodes']:,} episodes"


def by_policy(result: Mapping[str, Any], width: int) -> str:
    """The mean rewards of the policies of ``result``, in self-play with Elo ratings, as far as ``width`` columns hold them."""
    rated = ratings(result)
    means = (result.get("policy_reward_mean") or {}).items()
    parts = [f"{name} {reward(mean)}{f' (Elo {rated[name]:,.0f})' if name in rated else ''}" for name, mean in means]
    return _fitting(parts, width)


def success(found: Mapping[str, Any]) -> str:
    """Return ", success 45 %" of a result, an evaluation or a summary with a ``success_rate``, else nothing."""
    rate = found.get("success_rate")
    return "" if rate is None else f", success {100 * rate:.0f} %"


def custom_metrics(found: Mapping[str, float], width: int) -> str:
    """The means of callbacks' metrics (``custom_metrics`` of a result) in ``width`` columns, and how many found no room."""
    means = [(name.removesuffix("_mean"), value) for name, value in found.items() if name.endswith("_mean")]
    return _fitting([f"{' '.join(name.split())} {reward(value)}" for name, value in means], width)


def _fitting(parts: Sequence[str], width: int) -> str:
    """As many of ``parts`` as ``width`` columns hold, and how many are left."""
    shown = len(parts)
    while shown:
        more = f", {len(parts) - shown} more" if shown < len(parts) else ""
        text = ", ".join(parts[:shown]) + more
        if len(text) <= width:
            return text
        shown -= 1
    return f"{len(parts)} of them"


def clock(seconds: float | None) -> str:
    """Seconds → ``0:42``, ``12:05``, ``3:07:12``; ``-`` for None."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def ago(seconds: float) -> str:
    """Seconds → ``8 s``, ``3 min``, ``2 h``, ``4 d``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def size(count_of_bytes: int | None) -> str:
    """Bytes → ``512 B``, ``46 kB``, ``1.2 GB`` (powers of 1000); ``-`` for None."""
    if count_of_bytes is None:
        return "-"
    if count_of_bytes < 1000:
        return f"{count_of_bytes} B"
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count_of_bytes >= scale * 0.9995:
            value = count_of_bytes / scale
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{count_of_bytes} B"


def bar(share: float, width: int, ascii_only: bool = False) -> str:
    """A bar of ``width`` characters, filled to ``share`` (0 to 1)."""
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    filled = round(max(0.0, min(1.0, share)) * width)
    if share > 0 and width:
        filled = max(1, filled)
    return full * filled + empty * (width - filled)


def _columns(values: Sequence[float], width: int) -> list[float]:
    """Average ``values`` into at most ``width`` equal groups."""
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]


def chart(
    values: Sequence[float], width: int, height: int = 1, ascii_only: bool = False, goal: float | None = None
) -> list[str]:
    """Draw ``values`` as ``height`` lines of at most ``width`` columns, the top line first.

    The lowest value shows as one eighth of a block, the highest as a full column; equal values as half a column. ``goal``: a
    value that is inside the chart too, as a line drawn under the columns.
    """
    values = [v for v in values if v is not None and math.isfinite(v)]
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    columns = _columns(values, max(1, width))
    inside = [*columns, *([] if goal is None else [goal])] if columns else [0]
    low, high = min(inside), max(inside)
    steps = height * (len(blocks) - 1)
    heights = [1 + round((v - low) / (high - low) * (steps - 1)) if high > low else steps // 2 for v in columns]
    lines = []
    for row in range(height - 1, -1, -1):
        filled = (max(0, min(len(blocks) - 1, h - row * (len(blocks) - 1))) for h in heights)
        lines.append("".join(blocks[n] for n in filled))
    if goal is not None and columns:
        row, dash = level(goal, inside, height), "-" if ascii_only else "┄"
        lines[row] = "".join(dash if block == " " else block for block in lines[row].ljust(width))
    return lines


def level(value: float, inside: Sequence[float], height: int) -> int:
    """Return the line, 0 at the top, on which ``value`` lies in a chart of the values ``inside``."""
    low, high = min(inside), max(inside)
    if high <= low:
        return height // 2
    return min(height - 1, int((high - value) / (high - low) * height))


def budget(found: Budget) -> str:
    """How far a run is within its stop rule (``view.Budget``), and how long it will take."""
    limits = [clock(value) if found.unit is None else count(value) for value in (found.value, found.limit)]
    unit = f" {found.unit}" if found.unit else ""
    left = "" if found.seconds is None or found.share >= 1 else f", {clock(found.seconds)} left"
    return f"{limits[0]} of {limits[1]}{unit} ({100 * found.share:.0f} %){left}"


def with_tilde(path: str) -> str:
    """Return ``path`` with ``~`` for the home folder, as a shell takes it too."""
    home = os.path.expanduser("~").rstrip("/")
    return "~" + path[len(home) :] if home and path.startswith(home + "/") else path


def shorten(text: str, width: int, ascii_only: bool = False) -> str:
    """Cut the middle out of ``text`` so that it fits ``width``."""
    if len(text) <= width:
        return text
    dots = "..." if ascii_only else "…"
    if width <= len(dots) + 2:
        return text[: max(0, width)]
    tail = (width - len(dots)) * 2 // 3
    return text[: width - len(dots) - tail] + dots + text[-tail:]
