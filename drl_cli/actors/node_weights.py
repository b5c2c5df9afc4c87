"""How weights come to a node: one of its workers asks the parameter server, and all read the answer from the node's memory.

A version travels once to a node, however many workers it has. Used by the workers, through ``source``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import struct
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from drl_cli.contracts import Call, Handle
from drl_cli.node_memory import locked, private_folder, remove_unused

TURN_S = 1.0  # after which a worker asks for itself, although another one's question has not been answered
_HEAD = struct.Struct("<QQ")  # version, bytes of the index; then the index and the arrays
_ALIGNED = 64  # bytes of whose multiple an array begins

Versioned = tuple[int, Mapping[str, Any]]
"""(version, {policy id: {variable name: array}})"""


class WeightSource(Protocol):
    """Where a worker gets weights from."""

    def pull(self, have: int, most: int | None = None) -> Call:
        """As ``ParameterServer.pull``, but perhaps not the very newest; None too while another worker asks for newer ones."""
        ...


class _SentCall(Call, Protocol):
    future: Future[Versioned | None]


class _RemoteServer(Handle, Protocol):
    def node_key(self) -> str: ...


def source(server: Handle) -> WeightSource:
    """Return the source of a worker that was made with the parameter server ``server``."""
    if server.is_remote:
        with contextlib.suppress(OSError):  # no memory or folder to share: each worker asks
            return NodePulls(server, NodeWeights(cast(_RemoteServer, server).node_key()))
    return ServerPulls(server)


class ServerPulls:
    """The parameter server itself."""

    def __init__(self, server: Handle) -> None:
        self._server = server

    def pull(self, have: int, most: int | None = None) -> Call:
        """As ``ParameterServer.pull``."""
        return self._server.call("pull", have, most)


class NodePulls:
    """What the node has, and what this worker asks the parameter server for when it is its turn."""

    def __init__(self, server: Handle, held: NodeWeights) -> None:
        self._server, self._held = server, held
        self._refused: float | None = None  # since when it has not been this worker's turn

    def pull(self, have: int, most: int | None = None) -> Call:
        """See ``WeightSource``. What the node has is looked up when the result is taken."""
        if not self._has_turn():
            return _NodeCall(self._held, have, most, None)
        there = self._held.version()
        known = max(have, there) if most is None or there <= most else have
        try:
            asked = self._server.call("pull", known, most)
        except BaseException:
            self._held.end_turn()
            raise
        cast(_SentCall, asked).future.add_done_callback(self._answered)
        return _NodeCall(self._held, have, most, asked)

    def _has_turn(self) -> bool:
        if self._held.take_turn():
            self._refused = None
            return True
        now = time.monotonic()
        if self._refused is None:
            self._refused = now
        return now - self._refused >= TURN_S

    def _answered(self, future: Future[Versioned | None]) -> None:
        """Share what has come, in a thread of Ray's; an error is raised where the worker takes the result."""
        try:
            if future.exception() is None and (found := future.result()) is not None:
                self._held.write(*found)
        finally:
            self._held.end_turn()


class _NodeCall:
    """A pull: ``asked``, the question to the parameter server, where it was this worker's turn, and what the node has."""

    def __init__(self, held: NodeWeights, have: int, most: int | None, asked: Call | None) -> None:
        self._held, self._have, self._most, self._asked = held, have, most, asked

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._asked is None or self._asked.done()

    def result(self, timeout: float | None = None) -> Versioned | None:
        """Return (version, weights) that are newer than those the worker has, else None."""
        found = None if self._asked is None else self._asked.result(timeout)
        return self._held.newer(self._have if found is None else found[0], self._most) or found


class NodeWeights:
    """The newest weights that have come to this node, in a file in its memory.

    Every process that uses it holds a shared lock, and has the other lock while it asks. What is left of a run whose processes
    are gone is removed when the next one begins to share weights, or a run ends (``remove_leftovers``).
    """

    def __init__(self, key: str, folder: str | None = None) -> None:
        """``key``: of the node and the parameter server; ``folder``: of the files. Raises OSError where they cannot be made."""
        folder = folder or private_folder("weights")
        self._path = os.path.join(folder, f"{key}.weights")
        with locked(folder):
            _remove_leftovers(folder)
            self._users = open(os.path.join(folder, f"{key}.users"), "ab")  # noqa: SIM115
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._turn = open(os.path.join(folder, f"{key}.turn"), "ab")  # noqa: SIM115

    def take_turn(self) -> bool:
        """Return whether no other process has it; then it is this one's until ``end_turn``."""
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def end_turn(self) -> None:
        """Let another process have it."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def version(self) -> int:
        """Return the version of the weights that are there, 0 where there are none."""
        try:
            with open(self._path, "rb") as file:
                return _HEAD.unpack(file.read(_HEAD.size))[0]
        except OSError:
            return 0

    def newer(self, have: int, most: int | None) -> Versioned | None:
        """Return (version, weights) if the version is above ``have`` and not above ``most``, else None."""
        try:
            with open(self._path, "rb") as file:
                version, length = _HEAD.unpack(file.read(_HEAD.size))
                if version <= have or (most is not None and version > most):
                    return None
                return version, _read(file, length)
        except OSError:
            return None

    def write(self, version: int, weights: Mapping[str, Any]) -> None:
        """Share weights, unless newer ones are there or there is no room: then each worker asks for them."""
        if version <= self.version():
            return
        made = f"{self._path}-{os.getpid()}"
        try:
            with open(made, "wb") as file:
                _write(file, version, weights)
            os.replace(made, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(made)


def _write(file: BinaryIO, version: int, weights: Mapping[str, Mapping[str, Any]]) -> None:
    arrays = [(policy, name, np.asarray(array)) for policy, own in weights.items() for name, array in own.items()]
    index = json.dumps([[*weights], *((policy, name, a.dtype.str, a.shape) for policy, name, a in arrays)]).encode()
    file.write(_HEAD.pack(version, len(index)) + index)
    for _, _, array in arrays:
        file.write(bytes(-file.tell() % _ALIGNED))
        file.write(array.tobytes())


def _read(file: BinaryIO, length: int) -> dict[str, dict[str, np.ndarray]]:
    """``length``: bytes of the index, at which ``file`` is."""
    policies, *arrays = json.loads(file.read(length))
    file.seek(0)
    data, at = np.fromfile(file, np.uint8), _HEAD.size + length
    found = {policy: {} for policy in policies}
    for policy, name, dtype, shape in arrays:
        at += -at % _ALIGNED
        size = np.dtype(dtype).itemsize * math.prod(shape)
        found[policy][name] = data[at : at + size].view(dtype).reshape(shape)
        at += size
    return found


def remove_leftovers() -> None:
    """Remove what runs that are over have shared on this node."""
    with contextlib.suppress(OSError):  # it cannot be read: the next run tries again
        folder = private_folder("weights")
        with locked(folder):
            _remove_leftovers(folder)


def _remove_leftovers(folder: str) -> None:
    names = os.listdir(folder)
    for users in [name for name in names if name.endswith(".users")]:
        remove_unused(os.path.join(folder, users))
        if not os.path.exists(os.path.join(folder, users)):
            for name in names:
                if name.startswith(users.removesuffix("users")):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))
