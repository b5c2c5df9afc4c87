"""One gradient from several devices: a minibatch is split over towers, each of which computes its part of the sums.

Used by the algorithms that learn from trajectories. A tower returns sums over its valid steps and their number; what is
added up before it is divided does not depend on how the steps are split, even where towers have unequal numbers of them.

Source: the synchronous towers of RLlib's LocalMultiGPUOptimizer, which averages the towers' means instead.

With ``num_learners`` the towers are in processes: the first is this one, the others get the values that the loss depends on
and their part of the minibatch with every gradient step, and answer with sums.

Deviation: XLA compiles a function for one device. With several, the towers are compiled and the loop around them is not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.tf1.tensorflow import Tensor, function, tf


class Sums(NamedTuple):
    """A loss and its statistics over some steps."""

    loss: Tensor  # scalar: the loss, summed over valid steps
    stats: Mapping[str, Tensor]  # name -> scalar, summed likewise
    tops: Mapping[str, Tensor]  # name -> scalar: the largest of the valid steps
    count: Tensor  # scalar: how many valid steps


TowerLoss: TypeAlias = Callable[[dict[str, Tensor], dict[str, Tensor]], Sums]  # (values, minibatch)


class Replicas(Protocol):
    """The learners in other processes."""

    def begin(
        self, weights: list[np.ndarray], given: dict[str, np.ndarray], pieces: list[dict[str, np.ndarray]]
    ) -> None:
        """Let the replica of each of ``pieces`` compute its sums; ``weights`` in the order of ``DataParallel.trained``."""

    def sums(self) -> list[np.ndarray]:
        """Wait for all and return gradients, then [loss, count, statistics] added up, then the largest tops."""
        ...


class DataParallel(NamedTuple):
    """What replicas of a graph compute: the gradient of ``loss`` by the values ``trained``, by way of ``towers``."""

    towers: "Towers"
    loss: TowerLoss
    trained: tuple[str, ...]


def devices_of(config: TrajectoryKeys) -> list[str]:
    """Return the names of the devices of the towers: one, or as many as ``num_gpus``."""
    count = max(1, int(config.num_gpus))
    if config.fake_gpus:
        return ["/CPU:0"] * count
    return [f"/GPU:{index}" for index in range(count)] if config.num_gpus else ["/CPU:0"]


_Outputs: TypeAlias = tuple[list[Tensor], list[Tensor], list[Tensor]]  # gradients, [loss, count, statistics], tops


def differentiated(
    loss: TowerLoss, weights: dict[str, Tensor], rest: dict[str, Tensor], piece: dict[str, Tensor]
) -> tuple[Sums, _Outputs]:
    """Return (the Sums of ``loss`` on ``piece``, (its gradients by ``weights``, the Sums as lists by sorted names))."""
    sums = loss({**rest, **weights}, piece)
    found = tf.gradients(sums.loss, list(weights.values()), unconnected_gradients="zero")
    stats, tops = ([mapping[name] for name in sorted(mapping)] for mapping in (sums.stats, sums.tops))
    return sums, (found, [sums.loss, sums.count, *stats], tops)


class Towers:
    """Gradients of a loss over several devices."""

    replicas: Replicas | None = None
    """The other learners, to be set before the first ``gradients`` where there are any."""

    def __init__(self, devices: Sequence[str], xla: bool, learners: int = 1) -> None:
        """``devices``: names of devices, the same one again where towers are only being tested; ``xla``: compile.

        ``learners``: processes that share every minibatch; with more than one, each has one device.
        """
        self._devices, self._learners = devices, learners
        self._compiled = xla and not self.in_one_place

    @property
    def in_one_place(self) -> bool:
        """Whether all towers are on one device, so that the loop around them can be compiled as a whole."""
        return len(set(self._devices)) == 1 and self._learners == 1

    def width(self, rows: int) -> int:
        """Return the rows that a minibatch of at most ``rows`` must have to be split evenly."""
        parts = len(self._devices) * self._learners
        return -(-rows // parts) * parts

    def gradients(
        self,
        loss: TowerLoss,
        weights: dict[str, Tensor],
        minibatch: dict[str, Tensor],
        given: Mapping[str, Tensor] | None = None,
    ) -> tuple[list[Tensor], Sums]:
        """Return (gradients of the summed loss, Sums of all towers).

        ``loss(values, minibatch)`` returns Sums and depends on nothing else; its values are ``weights``, {name: tensor}, those
        to differentiate by, and ``given``, the others; ``minibatch``: {column: [width, …]}. Gradients are a list in the order
        of ``weights``; over ``count`` they are those of the mean.
        """
        rest = dict(given or {})
        names: list[list[str]] = [[], []]

        def tower(weights: dict[str, Tensor], rest: dict[str, Tensor], piece: dict[str, Tensor]) -> _Outputs:
            sums, outputs = differentiated(loss, weights, rest, piece)
            names[:] = sorted(sums.stats), sorted(sums.tops)
            return outputs

        if self._learners > 1:
            found, added, tops = self._shared(tower, weights, rest, minibatch)
            return found, self._sums(names, added, tops)
        if len(self._devices) == 1:
            found, added, tops = tower(weights, rest, minibatch)
            return found, self._sums(names, added, tops)
        if self._compiled:
            tower = function(tower, jit_compile=True, autograph=False)
        results = []
        for index, device in enumerate(self._devices):
            piece = {name: self._piece(values, index) for name, values in minibatch.items()}
            with tf.device(device):
                results.append(tower(weights, rest, piece))
        found = [tf.add_n(parts) for parts in zip(*(found for found, _, _ in results), strict=True)]
        added = [tf.add_n(parts) for parts in zip(*(added for _, added, _ in results), strict=True)]
        tops = [tf.reduce_max(tf.stack(parts)) for parts in zip(*(tops for _, _, tops in results), strict=True)]
        return found, self._sums(names, added, tops)

    def _shared(
        self,
        tower: Callable[[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]], "_Outputs"],
        weights: dict[str, Tensor],
        rest: dict[str, Tensor],
        minibatch: dict[str, Tensor],
    ) -> "_Outputs":
        """Return the sums of ``tower`` over the pieces of all learners, the first of which is computed here meanwhile."""
        replicas = self.replicas
        if replicas is None:
            raise RuntimeError("the other learners must be known before a gradient")
        count, columns = self._learners, list(minibatch)
        rows = [{name: self._piece(values, index) for name, values in minibatch.items()} for index in range(count)]

        def begin(*arrays: np.ndarray) -> np.int64:
            left = list(arrays)
            trained = [left.pop(0) for _ in weights]
            given = {name: left.pop(0) for name in rest}
            replicas.begin(trained, given, [{name: left.pop(0) for name in columns} for _ in range(count - 1)])
            return np.int64(0)

        others = [piece[name] for piece in rows[1:] for name in columns]
        begun = tf.numpy_function(begin, [*weights.values(), *rest.values(), *others], tf.int64)
        with tf.control_dependencies([begun]):
            call = function(tower, jit_compile=True if self._compiled else None, autograph=False)
            found, added, tops = call(weights, rest, rows[0])
        with tf.control_dependencies([*found, *added]):
            sums = tf.numpy_function(lambda _: replicas.sums(), [begun], [tf.float32] * (len(found) + 2))
        for own, other in zip(found, sums, strict=False):
            other.set_shape(own.shape)
        sums[-2].set_shape([len(added)])
        sums[-1].set_shape([len(tops)])
        found = [own + other for own, other in zip(found, sums, strict=False)]
        added = [own + other for own, other in zip(added, tf.unstack(sums[-2]), strict=True)]
        tops = [tf.maximum(own, other) for own, other in zip(tops, tf.unstack(sums[-1]), strict=True)]
        return found, added, tops

    def _piece(self, values: Tensor, index: int) -> Tensor:
        rows = values.shape[0] // (len(self._devices) * self._learners)
        return values[index * rows : (index + 1) * rows]

    @staticmethod
    def _sums(names: Sequence[Sequence[str]], added: Sequence[Tensor], tops: Sequence[Tensor]) -> Sums:
        loss, count, *stats = added
        return Sums(loss, dict(zip(names[0], stats, strict=True)), dict(zip(names[1], tops, strict=True)), count)
