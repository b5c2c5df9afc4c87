"""The live screen: one look at a run, redrawn in place on stderr at most four times a second.

Opened by ``console.open_watcher`` on a terminal. ``picture(view, …)`` turns a RunView into something rich can print
and is all there is to look at; ``live.LiveScreen`` keeps it on the terminal. At most 22 lines at 80 by 24; from 120
columns on the reward gets a chart of its own on the left.
"""

import os
import textwrap

from rich.console import Group
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from drl_cli.cli import console, figures, terminal

WIDE = 120  # columns from which the chart stands beside the figures
NOTICE_LINES = 3  # of one notice
ROOMY = 24  # lines from which the sparkline is two lines high
LABEL = 12  # columns of the names on the left
TONES = {"warning": "yellow", "goal": "bold green", "phase": "dim", "notice": ""}


def picture(view, seconds, rich_console, spinner=None, interrupted=False):
    """Return the renderable for ``view`` at ``seconds`` since the start, fitted to the console's width and height."""
    plain = not terminal.is_unicode(rich_console.file)
    width = rich_console.width - 1
    if width + 1 >= WIDE:
        left = min(width // 2, width - 60)
        body = Table.grid(padding=(0, 2, 0, 0))
        body.add_column(width=left)
        body.add_column(width=width - left - 2)
        right = _figures(view, seconds, width - left - 2, plain)
        body.add_row(_learning(view, seconds, left, len(right.plain.splitlines()) - 2, plain), right)
    else:
        chart_height = 2 if rich_console.height >= ROOMY else 1
        body = Group(
            _learning(view, seconds, width, chart_height, plain), Text(""), _figures(view, seconds, width, plain)
        )
    rows = [_title(view, seconds, width, plain), Text(""), body, Text(""), _now(view, spinner, interrupted)]
    used = 13 if width + 1 >= WIDE else 16 if rich_console.height >= ROOMY else 15
    used += (bool(view.estimates) + bool(view.custom_metrics)) * (width + 1 < WIDE)
    used += len(_slowest(view.progress, width, plain)) - 1 if width + 1 < WIDE else 0
    space = max(0, min(6, rich_console.height - used - 2))  # the line below belongs to the cursor
    return Constrain(Group(*rows, *_notices(view, width, space, plain)), width)


def _title(view, seconds, width, plain):
    dot = " - " if plain else " · "
    workers = view.progress.get("workers")
    names = [view.algorithm, view.env]
    if workers is not None:
        names.append("inline" if workers == 0 else f"{workers} worker{'s' if workers > 1 else ''}")
    head = Text(dot.join(name for name in names if name), style="bold", no_wrap=True)
    head.truncate(width - 9)
    elapsed = figures.clock(seconds)
    head.append(" " * max(1, width - head.cell_len - len(elapsed)) + elapsed, style="not bold cyan")
    folder = Text(figures.shorten(_with_tilde(view.run_folder), width, plain) or " ", style="dim", no_wrap=True)
    return Group(head, folder)


def _with_tilde(path):
    home = os.path.expanduser("~").rstrip("/")
    return "~" + path[len(home) :] if home and path.startswith(home + "/") else path


def _row(name, *parts):
    line = Text(no_wrap=True)
    line.append(f"{name:<{LABEL}}", style="dim")
    for part in parts:
        text, style = part if isinstance(part, tuple) else (part, "")
        line.append(text, style=style)
    return line


def _learning(view, seconds, width, chart_height, plain):
    reached = view.target is not None and view.best is not None and view.best >= view.target
    parts = [
        (f"{figures.reward(view.reward):>8}", "bold"),
        ("   best ", "dim"),
        (figures.reward(view.best), "green" if reached else ""),
    ]
    if view.target is not None:
        parts += [("   target ", "dim"), f"{view.target:,g}"]
    lines = figures.chart(view.curve.points, width - LABEL, max(1, chart_height), plain)
    rows = [_row("reward", *parts)]
    bounds = [""] * len(lines)
    if len(lines) > 2 and view.curve.points:
        bounds[0], bounds[-1] = figures.reward(max(view.curve.points)), figures.reward(min(view.curve.points))
    rows += [_row(f"{bound:>{LABEL - 2}}", (line, "cyan")) for bound, line in zip(bounds, lines, strict=True)]
    rows.append(_row("evaluation", *_evaluation(view, seconds)))
    if view.estimates:
        rows.append(_row("recorded", f"   {figures.estimates(view.estimates)}"))
    if view.custom_metrics:
        rows.append(_row("metrics", f"   {figures.custom_metrics(view.custom_metrics, width - LABEL - 3)}"))
    return Group(*rows)


def _evaluation(view, seconds):
    if view.evaluation is None:
        return [("none yet", "dim")]
    done = view.evaluation
    parts = [f"{figures.reward(done.get('episode_reward_mean')):>8}"]
    parts.append((f"   {done.get('episodes')} episodes, {figures.ago(max(0, seconds - done['seconds']))} ago", "dim"))
    if done.get("confirmed") is not None:
        fresh = done["confirmed"]
        good = view.target is None or fresh >= view.target
        parts.append((f", fresh ones {figures.reward(fresh)}", "green" if good else "yellow"))
    return parts


def _figures(view, seconds, width, plain):
    now = view.progress
    rows = [
        _row("read" if view.only_reads else "episodes", *_episodes(view, now)),
        _row(
            "timesteps" if view.only_reads else "env steps", *_counter(now.get("env_steps"), now.get("env_steps_per_s"))
        ),
        _row("updates", *_counter(now.get("updates"), now.get("updates_per_s")), *_learner(now)),
        _row("replay", *_replay(now, width, plain)),
        _row("weights", *_weights(now)),
        *_slowest(now, width, plain),
        _row("checkpoint", *_checkpoint(view, seconds)),
    ]
    text = Text("\n").join(rows)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _slowest(now, width, plain):
    """Return the rows that name what the others wait for: one, or two where the advice is long."""
    name = "bottleneck" if now.get("bottleneck") else "waiting"
    told = _wrapped(now.get(name) or "-", width - LABEL, 2, plain)
    return [_row(name if number == 0 else "", line) for number, line in enumerate(told)]


def _episodes(view, now):
    iteration = (f"   iteration {view.iteration}", "dim")
    if not view.only_reads:
        return [f"{figures.count(now.get('episodes')):>8}", iteration]
    read = now["read"]
    what = (
        f" steps, {figures.count(read['num_episodes_read'])} episodes, mean {figures.reward(read['read_reward_mean'])}"
    )
    return [f"{figures.count(read['num_steps_read']):>8}", (what, ""), iteration]


def _counter(value, per_second):
    speed = "" if per_second is None else f"{figures.count(per_second):>10} /s"
    return [f"{figures.count(value):>8}", (speed, "dim")]


def _learner(now):
    state = now.get("learner") or ""
    return [] if state in ("", "learning") else [(f"   {state}", "yellow")]


def _replay(now, width, plain):
    size, capacity = now.get("replay_size"), now.get("replay_capacity")
    if not capacity:
        return ["-"]
    text = f"  {figures.count(size)} of {figures.count(capacity)}"
    room = max(4, min(30, width - LABEL - len(text) - 1))
    return [(figures.bar((size or 0) / capacity, room, plain), "cyan"), text]


def _weights(now):
    version = now.get("weight_version")
    if version is None:
        return ["-"]
    lag = None if now.get("only_reads") else now.get("weight_lag")
    behind = "" if lag is None else f", samples are {lag:.1f} versions old" if lag else ", on-policy (current weights)"
    return [f"version {figures.count(version)}", (behind, "dim")]


def _checkpoint(view, seconds):
    coming = view.next_checkpoint()
    after = f"next at iteration {coming}" if coming else "next when the best improves"
    if view.checkpoint is None:
        return [("none yet, ", "dim"), (after + ("" if coming else ", or at the end"), "dim")]
    done = view.checkpoint
    since = figures.ago(max(0, seconds - done["at"]))
    return [f"iteration {done['training_iteration']}", (f" ({done['reason']}) {since} ago, {after}", "dim")]


def _now(view, spinner, interrupted):
    if view.finished:
        good = view.finished.get("state") == "finished"
        return Text(view.finished.get("state", ""), style="bold green" if good else "bold yellow")
    if view.phase:
        if spinner is None:
            return Text(view.phase)
        spinner.text = Text(console.STOPPING if interrupted else view.phase, style="yellow" if interrupted else "")
        return spinner
    return Text(console.STOPPING if interrupted else " ", style="yellow")


def _notices(view, width, space, plain):
    """Return the lines of the newest notices that fit into ``space``, each wrapped to at most ``NOTICE_LINES``."""
    lines = []
    for seconds, text, kind in reversed(view.notices):
        told = _wrapped(text, width - 9, NOTICE_LINES if space - len(lines) >= NOTICE_LINES else 1, plain)
        if len(lines) + len(told) > space:
            break
        block = [Text(no_wrap=True) for _ in told]
        for number, (line, part) in enumerate(zip(block, told, strict=True)):
            line.append(f"{figures.clock(seconds):>7}  " if number == 0 else " " * 9, style="dim")
            line.append(part, style=TONES.get(kind, ""))
        lines = block + lines
    return lines


def _wrapped(text, width, most, plain):
    """Return ``text`` in at most ``most`` lines of ``width``; what is too long loses its middle."""
    lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], figures.shorten(" ".join(lines[most - 1 :]), width, plain)]
