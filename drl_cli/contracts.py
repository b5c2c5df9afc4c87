"""The roles that code calls without importing what plays them: implemented above their caller, or held in another process.

``Call``, ``Handle`` and ``Cluster`` are called by actors and loops and implemented by ``runtime.cluster`` and
``runtime.ray_cluster``. ``WorkerPart``, ``LearnerPart``, ``ReplayPart`` and ``TesterPart`` are what a Handle calls: classes of
``actors``, or those that a registered algorithm brings.

The records that they exchange live in the rooms of their subjects: here they are values that pass through. Source: Acme's
``core.py`` (Hoffman et al. 2020, arXiv 2006.00979), for roles as typed classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, overload

Arrays = Mapping[str, Any]
"""{name: array}"""


class Call(Protocol):
    """The result of a call to a part, now or later."""

    def done(self) -> bool:
        """Return whether ``result`` would return at once."""
        ...

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, or raise what the call raised."""
        ...


class Handle(Protocol):
    """A part of a run, in this process or in another."""

    name: str
    """What messages call the part."""
    is_remote: bool
    """Whether the part is in another process."""

    def ready(self) -> Call:
        """Return a call that is done when the part has been made."""
        ...

    @overload
    def call(self, method: str, *args: Any) -> Call: ...
    @overload
    def call(self, method: str, *args: Any, returns: int) -> tuple[Call, ...]: ...


class Cluster(Protocol):
    """Where parts live."""

    is_hurried: bool
    """Whether ``close`` does not wait for calls that are running."""
    check: Callable[[], None]
    """Called while something is waited for; may raise ``Overdue``."""
    is_remote: bool
    """Whether actors are processes of their own."""
    is_patient: bool
    """Whether workers without a place are waited for without end."""

    def spawn(
        self, name: str, factory: Any, args: tuple, place: str, resources: Mapping[str, Any] | None = None
    ) -> Handle:
        """Make the part ``factory`` ("module:Class") with ``args`` at ``place``."""
        ...

    def wait(self, references: Sequence[Call], timeout: float | None = None) -> Sequence[Call]:
        """Return those of ``references`` that are done, after at most ``timeout`` seconds."""
        ...

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return (all, free) amounts by name."""
        ...

    def nodes(self) -> Sequence[Mapping[str, float]]:
        """Return {name: amount} of the resources of each node."""
        ...

    def kill(self, handle: Handle) -> None:
        """End one part."""

    def close(self) -> None:
        """End all parts."""


class WorkerPart(Protocol):
    """Brings experience. A cluster makes it with (config, env, spec, identity, server)."""

    def collect(self, min_version: int, max_version: int | None) -> tuple[Any, Any]:
        """Return (Token, columns of a fragment), with weights of ``min_version`` to ``max_version``.

        A worker of evolution strategies takes the block of directions too.
        """
        ...

    def state(self) -> tuple[Arrays, Mapping[str, Any]]:
        """Return (arrays, plain data): all that the next fragment depends on."""
        ...

    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> int | None:
        """Continue from ``state``; returns how many running episodes begin anew."""
        ...

    def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(worker, *args)``."""
        ...

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of its environments."""
        ...

    def close(self) -> None:
        """Close environments and files."""


class LearnerPart(Protocol):
    """Holds what is trained. Made with (config, spec, graph, initial, identity, server); how it learns is its loop's affair."""

    def publish(self) -> tuple[int, Arrays]:
        """Push the weights to be scored; returns (version, ``state`` of the same moment)."""
        ...

    def push(self) -> int:
        """Push the weights; returns their version."""
        ...

    def state(self) -> Arrays:
        """Return every variable."""
        ...

    def load(self, arrays: Arrays, version: int) -> None:
        """Continue from ``state``, after the push of ``version``."""

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates by ``factor`` from now on."""


class ReplayPart(Protocol):
    """Stores fragments and draws batches from them; one shard of several, or all."""

    def add(self, token: Any, columns: Arrays) -> int:
        """Store a fragment; returns its env steps, 0 for one that was stored before."""
        ...

    def sample(self, count: int, least: float | None) -> tuple[Arrays, float | None]:
        """Return (block of ``count`` batches, smallest probability with which one of its rows was drawn, or None)."""
        ...

    def prioritize(self, serial: Any, priority: Any) -> None:
        """Give the rows ``serial`` new priorities."""

    def cut(self, worker: int) -> None:
        """End the streams of a worker that was lost."""


class TesterPart(Protocol):
    """Scores versions of the weights."""

    def evaluate(self, version: int, seeds: Sequence[int]) -> Sequence[Any]:
        """Return one scored episode for each of ``seeds``."""
        ...
