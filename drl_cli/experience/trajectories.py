"""From fragments to one batch of trajectories [E, T]: for algorithms that learn from consecutive steps.

Used by ``actors.batch_learner``. ``experience.columns`` says what a fragment and a trajectory batch hold. A stream is what one
environment did in one fragment. Streams of equal length are the rows of the batch, however many fragments a worker brought;
streams of complete episodes, which differ in length, are laid end to end in a few rows, so that a batch has little padding
and few shapes.

Two columns separate what a single "done" conflates (Pardo et al. 2018, "Time Limits in Reinforcement Learning",
arXiv 1712.00378): ``discount`` is zero only after termination, so that truncated episodes are bootstrapped; ``trace`` is zero
after any episode end, so that nothing propagates from the next episode. Bootstraps use the final observation of the episode,
never the one after a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch, Columns

ROWS = 8  # that complete episodes are laid into
LEAST_ENDS = 64  # room for their truncations; a shape of its own would cost a compilation
STATE = "state_"


def join(
    fragments: Sequence[Columns],
    gamma: float,
    sequence: int = 1,
    stepwise: Sequence[str] = (),
    every_end: bool = False,
    least_rows: int = 0,
    least_steps: int = 0,
) -> Batch:
    """Return the trajectory batch of ``fragments`` (dicts of fragment columns), {column: array}.

    ``gamma``: discount of one step. ``sequence``: L, steps of a recurrent sequence; T becomes a multiple of it, and T = L·2^k
    for complete episodes (fragments with ``length``), every one of which begins at a multiple of L. ``stepwise``: names of
    states that are kept for every step instead of every sequence. ``every_end``: ends hold the last observations of episodes
    that terminated too, which say what each agent of a team was rewarded with. ``least_rows``: rows of padding are added up to
    so many where episodes may be cut, so that a batch with fewer fragments has the same shape; ``least_steps``: likewise rows
    are padded up to so many steps, for fragments that were ended early.
    """
    plan = _plan(fragments, sequence, least_rows, least_steps)
    stacks = [_stacks(fragment) for fragment in fragments]

    def laid(name: str, every: int = 1) -> np.ndarray:
        return plan.laid([fragment[name] for fragment in fragments], every)

    batch = {"obs": plan.laid(stacks)}
    batch |= {name: laid(name) for name in ("action", "reward", "logp") if name in fragments[0]}
    real = plan.laid([np.ones(fragment["reward"].shape, bool) for fragment in fragments])
    batch |= _factors(real, laid("terminated"), laid("truncated"), gamma)
    if STATE + "0" in fragments[0]:
        begins = plan.laid([fragment["position"] == 0 for fragment in fragments])
        batch["begins"] = begins.astype(np.float32)
        for name in _state_names(fragments[0]):
            batch[name] = laid(name, 1 if name in stepwise else sequence)
    return batch | _ends(fragments, stacks, plan, every_end)


def _factors(real: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, gamma: float) -> Batch:
    """Return the columns discount, trace and mask, float32 [E, T], of what is ``real`` (no padding) and where it ends, bool."""
    # Nothing follows the step before padding: no value flows back from there.
    follows = np.ones_like(real)
    follows[:, :-1] = real[:, 1:]
    return {
        "discount": (gamma * (real & ~terminated)).astype(np.float32),
        "trace": (real & follows & ~terminated & ~truncated).astype(np.float32),
        "mask": real.astype(np.float32),
    }


def padded_shape(streams: int, steps: int, sequence: int, batch_steps: int | None = None) -> tuple[int, int, int]:
    """Return the (E, T, M) of a batch of ``streams`` fragments' environments of ``steps`` steps without inner truncations.

    ``batch_steps``: with complete episodes, the env steps of all of them together.
    """
    if batch_steps is None:
        return streams, _whole(steps, sequence), 2 * streams
    return ROWS, _bucket(-(-batch_steps // ROWS), sequence), LEAST_ENDS


class _Plan(NamedTuple):
    """Where every step of every stream is laid."""

    shape: tuple[int, int]  # (E, T)
    places: list[
        np.ndarray
    ]  # of each fragment: flat index of its steps, int64 [T, N]; those after a stream's length are E·T
    lengths: list[np.ndarray]  # of each fragment: int64 [N]
    are_whole: bool  # complete episodes

    def laid(self, columns: Sequence[np.ndarray], every: int = 1) -> np.ndarray:
        """Return the columns [T, N, …] of all fragments as one [E, T, …], zeros in between; of ``every``-th steps alone."""
        rows, steps = self.shape
        first = columns[0]
        laid = np.zeros((rows * (steps // every), *first.shape[2:]), first.dtype)
        for column, places in zip(columns, self.places, strict=True):
            at = places[::every].T
            real = at < rows * steps
            laid[at[real] // every] = column[::every].swapaxes(0, 1)[real]
        return laid.reshape(rows, steps // every, *first.shape[2:])


def _plan(fragments: Sequence[Columns], sequence: int, least_rows: int, least_steps: int) -> _Plan:
    shapes = [fragment["reward"].shape for fragment in fragments]
    lengths = [_lengths(fragment) for fragment in fragments]
    every, are_whole = np.concatenate(lengths), "length" in fragments[0]
    if are_whole:
        row, offset, rows, steps = _packed(every, sequence)
    else:
        rows, steps = (
            max(len(every), least_rows),
            _whole(max(least_steps, *(longest for longest, _ in shapes)), sequence),
        )
        row, offset = np.arange(len(every)), np.zeros(len(every), np.int64)
    places, begin = [], 0
    for (longest, count), own in zip(shapes, lengths, strict=True):
        here, time = slice(begin, begin + count), np.arange(longest)[:, None]
        places.append(np.where(time < own, row[here] * steps + offset[here] + time, rows * steps))
        begin += count
    return _Plan((rows, steps), places, lengths, are_whole)


def _lengths(fragment: Columns) -> np.ndarray:
    """Return the real steps of every stream, int64 [N]."""
    steps, streams = fragment["reward"].shape
    return fragment.get("length", fragment.get("steps", np.full(streams, steps, np.int64)))


def _packed(lengths: np.ndarray, sequence: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Lay streams of ``lengths`` into rows, the longest first, each where most room is; return (row, offset, E, T)."""
    row, offset, filled = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64), np.zeros(ROWS, np.int64)
    for stream in np.argsort(-lengths, kind="stable"):
        row[stream] = np.argmin(filled)
        offset[stream] = filled[row[stream]]
        filled[row[stream]] += _whole(int(lengths[stream]), sequence)
    return row, offset, ROWS, _bucket(int(filled.max()), sequence)


def _whole(steps: int, sequence: int) -> int:
    """Return the least multiple of ``sequence`` that holds ``steps``."""
    return -(-steps // sequence) * sequence


def _bucket(steps: int, sequence: int) -> int:
    """Return the least ``sequence``·2^k that holds ``steps``."""
    return sequence << (-(-steps // sequence) - 1).bit_length()


def _stacks(fragment: Columns) -> np.ndarray:
    """Return what the policy saw, [T, N, …]: the frames themselves, or stacks of them where it looks at several."""
    frames = fragment["obs"]
    if "stack" not in fragment:
        return frames
    stacks = np.empty((len(frames), *fragment["stack"].shape), frames.dtype)
    stacks[0] = fragment["stack"]
    ended, repeats = _ended(fragment), stacks.shape[-1] // frames.shape[-1]
    for step in range(1, len(frames)):
        stacks[step] = _pushed(stacks[step - 1], frames[step])
        begins = ended[step - 1]
        stacks[step, begins] = np.concatenate([frames[step, begins]] * repeats, axis=-1)
    return stacks


def _pushed(stacks: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Return ``stacks`` with ``frames`` after them, the oldest left out."""
    return np.concatenate([stacks[..., frames.shape[-1] :], frames], axis=-1)


def _ended(fragment: Columns) -> np.ndarray:
    """Return bool [T, N]: the steps after which an episode ended, either way."""
    return fragment["terminated"] | fragment["truncated"]


def _state_names(fragment: Columns) -> list[str]:
    return sorted(name for name in fragment if name.startswith(STATE))


def _ends(fragments: Sequence[Columns], stacks: Sequence[np.ndarray], plan: _Plan, every_end: bool) -> Batch:
    """Return what bootstraps look at: after the last step of every stream, in order, then the cuts inside, then padding.

    Complete episodes have cuts alone: nothing of them goes on. Of a stream without steps the place is that of padding.
    With ``every_end`` all ends are cuts.
    """
    tails, cuts = [], []  # of each fragment: (flat places, {column: values})
    for fragment, seen, places, lengths in zip(fragments, stacks, plan.places, plan.lengths, strict=True):
        columns = _end_columns(fragment, seen)
        step, env = np.nonzero(_ended(fragment))  # in the order of (step, env), as the fragment's ends are
        is_cut = every_end | (fragment["truncated"][step, env] & ~fragment["terminated"][step, env])
        is_last = step == lengths[env] - 1
        if not plan.are_whole:
            tail = {name: values.copy() for name, (values, _) in columns.items()}
            at_end = is_cut & is_last
            for name, (_, ends) in columns.items():
                tail[name][env[at_end]] = ends[at_end]
            tails.append((places[lengths - 1, np.arange(len(lengths))], tail))
            is_cut &= ~is_last
        cuts.append((places[step, env][is_cut], {name: ends[is_cut] for name, (_, ends) in columns.items()}))
    at = np.concatenate([places for places, _ in tails + cuts])
    (rows, steps), room = plan.shape, LEAST_ENDS if plan.are_whole else 2 * plan.shape[0]
    while room < len(at):
        room *= 2
    batch = {"end_at": np.full(room, rows * steps, np.int32)}
    batch["end_at"][: len(at)] = at
    for name in cuts[0][1]:
        values = np.concatenate([columns[name] for _, columns in tails + cuts])
        batch[name] = np.zeros((room, *values.shape[1:]), values.dtype)
        batch[name][: len(at)] = values
    return batch


def _end_columns(fragment: Columns, stacks: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return {column of the batch: (values after the last steps [N, …], values after each end [E, …])}."""
    frames, ends = fragment["tail_obs"], fragment["end_obs"]
    if "stack" in fragment:
        step, env = np.nonzero(_ended(fragment))
        ends = _pushed(stacks[step, env], ends)
        # After an episode's end stands the first frame of the next; its value is never used.
        frames = _pushed(stacks[-1], frames)
    columns = {"end_obs": (frames, ends)}
    for name in _state_names(fragment):
        columns[f"end_{name}"] = (fragment[f"tail_{name}"], fragment[f"end_{name}"])
    return columns
