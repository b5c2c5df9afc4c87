"""From fragments to one batch of trajectories [E, T]: what algorithms learn from that look at whole stretches in order.

Used by ``actors.batch_learner``. ``data.columns`` says what a fragment and a trajectory batch hold. Every environment of
every fragment is a stream of its own, however many fragments a worker brought.

Two columns keep apart what a single "done" mixes up (Pardo et al. 2018, "Time Limits in Reinforcement Learning",
arXiv 1712.00378): ``discount`` is zero only where the world ended, so that a cut episode keeps its bootstrap, ``trace``
wherever an episode ends, so that nothing of the next one flows back. A bootstrap looks at the real last observation, never
at the one after a reset.
"""

import numpy as np

STATE = "state_"


def join(fragments, gamma, sequence=1):
    """Return the trajectory batch of ``fragments`` (dicts of fragment columns), {column: array}.

    ``gamma``: discount of one step. ``sequence``: L, steps of a recurrent sequence; T becomes a multiple of it. Fragments of
    complete episodes (with ``length``) are padded to T = L·2^k.
    """
    lengths = np.concatenate([_lengths(fragment) for fragment in fragments])
    steps = _padded(fragments, sequence)
    stacks = [_stacks(fragment) for fragment in fragments]
    batch = {
        "obs": _joined(stacks, steps),
        "action": _joined([fragment["action"] for fragment in fragments], steps),
        "reward": _joined([fragment["reward"] for fragment in fragments], steps),
    }
    if "logp" in fragments[0]:
        batch["logp"] = _joined([fragment["logp"] for fragment in fragments], steps)
    terminated = _joined([fragment["terminated"] for fragment in fragments], steps)
    truncated = _joined([fragment["truncated"] for fragment in fragments], steps)
    real = np.arange(steps) < lengths[:, None]  # [E, T]
    # Nothing follows the last real step: padding behind it must not flow back.
    follows = np.ones_like(real)
    follows[:, :-1] = real[:, 1:]
    batch["reward"] *= real
    batch["discount"] = (gamma * (real & ~terminated)).astype(np.float32)
    batch["trace"] = (real & follows & ~terminated & ~truncated).astype(np.float32)
    batch["mask"] = real.astype(np.float32)
    if STATE + "0" in fragments[0]:
        batch |= _memories(fragments, steps, sequence, real)
    return batch | _ends(fragments, stacks, lengths, steps)


def _lengths(fragment):
    steps, streams = fragment["reward"].shape
    return fragment.get("length", np.full(streams, steps))


def _padded(fragments, sequence):
    """Return T."""
    longest = max(len(fragment["reward"]) for fragment in fragments)
    sequences = -(-longest // sequence)
    if any("length" in fragment for fragment in fragments):
        sequences = 1 << (sequences - 1).bit_length()
    return sequences * sequence


def _joined(columns, steps):
    """Return the columns [T, N, …] stream-major as one [E, ``steps``, …], zeros behind their ends."""
    first = columns[0]
    joined = np.zeros((sum(column.shape[1] for column in columns), steps, *first.shape[2:]), first.dtype)
    begin = 0
    for column in columns:
        joined[begin : begin + column.shape[1], : len(column)] = column.swapaxes(0, 1)
        begin += column.shape[1]
    return joined


def _ended(fragment):
    """Return bool [T, N]: the steps behind which an episode ended, either way."""
    return fragment["terminated"] | fragment["truncated"]


def _stacks(fragment):
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


def _pushed(stacks, frames):
    """Return ``stacks`` with ``frames`` behind them, the oldest left out."""
    return np.concatenate([stacks[..., frames.shape[-1] :], frames], axis=-1)


def _memories(fragments, steps, sequence, real):
    begins = _joined([fragment["position"] == 0 for fragment in fragments], steps)
    batch = {"begins": (begins & real).astype(np.float32)}
    for name in _state_names(fragments[0]):
        starts = [fragment[name][::sequence] for fragment in fragments]
        batch[name] = _joined(starts, steps // sequence)
    return batch


def _state_names(fragment):
    return sorted(name for name in fragment if name.startswith(STATE))


def _ends(fragments, stacks, lengths, steps):
    """Return what bootstraps look at: the end of each stream in order, then the truncations inside, then padding."""
    streams, begin = len(lengths), 0
    at, found = [np.arange(streams) * steps + lengths - 1], []
    tails = {name: [] for name in ("end_obs", *(f"end_{state}" for state in _state_names(fragments[0])))}
    inside = {name: [] for name in tails}
    for fragment, seen in zip(fragments, stacks, strict=True):
        count = fragment["reward"].shape[1]
        last = lengths[begin : begin + count] - 1
        own = _end_columns(fragment, seen)
        step, env = np.nonzero(_ended(fragment))  # in the order of (step, env), as the fragment's ends are
        cut = fragment["truncated"][step, env] & ~fragment["terminated"][step, env]
        at_end = cut & (step == last[env])
        inner = cut & ~at_end
        for name, (tail, ends) in own.items():
            tail = tail.copy()
            tail[env[at_end]] = ends[at_end]
            tails[name].append(tail)
            inside[name].append(ends[inner])
        found.append((begin + env[inner]) * steps + step[inner])
        begin += count
    at = np.concatenate(at + found).astype(np.int32)
    room = 2 * streams
    while room < len(at):
        room *= 2
    batch = {"end_at": np.full(room, streams * steps, np.int32)}
    batch["end_at"][: len(at)] = at
    for name in tails:
        values = np.concatenate(tails[name] + inside[name])
        batch[name] = np.zeros((room, *values.shape[1:]), values.dtype)
        batch[name][: len(at)] = values
    return batch


def _end_columns(fragment, stacks):
    """Return {column of the batch: (values behind the last steps [N, …], values behind each end [E, …])}."""
    frames, ends = fragment["tail_obs"], fragment["end_obs"]
    if "stack" in fragment:
        step, env = np.nonzero(_ended(fragment))
        ends = _pushed(stacks[step, env], ends)
        # Behind an episode's end stands the first frame of the next; its value is not asked for.
        frames = _pushed(stacks[-1], frames)
    columns = {"end_obs": (frames, ends)}
    for name in _state_names(fragment):
        columns[f"end_{name}"] = (fragment[f"tail_{name}"], fragment[f"end_{name}"])
    return columns
