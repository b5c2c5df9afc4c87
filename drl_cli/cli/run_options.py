"""What the commands about runs share: where to look for them, filters, how RUN arguments are resolved, files of ``-o``."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli import events
from drl_cli.cli import group, options, shell_words, terminal, values
from drl_cli.config.storage_uri import is_uri
from drl_cli.errors import ConfigError, RunFolderError, full_or

if TYPE_CHECKING:
    from drl_cli.runs import run_download
    from drl_cli.runs.run_summary import Run
    from drl_cli.runs.select import Wanted

WHICH = "Which runs"


def local_dir_option(heading: str = WHICH) -> group.Decorator:
    """``--local-dir DIR``, repeatable: the folders of results."""
    return group.option(
        "--local-dir",
        "local_dirs",
        metavar="DIR",
        multiple=True,
        group=heading,
        help="Folder of results; repeatable. [default: ~/ray_results]",
    )


def roots(local_dirs: Sequence[str | None]) -> list[Path]:
    """Return the requested folders of results as absolute paths, or the default one."""
    from drl_cli.runs.run_folder import results_folder

    return [results_folder(given) for given in local_dirs if given] or [results_folder(None)]


STATES = ("running", "finished", "interrupted", "failed", "died", "unknown")

filter_options = options.apply(
    [
        group.option(
            "--state",
            "states",
            metavar="STATE",
            type=values.OneOf(STATES),
            multiple=True,
            group=WHICH,
            help="running, finished, interrupted, failed, or died (its process is gone); repeatable.",
        ),
        group.option(
            "--run",
            "algorithms",
            metavar="NAME",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.algorithms,
            help="Algorithm; repeatable.",
        ),
        group.option(
            "--env",
            "envs",
            metavar="PATTERN",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.environments,
            help="Environment, such as 'Lunar*'.",
        ),
        group.option(
            "--experiment-name",
            "experiments",
            metavar="PATTERN",
            multiple=True,
            group=WHICH,
            help="Experiment; repeatable.",
        ),
        group.option(
            "--search",
            "searches",
            metavar="ID",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.searches,
            help="Trials of a search; repeatable.",
        ),
        group.option(
            "--older-than",
            type=values.Span(),
            metavar="SPAN",
            group=WHICH,
            help="Not updated for 90s, 30m, 12h, 7d, 2w.",
        ),
        group.option("--newer-than", type=values.Span(), metavar="SPAN", group=WHICH, help="Updated within that time."),
        local_dir_option(),
    ]
)


def filters_of(**filters: Any) -> Wanted:
    """Return the filters that were typed, by the names that ``runs.select.Wanted`` has."""
    from drl_cli.runs.select import Wanted

    return Wanted(**filters)


def open_runs(words: Sequence[str], local_dirs: Sequence[str | None]) -> list[Run]:
    """Return the Run objects that ``words`` name, each once.

    Of several words, the paths that hold no readable run are skipped with one line: a shell's * finds those too. Raises
    RunFolderError for any other word without a run.
    """
    from drl_cli.runs import find, run_summary

    found, skipped = {}, {}
    for given in _each_run(words):
        word = place(given, local_dirs, "records") if is_uri(given) else given
        try:
            paths = find.find_runs([word], roots(local_dirs))
            found |= {path: run_summary.read(path) for path in paths if path not in found}
        except RunFolderError as error:
            if not os.path.exists(os.path.expanduser(word)):
                raise
            skipped[word] = error
    if skipped and not found:
        raise next(iter(skipped.values()))
    if skipped:
        terminal.say(f"Skipped, because no run can be read there: {', '.join(skipped)}")
    return list(found.values())


def resumed_place(uri: str, local_dirs: Sequence[str | None]) -> tuple[str, str]:
    """Fetch the run of a URI to the results; returns (its folder, the storage path it came from)."""
    folder, root = _saying(lambda download: download.resumable(uri, roots(local_dirs)[0]))
    return str(folder), root


def _saying(fetch: Callable[[Any], Any]) -> Any:
    """Return ``fetch(runs.run_download)``, and say what is fetched."""
    from drl_cli.runs import run_download

    stop = events.subscribe(lambda _, fields: terminal.say(fields["text"]))
    try:
        return fetch(run_download)
    finally:
        stop()


def _each_run(words: Sequence[str]) -> list[str]:
    """Return ``words`` with the URI of each run in the place of that of a storage or of an experiment."""
    if not any(map(is_uri, words)):
        return list(words)
    from drl_cli.runs import run_download

    return [one for word in words for one in (run_download.runs_below(word) if is_uri(word) else [word])]


def open_run(word: str, roots: Sequence[Path]) -> Run:
    """Return the one Run that ``word`` names."""
    from drl_cli.runs import find, run_summary

    word = place(word, (), "records") if is_uri(word) else word
    return run_summary.read(find.find_run(word, roots))


def place(word: str, local_dirs: Sequence[str | None] = (), wanted: run_download.Wanted = "weights") -> str:
    """Return a path as it is, for the id or the name of a run its folder, for a URI where it was fetched to.

    ``wanted``: see ``runs.run_download.cached``. Raises RunFolderError, StorageError, CheckpointError.
    """
    if is_uri(word):
        return str(_saying(lambda download: download.cached(word, wanted)))
    if os.sep in word or word.startswith((".", "~")) or os.path.exists(word):
        return word
    from drl_cli.runs.find import find_run

    return str(find_run(word, roots(local_dirs)))


def write_whole(out: str, write: Callable[[Path], object]) -> None:
    """Have ``write`` write the file of ``-o out``, which is put in place only when it is whole.

    Raises ConfigError, ResourcesExhausted.
    """
    path = Path(out).expanduser()
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # on a disk that can only be read there is nothing to remove, and no way to
            temporary.unlink(missing_ok=True)
        make = f" Make its folder: mkdir -p {path.parent}" if error.errno == errno.ENOENT else ""
        kind = full_or(error, ConfigError)
        raise kind(f"-o {out}: cannot be written ({error.strerror or error}).{make}") from error
