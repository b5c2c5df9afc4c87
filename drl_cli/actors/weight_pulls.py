"""How a worker gets weights: one pull at a time from the parameter server, and pauses while none are new enough.

Used by ``rollout_worker``, ``multi_agent_worker`` and ``evolution_worker``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli.actors import node_weights
from drl_cli.contracts import Arrays, Call, Handle
from drl_cli.envs.multi_agent.policy_choice import ODDS
from drl_cli.errors import RunFailed

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05  # between two looks for weights that have not been pushed yet
PATIENCE_S = 600.0  # for them; after that no push is expected


def narrowed(weights: Mapping[str, Arrays]) -> dict[str, dict[str, Any]]:
    """Return {policy id: {name: array}} with float32 as float16; filters' statistics and what float16 cannot hold stay."""
    most = float(np.finfo(np.float16).max)

    def fits(name: str, array: np.ndarray) -> bool:
        is_weight = array.dtype == np.float32 and not name.startswith("filter/")
        return is_weight and bool((np.abs(array) <= most).all())

    return {
        policy: {n: a.astype(np.float16) if policy != ODDS and fits(n, a) else a for n, a in own.items()}
        for policy, own in weights.items()
    }


def widened(weights: Mapping[str, Arrays]) -> dict[str, Arrays]:
    """Return {policy id: {name: array}} with float16 as float32, in which policies compute."""
    return {policy: _widened(own) for policy, own in weights.items()}


def _widened(own: Arrays) -> Arrays:
    if all(array.dtype != np.float16 for array in own.values()):
        return own
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in own.items()}


class WeightWait:
    """The pauses of a worker until weights are pushed that are new enough."""

    def __init__(self, worker: int, version: int) -> None:
        """``worker``: its index; ``version``: that the weights must have, or a newer one."""
        self._worker, self._version = worker, version
        self._began, self._pause_s = time.monotonic(), FIRST_PAUSE_S

    def pause(self, newest: int) -> None:
        """Sleep, twice as long each time; RunFailed after ``PATIENCE_S``. ``newest``: the version that was pulled last."""
        if time.monotonic() - self._began > PATIENCE_S:
            raise RunFailed(
                f"worker {self._worker} waited {PATIENCE_S:.0f} s for weights of version {self._version}; "
                f"the newest are of version {newest}."
            )
        # They have not been pushed yet: another call at once would only keep the server busy.
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


class WeightPulls:
    """The weights that a worker acts with: one pull is outstanding at the parameter server and adopted when it has come.

    A worker that waits for a version asks when it begins to wait: there is nothing new before that.
    """

    def __init__(self, server: Handle, worker: int) -> None:
        """``worker``: its index."""
        self._source, self._worker = node_weights.source(server), worker
        self._asks_ahead = server.is_remote
        self.version = 0  # of the weights that were adopted last; 0: none
        self._pull: Call | None = None

    def adopt(self, min_version: int, max_version: int | None, take: Callable[[Mapping[str, Any]], None]) -> None:
        """Call ``take`` with newer weights, {policy id: {name: array}}, that have come; wait for ``min_version`` or newer.

        None beyond ``max_version`` are adopted. Raises RunFailed where none come.
        """
        waiting = WeightWait(self._worker, min_version)
        while True:
            is_old = (
                self._pull is not None
            )  # asked for at an earlier fragment: what has been pushed since may be missing
            if self._pull is None:
                self._pull = self._source.pull(self.version, max_version)
            if not self._pull.done() and min_version <= self.version:
                return
            found, self._pull = self._pull.result(), None
            if found is not None:
                self.version, weights = found
                take(widened(weights))
            if min_version <= self.version:
                break
            if not is_old:
                waiting.pause(self.version)
        if self._asks_ahead and not min_version:
            self._pull = self._source.pull(self.version)
