"""ParameterServer: the one place through which weights travel. Every push has a version."""

import numpy as np

from drl_cli.errors import Diverged

KEPT = 4  # versions held for the tester beside the newest


class ParameterServer:
    """Holds the newest weights, and those that were pushed to be scored.

    Weights are {policy id: {variable name: array}}.
    """

    def __init__(self):
        self._version, self._weights = 0, None
        self._kept = {}

    def push(self, weights, keep=False):
        """Take new weights; returns their version, counted from 1. With ``keep``, ``pull_exact`` can still have them later.

        Raises Diverged, and keeps what it has, when a value is not a finite number.
        """
        for policy, arrays in weights.items():
            for name, array in arrays.items():
                if not np.isfinite(array).all():
                    raise Diverged(f"weights of {policy}/{name} are no longer finite; they were not published")
        self._version += 1
        self._weights = weights
        if keep:
            self._kept[self._version] = weights
            for version in sorted(self._kept)[:-KEPT]:
                del self._kept[version]
        return self._version

    def pull(self, have):
        """Return (version, weights) when there is a newer version than ``have``, else None."""
        if self._version <= have:
            return None
        return self._version, self._weights

    def pull_exact(self, version):
        """Return the weights of ``version``, one of the last that were pushed with ``keep``."""
        return self._kept[version]

    def state(self):
        """Return (weights by policy, version)."""
        return self._weights, self._version

    def load(self, weights, version):
        """Continue with ``weights`` as ``version``."""
        self._weights, self._version = weights, version
