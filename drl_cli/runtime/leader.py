"""Leader: stands for the learner of a run whose workers learn themselves.

All workers hold the same variables. What a run asks of its learner, one worker answers for all of them, the first one that
is there; when it is lost, the next one. Variables of a checkpoint go to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drl_cli.contracts import Call, Handle
from drl_cli.errors import WorkersFailed
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.pool import WorkerPool

METHODS = {"state": "trained", "publish": "publish", "push": "version"}
"""Method of a learner → that of a worker; nothing is pushed, since workers have the newest weights already."""


class _All:
    """Several calls as one."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls

    def done(self) -> bool:
        """Whether all are done."""
        return all(call.done() for call in self._calls)

    def result(self, timeout: float | None = None) -> None:
        """Wait for all; raise what one of them raised."""
        for call in self._calls:
            call.result(timeout)


class _FirstAnswer:
    """A call of one worker, repeated with another one when that is lost."""

    def __init__(self, ask: Callable[[], tuple[int, Call]], lose: Callable[[int, str], None]) -> None:
        self._ask, self._lose = ask, lose
        self._index, self._call = ask()

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._call.done()

    def result(self, timeout: float | None = None) -> Any:
        """Return the answer, or raise what the call raised; WorkersFailed when no worker is left."""
        while True:
            try:
                return self._call.result(timeout)
            except PartLost as lost:
                self._lose(self._index, str(lost))
                self._index, self._call = self._ask()


class Leader:
    """The handle of what is not there, see the module; ``holders`` says which workers have the present variables."""

    name = "learner"

    def __init__(self, server: Handle, pool: WorkerPool) -> None:
        """``server``: handle of the parameter server."""
        self._server, self._pool = server, pool
        self._holders: dict[int, int] | None = (
            None  # worker -> its incarnation; None: the first variables, which all have
        )
        self.is_remote = server.is_remote
        self.lr_factor = 1.0  # of the learning rates of the next round

    def ready(self) -> Call:
        """Return a call that is done when the first worker has been made."""
        return next(iter(self.holders().values())).ready()

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of a learner, see ``LearnerPart``."""
        del returns
        if method == "load":
            calls = [handle.call("load_trained", *args) for handle in self._pool.handles().values()]
            self._holders = self._pool.incarnations()
            return _All(calls)
        if method == "scale_rates":
            (self.lr_factor,) = args
            return _All(())

        def ask() -> tuple[int, Call]:
            index, handle = next(iter(self.required().items()))
            return index, handle.call(METHODS[method], *args)

        return _FirstAnswer(ask, self._pool.lose)

    def holders(self) -> dict[int, Handle]:
        """Return {index: handle} of the workers that are there and have the present variables."""
        numbers, handles = self._pool.incarnations(), self._pool.handles()
        known = numbers if self._holders is None else self._holders
        return {index: handle for index, handle in handles.items() if known.get(index) == numbers[index]}

    def required(self) -> dict[int, Handle]:
        """Return ``holders``; WorkersFailed when there are none."""
        found = self.holders()
        if not found:
            raise WorkersFailed(
                "Every worker was lost that had the weights: no learner keeps them beside the workers. Continue from the last "
                "checkpoint with drl train --resume, or use PPO."
            )
        return found

    def hold(self, indices: Sequence[int]) -> None:
        """Take note that these workers, and no others, have the present variables."""
        numbers = self._pool.incarnations()
        self._holders = {index: numbers[index] for index in indices}

    def cut(self, version: int) -> None:
        """Let the workers end their fragments that still sample with the weights of ``version``."""
        self._server.call("cut", version)
