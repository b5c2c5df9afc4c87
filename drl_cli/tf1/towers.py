"""One gradient from several devices: a minibatch is split over towers, each of which computes its part of the sums.

Used by the algorithms that learn from trajectories. A tower returns sums over its valid steps and their number; what is
added up before it is divided does not depend on how the steps are split, even where towers have unequal numbers of them.

Source: the synchronous towers of RLlib's LocalMultiGPUOptimizer, which averages the towers' means instead.

Deviation: XLA compiles a function for one device. With several, the towers are compiled and the loop around them is not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from drl_cli.config.sections.on_policy import OnPolicyKeys
from drl_cli.tf1.tensorflow import Tensor, function, tf


class Sums(NamedTuple):
    """A loss and its statistics over some steps."""

    loss: Tensor  # scalar: the loss, summed over valid steps
    stats: Mapping[str, Tensor]  # name -> scalar, summed likewise
    tops: Mapping[str, Tensor]  # name -> scalar: the largest of the valid steps
    count: Tensor  # scalar: how many valid steps


TowerLoss: TypeAlias = Callable[[dict[str, Tensor], dict[str, Tensor]], Sums]  # (weights, minibatch)


def devices_of(config: OnPolicyKeys) -> list[str]:
    """Return the names of the devices of the towers: one, or as many as ``num_gpus``."""
    count = max(1, int(config.num_gpus))
    if config.fake_gpus:
        return ["/CPU:0"] * count
    return [f"/GPU:{index}" for index in range(count)] if config.num_gpus else ["/CPU:0"]


class Towers:
    """Gradients of a loss over several devices."""

    def __init__(self, devices: Sequence[str], xla: bool) -> None:
        """``devices``: names of devices, the same one again where towers are only being tested; ``xla``: compile."""
        self._devices = devices
        self._compiled = xla and not self.in_one_place

    @property
    def in_one_place(self) -> bool:
        """Whether all towers are on one device, so that the loop around them can be compiled as a whole."""
        return len(set(self._devices)) == 1

    def width(self, rows: int) -> int:
        """Return the rows that a minibatch of at most ``rows`` must have to be split evenly."""
        return -(-rows // len(self._devices)) * len(self._devices)

    def gradients(
        self, loss: TowerLoss, weights: dict[str, Tensor], minibatch: dict[str, Tensor]
    ) -> tuple[list[Tensor], Sums]:
        """Return (gradients of the summed loss, Sums of all towers).

        ``loss(weights, minibatch)`` returns Sums; ``weights``: {name: tensor}, those to differentiate by; ``minibatch``:
        {column: [width, …]}. Gradients are a list in the order of ``weights``; over ``count`` they are those of the mean.
        """
        names: list[list[str]] = [[], []]

        def tower(
            weights: dict[str, Tensor], piece: dict[str, Tensor]
        ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
            sums = loss(weights, piece)
            names[:] = sorted(sums.stats), sorted(sums.tops)
            found = tf.gradients(sums.loss, list(weights.values()), unconnected_gradients="zero")
            stats, tops = [sums.stats[name] for name in names[0]], [sums.tops[name] for name in names[1]]
            return found, [sums.loss, sums.count, *stats], tops

        if len(self._devices) == 1:
            found, added, tops = tower(weights, minibatch)
            return found, self._sums(names, added, tops)
        if self._compiled:
            tower = function(tower, jit_compile=True, autograph=False)
        results = []
        for index, device in enumerate(self._devices):
            piece = {name: self._piece(values, index) for name, values in minibatch.items()}
            with tf.device(device):
                results.append(tower(weights, piece))
        found = [tf.add_n(parts) for parts in zip(*(found for found, _, _ in results), strict=True)]
        added = [tf.add_n(parts) for parts in zip(*(added for _, added, _ in results), strict=True)]
        tops = [tf.reduce_max(tf.stack(parts)) for parts in zip(*(tops for _, _, tops in results), strict=True)]
        return found, self._sums(names, added, tops)

    def _piece(self, values: Tensor, index: int) -> Tensor:
        rows = values.shape[0] // len(self._devices)
        return values[index * rows : (index + 1) * rows]

    @staticmethod
    def _sums(names: Sequence[Sequence[str]], added: Sequence[Tensor], tops: Sequence[Tensor]) -> Sums:
        loss, count, *stats = added
        return Sums(loss, dict(zip(names[0], stats, strict=True)), dict(zip(names[1], tops, strict=True)), count)
