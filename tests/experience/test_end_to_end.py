"""``columns.end_to_end`` against a list of steps: streams of different lengths become full columns."""

import numpy as np
import pytest

from drl_cli.experience.columns import end_to_end
from drl_cli.experience.trajectories import join

T, N = 4, 3


def _uneven(rng, lengths, ends):
    """A fragment of streams of ``lengths``; ``ends``: {(stream, step): "terminated" or "truncated"}."""
    rows, count = max(lengths), len(lengths)
    columns = {
        "obs": np.zeros((rows, count, 1), np.float32),
        "action": rng.integers(0, 5, (rows, count)).astype(np.int32),
        "reward": rng.random((rows, count)).astype(np.float32),
        "logp": rng.random((rows, count)).astype(np.float32),
        "position": rng.integers(0, 9, (rows, count)).astype(np.int32),
        "state_0": rng.random((rows, count, 2)).astype(np.float32),
        "terminated": np.zeros((rows, count), bool),
        "truncated": np.zeros((rows, count), bool),
    }
    for stream in range(count):
        columns["obs"][:, stream, 0] = 100 * stream + np.arange(rows)
    for (stream, step), kind in ends.items():
        columns[kind][step, stream] = True
    order = sorted((step, stream) for stream, step in ends)
    columns["end_obs"] = np.array([[1000 + 100 * n + t] for t, n in order], np.float32).reshape(-1, 1)
    columns["end_state_0"] = np.array([[t, n] for t, n in order], np.float32).reshape(-1, 2)
    columns["tail_obs"] = np.array([[100 * n + length] for n, length in enumerate(lengths)], np.float32)
    columns["tail_state_0"] = rng.random((count, 2)).astype(np.float32)
    columns["steps"], columns["cut"] = np.array(lengths), np.zeros(count, bool)
    return columns


def _slow(columns, lengths):
    """Every step with what follows it: (obs, reward, ends, next obs, next state), stream by stream."""
    order = list(zip(*np.nonzero(columns["terminated"] | columns["truncated"]), strict=True))
    found = []
    for stream, length in enumerate(lengths):
        for step in range(length):
            after = (columns["tail_obs"][stream], columns["tail_state_0"][stream])
            if (step, stream) in order:
                index = order.index((step, stream))
                after = (columns["end_obs"][index], columns["end_state_0"][index])
            elif step + 1 < length:
                after = (columns["obs"][step + 1, stream], columns["state_0"][step + 1, stream])
            ends = (columns["terminated"][step, stream], columns["truncated"][step, stream])
            found.append((columns["obs"][step, stream, 0], columns["reward"][step, stream], ends, *after))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_steps_and_what_follows_them_are_kept(seed):
    rng = np.random.default_rng(seed)
    lengths = [[5, 0, 7], [12, 0, 0], [4, 4, 4], [1, 10, 1], [0, 6, 6], [3, 2, 7]][seed]
    places = [(stream, step) for stream, length in enumerate(lengths) for step in range(length)]
    chosen = rng.choice(len(places), 4, replace=False)
    columns = _uneven(rng, lengths, {places[i]: ["terminated", "truncated"][i % 2] for i in chosen})
    slow = _slow(columns, lengths)
    folded = end_to_end(columns, (T, N))
    assert {name: folded[name].shape[:2] for name in ("obs", "reward", "state_0")} == dict.fromkeys(
        ("obs", "reward", "state_0"), (T, N)
    )
    assert folded["cut"].all()
    ends = {
        place: index
        for index, place in enumerate(zip(*np.nonzero(folded["terminated"] | folded["truncated"]), strict=True))
    }
    assert len(folded["end_obs"]) == len(ends)
    last = np.cumsum(lengths) - 1
    for index, (obs, reward, (terminated, truncated), next_obs, next_state) in enumerate(slow):
        place = (index % T, index // T)
        assert (folded["obs"][place][0], folded["reward"][place]) == (obs, reward)
        assert folded["terminated"][place] == terminated
        is_cut = index in last and index % T != T - 1 and not terminated
        assert folded["truncated"][place] == (truncated or is_cut)
        if place in ends:
            after, state = folded["end_obs"][ends[place]], folded["end_state_0"][ends[place]]
        elif index % T == T - 1:
            after, state = folded["tail_obs"][index // T], folded["tail_state_0"][index // T]
        else:
            after, state = folded["obs"][place[0] + 1, place[1]], folded["state_0"][place[0] + 1, place[1]]
        assert np.array_equal(after, next_obs) and np.array_equal(state, next_state)
    batch = join([folded], 0.9)
    assert batch["mask"].all() and batch["reward"].shape == (N, T)
