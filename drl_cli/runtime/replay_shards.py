"""The replay of a run as one thing, in one part or in several shards.

A worker's stream goes to one shard, so that every shard holds whole streams; blocks are drawn from the shards in turn. Used
by the replay loop and by ``runtime.run_state``.

A block's importance weights are divided by the largest one that any shard's newest block would have had, so that shards of
unequal mass enter them: a shard with much priority in few rows is drawn from as often as the others, and its rows count for
more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import drl_cli.checkpoints.files as files
from drl_cli.actors.part_records import UpdateResult
from drl_cli.contracts import Call, Handle
from drl_cli.experience.columns import Token

BLOCK_BYTES = 16 * 2**20  # of a shard's file, on its way from another node
POLL_S = 0.05  # between two looks at whether shards have written their files


class Drawn(NamedTuple):
    """Batches that were drawn from one shard."""

    block: Call  # of {column: array}, see ``ReplayBuffer.sample``
    batches: int
    shard: int
    least: Call  # of the smallest probability with which one of the rows was drawn, None without priorities


class Shards:
    """The handles of the replay parts, and which worker's fragments go to which."""

    def __init__(self, handles: Iterable[Handle], is_elsewhere: bool = False) -> None:
        """``is_elsewhere``: the shards are ``actors.replay_elsewhere`` and may be on nodes with other disks."""
        self.handles, self._is_elsewhere = list(handles), is_elsewhere
        self._least = [None] * len(self.handles)  # smallest p/mass of each shard's newest block
        self._next = 0
        self._stored = [0] * len(self.handles)  # env steps, since the contents began

    def add(self, token: Token, columns: Call) -> Call:
        """Store a fragment; returns the reference to the number of env steps stored."""
        return self._of(token.meta.worker).call("add", token, columns)

    def added(self, token: Token, reference: Call) -> int:
        """Count and return the env steps of the fragment of ``token``; ``reference``: what ``add`` returned, done."""
        steps = reference.result()
        self._stored[token.meta.worker % len(self.handles)] += steps
        return steps

    def sample(self, count: int, least_steps: int) -> Drawn | None:
        """Draw ``count`` batches; None while no shard holds ``least_steps`` env steps."""
        for offset in range(len(self.handles)):
            shard = (self._next + offset) % len(self.handles)
            if self._stored[shard] >= least_steps:
                self._next = (shard + 1) % len(self.handles)
                block, least = self.handles[shard].call("sample", count, self._least_of_others(shard), returns=2)
                return Drawn(block, count, shard, least)
        return None

    def learnt(self, drawn: Drawn, result: UpdateResult) -> None:
        """Send the priorities of ``result`` (see ``Learner.learn``) back to the shard that ``drawn`` came from."""
        if "priority" in result and "serial" in result:
            self._least[drawn.shard] = drawn.least.result()
            self.handles[drawn.shard].call("prioritize", result["serial"], result["priority"])

    def _least_of_others(self, shard: int) -> float | None:
        known = [least for other, least in enumerate(self._least) if other != shard and least is not None]
        return min(known, default=None)

    def _of(self, worker: int) -> Handle:
        return self.handles[worker % len(self.handles)]

    def cut(self, worker: int) -> None:
        """End the streams of ``worker``: it was lost."""
        self._of(worker).call("cut", worker).result()

    def forget_streams(self) -> None:
        """End all streams and expect new ones: the workers begin anew."""
        for handle in self.handles:
            handle.call("forget_streams").result()

    def size(self) -> int:
        """Return the rows in use over all shards."""
        return sum(reference.result() for reference in [handle.call("size") for handle in self.handles])

    def save(self, folder: Path, compress: bool, check: Callable[[], object]) -> list[dict[str, Any]]:
        """Let every shard write its file into ``folder``; returns the list of their facts.

        ``check`` is called again and again meanwhile; what it raises is raised, and the files are not to be used.
        """
        if self._is_elsewhere:
            return [_fetched(handle, folder, compress, check) for handle in self.handles]
        calls = [
            handle.call("save", folder, compress, *(() if handle.is_remote else (check,))) for handle in self.handles
        ]
        return [_awaited(call, check) for call in calls]

    def facts(self) -> list[dict[str, Any]]:
        """Return the list of what every shard keeps even where its contents are not kept."""
        return [call.result() for call in [handle.call("facts") for handle in self.handles]]

    def load(
        self, stored: Callable[[int], Mapping[str, np.ndarray] | None], facts: Sequence[Mapping[str, Any]]
    ) -> None:
        """Continue from ``save``; ``stored(index)`` returns the arrays of a shard, None where only the facts are kept."""
        for index, (handle, own) in enumerate(zip(self.handles, facts, strict=True)):
            handle.call("load", stored(index), own).result()

    def state(self) -> dict[str, Any]:
        """Return whose turn it is and what is known of the shards, as plain data."""
        return {"next": self._next, "least": list(self._least), "stored": list(self._stored)}

    def restore(self, facts: Mapping[str, Any], with_contents: bool) -> None:
        """Continue from ``state``; without the contents every shard begins empty."""
        if len(facts["stored"]) == len(self.handles):
            self._next, self._least = facts["next"], list(facts["least"])
            if with_contents:
                self._stored = list(facts["stored"])


def _awaited(call: Call, check: Callable[[], object]) -> Any:
    """Return the result of ``call``; ``check`` is called until it is there."""
    while not call.done():
        check()
        time.sleep(POLL_S)
    return call.result()


def _fetched(handle: Handle, folder: Path, compress: bool, check: Callable[[], object]) -> dict[str, Any]:
    """Let a shard on another node write its file there, and copy it into ``folder``; returns its facts. Raises OSError."""
    name, size, facts = _awaited(handle.call("save_apart", compress), check)

    def blocks() -> Iterator[bytes]:
        for offset in range(0, size, BLOCK_BYTES):
            yield _awaited(handle.call("read", name, offset, BLOCK_BYTES), check)

    try:
        files.write_new(folder / name, blocks(), check)
    finally:
        handle.call("end_save")
    return facts
