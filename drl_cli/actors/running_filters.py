"""What workers see, as running statistics: the worker notes differences, the learner merges them and sets the filters.

``Differences`` belongs to a worker, ``Observed`` to a learner; between them travels ``Token.seen``, {"obs": Moments, "return":
Moments} or parts of it. Within a fragment the filters are those of the weights that act: they change with the
weights' version, never between; with ``synchronize_filters: false`` a worker's are its own, and change with each fragment.

Rewards are divided where they can no longer change: those of a trajectory that is learnt from once, by the worker; a
replay holds raw ones, because what was divided by yesterday's deviation would stay so, and the graph divides when it learns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from drl_cli.actors.part_records import SampledConfig
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.policies import filters
from drl_cli.policies.filters import Moments, discounted, merged, moments, nothing, weighted
from drl_cli.policies.policy_spec import PolicySpec


class Differences:
    """What the fragments of one worker add to the statistics."""

    def __init__(self, config: SampledConfig, spec: PolicySpec, streams: int) -> None:
        """``config``: of an algorithm; ``spec``: PolicySpec; ``streams``: the environments N of a fragment."""
        self._spec, self._gamma = spec, config.gamma
        self._replayed = isinstance(config, BufferKeys)
        self._running = np.zeros(streams)  # discounted return of each running episode
        # Of what this worker has seen, where its filter is its own.
        self._own = nothing(tuple(spec.obs_shape)) if spec.filter and not config.synchronize_filters else None

    def note(
        self, columns: dict[str, np.ndarray], weights: Mapping[str, np.ndarray] | None
    ) -> tuple[dict[str, Any] | None, np.float32]:
        """Return (what ``Token.seen`` is for the fragment ``columns``, by what its rewards are still to be divided).

        ``weights`` are those that acted, or None. Where rewards are not replayed ``columns["reward"]`` is replaced by the
        divided ones. While no weights know the deviation of returns, the fragment's own stands in.
        """
        spec, seen, scale = self._spec, {}, np.float32(1.0)
        if spec.filter:
            seen["obs"] = moments(_real(columns["obs"], columns))
            self._own = None if self._own is None else merged(self._own, seen["obs"])
        if spec.scaled:
            self._running[columns["cut"]] = 0.0
            ends = columns["terminated"] | columns["truncated"]
            sums = discounted(
                columns["reward"], ends, self._running, self._gamma, columns.get("length", columns.get("steps"))
            )
            seen["return"] = moments(_real(sums, columns))
            own = filters.weights_of(spec, None, seen["return"])
            scale = filters.reward_scale(weights) or filters.reward_scale(own) or scale
            if not self._replayed:
                columns["reward"], scale = columns["reward"] / scale, np.float32(1.0)
        return seen or None, scale

    @property
    def are_apart(self) -> bool:
        """Whether the worker acts with a filter of its own (``synchronize_filters: false``)."""
        return self._own is not None

    def acting(self, weights: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return ``weights`` ({name: array}) as this worker acts with them: with its own filter, once it has seen something."""
        if self._own is None or not self._own.count:
            return weights
        own = filters.weights_of(self._spec, self._own, None)
        return {**weights} | {name: own[name] for name in (filters.MEAN, filters.VAR)}

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array}: what the next fragment goes on from."""
        arrays = {"discounted": self._running.copy()} if self._spec.scaled else {}
        if self._own is not None:
            arrays |= {f"own_{part}": np.array(value) for part, value in self._own._asdict().items()}
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        if self._spec.scaled:
            self._running[...] = arrays["discounted"]
        if self._own is not None and "own_count" in arrays:  # the run before may have shared its filters
            count, mean, m2 = (arrays[f"own_{part}"] for part in Moments._fields)
            self._own = Moments(float(count), np.array(mean), np.array(m2))


def _real(values: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows of ``values`` [T, N, …] that are steps, [M, …]: all but what pads columns of different lengths."""
    lengths = columns.get("length", columns.get("steps"))
    if lengths is not None:
        return values[np.arange(len(values))[:, None] < lengths]
    return values.reshape(-1, *values.shape[2:])


class Observed:
    """The statistics of all workers, kept in float64 beside the graph's variables, which follow at ``write``."""

    def __init__(self, spec: PolicySpec, weights: Any, scope: str) -> None:
        """``spec``: PolicySpec; ``weights``: a ``tf1.weights.Weights`` of the filters' variables; ``scope`` of their names."""
        self._spec, self._weights, self._scope = spec, weights, scope
        shapes = {"obs": tuple(spec.obs_shape)} if spec.filter else {}
        shapes |= {"return": ()} if spec.scaled else {}
        self._moments = {stream: nothing(shape) for stream, shape in shapes.items()}
        self._changed = False
        self.pace = 1.0  # with which each further row counts

    def add(self, seen: Iterable[Any]) -> None:
        """Merge a list of ``Token.seen``, in its order; None among them adds nothing."""
        for difference in seen:
            for stream in self._moments if difference else ():
                self._moments[stream] = merged(self._moments[stream], weighted(difference[stream], self.pace))
                self._changed = True

    def write(self) -> None:
        """Set the variables to what has been merged, if anything has been since the last time."""
        if not self._changed:
            return
        self._changed = False
        values = filters.weights_of(self._spec, self._moments.get("obs"), self._moments.get("return"))
        for stream, (count, mean, m2) in self._moments.items():
            prefix = filters.STREAMS[stream]
            values |= {prefix + "count": np.asarray(count), prefix + "exact_mean": mean, prefix + "m2": m2}
        self._weights.set({self._scope + name: np.asarray(value) for name, value in values.items()})

    def read(self) -> None:
        """Go on from what the variables hold."""
        self._changed = False
        if not self._moments:
            return
        values = self._weights.get()
        for stream, prefix in filters.STREAMS.items():
            if stream in self._moments:
                count, mean, m2 = (values[f"{self._scope}{prefix}{part}"] for part in ("count", "exact_mean", "m2"))
                self._moments[stream] = Moments(float(count), np.array(mean), np.array(m2))
