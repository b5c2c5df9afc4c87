"""Frame stacks against the list of episodes: over ends, cuts, losses and laps, dense and compressed."""

import copy

import numpy as np
import pytest
from episodes import Worker, as_images, numbers_in

from drl_cli.experience.ring_buffer import STEP, Ring

GAMMA = 0.9
IMAGES = {"dtypes": ("uint8", "float32")}


def _ring(capacity, frames=4, packed=False):
    return Ring(capacity, (2, 2, 1), (1,), **IMAGES, frames=frames, packed=packed)


def _valid(ring, n_step):
    rows = np.arange(len(ring))
    return rows[ring.windows(rows, n_step, GAMMA)[3]]


def _read(ring, rows, n_step):
    """(numbers in the stacks, and in those behind the windows) of these rows."""
    reward, discount, last, _ = ring.windows(rows, n_step, GAMMA)
    batch = ring.read(rows, reward, discount, last)
    assert batch["obs"].dtype == np.uint8
    return numbers_in(batch["obs"]), numbers_in(batch["next_obs"])


def _agree(ring, workers, n_step, frames):
    """All stacks that may be drawn are the episodes', and all that are whole in the ring may be drawn."""
    stacks, transitions = {}, {}
    for worker in workers:
        stacks |= worker.stacks(frames)
        transitions |= worker.transitions(n_step, GAMMA)
    rows = _valid(ring, n_step)
    found, behind = _read(ring, rows, n_step)
    for stack, after in zip(found.tolist(), behind.tolist(), strict=True):
        assert stack == stacks[stack[-1]]
        assert after == stacks[transitions[stack[-1]][2]]
    everything = np.arange(len(ring))
    numbers = numbers_in(ring.obs[everything])[:, 0]
    steps = set(numbers[(ring.flags[everything] & STEP) > 0].tolist())
    whole = {number for number in steps & set(transitions) if set(stacks[number]) <= set(numbers.tolist())}
    assert set(found[:, -1].tolist()) == whole
    return len(whole)


def test_stack_is_oldest_first_and_repeats_the_first_frame():
    ring = Ring(20, (1,), (1,), frames=3)
    ring.add(
        0,
        {
            "obs": np.float32([[[1]], [[2]], [[3]], [[5]]]),
            "action": np.zeros((4, 1, 1), np.float32),
            "reward": np.zeros((4, 1), np.float32),
            "terminated": np.array([[False], [False], [True], [False]]),
            "truncated": np.zeros((4, 1), bool),
            "end_obs": np.float32([[4]]),
            "tail_obs": np.float32([[6]]),
            "cut": np.array([True]),
        },
    )
    rows = np.array([0, 1, 2])
    reward, discount, last, valid = ring.windows(rows, 1, GAMMA)
    batch = ring.read(rows, reward, discount, last)
    assert valid.all()
    assert batch["obs"].tolist() == [[1, 1, 1], [1, 1, 2], [1, 2, 3]]
    assert batch["next_obs"].tolist() == [[1, 1, 2], [1, 2, 3], [2, 3, 4]]  # 4: the end row, not 5 behind the reset


def test_channels_of_a_frame_stay_together():
    ring = Ring(20, (1, 2, 2), (1,), **IMAGES, frames=2)
    frames = np.arange(1, 9, dtype=np.uint8).reshape(2, 1, 1, 2, 2)
    ring.add(
        0,
        {
            "obs": frames,
            "action": np.zeros((2, 1, 1), np.float32),
            "reward": np.zeros((2, 1), np.float32),
            "terminated": np.zeros((2, 1), bool),
            "truncated": np.zeros((2, 1), bool),
            "end_obs": np.zeros((0, 1, 2, 2), np.uint8),
            "tail_obs": np.zeros((1, 1, 2, 2), np.uint8),
            "cut": np.array([True]),
        },
    )
    batch = ring.draw(1, 1, GAMMA, np.random.default_rng(0))
    assert batch["obs"].tolist() == [[[[1, 2, 1, 2], [3, 4, 3, 4]]]]
    assert batch["next_obs"].tolist() == [[[[1, 2, 5, 6], [3, 4, 7, 8]]]]


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
def test_fragments_of_any_length_give_the_same_stacks(envs, n_step):
    drawable = []
    for pieces in (1, 7, 50, 350):
        worker, ring = Worker(3, envs, end=0.1), _ring(10_000)
        for number in range(350 // pieces):
            ring.add(0, as_images(worker.fragment(pieces, range(envs) if number == 0 else ())))
        drawable.append(_agree(ring, [worker], n_step, 4))
    assert len(set(drawable)) == 1 and drawable[0] >= 350 * envs - n_step * envs


def _wander(seed, capacity, fragments, ring, check=lambda workers: None):
    """Three workers send fragments of random lengths in random order; steps end, streams are cut, workers are lost."""
    rng = np.random.default_rng(seed)
    workers = [Worker(10 * seed + index, 2, end=0.15) for index in range(3)]
    for number in range(fragments):
        index = int(rng.integers(3))
        lost = number > 3 and rng.random() < 0.1
        if lost:
            ring.cut(index)
        cut = (0, 1) if lost or not workers[index].episodes else [env for env in range(2) if rng.random() < 0.1]
        ring.add(index, as_images(workers[index].fragment(int(rng.integers(1, 5)), cut)))
        if number % 7 == 0:
            check(workers)
    return workers


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize(("n_step", "frames"), [(1, 2), (1, 4), (3, 4), (6, 3)])
@pytest.mark.parametrize("capacity", [45, 97])
def test_stacks_never_cross_episodes_streams_or_the_seam_over_many_laps(capacity, n_step, frames, packed):
    ring, counts = _ring(capacity, frames, packed), []
    _wander(capacity, capacity, 250, ring, lambda workers: counts.append(_agree(ring, workers, n_step, frames)))
    assert ring.written > 12 * capacity and min(counts[10:]) > 5


def test_row_whose_frame_was_overwritten_is_not_drawn_until_its_episode_is_gone():
    ring, worker = _ring(20), Worker(0, 1, end=0.0)
    ring.add(0, as_images(worker.fragment(20, (0,))))
    assert _valid(ring, 1).tolist() == list(range(19))
    ring.add(0, as_images(worker.fragment(2)))
    # Rows 0 and 1 hold the newest steps; 2, 3 and 4 miss a frame. The newest has no successor yet.
    assert _valid(ring, 1).tolist() == [0, *range(5, 20)]


def test_head_that_was_overwritten_leaves_its_stream_without_a_past():
    """One worker pauses while another one writes a whole lap: what it sends then is no beginning of an episode."""
    ring, slow, quick = _ring(20), Worker(0, 1, end=0.0), Worker(1, 1, end=0.0)
    ring.add(0, as_images(slow.fragment(3, (0,))))
    ring.add(1, as_images(quick.fragment(20, (0,))))
    ring.add(0, as_images(slow.fragment(6)))
    # 20 … 25 of the slow one are in rows 3 … 8: the first three have no whole stack, the last no successor.
    drawable = set(numbers_in(ring.obs[_valid(ring, 1)])[:, 0].tolist())
    late = [number for number, _ in slow.episodes[0]["steps"]][3:]
    assert drawable & set(late) == set(late[3:5])


def test_stream_that_is_joined_within_an_episode_has_no_past_and_one_after_an_end_has():
    """After a lost fragment nobody knows where in an episode the next one begins, unless it says so by ``cut``."""
    ring, worker = _ring(100), Worker(0, 1, lengths=[(3, "terminated"), (50, "terminated")])
    ring.add(0, as_images(worker.fragment(3, (0,))))
    ring.add(0, as_images(worker.fragment(6)))  # its episode began with it
    assert _agree(ring, [worker], 1, 4) == 3 + 5
    ring.cut(0)
    worker.fragment(5)  # lost
    ring.add(0, as_images(worker.fragment(6)))
    later = [number for number, _ in worker.episodes[1]["steps"]][11:]
    drawable = set(numbers_in(ring.obs[_valid(ring, 1)])[:, 0].tolist())
    assert drawable & set(later) == set(later[3:5])


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_state_and_load_go_on_as_if_nothing_had_happened(packed):
    ring = _ring(97, packed=packed)
    workers = _wander(7, 97, 100, ring)
    arrays, facts = copy.deepcopy(ring.state())
    other = _ring(97, packed=packed)
    other.load(arrays, facts)
    for index, worker in enumerate(workers):
        columns = as_images(worker.fragment(4))
        ring.add(index, columns)
        other.add(index, columns)
    _agree(other, workers, 3, 4)
    first, second = (r.draw(50, 3, GAMMA, np.random.default_rng(2)) for r in (ring, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    mine, theirs = ring.state(), other.state()
    assert mine[1] == theirs[1]
    assert all(np.array_equal(mine[0][name], theirs[0][name]) for name in mine[0])


def test_compressed_frames_give_the_same_draws_from_fewer_bytes():
    rings = []
    for packed in (False, True):
        ring = Ring(300, (40, 40, 1), (1,), **IMAGES, frames=4, packed=packed)
        Worker.numbers = 0
        worker = Worker(4, 2, end=0.1)
        for number in range(25):
            columns = worker.fragment(5, (0, 1) if number == 0 else ())
            for name in ("obs", "end_obs", "tail_obs"):  # one bright line, whose place is the number's
                line = np.eye(40, dtype=np.uint8)[columns[name][..., 0].astype(int) % 40]
                columns[name] = line[..., None, :, None] * np.ones((40, 1, 1), np.uint8)
            ring.add(0, columns)
        rings.append(ring)
    dense, packed = (ring.draw(200, 3, GAMMA, np.random.default_rng(0)) for ring in rings)
    assert dense["obs"].shape == (200, 40, 40, 4) and dense["obs"].max() == 1
    assert all(np.array_equal(dense[name], packed[name]) for name in ("obs", "next_obs", "reward", "discount"))
    assert rings[0].nbytes() == len(rings[0]) * (1600 + 4 + 4 + 4 + 4 + 1)
    assert rings[1].nbytes() < rings[0].nbytes() / 5


@pytest.mark.parametrize("packed", [False, True], ids=["from dense", "from packed"])
def test_state_loads_into_a_ring_that_holds_frames_the_other_way(packed):
    ring, other = _ring(3000, packed=packed), _ring(3000, packed=not packed)
    workers = _wander(3, 3000, 600, ring)
    assert len(ring) > 1024
    other.load(*copy.deepcopy(ring.state()))
    _agree(other, workers, 3, 4)
    first, second = (r.draw(50, 3, GAMMA, np.random.default_rng(2)) for r in (ring, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda arrays, facts: arrays.pop("back"), "back"),
        (lambda arrays, facts: arrays["back"].__setitem__(0, -1), "a frame of the replay"),
        (lambda arrays, facts: arrays["back"].__setitem__(0, 98), "a frame of the replay"),
        (lambda arrays, facts: facts.update(fresh=[[0]]), "fresh"),
        (lambda arrays, facts: facts.update(fresh="all"), "fresh"),
        (lambda arrays, facts: arrays.update(obs=arrays["obs"].astype(np.float32)), "obs"),
    ],
)
def test_load_of_a_state_that_cannot_be_is_refused(change, said):
    ring = _ring(97)
    _wander(9, 97, 60, ring)
    arrays, facts = copy.deepcopy(ring.state())
    change(arrays, facts)
    other = _ring(97)
    with pytest.raises(ValueError, match=said):
        other.load(arrays, facts)
    assert len(other) == 0


def test_ring_without_stacks_stores_no_word_of_them():
    """A checkpoint of a replay of vectors is what it always was."""
    ring = Ring(97, (1,), (1,))
    ring.add(0, Worker(0, 2, end=0.3).fragment(10))
    arrays, facts = ring.state()
    assert sorted(arrays) == ["action", "flags", "head_obs", "link", "obs", "reward"]
    assert sorted(facts) == ["capacity", "heads", "written"]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("obs", lambda a: a.astype(np.float32), "obs is .* float32, the replay's .* uint8"),
        ("obs", lambda a: a[:, :, 0], "obs is"),
        ("action", lambda a: a.astype(np.float64), "action is .* float64"),
        ("action", lambda a: a[..., 0], "action is"),
    ],
)
def test_fragment_of_another_shape_or_dtype_is_refused_and_not_bent(name, change, said):
    ring, columns = _ring(97), as_images(Worker(0, 2).fragment(5))
    columns[name] = change(columns[name])
    with pytest.raises(ValueError, match=said):
        ring.add(0, columns)
    assert len(ring) == 0


def test_discrete_actions_are_whole_scalars():
    ring, worker = Ring(97, (1,), (), dtypes=("float32", "int32")), Worker(0, 2, end=0.1)
    columns = worker.fragment(20)
    columns["action"] = (columns["obs"][..., 0] % 5).astype(np.int32)
    ring.add(0, columns)
    batch = ring.draw(50, 2, GAMMA, np.random.default_rng(0))
    assert batch["action"].dtype == np.int32 and batch["action"].shape == (50,)
    assert np.array_equal(batch["action"], batch["obs"][:, 0].astype(np.int32) % 5)
