"""``drl train``: from the command line to a run, or to a search (``cli.search``), and the next commands to type.

Reads no config itself: ``experiments.search_spec`` turns flags and files into a spec, ``experiments.run`` runs it,
``console`` shows the events. Results go to stdout (the summary, or JSON lines), everything else to stderr. Training continues
when the reader of stdout closes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli import events
from drl_cli.cli import (
    console,
    endings,
    exports,
    group,
    plan,
    run_options,
    search,
    terminal,
    train_options,
)
from drl_cli.cli.summary import RunEnding, command, summary, word_of
from drl_cli.cli.view import GOALS, RunView
from drl_cli.config.env_names import displayed
from drl_cli.config.storage_uri import is_uri
from drl_cli.errors import DrlError
from drl_cli.experiments import next_steps
from drl_cli.stop_request import StopRequest

if TYPE_CHECKING:
    from pathlib import Path

    from drl_cli.cli.console import PlainConsole
    from drl_cli.cli.exports import Exports
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.terminal import Session
    from drl_cli.experiments.run import Outcome
    from drl_cli.experiments.search_spec import SearchSpec
    from drl_cli.experiments.spec import ExperimentSpec

EXAMPLES = """
drl train --env Acrobot-v1
drl train -f lunarlander-continuous-sac
drl train --run SAC --env Pendulum-v1 --stop evaluation/episode_reward_mean=-200
drl train --run SAC --env LunarLanderContinuous-v3 --config '{"num_workers": 4}' -s gamma=0.98
drl train --run SAC --env my_module:MyEnv-v0 --import my_module --seed 1 --json > results.jsonl
drl train -f cartpole-ppo --restore ~/ray_results/default/RUN/checkpoint_000010 --stop timesteps_total=1e6
drl train --run PPO --env CartPole-v1 -s 'lr={loguniform: [1e-5, 1e-2]}' --num-samples 8 --scheduler ASHA --write best.yaml
drl train --resume
"""


class TrainCommand(group.Command):
    """``drl train``, which reads ``drl train file FILE``, as RLlib 2 spells it, as ``drl train -f FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``."""
        return super().parse_args(ctx, ["-f", *args[1:]] if args[:1] == ["file"] and len(args) > 1 else args)


@click.command("train", cls=TrainCommand, examples=EXAMPLES)
@train_options.train_options
@plan.option
@plan.scale_option
@click.pass_obj
def train(
    session: Session,
    config_file: str | None,
    imports: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> int:
    """Train an agent until a stop rule is met or Ctrl-C is pressed, and keep its best and its final checkpoint.

    Exit codes are listed by drl --help; with --assert, 4 means that a score was missed.
    """
    from drl_cli.experiments.search_spec import SearchSpec

    preset = train_options.preset()
    flags = {name: _given(value) for name, value in flags.items()}
    search_flags = {name: flags.pop(name) for name in train_options.SEARCH_NAMES}
    scale = flags.pop("scale")
    is_plan, quiet, verbose = flags.pop("plan"), bool(flags.pop("quiet")), bool(flags["verbose"])
    flags |= {"defaults": preset} if preset else {}
    flags["storage_path"] = flags["storage_path"] or None  # --upload-dir '' is RLlib's default
    flags["restore"] = flags["restore"] and run_options.place(flags["restore"], [flags["local_dir"]])
    flags = _typed({**flags, "imports": list(imports), "command": ["drl", *session.arguments]})
    if scale and not is_plan:
        raise click.UsageError("--scale is for a plan: add --plan, or leave --scale out.")
    if is_plan:
        return _plan(session, config_file, flags, search_flags, (as_json, quiet), scale)
    output = as_json, quiet, verbose
    code = search.resume(session, flags, search_flags, output)
    if code is not None:
        return code
    found, reported = _read(config_file, flags, search_flags)
    if not quiet:
        _say_choice(reported)
    if isinstance(found, SearchSpec):
        return search.SearchRun(session, *output).start(found)
    return Show(session, *output, imports).run(found, reported)


def _plan(
    session: Session,
    config_file: str | None,
    flags: Mapping[str, Any],
    search_flags: Mapping[str, Any],
    output: tuple[bool, bool],
    scale: Mapping[str, Any] | None,
) -> int:
    """Show what the run would take, and return the exit code; ``output``: (json, quiet); ``scale``: a ClusterShape's fields."""
    from drl_cli.checks import run_plan
    from drl_cli.experiments.search_spec import SearchSpec

    found, reported = _read(config_file, flags, search_flags)
    _say_choice(reported)
    if isinstance(found, SearchSpec):
        if scale:
            raise click.UsageError("--scale plans one run, and this is a search: leave one of them out.")
        spec, trials = run_plan.largest(found)
        notices = found.notices
    else:
        spec, trials = found, None
        notices = [fields["text"] for kind, fields in reported if kind in ("notice", "warning")]
    for text in notices:
        terminal.say(text)
    return plan.show(session, spec, trials, *output, scale)


def _typed(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags as ``experiments.config_tree`` lists them."""
    seed = flags.pop("seed")
    if seed is not None:
        flags["set"] = [*(flags["set"] or []), f"seed={seed}"]
    flags["resume"] = (
        True if flags["resume"] == train_options.NEWEST else _resumed(flags["resume"], [flags["local_dir"]])
    )
    if isinstance(flags["resume"], str) and is_uri(flags["resume"]):
        flags["resume"], root = run_options.resumed_place(flags["resume"], [flags["local_dir"]])
        if root and ("storage_path" in flags.get("defaults", ()) or flags["storage_path"] is None):
            flags["storage_path"] = root
            flags["defaults"] = [name for name in flags.get("defaults", ()) if name != "storage_path"]
    return flags


def _resumed(word: str | None, local_dirs: Sequence[str | None]) -> str | None:
    """Return the record of the search, or the folder of the run, that is meant by an id or a name; a URI as it is."""
    if not word or is_uri(word):
        return word or None
    from drl_cli.runs.search_folders import find_record

    record = find_record(word, run_options.roots(local_dirs))
    return str(record) if record else run_options.place(word, local_dirs)


def _read(
    config_file: str | None, flags: Mapping[str, Any], search_flags: Mapping[str, Any]
) -> tuple[ExperimentSpec | SearchSpec, list[tuple[str, Mapping[str, Any]]]]:
    """Return the ExperimentSpec or the SearchSpec of what was typed, and the events reported while it was read."""
    from drl_cli.experiments import search_spec

    reported: list[tuple[str, Mapping[str, Any]]] = []
    unsubscribe = events.subscribe(lambda kind, fields: reported.append((kind, fields)))
    try:
        return search_spec.read(config_file, flags, search_flags), reported
    finally:
        unsubscribe()


def _say_choice(reported: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Print what was chosen for a command without --run, where the live screen does not overwrite it."""
    for kind, fields in reported:
        if kind == "choice":
            terminal.say(fields["text"])


class Show:
    """Runs specs and shows them: a watcher on stderr, results on stdout."""

    def __init__(
        self, session: Session, as_json: bool, quiet: bool, verbose: bool, imports: tuple[str, ...] = ()
    ) -> None:
        self._session = session
        self._imports = imports
        self._as_json = as_json
        self._quiet = quiet
        self._plain = verbose or (as_json and terminal.is_terminal(sys.stdout))
        self._output = terminal.Stdout(session, keep_going=True)
        self._diversion = terminal.Diversion()
        self._finished = None  # fields of that event

    def run(self, spec: ExperimentSpec, reported: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> int:
        """Run one experiment and return its exit code; ``reported``: events that came before it could be watched."""
        view = _view_of(spec)
        if spec.log_format == "json":  # what libraries write is not JSON
            self._session.raw_log = "stderr.log"
        watcher = console.open_watcher(view, self._session, self._plain, self._quiet)
        request = StopRequest(watcher.interrupt).install()
        request.before_exit(lambda *_: self._last_word(watcher))
        unsubscribe = [events.subscribe(watcher), events.subscribe(self._listen)]
        try:
            for kind, fields in reported:
                watcher(kind, fields)
            from drl_cli.experiments import run

            outcome = run.run(spec, request)
        except BaseException:
            watcher.close()
            self._after_failure(view)
            raise
        finally:
            self._diversion.end()
            for stop in unsubscribe:
                stop()
            watcher.close()
            request.remove()
        made = exports.Exports(spec.export_formats, outcome)
        if spec.export_formats and spec.storage_path:
            _copy_exports(outcome.run_folder, spec.storage_path)
        self._close(outcome, view, made)
        made.raise_failure()
        return outcome.exit_code

    def _listen(self, kind: str, fields: Mapping[str, Any]) -> None:
        if fields.get("run"):
            self._session.run_folder = str(fields["run"])
        if kind == "run":
            self._diversion.into(os.path.join(fields["run"], self._session.raw_log))
        if kind == "finished":
            self._finished = fields
        if kind == "result" and self._as_json:
            self._output.json_line(fields["result"])

    def _last_word(self, watcher: LiveScreen | PlainConsole) -> None:
        """Say how the run ended, right before the process ends without coming back to ``run``."""
        watcher.abandon()
        self._diversion.end()
        reported = self._finished
        if reported is None or reported["state"] == "interrupted":
            terminal.say(f"Interrupted: {reported['text'] if reported else 'nothing had started'}")
        elif reported["exit_code"]:
            terminal.say(f"Error: {reported['text']}", self._session, "red")
        else:
            terminal.say(f"Finished: {reported['text']}")
        if reported and self._as_json:
            names = ("state", "exit_code", "text", "run", "final", "best")
            self._output.json_line({"finished": {name: reported[name] for name in names}})

    def _close(self, outcome: Outcome, view: RunView, made: Exports) -> None:
        if outcome.exit_code and outcome.exit_code not in endings.INTERRUPTED:
            terminal.say(f"Error: {outcome.text}", self._session, "red")
        found = {"run": outcome.run_folder, "final": outcome.final, "best": outcome.best}
        paths = {name: path and str(path) for name, path in found.items()}
        if self._as_json:
            reported = {"state": outcome.state, "exit_code": outcome.exit_code, "text": outcome.text}
            self._output.json_line({"finished": {**reported, **paths, **made.paths()}})
        elif not self._quiet:
            ending = RunEnding(outcome.state, outcome.text, str(outcome.run_folder), paths["final"], paths["best"])
            for line in [*summary(ending, view, self._imports), *made.lines()]:
                self._output.line(line)

    def _after_failure(self, view: RunView) -> None:
        if view.run_folder and view.checkpoint and not self._quiet:
            terminal.say(f"Last checkpoint: {os.path.basename(str(view.checkpoint['path']))}")
            extra = next_steps.needed(self._imports, view.env)
            terminal.say(f"Resume with:     {command('train', '--resume', word_of(view.run_folder), *extra)}")


def _copy_exports(folder: Path, storage_path: str) -> None:
    """Copy what was exported to the storage, where the rest of the run is already."""
    from drl_cli.runs.run_upload import RunUpload

    try:
        RunUpload(folder, storage_path).copy()
    except (DrlError, OSError) as error:
        terminal.say(f"Warning: the exports were not copied: {error}")


def _given(value: Any) -> Any:
    """Return what was typed, as plain data: None for a flag or a repeatable option that was left out."""
    if isinstance(value, tuple):
        return list(value) or None
    return None if value is False else value


def _view_of(spec: ExperimentSpec) -> RunView:
    """Return the RunView of a spec before anything happened."""
    return RunView(
        algorithm=spec.run,
        env=displayed(spec.env, spec.config.env_config),
        goal=next((spec.stop[field] for field in GOALS if field in spec.stop), None),
        checkpoint_freq=spec.checkpoint_freq or 0,
        stop=dict(spec.stop),
    )
