"""From what the user typed to run folders: a path, something in it, a folder of runs, a run's name or the end of it.

Users: every command that takes a RUN. Folders of results are searched two levels deep below an experiment's, links and
hidden folders are left out, and folders inside a run are never taken for another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from drl_cli.errors import CheckpointError, RunFolderError, suggestion
from drl_cli.runs import retention, run_names
from drl_cli.runs.run_folder import is_locked, read_record, results_folder
from drl_cli.runs.run_summary import Run, is_run, read
from drl_cli.runs.search_folders import searched, trial_of

DEPTH = 4  # <results>/<experiment>/<search>/<trial>
SHORTEST = 4  # characters of a run's id that are enough to name it


def run_folders(root: Path | str, depth: int = DEPTH, unreadable: list[str] | None = None) -> list[Path]:
    """Return the paths of the run folders under ``root`` (itself, if it is one), by name.

    Folders that cannot be read are left out, with a line for each in ``unreadable``, where that is given.
    """
    root = Path(root)
    if (root / "params.json").is_file():
        return [root]
    if depth == 0:
        return []
    try:
        with os.scandir(root) as entries:
            below = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    except OSError as error:
        if unreadable is not None:
            unreadable.append(f"{root}: cannot be read ({error.strerror})")
        return []
    return [path for name in below for path in run_folders(root / name, depth - 1, unreadable)]


def read_all(roots: Iterable[Path | str]) -> tuple[list[Run], list[str]]:
    """Return (runs, left out) under the folders ``roots``: Run objects, and lines about folders that could not be read.

    Folders of other programs (Ray writes a params.json too) share one line. The default folder of
    results may be missing: nothing has been trained yet. Raises RunFolderError when another root is no folder.
    """
    found, left_out, foreign = {}, [], 0
    for root in roots:
        if not Path(root).is_dir():
            if Path(root) == results_folder() and not Path(root).exists():
                continue
            raise RunFolderError(f"{root}: there is no such folder of results. Choose one with --local-dir")
        for path in run_folders(root, unreadable=left_out):
            if path in found:
                continue
            try:
                found[path] = read(path)
            except RunFolderError as error:
                foreign += "another program's" in str(error)
                left_out += [] if "another program's" in str(error) else [str(error)]
    if foreign:
        left_out.append(f"{foreign} folder{'s' if foreign > 1 else ''} of other programs skipped")
    return list(found.values()), left_out


def find_run(word: Path | str, roots: Sequence[Path | str]) -> Path:
    """Return the folder of the one run that ``word`` means.

    ``word``: a run folder or something in it, a run's name or ``experiment/name`` under ``roots``, or its id or the
    first characters of it (at least 4). Raises RunFolderError that names what comes close.
    """
    found = find_runs([word], roots)
    if len(found) > 1:
        raise RunFolderError(f"{word}: holds {len(found)} runs; name one of them, for example {found[-1].name}.")
    return found[0]


def find_runs(words: Iterable[Path | str], roots: Sequence[Path | str]) -> list[Path]:
    """Return the folders of the runs that ``words`` mean, each once, in their order; a folder means all runs in it, the id
    of a search its trials.

    Raises RunFolderError for a word without a run.
    """
    found = {}
    for word in words:
        for path in _meant(str(word), roots):
            found.setdefault(path.absolute(), None)
    return list(found)


def _meant(word: str, roots: Sequence[Path | str]) -> list[Path]:
    if not word.strip():  # a variable of the shell that is not set must not mean the current folder
        raise RunFolderError("'' names no run. See them all: drl runs")
    path = Path(os.path.abspath(os.path.expanduser(word)))
    is_name = os.sep not in word and not word.startswith((".", "~"))
    if path.exists():
        inside = [folder for folder in (path, *list(path.parents)[:2]) if (folder / "params.json").is_file()]
        below = inside[:1] or _trials(path) or [run for run in run_folders(path) if is_run(run)]
        if below:
            return below
        if not is_name:
            raise RunFolderError(f"{word}: holds no run (a run folder holds params.json)")
    elif word.startswith((".", "/", "~")):
        nearby = os.listdir(path.parent) if path.parent.is_dir() else []
        raise RunFolderError(f"{word}: there is no such run.{suggestion(path.name, nearby)}")
    return _named(word, [Path(root) for root in roots])


def _trials(path: Path) -> list[Path]:
    """Return the trials of the search whose record ``path`` is, [] where it is none."""
    search = searched(path)
    return [run for run in run_folders(path.parent, 1) if search and (trial_of(run) or ("",))[0] == search]


def _named(word: str, roots: Sequence[Path]) -> list[Path]:
    for root in roots:
        if ".." not in Path(word).parts and (root / word).is_dir():
            below = [run for run in run_folders(root / word) if is_run(run)]
            if below:
                return below
    runs = [run for root in roots for run in run_folders(root)]
    exact = [run for run in runs if run.name == word]
    close = [run for run in runs if len(word) >= SHORTEST and run.name.rpartition("_")[2].startswith(word)]
    found = exact or close
    if len(found) == 1:
        return found
    trials = [run for run in runs if (trial_of(run) or ("",))[0] == word]
    if trials:
        return trials
    where = ", ".join(str(root) for root in roots)
    if found:
        names = "".join(f"\n  {run}" for run in found[:5])
        raise RunFolderError(f"{word}: {len(found)} runs under {where} are called that:{names}")
    ids = [run.name.rpartition("_")[2] for run in runs] + [trial[0] for trial in map(trial_of, runs) if trial]
    hint = suggestion(word, [*(run.name for run in runs), *(run.parent.name for run in runs), *ids])
    raise RunFolderError(f"{word}: no run of that name or id under {where}.{hint} See them all: drl runs")


def newest(roots: Sequence[Path | str]) -> Path:
    """Return the folder of the newest run that is running, else of the newest of all. Raises RunFolderError."""
    runs, _ = read_all(roots)
    if not runs:
        where = ", ".join(str(root) for root in roots)
        raise RunFolderError(f"{where}: there is no run yet. Start one: drl train -f lunarlander-continuous-sac")
    return max(runs, key=lambda run: (run.state == "running", run.started or 0.0, run.path.name)).path


def find_unfinished(local_dir: Path | str, experiment: str) -> Path:
    """Return the path of the experiment's newest run that has not finished, that no process holds and that can continue.

    Newest by the time in its name; a run continues from a whole checkpoint. Raises RunFolderError that says what was found
    instead.
    """
    parent = Path(local_dir).expanduser() / run_names.check_experiment(experiment)
    found = [(run_names.RUN_FOLDER.fullmatch(path.name), path) for path in parent.iterdir()] if parent.is_dir() else []
    runs = sorted(((match[1], path.name, path) for match, path in found if match), reverse=True)
    seen = []
    for _, _, path in runs:
        if not (path / "params.json").is_file():
            continue
        state = _state(path)
        if is_locked(path):
            state = "running"
        elif state != "finished":  # "running" without a lock: its process died
            if _can_go_on(path):
                return path
            state = f"{'died' if state == 'running' else state}, without a checkpoint to continue from"
        seen.append(f"\n  {path.name}: {state}")
    listed = "".join(seen[:5]) or "\n  no run at all"
    raise RunFolderError(
        f"{parent}: there is no unfinished run to resume. Found:{listed}\nA finished run is trained on by its id and a higher "
        "stop: drl train --resume ID --stop FIELD=N"
    )


def _can_go_on(path: Path) -> bool:
    try:
        return retention.newest_valid(path, parts=("state",)) is not None
    except CheckpointError:  # none that can be gone on from
        return False


def _state(path: Path) -> str:
    try:
        return (read_record(path / "status.json") or {}).get("state", "unknown")
    except RunFolderError:  # a damaged status must not hide the run
        return "unknown"
