"""The copy of a run in a storage (``storage_path``): what is sent, in which order, and the thread that sends it.

User: ``experiments``. ``RunUpload.copy`` makes ``URI/<experiment>/<run>`` equal to the run's folder: first the checkpoints,
each with COMMIT as its last file, so that one without it is not there for any reader; then ``result.json`` and the other
records, recordings and films; then ``best.json``; and last it removes what the run has removed. Only what is new or has changed
is sent. A checkpoint's files are held open while they are sent, so that the run can remove it meanwhile. ``Uploads`` does this
in a thread of its own after every checkpoint; what fails is a warning, and is tried again after the next. The record of a
search is copied in the same way (``search.record_upload``).
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote

import drl_cli.checkpoints.files as files
from drl_cli import events
from drl_cli.config import storage_uri
from drl_cli.errors import CheckpointError, DrlError, StorageError
from drl_cli.runs import retention, storage
from drl_cli.runs.storage import Storage

BEST = "best.json"
POLL_SECONDS = 0.2  # between two looks at whether the run was asked to end
STALLED_SECONDS = 600.0  # at the end of a run: a copy that moves no byte for so long is given up

Sent = tuple[bytes, bool]
"""What of a checkpoint is in the storage: the content of COMMIT, and whether the replay is there."""


class RunUpload:
    """A run's folder and its copy. Not for several threads at once, except ``moved``."""

    def __init__(
        self, folder: Path | str, storage_path: str, open_storage: Callable[[str], Storage] = storage.opened
    ) -> None:
        """``storage_path``: the URI below which the copies of runs are; ``open_storage`` opens a URI, see ``storage``."""
        self.folder = Path(folder)
        self.uri = storage_uri.below(storage_path, self.folder.parent.name, self.folder.name)
        self._open_storage, self._storage = open_storage, None
        self._checkpoints: dict[str, Sent] = {}
        self._files: dict[str, tuple[int, int]] = {}  # relative name → (size, mtime in ns) of what was sent
        # What the run's folder has had; the copy may have more, of another machine.
        self._known = {*self._listed(), *(path.name for _, path in retention.numbers(self.folder))}

    @property
    def moved(self) -> int:
        """How many bytes were sent so far."""
        return self._storage.moved if self._storage else 0

    @property
    def is_itself(self) -> bool:
        """Whether the copy would be the run's folder."""
        scheme, _, rest = self.uri.partition("://")
        return scheme == "file" and Path(unquote(rest)).resolve() == self.folder.resolve()

    def check(self, names: tuple[str, ...]) -> None:
        """Send the named records of the run, so that a storage that cannot be written is found early. Raises StorageError."""
        for name in names:
            self._send_file(name, {})

    def copy(self) -> None:
        """Send what is new and remove what is gone. Raises StorageError, OSError."""
        best = self._best()
        present = [path for _, path in retention.numbers(self.folder)]
        for path in reversed(present):
            self._send_checkpoint(path)
        listed = self._listed()
        there: dict[str, dict[str, storage.StoredEntry]] = {}
        for name in listed:
            self._send_file(name, there)
        if best and best[1] in self._checkpoints:
            self._opened().write(best[0], BEST)
        now = {*listed, *(path.name for path in present)}
        if best is None or best[1] in self._checkpoints:  # else best.json of the copy may name one of those
            for name in sorted(self._known - now):
                self._remove(name)
        self._known |= now

    def _opened(self) -> Storage:
        self._storage = self._storage or self._open_storage(self.uri)
        return self._storage

    def _best(self) -> tuple[bytes, str] | None:
        """Return the content of best.json and the name of the checkpoint in it."""
        try:
            name = retention.best_name(self.folder)
            return (files.read_small(self.folder / BEST, files.MAX_MANIFEST), name) if name else None
        except CheckpointError:
            return None  # being replaced, or damaged: the next copy sees

    def _listed(self) -> list[str]:
        """Return the relative names of the run's files beside its checkpoints, those of the copy's readers first."""
        return sorted(_files_below(self.folder), key=lambda name: (os.sep in name, name))

    def _remove(self, name: str) -> None:
        """Remove a checkpoint, without its COMMIT first, or a file."""
        if files.FOLDER.fullmatch(name):
            self._opened().remove(name, files.COMMIT)
            self._checkpoints.pop(name, None)
        self._opened().remove(*name.split(os.sep))
        self._files.pop(name, None)
        self._known.discard(name)

    def _send_file(self, name: str, there: dict[str, dict[str, storage.StoredEntry]]) -> None:
        """Send a file, if it has changed. ``there``: what folders of the storage hold, filled in here."""
        with contextlib.suppress(FileNotFoundError), _regular(self.folder / name) as file:
            found = os.fstat(file.fileno())
            mark = found.st_size, found.st_mtime_ns
            if self._files.get(name) == mark:
                return
            path = name.split(os.sep)
            if name not in self._files and len(path) > 1:  # a resumed run does not send its recordings and films again
                above = os.sep.join(path[:-1])
                if above not in there:
                    there[above] = self._opened().entries(*path[:-1])
                stored = there[above].get(path[-1])
                if stored and stored.size == found.st_size and stored.changed >= found.st_mtime:
                    self._files[name] = mark
                    return
            self._opened().send(file, found.st_size, *path)
            self._files[name] = mark

    def _send_checkpoint(self, path: Path) -> None:
        """Bring the copy of a checkpoint to its present state; one that is removed meanwhile is left to the next copy."""
        with contextlib.suppress(FileNotFoundError, CheckpointError), contextlib.ExitStack() as stack:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            commit, manifest = (_content(folder, name) for name in (files.COMMIT, files.MANIFEST))
            listing = files.parse_json(manifest, path / files.MANIFEST)["files"]
            dropped = _content_or_none(folder, files.DROPPED)
            wanted = [name for name, entry in listing.items() if dropped is None or entry["part"] != "replay"]
            sent = self._checkpoints.get(path.name) or self._found(path.name)
            if sent and sent[0] == commit:
                if sent[1] and dropped is not None:
                    self._drop_replay(path.name, dropped, [name for name in listing if name not in wanted])
                self._checkpoints[path.name] = commit, dropped is None
                return
            opened = {name: stack.enter_context(_regular(name, folder)) for name in wanted}
            self._send_whole(path, opened, listing)
            if dropped is not None:
                self._opened().write(dropped, path.name, files.DROPPED)
            self._opened().write(manifest, path.name, files.MANIFEST)
            self._opened().write(commit, path.name, files.COMMIT)
            self._checkpoints[path.name] = commit, dropped is None

    def _send_whole(self, path: Path, opened: dict[str, BinaryIO], listing: dict[str, files.FileEntry]) -> None:
        """Send the data files of a checkpoint in the place of what is there. Raises CheckpointError: a file is damaged."""
        self._checkpoints.pop(path.name, None)
        self._opened().remove(path.name, files.COMMIT)
        self._opened().remove(path.name)
        for name, file in opened.items():
            found = self._opened().send(file, listing[name]["size"], path.name, name)
            if found != listing[name]["sha256"]:
                events.report("warning", text=f"{path / name}: SHA-256 differs from the manifest: it is not copied")
                raise files.refuse(path / name, "SHA-256 differs from the manifest")

    def _found(self, name: str) -> Sent | None:
        """Return what an earlier process has sent of a checkpoint."""
        commit = self._opened().read(name, files.COMMIT, limit=1000)
        return None if commit is None else (commit, self._opened().entry(name, files.DROPPED) is None)

    def _drop_replay(self, name: str, marker: bytes, replay: list[str]) -> None:
        """Remove the replay of a checkpoint from the storage, as the run did."""
        self._opened().write(marker, name, files.DROPPED)
        for one in replay:
            self._opened().remove(name, one)


class Copying(Protocol):
    """What ``Uploads`` copies: the files at ``folder`` to ``uri``; ``moved``: bytes sent so far."""

    folder: Path
    uri: str

    @property
    def moved(self) -> int:
        """How many bytes were sent so far."""
        ...

    def copy(self) -> None:
        """Send what is new. Raises DrlError, OSError."""
        ...


def is_checkpoint(kind: str, fields: dict[str, Any]) -> bool:
    """Whether an event says that a run has a new checkpoint."""
    return kind == "checkpoint"


class Uploads:
    """Copies a run after every checkpoint, in a thread, and at its end; ``close`` when the run is over."""

    def __init__(
        self,
        upload: Copying,
        advice: Callable[[], str],
        is_due: Callable[[str, dict[str, Any]], bool] = is_checkpoint,
        words: tuple[str, str] = ("run", "checkpoint"),
    ) -> None:
        """``advice()``: how the copy is completed later, for the message of a run whose last copy failed.

        ``is_due(kind, fields)``: whether an event asks for a copy; ``words``: what is copied, and after what.
        """
        self._upload, self._advice, self._is_due = upload, advice, is_due
        self._what, self._after = words
        self._state = threading.Condition()
        self._wanted = self._busy = self._closed = False
        self._failure: str | None = None  # of the newest copy
        self._unsubscribe = events.subscribe(self._hear)
        threading.Thread(target=self._serve, name="storage", daemon=True).start()

    def finish(self) -> bool:
        """Copy the run's last state and wait for it; returns whether that worked, and reports it if not."""
        where = storage_uri.split(self._upload.uri)[0]
        events.report("phase", text=f"copying the {self._what} to {where}")
        self._ask()
        if not self._is_idle():
            self._failure = f"nothing was moved for {STALLED_SECONDS / 60:g} min"
        if self._failure is None:
            return True
        whole = f"the {self._what} itself is, in {self._upload.folder}"
        lost = f"the copy in {self._upload.uri} is not complete ({self._failure}); {whole}"
        events.report("warning", text=f"{lost}. {self._advice()}")
        return False

    def last_records(self) -> None:
        """Send the records that say how the run ended, after ``finish``."""
        try:
            self._upload.copy()
        except (DrlError, OSError) as error:
            events.report("warning", text=f"the end of the {self._what} is not in its copy: {error}")

    def close(self) -> None:
        """Stop listening; a copy that is under way is not waited for."""
        self._unsubscribe()
        with self._state:
            self._closed = True
            self._state.notify_all()

    def _hear(self, kind: str, fields: dict[str, Any]) -> None:
        if self._is_due(kind, fields):
            self._ask()

    def _ask(self) -> None:
        with self._state:
            self._wanted = True
            self._state.notify_all()

    def _is_idle(self) -> bool:
        """Wait until all is copied; False when nothing has moved for too long."""
        moved, quiet = self._upload.moved, 0.0
        with self._state:
            while self._wanted or self._busy:
                self._state.wait(POLL_SECONDS)
                now = self._upload.moved
                moved, quiet = now, quiet + POLL_SECONDS if now == moved else 0.0
                if quiet >= STALLED_SECONDS:
                    return False
        return True

    def _serve(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                self._wanted, self._busy = False, True
            failure = self._copy()
            with self._state:
                self._failure, self._busy = failure, False
                self._state.notify_all()

    def _copy(self) -> str | None:
        """Copy once; returns why that failed."""
        try:
            self._upload.copy()
        except (DrlError, OSError) as error:
            text = str(error) if isinstance(error, StorageError) else f"{self._upload.uri}: {error}"
            events.report("warning", text=f"not copied: {text}. Tried again after the next {self._after}")
            return str(error)
        return None


def _files_below(folder: Path, inside: str = "") -> Iterator[str]:
    """Yield the relative names of the regular files of a run but those of its checkpoints, best.json and hidden ones."""
    try:
        with os.scandir(folder / inside) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    for entry in entries:
        name = os.path.join(inside, entry.name)
        if entry.name.startswith(".") or name == BEST:
            continue
        if entry.is_dir(follow_symlinks=False):
            if inside or not files.FOLDER.fullmatch(entry.name):
                yield from _files_below(folder, name)
        elif entry.is_file(follow_symlinks=False):
            yield name


def _regular(path: Path | str, folder: int | None = None) -> BinaryIO:
    """Open a regular file; ``folder``: the descriptor of the folder that ``path`` is in. Raises FileNotFoundError, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return os.fdopen(descriptor, "rb", buffering=0)


def _content(folder: int, name: str) -> bytes:
    with _regular(name, folder) as file:
        return file.read(files.MAX_MANIFEST)


def _content_or_none(folder: int, name: str) -> bytes | None:
    try:
        return _content(folder, name)
    except FileNotFoundError:
        return None
