"""Where the stream of each environment stands between two fragments.

Used by ``experience.ring_buffer``. A stream is one environment of one worker. Between fragments it either waits for the
step after its last one (a *head*), or its last episode has ended and a new one comes (*fresh*). A stream of which
neither is known
may go on anywhere in an episode: its past is not in the ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from drl_cli.experience.columns import expect

Stream: TypeAlias = tuple[int, int]  # (worker, environment)


class Streams:
    """Streams by (worker, env)."""

    def __init__(self) -> None:
        """No stream is known."""
        self._heads = {}  # stream -> (serial number of its last step, the observation after that)
        self._fresh = set()  # streams whose next step begins an episode

    def __len__(self) -> int:
        """Streams of which something is known."""
        return len(self._heads) + len(self._fresh)

    def wait(self, stream: Stream, serial: int, next_obs: np.ndarray) -> None:
        """The last step of ``stream`` is row ``serial``; ``next_obs`` has been seen after it, but no step from there."""
        self._heads[stream] = (serial, next_obs.copy())

    def ended(self, stream: Stream) -> None:
        """The last episode of ``stream`` has ended; another one begins."""
        self._fresh.add(stream)

    def take(self, stream: Stream) -> tuple[tuple[int, np.ndarray] | None, bool]:
        """Forget ``stream`` and return (serial, next_obs) of its head, or None, and whether its next step begins an episode."""
        fresh = stream in self._fresh
        self._fresh.discard(stream)
        return self._heads.pop(stream, None), fresh

    def of(self, worker: int) -> list[Stream]:
        """Return the streams of ``worker`` in order."""
        return sorted(stream for stream in self._heads.keys() | self._fresh if stream[0] == worker)

    def workers(self) -> list[int]:
        """Return the workers whose streams may go on."""
        return sorted({worker for worker, _ in self._heads.keys() | self._fresh})

    def state(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({"head_obs": array [heads, *shape]}, {"heads": …, "fresh": …}) as plain data."""
        heads = sorted(self._heads)
        obs = np.stack([self._heads[head][1] for head in heads]) if heads else np.zeros((0, *shape), dtype)
        facts = {
            "heads": [[*head, self._heads[head][0]] for head in heads],
            "fresh": [list(s) for s in sorted(self._fresh)],
        }
        return {"head_obs": obs}, facts

    def check(
        self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        """Raise ValueError unless this is what ``state`` returned for such observations, of ``facts["written"]`` rows."""
        heads, fresh, written = facts["heads"], facts.get("fresh", []), facts["written"]
        if not isinstance(heads, list) or not all(_is_whole(head, 3) and 0 <= head[2] < written for head in heads):
            raise ValueError("a head of its streams is no step that was written")
        if not isinstance(fresh, list) or not all(_is_whole(stream, 2) for stream in fresh):
            raise ValueError("its fresh streams are no pairs of numbers")
        expect("head_obs", arrays, (len(heads), *shape), dtype)

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Take over what ``state`` returned and ``check`` has passed."""
        rows = zip(facts["heads"], arrays["head_obs"], strict=True)
        self._heads = {(worker, env): (serial, obs.copy()) for (worker, env, serial), obs in rows}
        self._fresh = {(worker, env) for worker, env in facts.get("fresh", [])}


def _is_whole(numbers: Any, count: int) -> bool:
    return isinstance(numbers, list) and len(numbers) == count and all(isinstance(n, int) for n in numbers)
