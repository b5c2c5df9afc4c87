"""Recordings and films of workers on other nodes, written on the node of the run; and how a worker finds out that it is on one.

``FileKeeper`` is a part on the run's node, made by ``runtime.assembly`` where workers record or film and Ray has other nodes.
Users: ``recorder``, ``agents_recorder``, and the workers for films. A worker whose disk is the run's, or shared with it, writes
by itself. Another one hands over the bytes and waits until they are written, so that what the run has seen of it is on disk.

Why the run's node and not the storage: a run's folder is what loggers, reports, ``drl runs`` and the copy in ``storage_path``
read; credentials are needed on one node only; a resumed run takes back lines that were written after its checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from drl_cli.actors.part_records import WorkerIdentity
from drl_cli.checkpoints.files import replace_file
from drl_cli.contracts import Handle
from drl_cli.errors import RunFailed
from drl_cli.experience.recorded.write import OutputFiles

Place = Literal["output", "videos"]
Refusal = tuple[int, str]
"""(errno, path) of a file that cannot be written."""


class Output(Protocol):
    """Where a recorder writes its lines to; ``path``: the file of the newest one."""

    @property
    def path(self) -> str:
        """The file that the newest line went to, the folder before the first."""
        ...

    def write(self, data: bytes) -> None:
        """Append the line ``data`` (bytes). Raises OSError, after which all earlier lines are whole."""
        ...

    def state(self) -> dict[str, Any]:
        """Return how far the files are, as plain data."""
        ...

    def cut_back(self, state: Mapping[str, Any]) -> None:
        """Take away what was written after ``state``. Raises CheckpointError."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class FileKeeper:
    """The files of workers that do not see the folders of the run."""

    def __init__(self, output: str | None, most: int, videos: str | None) -> None:
        """``output``, ``videos``: folders on this node, None where nothing goes there; ``most``: see ``OutputFiles``."""
        self._folders: dict[Place, str | None] = {"output": output, "videos": videos}
        self._most = most
        self._files: dict[tuple[int, int], OutputFiles] = {}
        for folder in filter(None, (output, videos)):
            with contextlib.suppress(OSError):  # what is written there says why not
                os.makedirs(os.path.expanduser(folder), exist_ok=True)

    def sees(self, place: Place, name: str) -> bool:
        """Whether the folder of ``place`` has a file ``name``, which a worker has put there."""
        return os.path.exists(self._path(place, name))

    def write(self, worker: tuple[int, int], data: bytes) -> tuple[str, dict[str, Any], Refusal | None]:
        """Append a line to the files of a worker, (index, incarnation).

        Returns (path, how far the files are, None or why the line cannot be written).
        """
        files, refusal = self._of(worker), None
        try:
            files.write(data)
        except OSError as error:
            refusal = error.errno or errno.EIO, files.path
        return files.path, files.state(), refusal

    def cut_back(self, worker: tuple[int, int], state: Mapping[str, Any]) -> None:
        """Take away what a worker wrote after ``state``. Raises CheckpointError."""
        self._of(worker).cut_back(state)

    def end(self, worker: tuple[int, int]) -> None:
        """Close the files of a worker."""
        self._of(worker).close()

    def film(self, name: str, data: bytes) -> Refusal | None:
        """Write the film ``name`` as a whole; returns why it cannot be written, or None."""
        path = self._path("videos", name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_file(path, data)
        except OSError as error:
            return error.errno or errno.EIO, path
        return None

    def close(self) -> None:
        """Close all files."""
        for files in self._files.values():
            files.close()

    def _path(self, place: Place, name: str) -> str:
        return os.path.join(os.path.expanduser(self._folders[place] or ""), os.path.basename(name))

    def _of(self, worker: tuple[int, int]) -> OutputFiles:
        worker = (worker[0], worker[1])
        if worker not in self._files:
            self._files[worker] = OutputFiles(self._folders["output"] or "", worker[0], self._most)
        return self._files[worker]


class KeptOutput:
    """``OutputFiles`` of a worker that are on the run's node."""

    def __init__(self, keeper: Handle, identity: WorkerIdentity, folder: str) -> None:
        self._keeper, self.path = keeper, folder
        self._worker = (identity["index"], identity["incarnation"])
        self._state = OutputFiles(folder, identity["index"], 1).state()  # before the first line

    def write(self, data: bytes) -> None:
        """See ``Output``."""
        self.path, self._state, refusal = _kept(self._keeper, "write", self._worker, data)
        _raise(refusal)

    def state(self) -> dict[str, Any]:
        """See ``Output``."""
        return dict(self._state)

    def cut_back(self, state: Mapping[str, Any]) -> None:
        """See ``Output``."""
        self._keeper.call("cut_back", self._worker, dict(state)).result()

    def close(self) -> None:
        """See ``Output``."""
        self._keeper.call("end", self._worker)


def output_of(folder: Path | str, identity: WorkerIdentity, most: int) -> Output:
    """Return what a worker records to in ``folder``: files of its own, or of the run's node; ``most``: bytes of a file."""
    keeper = identity.get("keeper")
    if keeper is None or _is_shared(keeper, "output", str(folder)):
        return OutputFiles(str(folder), identity["index"], most)
    return KeptOutput(keeper, identity, str(folder))


def film_sender(identity: WorkerIdentity, folder: str | None) -> Callable[[Path], None] | None:
    """Return what brings a finished film to the run's node, None where this one sees ``folder`` or nothing is filmed."""
    keeper = identity.get("keeper")
    if keeper is None or folder is None or _is_shared(keeper, "videos", os.path.expanduser(folder)):
        return None
    return lambda path: _raise(_kept(keeper, "film", path.name, path.read_bytes()))


def _is_shared(keeper: Handle, place: Place, folder: str) -> bool:
    """Whether the run's node sees what is written to ``folder`` on this one."""
    probe = os.path.join(folder, f".probe-{secrets.token_hex(8)}")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except OSError:  # it is not there, or nothing can be written to it
        return False
    try:
        return keeper.call("sees", place, os.path.basename(probe)).result()
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)


def _kept(keeper: Handle, method: str, *args: Any) -> Any:
    """Return what a call to the keeper returns. Raises OSError where its process is gone."""
    try:
        return keeper.call(method, *args).result()
    except RunFailed as error:
        raise OSError(errno.EIO, "the process of the run's node that writes it was lost") from error


def _raise(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise OSError(refusal[0], os.strerror(refusal[0]), refusal[1])
