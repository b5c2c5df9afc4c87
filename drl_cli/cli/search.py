"""``drl train`` as a search: from what was typed to many runs side by side, and the best of them.

Computes nothing: ``experiments.search_spec`` reads what was asked for, ``search.run_search`` runs it, ``search_screen``
shows it. The table of the end, or JSON lines, go to stdout, all else to stderr.
"""

import contextlib
import re
import shlex
import sys
from pathlib import Path

from drl_cli import events, process
from drl_cli.cli import console, figures, search_screen, search_view, terminal
from drl_cli.cli.train import command, json_line, word_of
from drl_cli.errors import ConfigError, RunFolderError
from drl_cli.extras import load

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


def resume(session, flags, wishes, output):
    """Go on with the search that ``--resume`` means, and return its exit code; None where it means a run, or is not given.

    ``flags`` as ``experiments.config_tree`` lists them, ``wishes`` as ``experiments.search_choices`` does; ``output``: (json,
    quiet, verbose).
    """
    record = to_resume(flags, wishes)
    return Search(session, *output).resume(record) if record else None


def to_resume(flags, wishes):
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
    given = [name for name, value in {**flags, **wishes}.items() if value and name not in KEPT]
    if path is not None and given:
        raise ConfigError(f"--{given[0].replace('_', '-')}: a resumed search keeps its settings. Leave it out.")
    return path


def _newest(flags):
    home = load("drl_cli.runs.run_folder:results_folder")(flags.get("local_dir"))
    name = flags.get("experiment_name") or "default"
    path = load("drl_cli.search.search_record:newest")(home / name)
    if path is None:
        return None
    try:
        run = load("drl_cli.runs.folder:find_unfinished")(home, name)
    except RunFolderError:
        return path
    own = f"_{path.stem.rpartition('_')[2]}_" in run.name
    return path if own or TIME.findall(path.name)[-1] >= TIME.findall(run.name)[-1] else None


class Search:
    """One search and how it is shown."""

    def __init__(self, session, as_json, quiet, verbose):
        self._session, self._as_json, self._quiet, self._plain = session, as_json, quiet, verbose
        self._output, self._stdout = terminal.Output(session, keep_going=True), sys.stdout
        self._diversion = terminal.Diversion()

    def start(self, found):
        """Run a new search (``experiments.search_spec.SearchSpec``); returns the exit code."""
        return self._run(load("drl_cli.search.search_record:Record").new(found.data), found.notices)

    def resume(self, path):
        """Go on with the search of a record; returns the exit code."""
        record = load("drl_cli.search.search_record:Record").read(path)
        notices = [f"going on with the search {record.data['id']}"]
        name = record.data["scheduler"]["name"]
        if name in COMPARING and not record.scheduler and any(t.get("run_folder") for t in record.trials.values()):
            notices.append(f"{name} starts anew: what it had compared so far was not recorded.")
        return self._run(record, notices)

    def _run(self, record, notices):
        view = search_view.SearchView(record.data, _title(record.data), str(record.path))
        watcher = search_screen.open_watcher(view, self._session, self._plain, self._quiet)
        request = process.StopRequest(watcher.interrupt).install()
        request.before_exit(lambda *_: self._last_word(watcher, record, view))
        unsubscribe = [events.subscribe(watcher), events.subscribe(self._listen)]
        self._diversion.into(str(record.path.with_suffix(".log")))
        try:
            for text in notices:
                events.report("notice", text=text)
            for number, trial in record.trials.items():
                events.report("trial", trial=number, **trial)
            typed = shlex.join(load("drl_cli.config.secrets:redact_command")(["drl", *self._session.arguments]))
            with contextlib.redirect_stdout(sys.stderr):  # where Ray says that a process died
                outcome = load("drl_cli.search.run_search").run(record, request, typed)
        finally:
            self._diversion.end()
            for stop in unsubscribe:
                stop()
            watcher.close()
            request.remove()
        self._close(outcome, record, view)
        return outcome.exit_code

    def _last_word(self, watcher, record, view):
        """Say how far the search came, right before the process ends without coming back to ``_run``."""
        watcher.abandon()
        self._diversion.end()
        terminal.say(f"Interrupted: {view.title}: {view.counts()}")
        terminal.say(f"Go on with: {command('train', '--resume', record.path)}")

    def _listen(self, kind, fields):
        if kind == "trial" and self._as_json and fields["state"] != "pending":
            told = {name: fields.get(name) for name in ("trial", "state", "run_folder", "text", "result")}
            told |= {name: fields["point"].get(name) for name in ("values", "seed", "rescore")}
            with contextlib.redirect_stdout(self._stdout):
                self._output.line(json_line(told))

    def _close(self, outcome, record, view):
        failed = {n: t for n, t in record.trials.items() if t["state"] == "failed"}
        for number, trial in list(failed.items())[:BEST]:
            terminal.say(f"Error: trial {number} failed: {trial.get('text')}", self._session, "red")
        if len(failed) > BEST:
            terminal.say(f"… and {len(failed) - BEST} more, see {record.path}")
        if outcome.text:
            terminal.say(f"Error: {outcome.text}", self._session, "red")
        if self._as_json:
            self._output.line(json_line({"search": _told(outcome, record)}))
        elif not self._quiet:
            for line in summary(outcome, record, view):
                self._output.line(line)


def summary(outcome, record, view):
    """Return the lines that end a search: its best trials, where they are, and the commands that come next."""
    groups = _groups(record)
    lines = ["", f"{view.title} {outcome.state}: {view.counts()}"]
    if groups:
        lines += ["", *_table(view, [number for group in groups for number in group[:BEST]])]
    again = load("drl_cli.search.trial_ranks:rescored")(record.data, record.trials)
    for number, scores, _ in again:
        lines.append(f"  Trial {number} again on fresh seeds: {', '.join(figures.reward(score) for score in scores)}")
    best = [again[0][2]] if outcome.written and again else [group[0] for group in groups]
    folders = [word_of(record.trials[number]["run_folder"]) for number in best]
    lines += ["", f"  Results   {figures.with_tilde(str(record.path))}"]
    lines += [f"  Best      {_best(record, number, word)}" for number, word in zip(best, folders, strict=True)]
    if outcome.written:
        lines.append(f"  Written   {outcome.written}")
        lines.append(f"  Run it    {command('train', '-f', outcome.written)}")
    elif folders:
        lines.append(f"  Play it   {command('rollout', folders[0])}")
        lines.append(f"  Score it  {command('evaluate', *folders)}")
    if outcome.state != "finished":
        lines.append(f"  Go on     {command('train', '--resume', record.path)}")
    return lines


def _best(record, number: int, word: str) -> str:
    """The best trial, what the other commands call its run, and its score."""
    metric, result = record.data["metric"], record.trials[number].get("result") or {}
    return f"trial {number}: {word}  ({metric} {figures.reward(result.get(metric))})"


def _groups(record):
    """Return the trials that have a run, best first, in a list for each experiment: other environments' scores say nothing."""
    ranked = load("drl_cli.search.trial_ranks:ranked")(record.data, record.trials)
    runs = [n for n, t in record.trials.items() if t.get("run_folder") and t["state"] != "failed"]
    ranked += [n for n in runs if n not in ranked and "rescore" not in record.trials[n]["point"]]
    groups = {}
    for number in ranked:
        groups.setdefault(record.trials[number]["point"]["experiment"], []).append(number)
    return [groups[index] for index in sorted(groups)]


def _table(view, numbers):
    cells = {number: line for number, _, line in view.rows()}
    header, rows = view.header(), [cells[number] for number in numbers]
    chosen = search_view.fitting(header, rows, max(terminal.width(), console.MIN_SCREEN[0]) - 2)
    wide = {index: max(len(line[index]) for line in [header, *rows]) for index in chosen}
    words = [header[index] in search_view.WORDS for index in range(len(header))]
    return [
        "  " + "  ".join(line[i].ljust(wide[i]) if words[i] else line[i].rjust(wide[i]) for i in chosen).rstrip()
        for line in [header, *rows]
    ]


def _title(data):
    first = data["experiments"][0]["mapping"]
    names = [str(first.get(name)) for name in ("run", "env") if not isinstance(first.get(name), dict)]
    if len(data["experiments"]) > 1:
        names = [f"{len(data['experiments'])} experiments"]
    how = data["search"] or data["scheduler"]["name"]
    return " · ".join([*names, f"{data['num_trials']} trials", *([how] if how != "FIFO" else [])])


def _told(outcome, record):
    """Return what ``--json`` says of the end."""
    ranking = load("drl_cli.search.trial_ranks")
    trials = record.trials
    best = [
        {
            "trial": number,
            "score": ranking.score_of(record.data, trials[number]["result"]),
            "values": trials[number]["point"]["values"],
            "seed": trials[number]["point"]["seed"],
            "run_folder": trials[number].get("run_folder"),
        }
        for number in ranking.ranked(record.data, trials)
    ]
    again = [{"trial": n, "scores": scores} for n, scores, _ in ranking.rescored(record.data, trials)]
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
