"""``drl watch RUN``: the live screen of a run in another process, while it runs or after it ended.

The events come from ``runs.follow``, the screen is that of ``drl train``. Changes nothing in the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import console, group, options, run_options, shell_words, terminal
from drl_cli.cli.endings import INTERRUPTED
from drl_cli.cli.summary import RunEnding, command, summary
from drl_cli.cli.view import GOALS, RunView

if TYPE_CHECKING:
    from drl_cli.cli.console import PlainConsole
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.terminal import Session
    from drl_cli.runs.follow import Follower
    from drl_cli.runs.run_summary import Run

EXAMPLES = """
drl watch
drl watch 1a2b3c4d
drl watch ~/ray_results/default/RUN --exit-status && echo reached
drl watch RUN --json | jq .episode_reward_mean
"""
POLL_SECONDS = 0.5
FAILED = 3


@click.command("watch", cls=group.Command, examples=EXAMPLES)
@click.argument("word", metavar="[RUN]", required=False, shell_complete=shell_words.runs)
@run_options.local_dir_option()
@group.option("--exit-status", is_flag=True, help="Exit with the exit code of the run; 3 if its process died.")
@group.option("-v", "--verbose", is_flag=True, help="Print plain lines instead of the live screen.")
@options.quiet_option("Print only warnings, errors and the result.")
@group.option("--json", "as_json", is_flag=True, help="Print the lines of drl train --json, past ones first.")
@options.speech_options
@click.pass_obj
def watch(
    session: Session,
    word: str | None,
    local_dirs: tuple[str, ...],
    exit_status: bool,
    verbose: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Watch RUN from another terminal until it ends; without RUN, the newest one that is running.

    RUN is an id, a name or a path. Ctrl-C stops watching, not the run. Of a run that has ended, the last screen is shown.

    JSON: one object per iteration as in result.json, then {"finished": {"state", "text", "exit_code", "run", "final",
    "best"}}; state is finished, interrupted, failed or died.
    """
    from drl_cli.runs import find, run_summary
    from drl_cli.runs.follow import Follower

    roots = run_options.roots(local_dirs)
    path = find.find_run(word, roots) if word else find.newest(roots)
    run = run_summary.read(path)
    follower = Follower(path, all_rows=as_json)
    view = view_of(run)
    clock = _Clock(follower)
    events = follower.poll()
    watcher = console.open_watcher(view, session, verbose, quiet or as_json, clock)
    try:
        ended = _follow(follower, events, watcher, _listener(session, as_json))
    except KeyboardInterrupt:
        watcher.close()
        terminal.say(f"No longer watching; the run continues. Watch again: {command('watch', run.id)}")
        return 130
    except BaseException:
        watcher.close()
        raise
    clock.stop()
    watcher.close()
    _close(session, run, ended, as_json)
    return _exit_code(ended) if exit_status else 0


def view_of(run: Run) -> RunView:
    """Return the RunView of a Run before any of its events."""
    stop, freq = run.params.get("stop") or {}, run.params.get("checkpoint_freq")
    best = {"checkpoint": run.best_checkpoint, "metric": run.best_metric, "value": run.best}
    number = (run.best_checkpoint or "").rpartition("_")[2]
    best["training_iteration"] = int(number) if number.isdecimal() else None
    return RunView(
        algorithm=run.algorithm,
        env=run.env,
        goal=next((stop[field] for field in GOALS if field in stop), None),
        checkpoint_freq=freq or 0,
        stop=dict(stop),
        run_folder=str(run.path),
        best=best if run.best_checkpoint else None,
    )


class _Clock:
    """Seconds since the run began; stands still at the run's end."""

    def __init__(self, follower: Follower) -> None:
        self._follower, self._ended = follower, None

    def __call__(self) -> float:
        if self._ended is not None:
            return self._ended
        if self._follower.last_seconds is not None:
            return self._follower.last_seconds
        return max(0.0, time.time() - (self._follower.started or time.time()))

    def stop(self) -> None:
        """Stand still."""
        self._ended = self()


def _follow(
    follower: Follower,
    events: Sequence[tuple[str, Mapping[str, Any], float]],
    watcher: LiveScreen | PlainConsole,
    listen: Callable[[str, Mapping[str, Any]], None],
) -> Mapping[str, Any]:
    """Show ``events`` and those that follow until the run is over; return the fields of the last one."""
    while True:
        for kind, fields, seconds in events:
            watcher(kind, fields, seconds)
            listen(kind, fields)
            if kind == "finished":
                return fields
        time.sleep(POLL_SECONDS)
        events = follower.poll()


def _listener(session: Session, as_json: bool) -> Callable[[str, Mapping[str, Any]], None]:
    output = terminal.Stdout(session)

    def listen(kind: str, fields: Mapping[str, Any]) -> None:
        if as_json and kind == "result":
            output.json_line(fields["result"])

    return listen


def _close(session: Session, run: Run, ended: Mapping[str, Any], as_json: bool) -> None:
    from drl_cli.runs import run_summary

    run = run_summary.read(run.path)
    last = run.checkpoints[-1] if run.checkpoints else None
    paths = {
        "run": str(run.path),
        "final": last and str(run.path / last),
        "best": run.best_checkpoint and str(run.path / run.best_checkpoint),
    }
    facts = {"state": ended["state"], "text": ended.get("text") or "", "exit_code": ended.get("exit_code")}
    output = terminal.Stdout(session)
    if as_json:
        output.json_line({"finished": {**facts, **paths}})
        return
    if facts["state"] not in ("finished", "interrupted"):
        terminal.say(f"The run {facts['state']}: {facts['text']}", session, "red")
    ending = RunEnding(facts["state"], facts["text"], str(run.path), paths["final"], paths["best"])
    for line in summary(ending, view_of(run), run.params.get("imports") or ()):
        output.line(line)


def _exit_code(ended: Mapping[str, Any]) -> int:
    code = ended.get("exit_code")
    if isinstance(code, int):
        return code
    return FAILED if ended["state"] not in ("finished", *INTERRUPTED) else 0
