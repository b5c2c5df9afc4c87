"""``drl train`` as a search: many trials in parallel, and the best of them.

Computes nothing itself: ``experiments.search_spec`` reads the search, ``search.run_search`` runs it, ``search_screen`` shows
it. The final table, or JSON lines, go to stdout, everything else to stderr.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli import events
from drl_cli.cli import console, figures, search_screen, search_view, terminal
from drl_cli.cli.summary import command, word_of
from drl_cli.config.plain_data import redact_command
from drl_cli.errors import ConfigError, RunFolderError
from drl_cli.stop_request import StopRequest

if TYPE_CHECKING:
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.search_screen import SearchLines
    from drl_cli.cli.search_view import SearchView
    from drl_cli.cli.terminal import Session
    from drl_cli.experiments.search_spec import SearchSpec
    from drl_cli.search.run_search import SearchOutcome
    from drl_cli.search.search_record import Record

COMPARING = ("HyperBand", "PopulationBasedTraining")  # their state is more than the rows of their trials
BEST = 5  # trials that the end names


TIME = re.compile(r"_(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_")
KEPT = (
    "resume",
    "local_dir",
    "experiment_name",
    "verbose",
    "imports",
    "command",
)  # flags that may stand beside --resume
RAY = ("ray_address", "ray_num_cpus", "ray_num_gpus", "ray_object_store_memory", "queue_trials")  # and so may these


def resume(
    session: Session, flags: Mapping[str, Any], search_flags: Mapping[str, Any], output: tuple[bool, bool, bool]
) -> int | None:
    """Resume the search that ``--resume`` names, and return its exit code; None where it names a run, or is not given.

    ``flags`` as ``experiments.config_tree`` lists them, ``search_flags`` as ``experiments.search_choices`` does;
    ``output``: (json, quiet, verbose). Flags about Ray replace those that the search was started with: a cluster that is lost
    has another address when it is back. Raises InputError.
    """
    path = to_resume(flags, search_flags)
    if path is None:
        return None
    from drl_cli.experiments.experiment_defaults import ray_settings

    typed = {name: flags.get(name) for name in RAY if name not in flags.get("defaults", ())}
    is_given = any(value not in (None, False) for value in typed.values())
    return SearchRun(session, *output).resume(path, ray_settings(typed) if is_given else None)


def to_resume(flags: Mapping[str, Any], search_flags: Mapping[str, Any]) -> Path | None:
    """Return the record of the search that ``--resume`` means, or None where it means a run or is not there.

    Without a name it is what was started last, of the experiment's unfinished searches and runs. Raises InputError.
    """
    target = flags.get("resume")
    if target is None:
        return None
    if target is True:
        path = _newest(flags)
    else:
        path = Path(target).expanduser()
        path = path if path.suffix == ".json" and path.name.startswith("search_") else None
    kept = {*KEPT, *RAY, "defaults", *flags.get("defaults", ())}  # a person's own defaults were not typed
    given = [name for name, value in {**flags, **search_flags}.items() if value and name not in kept]
    if path is not None and given:
        raise ConfigError(f"--{given[0].replace('_', '-')}: a resumed search keeps its settings. Leave it out.")
    return path


def _newest(flags: Mapping[str, Any]) -> Path | None:
    from drl_cli.runs.find import find_unfinished
    from drl_cli.runs.run_folder import results_folder
    from drl_cli.search import search_record

    home = results_folder(flags.get("local_dir"))
    name = flags.get("experiment_name") or "default"
    path = search_record.newest(home / name)
    if path is None:
        return None
    try:
        run = find_unfinished(home, name)
    except RunFolderError:
        return path
    own = f"_{path.stem.rpartition('_')[2]}_" in run.name
    return path if own or TIME.findall(path.name)[-1] >= TIME.findall(run.name)[-1] else None


class SearchRun:
    """One search and how it is shown."""

    def __init__(self, session: Session, as_json: bool, quiet: bool, verbose: bool) -> None:
        self._session, self._as_json, self._quiet, self._plain = session, as_json, quiet, verbose
        self._output, self._stdout = terminal.Stdout(session, keep_going=True), sys.stdout
        self._diversion = terminal.Diversion()

    def start(self, found: SearchSpec) -> int:
        """Run a new search; returns the exit code."""
        from drl_cli.search.search_record import Record

        return self._run(Record.new(found.data), found.notices)

    def resume(self, path: Path, ray: dict[str, Any] | None = None) -> int:
        """Go on with the search of a record, with ``ray`` in place of its settings of Ray; returns the exit code."""
        from drl_cli.search.search_record import Record

        record = Record.read(path)
        if ray is not None:
            record.data["ray"] = ray
        notices = [f"resuming search {record.data['id']}"]
        name = record.data["scheduler"]["name"]
        if name in COMPARING and not record.scheduler and any(t.get("run_folder") for t in record.trials.values()):
            notices.append(f"{name} starts from scratch: what it had compared so far was not recorded.")
        return self._run(record, notices)

    def _run(self, record: Record, notices: Sequence[str]) -> int:
        from drl_cli.search import run_search

        view = search_view.SearchView(record.data, _title(record.data), str(record.path))
        watcher = search_screen.open_watcher(view, self._session, self._plain, self._quiet)
        request = StopRequest(watcher.interrupt).install()
        request.before_exit(lambda *_: self._last_word(watcher, record, view))
        unsubscribe = [events.subscribe(watcher), events.subscribe(self._listen)]
        self._diversion.into(str(record.path.with_suffix(".log")))
        try:
            for text in notices:
                events.report("notice", text=text)
            for number, trial in record.trials.items():
                events.report("trial", trial=number, **trial)
            typed = shlex.join(redact_command(["drl", *self._session.arguments]))
            with contextlib.redirect_stdout(sys.stderr):  # where Ray says that a process died
                outcome = run_search.run(record, request, typed)
        finally:
            self._diversion.end()
            for stop in unsubscribe:
                stop()
            watcher.close()
            request.remove()
        live = not isinstance(watcher, search_screen.SearchLines)
        self._close(outcome, record, view, with_table=not (live and terminal.is_terminal(self._stdout)))
        return outcome.exit_code

    def _last_word(self, watcher: LiveScreen | SearchLines, record: Record, view: SearchView) -> None:
        """Say how far the search came, right before the process ends without coming back to ``_run``."""
        watcher.abandon()
        self._diversion.end()
        terminal.say(f"Interrupted: {view.title}: {view.counts()}")
        terminal.say(f"Resume with: {command('train', '--resume', record.path)}")

    def _listen(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "trial" and self._as_json and fields["state"] != "pending":
            line = {name: fields.get(name) for name in ("trial", "state", "run_folder", "text", "result")}
            line |= {name: fields["point"].get(name) for name in ("values", "seed", "rescore")}
            with contextlib.redirect_stdout(self._stdout):
                self._output.json_line(line)

    def _close(self, outcome: SearchOutcome, record: Record, view: SearchView, with_table: bool) -> None:
        failed = {n: t for n, t in record.trials.items() if t["state"] == "failed"}
        for number, trial in list(failed.items())[:BEST]:
            terminal.say(f"Error: trial {number} failed: {trial.get('text')}", self._session, "red")
        if len(failed) > BEST:
            terminal.say(f"… and {len(failed) - BEST} more, see {record.path}")
        if outcome.text:
            terminal.say(f"Error: {outcome.text}", self._session, "red")
        if self._as_json:
            self._output.json_line({"search": _told(outcome, record)})
        elif not self._quiet:
            for line in summary(outcome, record, view, with_table):
                self._output.line(line)


def summary(outcome: SearchOutcome, record: Record, view: SearchView, with_table: bool = True) -> list[str]:
    """Return the lines that end a search: its best trials, where they are, and the commands that come next.

    ``with_table``: the trials too; not where the live table still stands above these lines.
    """
    from drl_cli.search import trial_ranks

    groups = _groups(record)
    state = "" if outcome.state == "finished" else f" {outcome.state}"
    lines = ["", f"{view.title}{state}: {view.counts()}"]
    if groups and with_table:
        lines += ["", *_table(view, [number for group in groups for number in group[:BEST]])]
    again = trial_ranks.rescored(record.data, record.trials)
    for number, scores, _ in again:
        lines.append(f"  Trial {number} on fresh seeds: {', '.join(figures.reward(score) for score in scores)}")
    best = [again[0][2]] if outcome.written and again else [group[0] for group in groups]
    folders = [word_of(record.trials[number].get("run_folder") or "") for number in best]
    lines += ["", f"  Results   {figures.with_tilde(str(record.path))}"]
    lines += [f"  Best      {_best(record, number, word)}" for number, word in zip(best, folders, strict=True)]
    if outcome.written:
        lines.append(f"  Written   {outcome.written}")
        lines.append(f"  Run it    {command('train', '-f', outcome.written)}")
    elif folders:
        lines.append(f"  Play it   {command('rollout', folders[0])}")
        lines.append(f"  Score it  {command('evaluate', *folders)}")
    if outcome.state != "finished":
        lines.append(f"  Resume    {command('train', '--resume', record.path)}")
    return lines


def _best(record: Record, number: int, word: str) -> str:
    """The best trial, what the other commands call its run, and its score."""
    metric, result = record.data["metric"], record.trials[number].get("result") or {}
    return f"trial {number}: {word}  ({metric} {figures.reward(result.get(metric))})"


def _groups(record: Record) -> list[list[int]]:
    """Return the trials that have a run, best first, in a list for each experiment: other environments' scores say nothing."""
    from drl_cli.search import trial_ranks

    ranked = trial_ranks.ranked(record.data, record.trials)
    runs = [n for n, t in record.trials.items() if t.get("run_folder") and t["state"] != "failed"]
    ranked += [n for n in runs if n not in ranked and "rescore" not in record.trials[n]["point"]]
    groups = {}
    for number in ranked:
        groups.setdefault(record.trials[number]["point"]["experiment"], []).append(number)
    return [groups[index] for index in sorted(groups)]


def _table(view: SearchView, numbers: Sequence[int]) -> list[str]:
    cells = {number: line for number, _, line in view.rows()}
    header, rows = view.header(), [cells[number] for number in numbers]
    chosen = search_view.fitting(header, rows, max(terminal.width(), console.MIN_SCREEN[0]) - 2)
    wide = {index: max(len(line[index]) for line in [header, *rows]) for index in chosen}
    words = [header[index] in search_view.WORDS for index in range(len(header))]
    return [
        "  " + "  ".join(line[i].ljust(wide[i]) if words[i] else line[i].rjust(wide[i]) for i in chosen).rstrip()
        for line in [header, *rows]
    ]


def _title(data: Mapping[str, Any]) -> str:
    first = data["experiments"][0]["mapping"]
    names = [str(first.get(name)) for name in ("run", "env") if not isinstance(first.get(name), dict)]
    if len(data["experiments"]) > 1:
        names = [f"{len(data['experiments'])} experiments"]
    how = data["search"] or data["scheduler"]["name"]
    return " · ".join([*names, f"{data['num_trials']} trials", *([how] if how != "FIFO" else [])])


def _told(outcome: SearchOutcome, record: Record) -> dict[str, Any]:
    """Return what ``--json`` says of the end."""
    from drl_cli.search import trial_ranks

    trials = record.trials
    best = [
        {
            "trial": number,
            "score": trial_ranks.score_of(record.data, trials[number].get("result")),
            "values": trials[number]["point"]["values"],
            "seed": trials[number]["point"]["seed"],
            "run_folder": trials[number].get("run_folder"),
        }
        for number in trial_ranks.ranked(record.data, trials)
    ]
    again = [{"trial": n, "scores": scores} for n, scores, _ in trial_ranks.rescored(record.data, trials)]
    return {
        "state": outcome.state,
        "exit_code": outcome.exit_code,
        "record": str(record.path),
        "metric": record.data["metric"],
        "ranking": best,
        "rescored": again,
        "written": outcome.written and str(outcome.written),
        "failed": {number: trial.get("text") for number, trial in trials.items() if trial["state"] == "failed"},
    }
