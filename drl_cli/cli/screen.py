"""The live screen: one look at a run, redrawn in place on stderr at most four times a second.

Opened by ``console.open_watcher`` on a terminal. ``picture(view, …)`` turns a RunView into something rich can print
and is all there is to look at; ``live.LiveScreen`` keeps it on the terminal. At most 22 lines at 80 by 24; higher ones give
the chart more lines, and axes. From 120 columns on it stands at the left of the figures; no line of the chart is longer than
a window of 70 columns holds, and beyond 140 columns nothing becomes more readable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from drl_cli.cli import figures, terminal
from drl_cli.cli.view import STOPPING, RunView, nearest_limit
from drl_cli.config.result_names import EVALUATION_REWARD

if TYPE_CHECKING:
    from rich.console import Console
    from rich.spinner import Spinner

WIDE, WIDEST = 120, 140  # columns from which the chart stands beside the figures; columns that are used
AXES = 30  # lines from which the chart has axes
NARROW = 70  # columns to which a screen may be made narrower without a line of the picture leaving it at the top
NOTICES_KEPT = 4  # lines that the chart leaves to them
NOTICE_LINES = 3  # of one notice
ROOMY = 24  # lines from which there are blank ones
LABEL = 12  # columns of the names on the left
Part = str | tuple[str, str]  # a string, with its style
TONES = {"warning": "yellow", "goal": "bold green", "phase": "dim", "notice": ""}


def picture(
    view: RunView, seconds: float, rich_console: Console, spinner: Spinner | None = None, interrupted: bool = False
) -> Constrain:
    """Return the renderable for ``view`` at ``seconds`` since the start, fitted to the console's width and height."""
    plain = not terminal.is_unicode(rich_console.file)
    width, height = min(rich_console.width, WIDEST) - 1, rich_console.height
    beside = width + 1 >= WIDE
    left = min(width // 2, width - 60, NARROW) if beside else width
    right = width - left - 2 if beside else width
    numbers = _figures(view, seconds, right, plain, 3 if beside and height >= ROOMY else 2)
    learning = _learning(view, seconds, left)
    gaps = (2 if beside else 3) if height >= ROOMY else 0
    around = 3 + gaps + len(learning) + (0 if beside else len(numbers))  # with the title, its folder, and what goes on
    least = max(4 if height >= AXES else 2 if height >= ROOMY else 1, len(numbers) - len(learning) if beside else 1)
    notes = min(len(view.notices), NOTICES_KEPT)
    # A screen that is made narrower must hold what wraps: of two columns the lines with figures, the title and the notices.
    holds = height - around - len(numbers) - 2 * notes - 3 if beside else height // 2 - around - notes
    chart = _chart(view, left, max(1, min(height - around - 1, max(least, holds))), plain)
    learning[0 if view.only_reads else 1 : 0 if view.only_reads else 1] = chart
    rows = [_title(view, seconds, width, plain), *_body(learning, numbers, (left, right) if beside else None, gaps)]
    rows += [*[Text("")] * (gaps > 0), _now(view, spinner, interrupted)]
    space = max(0, min(6, height - around - len(chart) - 1))  # the line below belongs to the cursor
    return Constrain(Group(*rows, *_notices(view, width, space, plain)), width)


def _body(
    learning: Sequence[Text], numbers: Sequence[Text], columns: tuple[int, int] | None, gaps: int
) -> list[RenderableType]:
    """Return what is learnt and the figures, side by side in two ``columns`` or one below the other."""
    gap = [Text("")] * (gaps > 0)
    if columns is None:
        return [*gap, *learning, *gap, *numbers]
    body = Table.grid(padding=(0, 2, 0, 0))
    for width in columns:
        body.add_column(width=width)
    body.add_row(Group(*learning), Group(*numbers))
    return [*gap, body]


def _title(view: RunView, seconds: float, width: int, plain: bool) -> Group:
    dot = " - " if plain else " · "
    workers = view.progress.get("workers")
    names = [view.algorithm, view.env]
    if workers is not None:
        names.append("inline" if workers == 0 else f"{workers} worker{'s' if workers > 1 else ''}")
    head = Text(dot.join(name for name in names if name), style="bold", no_wrap=True)
    head.truncate(width - 9)
    elapsed = figures.clock(seconds)
    head.append(" " * max(1, width - head.cell_len - len(elapsed)) + elapsed, style="not bold cyan")
    folder = Text(figures.shorten(figures.with_tilde(view.run_folder), width, plain) or " ", style="dim", no_wrap=True)
    return Group(head, folder)


def _row(name: str, *parts: Part) -> Text:
    line = Text(no_wrap=True)
    line.append(f"{name:<{LABEL}}", style="dim")
    for part in parts:
        text, style = part if isinstance(part, tuple) else (part, "")
        line.append(text, style=style)
    return line


def _learning(view: RunView, seconds: float, width: int) -> list[Text]:
    """Return the rows on rewards: training, evaluation and best each in a line of its own."""
    rows = [] if view.only_reads else [_row("training", *_training(view))]
    if view.by_policy.get("policy_reward_mean"):
        rows.append(_row("policies", f"   {figures.by_policy(view.by_policy, width - LABEL - 3)}"))
    rows += [_row("evaluation", *_evaluation(view, seconds)), _row("best", *_best(view))]
    if view.estimates:
        rows.append(_row("recorded", f"   {figures.estimates(view.estimates)}"))
    if view.custom_metrics:
        rows.append(_row("metrics", f"   {figures.custom_metrics(view.custom_metrics, width - LABEL - 3)}"))
    return rows


def _training(view: RunView) -> list[Part]:
    if view.reward is None:
        return [("no episode has ended yet", "dim")]
    return [(f"{figures.reward(view.reward):>8}", "bold"), ("   mean of the newest episodes", "dim")]


def _chart(view: RunView, width: int, height: int, plain: bool) -> list[Text]:
    """Return the lines of the curve; from three lines on with the values and the goal at its left, and env steps below."""
    axes = height >= 3 and bool(view.curve.points)
    lines = height - 1 if axes else height
    values = view.curve.columns(width - LABEL)
    drawn = figures.chart(values, width - LABEL, lines, plain, view.goal if axes else None)
    labels = [""] * lines
    if axes:
        low, high = min(values), max(values)
        known = [low, high, *([] if view.goal is None else [view.goal])]
        labels[0], labels[-1] = figures.reward(max(known)), figures.reward(min(known))
        if view.goal is not None:
            labels[figures.level(view.goal, known, lines)] = f"goal {view.goal:g}"
    rows = [
        _row(f"{label:>{LABEL - 2}}"[: LABEL - 1], (line, "cyan")) for label, line in zip(labels, drawn, strict=True)
    ]
    if axes:
        first, last = (figures.count(view.curve.points[place][0]) for place in (0, -1))
        first = first if len(values) > 1 else ""
        end = f"{last} {'timesteps' if view.only_reads else 'env steps'}"
        rows.append(_row("", (f"{first}{end:>{max(1, width - LABEL - len(first))}}", "dim")))
    return rows


def _evaluation(view: RunView, seconds: float) -> list[Part]:
    if view.evaluation is None:
        return [("not measured yet", "dim")]
    done = view.evaluation
    parts: list[Part] = [f"{figures.reward(done.get('episode_reward_mean')):>8}"]
    parts.append(
        (f"   {figures.episodes(done.get('episodes'))}, {figures.ago(max(0, seconds - done['seconds']))} ago", "dim")
    )
    if done.get("confirmed") is not None:
        value = done["confirmed"]
        good = view.goal is None or value >= view.goal
        parts.append((f"; confirmed: {figures.reward(value)}", "green" if good else "yellow"))
    return parts


def _best(view: RunView) -> list[Part]:
    """What best.json says: the checkpoint that is kept, and its score."""
    goal = [] if view.goal is None else [("   goal ", "dim"), f"{view.goal:,g}"]
    if view.best is None:
        return [("not measured yet", "dim"), *goal]
    value = view.best.get("value")
    kind = "" if view.best.get("metric") == EVALUATION_REWARD else " of training"
    reached = view.goal is not None and value is not None and value >= view.goal
    at = (f"   iteration {view.best.get('training_iteration')}{kind}", "dim")
    return [(f"{figures.reward(value):>8}", "green" if reached else ""), at, *goal]


def _figures(view: RunView, seconds: float, width: int, plain: bool, advice: int = 2) -> list[Text]:
    """Return the rows of counters; ``advice``: the most lines that what the run waits for may take."""
    now = view.progress
    steps = _counter(now.get("env_steps"), now.get("env_steps_per_s"))
    rows = [
        _row("read" if view.only_reads else "episodes", *_episodes(view, now)),
        _row("timesteps" if view.only_reads else "env steps", *steps),
        *_budget(view, seconds, width, plain),
        _row("updates", *_counter(now.get("updates"), now.get("updates_per_s")), *_learner(view)),
    ]
    if now.get("replay_capacity"):
        rows.append(_row("replay", *_replay(now, width, plain)))
    rows += [_row("weights", *_weights(now)), *_slowest(now, width, plain, advice)]
    rows.append(_row("checkpoint", *_checkpoint(view, seconds)))
    for row in rows:
        row.truncate(width, overflow="ellipsis")
    return rows


def _budget(view: RunView, seconds: float, width: int, plain: bool) -> list[Text]:
    """Return the row on the stop rule that ends the run first, none without such a rule."""
    found = nearest_limit(view, seconds)
    if found is None:
        return []
    text = figures.budget(found)
    room = min(20, width - LABEL - len(text) - 3)
    bar = [(figures.bar(found.share, room, plain) + "  ", "cyan")] if room >= 4 else []
    return [_row("budget", *bar, text)]


def _slowest(now: Mapping[str, Any], width: int, plain: bool, most: int) -> list[Text]:
    """Return the rows, at most ``most``, that name the bottleneck."""
    lines = _wrapped(now.get("bottleneck") or now.get("waiting") or "not measured yet", width - LABEL, most, plain)
    return [_row("bottleneck" if number == 0 else "", line) for number, line in enumerate(lines)]


def _episodes(view: RunView, now: Mapping[str, Any]) -> list[Part]:
    iteration = (f"   iteration {view.iteration}", "dim")
    if not view.only_reads:
        return [f"{figures.count(now.get('episodes')):>8}", iteration]
    read = now["read"]
    what = (
        f" steps, {figures.count(read['num_episodes_read'])} episodes, mean {figures.reward(read['read_reward_mean'])}"
    )
    return [f"{figures.count(read['num_steps_read']):>8}", (what, ""), iteration]


def _counter(value: float | None, per_second: float | None) -> list[Part]:
    speed = "" if per_second is None else f"{figures.count(per_second):>10} /s"
    return [f"{figures.count(value):>8}", (speed, "dim")]


def _learner(view: RunView) -> list[tuple[str, str]]:
    state = view.compiling or view.progress.get("learner") or ""
    return [] if state in ("", "learning") else [(f"   {state}", "yellow")]


def _replay(now: Mapping[str, Any], width: int, plain: bool) -> list[Part]:
    size, capacity = now.get("replay_size"), now.get("replay_capacity")
    text = f"  {figures.count(size)} of {figures.count(capacity)}"
    room = max(4, min(30, width - LABEL - len(text) - 1))
    return [(figures.bar((size or 0) / (capacity or 1), room, plain), "cyan"), text]


def _weights(now: Mapping[str, Any]) -> list[Part]:
    version = now.get("weight_version")
    if version is None:
        return [("not pushed yet", "dim")]
    lag = None if now.get("only_reads") else now.get("weight_lag")
    current = ", current samples" if now.get("replay_capacity") else ", on-policy (current weights)"
    age = "" if lag is None else f", samples are {lag:.1f} versions old" if lag else current
    return [f"version {figures.count(version)}", (age, "dim")]


def _checkpoint(view: RunView, seconds: float) -> list[Part]:
    coming = view.next_checkpoint()
    after = f"next at iteration {coming}" if coming else "next when the best improves"
    if view.checkpoint is None:
        return [("none yet, ", "dim"), (after + ("" if coming else ", or at the end"), "dim")]
    done = view.checkpoint
    since = figures.ago(max(0, seconds - done["at"]))
    return [f"iteration {done['training_iteration']}", (f" ({done['reason']}) {since} ago, {after}", "dim")]


def _now(view: RunView, spinner: Spinner | None, interrupted: bool) -> Spinner | Text:
    if view.finished:
        good = view.finished.get("state") == "finished"
        return Text(view.finished.get("state", ""), style="bold green" if good else "bold yellow")
    doing = view.phase or view.compiling
    if doing:
        if spinner is None:
            return Text(doing)
        spinner.text = Text(STOPPING if interrupted else doing, style="yellow" if interrupted else "")
        return spinner
    return Text(STOPPING if interrupted else " ", style="yellow")


def _notices(view: RunView, width: int, space: int, plain: bool) -> list[Text]:
    """Return the lines of the newest notices that fit into ``space``, each wrapped to at most ``NOTICE_LINES``."""
    lines = []
    for seconds, text, kind in reversed(view.notices):
        wrapped = _wrapped(text, width - 9, NOTICE_LINES if space - len(lines) >= NOTICE_LINES else 1, plain)
        if len(lines) + len(wrapped) > space:
            break
        block = [Text(no_wrap=True) for _ in wrapped]
        for number, (line, part) in enumerate(zip(block, wrapped, strict=True)):
            line.append(f"{figures.clock(seconds):>7}  " if number == 0 else " " * 9, style="dim")
            line.append(part, style=TONES.get(kind, ""))
        lines = block + lines
    return lines


def _wrapped(text: str, width: int, most: int, plain: bool) -> list[str]:
    """Return ``text`` in at most ``most`` lines of ``width``; what is too long loses its middle."""
    lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], figures.shorten(" ".join(lines[most - 1 :]), width, plain)]
