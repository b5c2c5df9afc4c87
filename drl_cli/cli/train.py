"""``drl train``: from what was typed to a run, or to a search of many (``cli.search``), and what to type next.

Reads nothing of configs itself: ``experiments.search_spec`` turns flags and files into a spec, ``experiments.run`` runs it,
``console`` shows the events. Results go to stdout (the summary, or JSON lines), all else to stderr. When the reader of
stdout leaves, training goes on.
"""

import json
import math
import os
import shlex
import sys
from pathlib import Path

import click

from drl_cli import events, process
from drl_cli.cli import (
    console,
    endings,
    exports,
    figures,
    group,
    options,
    plan,
    run_options,
    search_options,
    terminal,
)
from drl_cli.cli.view import RunView
from drl_cli.errors import InputError
from drl_cli.extras import load

EXAMPLES = """
drl train -f lunarlander-continuous-sac
drl train --run SAC --env Pendulum-v1 --stop evaluation/episode_reward_mean=-200
drl train --run SAC --env LunarLanderContinuous-v3 --config '{"num_workers": 4}' -s gamma=0.98
drl train --run SAC --env my_module:MyEnv-v0 --import my_module --seed 1 --json > results.jsonl
drl train -f cartpole-ppo --restore ~/ray_results/default/RUN/checkpoint_000010 --stop timesteps_total=1e6
drl train --run PPO --env CartPole-v1 -s 'lr={loguniform: [1e-5, 1e-2]}' --num-samples 8 --scheduler ASHA --write best.yaml
drl train --resume
"""
GOALS = ("evaluation/episode_reward_mean", "episode_reward_mean")  # stop fields that are a reward to reach


class TrainCommand(group.Command):
    """``drl train``, which reads ``drl train file FILE``, as RLlib 2 spells it, as ``drl train -f FILE``."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``."""
        return super().parse_args(context, ["-f", *args[1:]] if args[:1] == ["file"] and len(args) > 1 else args)


@click.command("train", cls=TrainCommand, examples=EXAMPLES)
@options.train_options
@search_options.search_options
@plan.option
@click.pass_obj
def train(session, config_file, imports, as_json, **flags):
    """Train an agent until a stop is reached or Ctrl-C, and keep its best and its last checkpoint.

    Exit codes are listed by drl --help; --assert adds a 4 for a score that was missed.
    """
    preset = options.preset()
    flags = {name: _given(value) for name, value in flags.items()}
    wishes = {name: flags.pop(name) for name in search_options.NAMES}
    is_plan, quiet, verbose = flags.pop("plan"), bool(flags.pop("quiet")), bool(flags["verbose"])
    flags |= {"defaults": preset} if preset else {}
    flags["restore"] = run_options.place(flags["restore"], [flags["local_dir"]])
    flags = _typed({**flags, "imports": list(imports), "command": ["drl", *session.arguments]})
    if is_plan:
        return _plan(session, config_file, flags, wishes, (as_json, quiet))
    search, output = load("drl_cli.cli.search"), (as_json, quiet, verbose)
    code = search.resume(session, flags, wishes, output)
    if code is not None:
        return code
    found, told = _read(config_file, flags, wishes)
    if isinstance(found, load("drl_cli.experiments.search_spec").SearchSpec):
        return search.Search(session, *output).start(found)
    return Show(session, *output, imports).run(found, told)


def _plan(session, config_file, flags, wishes, output):
    """Show what the run would take, and return the exit code; ``output``: (json, quiet)."""
    found, told = _read(config_file, flags, wishes)
    if isinstance(found, load("drl_cli.experiments.search_spec").SearchSpec):
        spec, trials = load("drl_cli.checks.search_plan:largest")(found)
        notices = found.notices
    else:
        spec, trials = found, None
        notices = [fields["text"] for kind, fields in told if kind in ("notice", "warning")]
    for text in notices:
        terminal.say(text)
    return plan.show(session, spec, trials, *output)


def _typed(flags):
    """Return the flags as ``experiments.config_tree`` lists them."""
    seed = flags.pop("seed")
    if seed is not None:
        flags["set"] = [*(flags["set"] or []), f"seed={seed}"]
    flags["resume"] = True if flags["resume"] == options.NEWEST else _resumed(flags["resume"], [flags["local_dir"]])
    return flags


def _resumed(word, local_dirs):
    """Return the record of the search, or the folder of the run, that is meant by an id or a name."""
    record = word and load("drl_cli.runs.search_folders:find_record")(word, run_options.roots(local_dirs))
    return str(record) if record else run_options.place(word, local_dirs)


def _read(config_file, flags, wishes):
    """Return the ExperimentSpec or the SearchSpec of what was typed, and the events that were reported while it was read."""
    told = []
    unsubscribe = events.subscribe(lambda kind, fields: told.append((kind, fields)))
    try:
        return load("drl_cli.experiments.search_spec").read(config_file, flags, wishes), told
    finally:
        unsubscribe()


class Show:
    """Runs specs and shows them: a watcher on stderr, results on stdout."""

    def __init__(self, session, as_json, quiet, verbose, imports=()):
        self._session = session
        self._imports = imports
        self._as_json = as_json
        self._quiet = self.is_quiet = quiet
        self._plain = verbose or (as_json and terminal.is_terminal(sys.stdout))
        self._output = terminal.Output(session, keep_going=True)
        self._diversion = terminal.Diversion()
        self._finished = None  # fields of that event

    def run(self, spec, told=()):
        """Run one experiment and return its exit code; ``told``: events that came before it could be watched."""
        view = _view_of(spec)
        if spec.log_format == "json":  # what others write is no JSON
            self._session.raw_log = "stderr.log"
        watcher = console.open_watcher(view, self._session, self._plain, self._quiet)
        request = process.StopRequest(watcher.interrupt).install()
        request.before_exit(lambda *_: self._last_word(watcher))
        unsubscribe = [events.subscribe(watcher), events.subscribe(self._listen)]
        try:
            for kind, fields in told:
                watcher(kind, fields)
            outcome = load("drl_cli.experiments.run").run(spec, request)
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
        self._close(outcome, view, made)
        made.raise_failure()
        return outcome.exit_code

    def _listen(self, kind, fields):
        if fields.get("run"):
            self._session.run_folder = str(fields["run"])
        if kind == "run":
            self._diversion.into(os.path.join(fields["run"], self._session.raw_log))
        if kind == "finished":
            self._finished = fields
        if kind == "result" and self._as_json:
            self._output.line(json_line(fields["result"]))

    def _last_word(self, watcher):
        """Say how the run ended, right before the process ends without coming back to ``run``."""
        watcher.abandon()
        self._diversion.end()
        told = self._finished
        terminal.say(f"Interrupted: {told['text'] if told else 'nothing had begun'}")
        if told and self._as_json:
            names = ("state", "exit_code", "text", "run", "final", "best")
            self._output.line(json_line({"finished": {name: told[name] for name in names}}))

    def _close(self, outcome, view, made):
        if outcome.exit_code and outcome.exit_code not in endings.INTERRUPTED:
            terminal.say(f"Error: {outcome.text}", self._session, "red")
        if self._as_json:
            paths = {"run": outcome.run_folder, "final": outcome.final, "best": outcome.best}
            told = {"state": outcome.state, "exit_code": outcome.exit_code, "text": outcome.text}
            paths = {name: path and str(path) for name, path in paths.items()}
            self._output.line(json_line({"finished": {**told, **paths, **made.paths()}}))
        elif not self._quiet:
            for line in [*summary(outcome, view, self._imports), *made.lines()]:
                self._output.line(line)

    def _after_failure(self, view):
        if view.run_folder and view.checkpoint and not self._quiet:
            terminal.say(f"Last checkpoint: {os.path.basename(str(view.checkpoint['path']))}")
            extra = load("drl_cli.experiments.next_steps:needed")(self._imports, view.env)
            terminal.say(f"Go on with:      {command('train', '--resume', word_of(view.run_folder), *extra)}")


def summary(outcome, view, imports=()):
    """Return the lines that end a run: what it reached, where it is, and the commands that come next.

    ``imports``: modules of ``--import``, which the next commands need too.
    """
    next_steps = load("drl_cli.experiments.next_steps")
    extra = next_steps.needed(imports, view.env)
    why = f": {outcome.text}" if outcome.state == "finished" else "."  # an error was said already
    lines = [
        "",
        f"{view.algorithm} on {view.env} {outcome.state}{why}",
        f"  Results   {figures.with_tilde(str(outcome.run_folder))}",
    ]
    if outcome.best:
        lines.append(f"  Best      {os.path.basename(str(outcome.best))}{_score(view.best)}")
    if outcome.final:
        lines.append(f"  Final     {os.path.basename(str(outcome.final))}")
    if outcome.best or outcome.final:
        run = word_of(outcome.run_folder)
        play, score = command("rollout", run, *extra), command("evaluate", run, *extra)
        lines += ["", f"  Play it   {play}", f"  Score it  {score}"]
        if outcome.state != "finished" and outcome.final:
            lines += [f"  Go on     {command('train', '--resume', run, *extra)}"]
    if modules := next_steps.modules_of_this_folder(imports, view.env):
        where = shlex.quote(os.getcwd())
        lines.append(f"  Needs     {', '.join(modules)} of {where}; elsewhere put PYTHONPATH={where} before drl")
    return lines


def _score(best: dict | None) -> str:
    """The score of the best checkpoint as best.json holds it, which is what ``drl runs`` shows."""
    if best is None or best.get("value") is None:
        return ""
    kind = "evaluation" if best.get("metric") == GOALS[0] else "training reward"
    return f"  ({kind} {figures.reward(best['value'])})"


def word_of(run_folder: os.PathLike | str) -> str:
    """Return what the other commands call the run: its id where they find it by that, else its path."""
    path = Path(run_folder).absolute()
    try:
        found = run_options.place(path.name.rpartition("_")[2])
    except InputError:
        return str(path)
    return path.name.rpartition("_")[2] if Path(found) == path else str(path)


def command(*words):
    """Return ``drl`` and ``words`` as they can be pasted into a shell."""
    return shlex.join(["drl", *(str(word) for word in words)])


def json_line(value):
    """Return ``value`` as one line of strict JSON; numbers that are not finite become null."""
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"), ensure_ascii=True)


def _finite(value):
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _given(value):
    """Return what was typed, as plain data: None for a flag or a repeatable option that was left out."""
    if isinstance(value, tuple):
        return list(value) or None
    return None if value is False else value


def _view_of(spec):
    """Return the RunView of a spec before anything happened."""
    return RunView(
        algorithm=spec.run,
        env=spec.env,
        goal=next((spec.stop[field] for field in GOALS if field in spec.stop), None),
        checkpoint_freq=spec.checkpoint_freq or 0,
        stop=dict(spec.stop),
    )
