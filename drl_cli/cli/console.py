"""Plain lines about a run, for logs, pipes and CI; and the choice between them and the live screen.

``train`` opens one watcher and subscribes it to the events. Both kinds have ``__call__(kind, fields)`` for events,
``interrupt(number)`` and ``abandon()``, which are safe inside a signal handler, and ``close()``. Everything goes to
stderr. A stderr that breaks silences a watcher and never the training.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import figures, terminal
from drl_cli.cli.view import STOPPING, nearest_limit
from drl_cli.config.result_names import EVALUATION_REWARD
from drl_cli.process import seconds_since_start

if TYPE_CHECKING:
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.terminal import Session
    from drl_cli.cli.view import Budget, RunView

MIN_SECONDS_BETWEEN_ITERATIONS = 2.0
MIN_SCREEN = (60, 18)  # columns, lines
METRICS_WIDTH = 60  # columns of a line for callbacks' metrics
AGAIN_S = {"best": 10.0, "checkpoint": 10.0, "evaluation": 30.0}  # between two lines that say nothing new
COLORS = {"warning": "yellow", "goal": "green"}


def open_watcher(
    view: RunView,
    session: Session,
    plain: bool = False,
    quiet: bool = False,
    clock: Callable[[], float] = seconds_since_start,
) -> LiveScreen | PlainConsole:
    """Return a LiveScreen when stderr is a terminal to draw on, else a PlainConsole; quiet ones only show warnings.

    ``clock`` returns the seconds that the run has gone on for.
    """
    stream = terminal.private_stderr()
    if plain or quiet or not fits_screen(stream) or terminal.in_ci():
        return PlainConsole(stream, view, clock, quiet=quiet, color=terminal.use_color(stream, session))
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.screen import picture

    return LiveScreen(terminal.rich_console(stream, session), view, picture, clock)


def fits_screen(stream: terminal.Stream) -> bool:
    """Whether ``stream`` is a terminal that is large enough to be drawn on."""
    columns, lines = (terminal.is_terminal(stream) and terminal.size(stream)) or (0, 0)
    return columns >= MIN_SCREEN[0] and lines >= MIN_SCREEN[1]


class PlainConsole:
    """One line for each thing worth knowing; iterations at most every two seconds.

    stream: where lines go (see ``terminal.Forgiving``). view: RunView, kept up to date here. clock: seconds
    since the process started.
    """

    def __init__(
        self,
        stream: terminal.Stream,
        view: RunView,
        clock: Callable[[], float] = seconds_since_start,
        quiet: bool = False,
        color: bool = False,
    ) -> None:
        self.view = view
        self._stream = stream
        self._clock = clock
        self._quiet = quiet
        self._color = color
        self._last_iteration = -MIN_SECONDS_BETWEEN_ITERATIONS
        self._held_back = None
        self._scored, self._said_at = None, {}  # the newest evaluation; kind -> when a line of it was written
        self._interrupted = False
        self._lock = threading.Lock()

    def __call__(self, kind: str, fields: Mapping[str, Any], seconds: float | None = None) -> None:
        """Take one event, of now or of ``seconds`` on this clock, and write its line, if it has one."""
        seconds = self._clock() if seconds is None else seconds
        with self._lock:
            best_before = self.view.best
            self.view.take(kind, fields, seconds)
            if kind == "result":
                self._iteration(fields["result"], seconds)
                return
            if self._is_no_news(kind, fields, seconds, best_before):
                return
            text = self._text(kind, fields)
            tone = "warning" if kind in ("worker_lost", "checkpoint_failed", "diagnosis") else kind
            if kind == "finished" and self._held_back:
                self._write(self._held_back, seconds)
            if text and (tone == "warning" or not self._quiet):
                self._write(text, seconds, COLORS.get(tone))

    def interrupt(self, _number: int) -> None:
        """Acknowledge the first Ctrl-C. Called in a signal handler: one write, no lock, no buffer."""
        self._interrupted = True
        terminal.write_raw(self._stream, f"\n{STOPPING}\n")

    def abandon(self, _number: int | None = None) -> None:
        """Nothing to put back: plain lines leave the terminal as it was."""

    def close(self) -> None:
        """Write what was held back."""
        with self._lock:
            if self._held_back:
                self._write(self._held_back, self._clock())

    def _iteration(self, result: Mapping[str, Any], seconds: float) -> None:
        line = _iteration_line(result, nearest_limit(self.view, seconds))
        if seconds - self._last_iteration < MIN_SECONDS_BETWEEN_ITERATIONS:
            self._held_back = line
            return
        self._last_iteration, self._held_back = seconds, None
        self._write(line, seconds)

    def _is_no_news(
        self, kind: str, fields: Mapping[str, Any], seconds: float, best_before: Mapping[str, Any] | None
    ) -> bool:
        """Whether an event repeats what was printed just before: the same score, or one more periodic checkpoint."""
        if kind == "best":
            known = (best_before or {}).get("value")
            if fields["metric"] == EVALUATION_REWARD:
                return fields["value"] == known
        elif kind == "evaluation":
            if fields.get("confirmed") is not None or fields.get("episode_reward_mean") != self._scored:
                self._scored, self._said_at[kind] = fields.get("episode_reward_mean"), seconds
                return False
        elif kind != "checkpoint" or fields["reason"] != "periodic":
            return False
        if seconds - self._said_at.get(kind, -math.inf) < AGAIN_S[kind]:
            return True
        self._said_at[kind] = seconds
        return False

    def _text(self, kind: str, fields: Mapping[str, Any]) -> str:
        if kind in ("phase", "notice", "diagnosis"):
            return fields["text"]
        if kind == "bottleneck":
            return f"measured: {fields['text']}"
        if kind == "stopping":
            return "" if self._interrupted else fields["text"]
        if kind in ("warning", "worker_lost", "checkpoint_failed", "goal"):
            return self.view.notices[-1][1]
        if kind == "worker_started":
            return self.view.notices[-1][1] if fields.get("incarnation") else ""
        if kind == "evaluation":
            return _evaluation_line(fields)
        if kind == "estimates":
            return f"by recorded episodes: {figures.estimates(fields)}"
        if kind == "held":
            return f"held: mean {fields['value']:.1f} over {fields['evaluations']} evaluations after the goal"
        if kind == "checkpoint":
            return _checkpoint_line(fields)
        if kind == "best":
            return _best_line(fields)
        if kind == "history":
            return _best_line(fields["best"]) if fields["best"] else ""
        if kind == "learner":
            return fields["text"]
        if kind == "finished":
            return fields["state"]  # the command prints the reason, once
        return ""

    def _write(self, text: str, seconds: float, color: str | None = None) -> None:
        self._held_back = None if text is self._held_back else self._held_back
        if self._quiet and color != COLORS["warning"]:
            return
        text = click.style(text, fg=color) if color and self._color else text
        self._stream.write(f"{figures.clock(seconds):>7}  {text}\n")
        self._stream.flush()


def _iteration_line(result: Mapping[str, Any], spent: Budget | None = None) -> str:
    info = result.get("info") or {}
    elapsed = result.get("time_this_iter_s") or 0
    steps = result.get("timesteps_this_iter") or 0
    speed = f" ({steps / elapsed:,.0f}/s)" if elapsed and steps else ""
    updates = f"{figures.count(info.get('num_updates'))} updates{_by_policy(result)}{_custom(result)}"
    updates += f"; {figures.budget(spent)}" if spent else ""
    if "num_passes" in info:  # nothing but files is learnt from
        passes = "" if info["num_passes"] is None else f", {info['num_passes']:,.3g} passes over the data"
        return (
            f"iteration {result.get('training_iteration')}: {figures.count(info.get('num_steps_read'))} steps read{passes}, "
            f"{figures.count(result.get('timesteps_total'))} timesteps{speed}, {updates}"
        )
    return (
        f"iteration {result.get('training_iteration')}: reward {figures.reward(result.get('episode_reward_mean'))}"
        f"{figures.success(result)}, {figures.episodes(result.get('episodes_total'))}, "
        f"{figures.count(result.get('timesteps_total'))} steps{speed}, {updates}"
    )


def _by_policy(result: Mapping[str, Any]) -> str:
    found = figures.by_policy(result, METRICS_WIDTH) if result.get("policy_reward_mean") else ""
    return f"; by policy: {found}" if found else ""


def _custom(result: Mapping[str, Any]) -> str:
    found = result.get("custom_metrics")
    return f"; {figures.custom_metrics(found, METRICS_WIDTH)}" if found else ""


def _evaluation_line(fields: Mapping[str, Any]) -> str:
    value = fields.get("episode_reward_mean")
    text = f"evaluation: reward {figures.reward(value)} over {fields.get('episodes')} greedy episodes{figures.success(fields)}"
    text += _by_policy(fields)
    if fields.get("confirmed") is not None:
        text += f"; confirmed: {figures.reward(fields['confirmed'])}"
    return text


def _checkpoint_line(fields: Mapping[str, Any]) -> str:
    reason = fields["reason"]
    return "" if reason == "best" else f"{os.path.basename(str(fields['path']))} ({reason})"  # the best says so itself


def _best_line(fields: Mapping[str, Any]) -> str:
    kind = "evaluation" if fields["metric"] == EVALUATION_REWARD else "training reward"
    return f"best so far: {fields['checkpoint']}, {kind} {figures.reward(fields['value'])}"
