"""Types of option values; a value that does not fit is refused in a sentence, a misspelt word with the nearest one."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from drl_cli.errors import suggestion

SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class OneOf(click.Choice):
    """One of a few words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, or say which ones there are."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            hint = suggestion(value, self.choices)
            return self.fail(f"{str(value)[:60]!r} is not known.{hint} It takes {self._listed()}.", param, ctx)

    def get_missing_message(self, *_arguments: object, **_keywords: Any) -> str:
        """Return what follows "Missing argument …"."""
        return f"It takes {self._listed()}."

    def _listed(self) -> str:
        words = list(map(str, self.choices))
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


class Whole(click.IntRange):
    """A whole number, with bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or say what is allowed."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return self.fail(_is_not(value, "a whole number", self), param, ctx)


class Number(click.FloatRange):
    """A finite number, with bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or say what is allowed."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        return number if math.isfinite(number) else self.fail(_is_not(value, "a number", self), param, ctx)


class Span(click.ParamType):
    """A span of time such as 90s, 30m, 12h, 7d, 2w; becomes seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds in ``value``."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(s|min|m|h|d|w)", value.strip())
        if not match:
            self.fail(f"{value!r} is not a span of time; write 90s, 30m, 12h, 7d or 2w.", param, ctx)
        return float(match[1]) * SECONDS[match[2]]


def _is_not(value: object, what: str, bounds: Number | Whole) -> str:
    low, high = bounds.min, bounds.max
    if low is not None and high is not None:
        what += f" from {low:g} to {high:g}"
    elif low is not None or high is not None:
        what += f" of at least {low:g}" if high is None else f" of at most {high:g}"
    return f"{str(value)[:60]!r} is not {what}."


CLUSTER_WORDS = ("workers", "nodes", "cores", "gbit", "gib")


class ClusterSize(click.ParamType):
    """A number of workers and the cluster they are on, ``64,nodes=4,cores=16,gbit=10,gib=64``; becomes a dict of the five."""

    name = "cluster"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return {"workers", "nodes", "cores", "gbit", "gib"}, or say what is allowed."""
        if isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for word in str(value).split(","):
            name, _, text = word.rpartition("=")
            name = name.strip() or "workers"
            if name not in CLUSTER_WORDS:
                hint = suggestion(name, CLUSTER_WORDS)
                self.fail(
                    f"{name[:60]!r} is not known.{hint} It takes a number of workers, nodes=, cores=, gbit=, gib=.",
                    param,
                    ctx,
                )
            kind = Number(0.001, 1e6) if name in ("gbit", "gib") else Whole(1, 1_000_000)
            found[name] = kind.convert(text.strip(), param, ctx)
        if "workers" not in found:
            self.fail(f"{str(value)[:60]!r} names no number of workers, as 64 or 64,nodes=4.", param, ctx)
        cores = found.get("cores", 16)
        return {
            "nodes": math.ceil((found["workers"] + 1) / cores),
            "cores": cores,
            "gbit": 10.0,
            "gib": 4.0 * cores,
            **found,
        }
