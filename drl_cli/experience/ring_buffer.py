"""A ring buffer of steps in stream order, from which n-step transitions and frame stacks are read by index arithmetic.

Every step of every environment is one row; ``link`` holds the row of the next step. The observation after
an episode's last step is a row of its own (an *end* row), so that ``obs[link[i]]`` is always the true next
observation, never one after a reset, and frames are stored once. The last steps of a stream have no successor yet
(link −1); windows that need it are not sampled until it arrives, so that fragment boundaries have no effect.

A successor is always written, and therefore overwritten, later than its step: the window of a row that is still present is
complete. All workers share one ring, whatever their number.

Observations are single frames, read as stacks (``experience.frames``). A predecessor is overwritten earlier than its row: a
row whose stack has lost a frame is not sampled. The stack after a window needs no check of its own: it reaches back less far.

The *serial* number of a row counts all rows ever written; the row is at ``serial % capacity`` until it is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.experience.columns import BATCH, expect, one_stream
from drl_cli.experience.frames import Frames
from drl_cli.experience.streams import Streams

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch, Columns
    from drl_cli.experience.compressed_rows import PackedRows
    from drl_cli.experience.streams import Stream

STEP, ENDED, TERMINATED = 1, 2, 4  # bits of `flags`; an end row has none of them
NONE = -1
MAX_DRAWS = 1000  # rounds of drawing before it is plain that hardly any window is complete
COLUMNS = ("action", "reward", "link", "flags")


class Ring:
    """Rows of (obs, action, reward) with links; fixed capacity, the oldest rows are overwritten."""

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        action_shape: tuple[int, ...],
        dtypes: tuple[Any, Any] = ("float32", "float32"),
        frames: int = 1,
        packed: bool = False,
        backwards: bool = False,
    ) -> None:
        """``capacity`` counts rows: env steps plus one for every episode's last observation.

        ``obs_shape`` is that of one frame; ``dtypes`` those of observations and actions; ``packed`` holds observations
        LZ4-compressed; ``backwards`` keeps ``back`` also for single frames.
        """
        self.capacity = capacity
        self.written = 0  # rows ever written; the next one goes to written % capacity
        self._frames = Frames(capacity, obs_shape, dtypes[0], frames, packed, backwards)
        self.action = np.empty((capacity, *action_shape), dtypes[1])
        self.reward = np.empty(capacity, np.float32)
        self.link = np.full(capacity, NONE, np.int32)
        self.flags = np.zeros(capacity, np.uint8)
        self._streams = Streams()

    def __len__(self) -> int:
        """Rows present."""
        return min(self.written, self.capacity)

    @property
    def obs(self) -> np.ndarray | PackedRows:
        """The single observations [capacity, …]: an array, or PackedRows."""
        return self._frames.obs

    @property
    def back(self) -> np.ndarray | None:
        """How many rows earlier the step before each row is, int32 [capacity], 0: it is an episode's first; or None."""
        return self._frames.back

    def looks_back(self) -> np.ndarray:
        """Return ``back`` of a ring that keeps it. Raises ValueError for any other."""
        if self.back is None:
            raise ValueError("a ring that does not look back")
        return self.back

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Shape of a stack of frames."""
        return self._frames.stacked_shape

    def stacks(self, rows: np.ndarray) -> np.ndarray:
        """Return the stacks [M, …, C·frames] whose newest frames are in ``rows`` (int [M])."""
        return self._frames.stacks(rows)[0]

    def may_begin(self, rows: np.ndarray) -> np.ndarray:
        """Whether a window begins in each of ``rows`` (int [M]), bool [M]."""
        return (self.flags[rows] & STEP) > 0

    def add(self, worker: int, columns: Columns) -> int:
        """Append a fragment (``experience.columns.FRAGMENT``) of ``worker``; returns the serial number of its first step.

        The step [t, n] has the number first + t·N + n; streams of different lengths (``steps``) are written one after the
        other. ValueError, and nothing stored, for another shape or dtype.
        """
        self._check(columns)
        if "steps" not in columns:
            return self._append(worker, columns)
        first = self.written
        for env, steps in enumerate(columns["steps"].tolist()):
            if steps:
                self._append(worker, one_stream(columns, env, steps), env)
            elif columns["cut"][env]:
                self._end((worker, env))
        return first

    def _append(self, worker: int, columns: Columns, base: int = 0) -> int:
        """Write streams of equal length; returns the serial number of the first step.

        ``base``: the index of the first stream among those of the worker.
        """
        ended = columns["terminated"] | columns["truncated"]
        before = self._join(worker, columns["cut"], base)
        first = self.written
        self._write_steps(columns, ended, before)
        self._note_ends((worker, base), first, columns, ended)
        return first

    def _write_steps(self, columns: Columns, ended: np.ndarray, before: np.ndarray) -> None:
        """Write a fragment's steps, each linked to the next one of its environment.

        ``ended`` bool [T, N]; ``before`` [N]: how many rows earlier the predecessor of each first step is.
        """
        steps, envs = ended.shape
        serials = self.written + np.arange(steps * envs)
        rows = self._reserve(steps * envs)
        flat = {
            name: columns[name].reshape(len(rows), *columns[name].shape[2:]) for name in ("obs", "action", "reward")
        }
        # How many rows earlier the frame before this one is; 0 where an episode begins.
        back = np.vstack([before, np.where(ended[:-1], 0, envs)]).ravel()
        self._frames.write(rows, flat["obs"], back)
        self.action[rows], self.reward[rows] = flat["action"], flat["reward"]
        self.flags[rows] = STEP + ENDED * ended.ravel() + TERMINATED * columns["terminated"].ravel()
        following = (serials + envs) % self.capacity
        following[-envs:] = NONE
        self.link[rows] = following

    def _note_ends(self, begin: Stream, first: int, columns: Columns, ended: np.ndarray) -> None:
        """Write the end rows of streams whose first step is row ``first``, and note where they stand; ``begin``: the first."""
        (steps, envs), (worker, base) = ended.shape, begin
        which = np.flatnonzero(ended.ravel())
        if len(which):
            self.link[(first + which) % self.capacity] = self._end_rows(columns["end_obs"], first + which)
        for env in range(envs):
            if ended[-1, env]:
                self._streams.ended((worker, base + env))
            else:
                self._streams.wait((worker, base + env), first + (steps - 1) * envs + env, columns["tail_obs"][env])

    def cut(self, worker: int) -> None:
        """End the streams of ``worker``: what it sends from now on does not continue them."""
        for stream in self._streams.of(worker):
            self._end(stream)

    def workers(self) -> list[int]:
        """Return the workers whose streams may go on."""
        return self._streams.workers()

    def _check(self, columns: Columns) -> None:
        for name in ("obs", "action"):
            mine, given = getattr(self, name), columns[name]
            if (given.shape[2:], given.dtype) != (mine.shape[1:], mine.dtype):
                raise ValueError(
                    f"a fragment's {name} is {given.shape[2:]} {given.dtype}, the replay's {mine.shape[1:]} {mine.dtype}"
                )

    def _join(self, worker: int, cut: np.ndarray, base: int) -> np.ndarray:
        """Link the heads of the worker's streams from ``base`` on to what is about to be written, or end them.

        Returns how many rows before the first row of each stream its predecessor is, int [N]; 0: it has none.
        """
        for env in np.flatnonzero(cut):
            self._end((worker, base + int(env)))
        start = self.written
        # A stream whose past is unknown may be anywhere in an episode: its predecessor counts as overwritten.
        back = np.where(cut, 0, self.capacity)
        for env in range(len(cut)):
            head, fresh = self._streams.take((worker, base + env))
            if fresh:
                back[env] = 0
            elif head is not None and head[0] > start - self.capacity:
                self.link[head[0] % self.capacity] = (start + env) % self.capacity
                back[env] = min(start + env - head[0], self.capacity)
        return back

    def _end(self, stream: Stream) -> None:
        head, _ = self._streams.take(stream)
        if head is None or head[0] <= self.written - self.capacity:
            return
        serial, next_obs = head
        row = serial % self.capacity
        self.flags[row] |= ENDED
        self.link[row] = self._end_rows(next_obs[None], np.array([serial]))[0]

    def _end_rows(self, obs: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Write ``obs`` [E, …] as end rows after the steps with the serial numbers ``before``; returns where they are."""
        serials = self.written + np.arange(len(obs))
        rows = self._reserve(len(obs))
        # Their actions and rewards are never read, but a checkpoint holds them: equal runs have equal bytes.
        self._frames.write(rows, obs, serials - before)
        self.action[rows], self.reward[rows] = 0, 0.0
        self.link[rows], self.flags[rows] = NONE, 0
        return rows

    def _reserve(self, count: int) -> np.ndarray:
        rows = (self.written + np.arange(count)) % self.capacity
        self.written += count
        return rows

    def serials(self, rows: np.ndarray) -> np.ndarray:
        """Return the serial numbers, int64 [M], of what is in ``rows`` (int [M]) now."""
        oldest = max(0, self.written - self.capacity)
        return oldest + (rows - oldest) % self.capacity

    def are_whole(self, serials: np.ndarray) -> np.ndarray:
        """Whether all frames of the stacks that end in rows with these numbers (int [M]) are present, bool [M]."""
        return self._frames.first_serials(serials) >= self.written - len(self)

    def windows(
        self, rows: np.ndarray, n_step: int, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Follow up to ``n_step`` steps from each of ``rows`` (int [M]).

        Returns (reward [M] float32, discount [M] float32, last [M] int: the row after the window, valid [M] bool).
        A window ends where the episode does, terminated or truncated; the exponent of γ is its number of real steps.
        """
        reward = np.zeros(len(rows), np.float64)
        factor = np.ones(len(rows), np.float64)
        valid = (self.flags[rows] & STEP) > 0
        alive = valid.copy()
        at = rows.copy()
        terminated = np.zeros(len(rows), bool)
        for _ in range(n_step):
            flags, following = self.flags[at], self.link[at]
            reward += np.where(alive, factor * self.reward[at], 0.0)
            factor = np.where(alive, factor * gamma, factor)
            terminated |= alive & ((flags & TERMINATED) > 0)
            valid &= ~alive | (following != NONE)
            at = np.where(alive & (following != NONE), following, at)
            alive &= (flags & ENDED) == 0
        if self._frames.count > 1:
            valid &= self.are_whole(self.serials(rows))
        return reward.astype(np.float32), (factor * ~terminated).astype(np.float32), at, valid

    def draw(self, count: int, n_step: int, gamma: float, rng: np.random.Generator) -> Batch:
        """Return ``count`` transitions drawn uniformly from all complete windows, as {column: array [count, …]}."""
        return self.read(*self.drawn(count, n_step, gamma, rng))

    def drawn(
        self, count: int, n_step: int, gamma: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Draw ``count`` complete windows uniformly; returns (row, reward, discount, row after the window), [count] each.

        ValueError when there are hardly any.
        """
        chosen, found = [], 0
        for _ in range(MAX_DRAWS):
            rows = rng.integers(0, len(self), size=count - found + count // 16 + 8)
            reward, discount, last, valid = self.windows(rows, n_step, gamma)
            keep = np.flatnonzero(valid)[: count - found]
            chosen.append((rows[keep], reward[keep], discount[keep], last[keep]))
            found += len(keep)
            if found >= count:
                break
        else:
            raise ValueError(f"no {count} complete windows of {n_step} steps in {len(self)} rows")
        rows, reward, discount, last = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        return rows, reward, discount, last

    def read(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray, last: np.ndarray) -> Batch:
        """Return the transitions whose windows begin in ``rows`` and end before ``last`` as {column: array [M, …]}."""
        obs, next_obs = self._frames.stacks(rows, last)
        return dict(zip(BATCH, (obs, self.action.take(rows, axis=0), reward, discount, next_obs), strict=True))

    def nbytes(self) -> int:
        """Return the bytes of memory that the rows present take."""
        size = len(self)
        return self._frames.nbytes(size) + sum(getattr(self, name)[:size].nbytes for name in COLUMNS)

    def reserved(self) -> int:
        """Return the bytes of memory that all rows take once they are written; of uncompressed observations only."""
        return self._frames.nbytes(self.capacity) + sum(getattr(self, name).nbytes for name in COLUMNS)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, {name: plain data}): the rows present and the streams that may go on."""
        size = len(self)
        arrays = self._frames.state(size) | {name: getattr(self, name)[:size] for name in COLUMNS}
        heads, streams = self._streams.state(self.obs.shape[1:], self.obs.dtype)
        if self._frames.back is None:
            del streams["fresh"]  # nothing looks back
        return arrays | heads, {"written": self.written, "capacity": self.capacity} | streams

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Restore what ``state`` returned; ValueError, and nothing changed, when it does not fit or cannot be a ring's."""
        if facts["capacity"] != self.capacity:
            raise ValueError(f"a replay of {facts['capacity']} rows; this run's buffer_size is {self.capacity}")
        written = facts["written"]
        if not isinstance(written, int) or written < 0:
            raise ValueError(f"written is {str(written)[:40]!r}, no number of rows")
        self._streams.check(arrays, facts, self.obs.shape[1:], self.obs.dtype)
        size = min(written, self.capacity)
        for name in COLUMNS:
            mine = getattr(self, name)
            expect(name, arrays, (size, *mine.shape[1:]), mine.dtype)
        if size and (arrays["link"].min() < NONE or arrays["link"].max() >= size):
            raise ValueError("a link of the replay points outside of it")
        if size and arrays["flags"].max() > STEP | ENDED | TERMINATED:
            raise ValueError("flags of the replay that this version does not know")
        self._frames.load(arrays, size)
        for name in COLUMNS:
            getattr(self, name)[:size] = arrays[name]
        self.written = written
        self._streams.load(arrays, facts)
