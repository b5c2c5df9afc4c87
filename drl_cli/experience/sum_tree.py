"""A sum tree over masses ≥ 0: numbers are drawn in proportion to their mass, many at once.

Used by ``experience.priorities``. Source: Schaul et al. 2016, Prioritized Experience Replay (arXiv:1511.05952), appendix B.2.1.
Every loop runs over the levels of the tree, not over the draws. Deviation: an inner node is always written as the sum
of its two children and never changed by a difference, so that sums do not drift, and depend on the masses alone and
not on the order in which they came.
"""

from __future__ import annotations

import numpy as np

# A level of fewer nodes than this many times the changed ones is summed as a whole: cheaper by measurement.
WHOLE_LEVEL = 4


class SumTree:
    """Masses of the numbers 0 … size − 1, all 0 at first, float64."""

    def __init__(self, size: int) -> None:
        """``size`` ≥ 1."""
        self.size = size
        self._leaves = 1 << (size - 1).bit_length()
        # Node i has the children 2i and 2i + 1, the root is 1, number j is the node _leaves + j; node 0 is unused.
        self._nodes = np.zeros(2 * self._leaves, np.float64)

    @property
    def total(self) -> float:
        """The sum of all masses."""
        return float(self._nodes[1])

    @property
    def masses(self) -> np.ndarray:
        """The masses [size] float64, as a view that is not to be written to."""
        return self._nodes[self._leaves : self._leaves + self.size]

    def set(self, numbers: np.ndarray, masses: np.ndarray) -> None:
        """Give ``numbers`` (int [M]) these ``masses`` (float64 [M]); of a number that stands twice the last one counts."""
        if not len(numbers):
            return
        nodes = np.asarray(numbers) + self._leaves
        self._nodes[nodes] = masses
        width = self._leaves
        while width > WHOLE_LEVEL * len(nodes):
            width //= 2
            nodes = nodes // 2
            nodes = nodes[np.append(True, nodes[1:] != nodes[:-1])]  # neighbours share their parents
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]
        self._sum_up(width)

    def fill(self, masses: np.ndarray) -> None:
        """Replace all masses by ``masses`` (float64 [≤ size]); the rest is 0."""
        self._nodes[:] = 0.0
        self._nodes[self._leaves : self._leaves + len(masses)] = masses
        self._sum_up(self._leaves)

    def find(self, points: np.ndarray) -> np.ndarray:
        """Return for each of ``points`` (float64 [M] in [0, total]) the number in whose interval of mass it lies, int64 [M].

        The intervals lie one after the other in the order of the numbers. A number without mass is never returned; the
        total must be above 0.
        """
        points = np.asarray(points, np.float64)
        left_over, nodes = points.copy(), np.ones(len(points), np.int64)
        for _ in range(self._leaves.bit_length() - 1):
            nodes *= 2
            left = self._nodes.take(nodes)
            goes_right = left_over >= left
            left_over -= left * goes_right
            nodes += goes_right
        # A rounded difference can reach the end of its interval, and so a number without mass: a matter of a few, if any.
        stray = np.flatnonzero(self._nodes.take(nodes) == 0.0)
        if len(stray):
            nodes[stray] = self._find_with_mass(points[stray])
        return nodes - self._leaves

    def _find_with_mass(self, points: np.ndarray) -> np.ndarray:
        """Return the nodes that ``find`` wants, never turning to where there is no mass."""
        nodes = np.ones(len(points), np.int64)
        for _ in range(self._leaves.bit_length() - 1):
            left, right = self._nodes[2 * nodes], self._nodes[2 * nodes + 1]
            goes_right = (points >= left) & (right > 0.0)
            points = points - left * goes_right
            nodes = 2 * nodes + goes_right
        return nodes

    def stratified(self, batches: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``batches`` × ``size`` numbers in proportion to mass, int64 [batches, size].

        The mass is cut into ``size`` equal parts and each batch has one number from each of them (appendix B.2.1).
        """
        points = (np.arange(size) + rng.random((batches, size))) * (self.total / size)
        return self.find(points.ravel()).reshape(batches, size)

    def independent(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``count`` numbers in proportion to mass, each on its own, int64 [count]."""
        return self.find(rng.random(count) * self.total)

    def _sum_up(self, width: int) -> None:
        """Sum every level above the one of ``width`` nodes."""
        while width > 1:
            below = self._nodes[width : 2 * width]
            width //= 2
            np.add(below[0::2], below[1::2], out=self._nodes[width : 2 * width])
