"""Which files a path of the key ``input`` means: a file, a folder, a glob, a Minari dataset. Used by ``read``."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from drl_cli.errors import ExperienceError, reason_of, suggestion

Paths: TypeAlias = "str | Path | Sequence[str | Path]"
"""A file, a folder, a glob or minari://ID, or a list of them."""


SCHEME = "minari://"
PATTERNS = ("output-*.json", "*.json", "*.jsonl")  # of a folder, the first that anything matches
RECORDED = "experience"  # the folder of a run that its own recording goes to
MAX_FILES = 100_000
_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
_DIGITS = re.compile(r"(\d+)")


class InputFile(NamedTuple):
    """A file, or a dataset: ``kind`` "json" or "minari", ``name`` and ``size`` [bytes] to know it again by."""

    kind: str
    path: Path
    name: str
    size: int


def find(paths: Paths) -> list[InputFile]:
    """Return the Found files of ``paths``, a path or a list of them: each once, sorted with numbers by their value.

    Raises ExperienceError for what does not exist, is no regular file, or matches nothing.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise ExperienceError("input: the list of files is empty.")
    found = {}
    for path in given:
        for file in _minari(str(path)) if str(path).startswith(SCHEME) else _files(str(path)):
            found[os.path.realpath(file.path)] = file
    if len(found) > MAX_FILES:
        raise ExperienceError(f"input: {len(found)} files; at most {MAX_FILES} are read.")
    return sorted(found.values(), key=lambda file: _natural(str(file.path)))


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(text)]


def _files(text: str) -> list[InputFile]:
    path = os.path.expanduser(text)
    if os.path.isdir(path):
        return _folder(path)
    if not os.path.lexists(path) and glob.has_magic(path):
        matches = [match for match in glob.glob(path, recursive=True) if not os.path.isdir(match)]
        if not matches:
            raise ExperienceError(f"input: no file matches {text}.")
        return [_file(match) for match in matches]
    return [_file(path)]


def _folder(path: str) -> list[InputFile]:
    for folder, patterns in ((path, PATTERNS[:1]), (os.path.join(path, RECORDED), PATTERNS), (path, PATTERNS[1:])):
        if folder == path and patterns == PATTERNS[1:] and os.path.isfile(os.path.join(path, "params.json")):
            raise ExperienceError(f"input: the run {path} has recorded nothing. Run it with output: logdir")
        for pattern in patterns:
            matches = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
            if matches:
                return [_file(match) for match in matches]
    raise ExperienceError(f"input: the folder {path} holds no *.json or *.jsonl file of experience.")


def _file(path: str) -> InputFile:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        text = f"input: {path}: {reason_of(error)}. It takes a file, a folder, a glob or minari://ID."
        raise ExperienceError(text) from error
    if not stat.S_ISREG(status.st_mode):
        raise ExperienceError(f"input: {path} is not a regular file.")
    if str(path).endswith((".zip", ".gz", ".tar", ".tgz")):
        raise ExperienceError(f"input: {path} is an archive. Unpack it, and name the *.json files.")
    if str(path).endswith((".h5", ".hdf5")):
        raise ExperienceError(f"input: {path}: HDF5 files are read as Minari datasets; write {SCHEME}FOLDER.")
    return InputFile("json", Path(path), os.path.basename(path), status.st_size)


def _minari(text: str) -> list[InputFile]:
    """The file of a dataset: ``minari://ID`` in Minari's folder, or ``minari://FOLDER`` of a dataset anywhere."""
    name = text.removeprefix(SCHEME)
    root = os.environ.get("MINARI_DATASETS_PATH") or os.path.join("~", ".minari", "datasets")
    folder = os.path.expanduser(name)
    if not name.startswith(("/", ".", "~")):
        if not _ID.fullmatch(name):
            raise ExperienceError(
                f"input: {text[:120]} is not a dataset. Write minari://NAMESPACE/NAME-vN or minari://FOLDER."
            )
        folder = os.path.join(os.path.expanduser(root), name)
    path = Path(folder, "data", "main_data.hdf5")
    if path.is_file():
        return [InputFile("minari", path, name, path.stat().st_size)]
    if path.parent.is_dir():
        raise ExperienceError(f"input: {text}: only datasets in HDF5 are read, and {path} is missing.")
    raise ExperienceError(
        f"input: there is no dataset {name[:120]} in {os.path.expanduser(root)}.{_installed(name, root)} Download it with: "
        f"pip install 'drl-cli[minari]' && minari download {name[:120]}"
    )


def _installed(name: str, root: str) -> str:
    """What is like it, in Minari's folder."""
    files = glob.glob(os.path.join(os.path.expanduser(root), "**", "data", "metadata.json"), recursive=True)
    found = [os.path.relpath(Path(file).parent.parent, os.path.expanduser(root)) for file in files[:1000]]
    return suggestion(name, found) or (f" There are: {', '.join(sorted(found)[:5])}." if found else "")
