"""ParameterServer: distributes weights from the learner to workers and testers. Every push has a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drl_cli.actors.weight_pulls import narrowed
from drl_cli.errors import Diverged

KEPT = 4  # versions held for the tester beside the newest


class ParameterServer:
    """Holds the newest weights, and those that were pushed for an evaluation.

    Weights are {policy id: {variable name: array}}. Workers may get them as float16; scored and kept is what was pushed.
    """

    def __init__(self, dtype: str = "float32", held: int = 2) -> None:
        """``dtype``: of the weights that are pulled, "float32" or "float16"; ``held``: versions that can be pulled."""
        self._dtype = dtype
        # The newest and those before it, as one object: without Ray the learner pushes while a worker pulls.
        self._held: tuple[tuple[int, Any], ...] = ((0, None),) * held
        self._kept = {}
        self._cut = 0  # version of the weights with which no worker samples any longer

    def cut(self, version: int) -> None:
        """Let workers that sample with the weights of ``version`` end their fragments (``newest_cut``)."""
        self._cut = version

    def newest_cut(self) -> int:
        """Return the newest version for which ``cut`` was called, 0 before the first."""
        return self._cut

    def push(
        self,
        weights: Mapping[str, Mapping[str, np.ndarray]],
        keep: bool = False,
        scored: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> int:
        """Take new weights; returns their version, counted from 1. With ``keep``, ``pull_exact`` can still have them later.

        ``scored``: what ``pull_exact`` gives in their place, where an average of the weights is evaluated and they act.

        Raises Diverged, and keeps what it has, when a value is not a finite number.
        """
        for policy, arrays in weights.items():
            for name, array in arrays.items():
                if not np.isfinite(array).all():
                    raise Diverged(f"weights of {policy}/{name} are no longer finite; they were not published")
        version = self._held[0][0] + 1
        self._held = ((version, weights), *self._held[:-1])
        if keep:
            self._kept[version] = weights if scored is None else scored
            for old in sorted(self._kept)[:-KEPT]:
                del self._kept[old]
        return version

    def pull(self, have: int, most: int | None = None) -> tuple[int, Any] | None:
        """Return (version, weights) of the newest version, if it is newer than ``have``, else None.

        With ``most``, versions beyond it are as if they had not been pushed yet; only the newest ``held`` are there.
        """
        for version, weights in self._held:
            if version <= have:
                return None
            if most is None or version <= most:
                return version, narrowed(weights) if self._dtype == "float16" else weights
        return None

    def pull_exact(self, version: int) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the weights of ``version``, one of the last that were pushed with ``keep``."""
        return self._kept[version]

    def state(self) -> tuple[Any, int]:
        """Return (weights by policy, version)."""
        version, weights = self._held[0]
        return weights, version

    def load(self, weights: Mapping[str, Mapping[str, np.ndarray]], version: int) -> None:
        """Continue with ``weights`` as ``version``."""
        self._held = ((version, weights), *[(0, None)] * (len(self._held) - 1))
