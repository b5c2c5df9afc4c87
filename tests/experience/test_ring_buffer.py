"""The ring against a slow list of episodes."""

import copy

import numpy as np
import pytest
from episodes import Worker
from scipy import stats

from drl_cli.experience.ring_buffer import Ring

GAMMA = 0.9


def _complete(ring, n_step, gamma=GAMMA):
    """{number of the first observation: (reward, discount, number behind)} of every window that may be drawn."""
    rows = np.arange(len(ring))
    reward, discount, last, valid = ring.windows(rows, n_step, gamma)
    found = {}
    for row in rows[valid]:
        assert ring.action[row, 0] == -ring.obs[row, 0]
        found[int(ring.obs[row, 0])] = (reward[row], discount[row], int(ring.obs[last[row], 0]))
    assert len(found) == valid.sum()
    return found


def _agree(found, expected):
    assert set(found) == set(expected)
    for first, (reward, discount, behind) in expected.items():
        assert found[first][2] == behind
        np.testing.assert_allclose(found[first][:2], (reward, discount), rtol=1e-5, atol=1e-6)


def _rows(ring, first, count):
    """Where the steps with the numbers from ``first`` on are."""
    return [int(np.flatnonzero(ring.obs[: len(ring), 0] == number)[0]) for number in range(first, first + count)]


def _filled(lengths, total, envs=1, pieces=50, capacity=10_000):
    worker, ring = Worker(0, envs, lengths=lengths), Ring(capacity, (1,), (1,))
    for _ in range(total // pieces):
        ring.add(0, worker.fragment(pieces))
    return worker, ring


def test_two_step_window_sums_discounted_rewards_and_stops_at_a_real_end():
    ring = Ring(20, (1,), (1,))
    ring.add(
        0,
        {
            "obs": np.float32([[[1]], [[2]], [[3]], [[5]]]),
            "action": np.float32([[[-1]], [[-2]], [[-3]], [[-5]]]),
            "reward": np.float32([[1.0], [10.0], [100.0], [1000.0]]),
            "terminated": np.array([[False], [False], [True], [False]]),
            "truncated": np.zeros((4, 1), bool),
            "end_obs": np.float32([[4]]),
            "tail_obs": np.float32([[6]]),
            "cut": np.array([True]),
        },
    )
    assert len(ring) == 5  # four steps and what is behind the end
    # 1 + 0.9·10, bootstrapping from 3; 10 + 0.9·100 and 100, both behind a real end; 5 has no successor yet
    _agree(_complete(ring, 2), {1: (10.0, 0.81, 3), 2: (100.0, 0.0, 4), 3: (100.0, 0.0, 4)})


@pytest.mark.parametrize("kind", ["terminated", "truncated", "terminated truncated"])
@pytest.mark.parametrize("n_step", [1, 3, 20])
def test_an_end_of_every_kind_and_length_matches_the_list_of_episodes(kind, n_step):
    lengths = [(1, kind), (2, kind), (1, kind), (7, kind), (12, kind), (5, kind)]
    worker, ring = _filled(lengths, 30, pieces=10)
    expected = worker.transitions(n_step, GAMMA)
    assert len(expected) >= 28 - n_step or n_step == 20
    _agree(_complete(ring, n_step), expected)


def test_truncation_bootstraps_from_the_last_real_observation_with_the_real_number_of_steps():
    worker, ring = _filled([(2, "truncated"), (4, "terminated")], 6, pieces=6)
    first = worker.episodes[0]["steps"][0][0]
    found = _complete(ring, 5)
    assert found[first][1:] == (np.float32(0.81), worker.episodes[0]["after"])
    assert found[first + 1][1:] == (np.float32(0.9), worker.episodes[0]["after"])
    dead = worker.episodes[1]["steps"][0][0]
    assert found[dead][1:] == (0.0, worker.episodes[1]["after"])


@pytest.mark.parametrize("n_step", [1, 3, 5])
@pytest.mark.parametrize("envs", [1, 4])
def test_fragments_of_any_length_give_the_same_transitions(envs, n_step):
    found = []
    for pieces in (1, 7, 50, 350):
        worker = Worker(3, envs, end=0.1)
        start, ring = Worker.numbers - envs, Ring(10_000, (1,), (1,))
        for _ in range(350 // pieces):
            ring.add(0, worker.fragment(pieces))
        expected = worker.transitions(n_step, GAMMA)
        _agree(_complete(ring, n_step), expected)
        # Observations are numbered from 1 in each world, so that worlds can be compared.
        found.append(sorted((key - start, round(r, 5), round(d, 6), b - start) for key, (r, d, b) in expected.items()))
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) > 350 * envs - 10 * envs


def test_newest_steps_are_not_drawn_until_what_follows_has_come():
    worker, ring = Worker(0, 2, end=0.0), Ring(1000, (1,), (1,))
    ring.add(0, worker.fragment(2))
    assert _complete(ring, 3) == {}
    with pytest.raises(ValueError, match="no 8 complete windows of 3 steps in 4 rows"):
        ring.draw(8, 3, GAMMA, np.random.default_rng(0))
    ring.add(0, worker.fragment(1))
    assert _complete(ring, 3) == {}
    ring.add(0, worker.fragment(1))
    assert len(_complete(ring, 3)) == 2  # the first step of each environment
    _agree(_complete(ring, 3), worker.transitions(3, GAMMA))


def test_cut_streams_end_where_they_were_and_are_not_joined():
    worker, ring = Worker(1, 3, end=0.05), Ring(10_000, (1,), (1,))
    for cut in [(), (1,), (), (0, 2), (0, 1, 2), (2,)]:
        ring.add(0, worker.fragment(6, cut))
    expected = worker.transitions(3, GAMMA)
    _agree(_complete(ring, 3), expected)
    assert any(episode["kind"] == "cut" for episode in worker.episodes)


def test_a_lost_worker_has_its_streams_ended_and_no_other_one():
    lost, other = Worker(1, 2, end=0.0), Worker(2, 2, end=0.0)
    ring = Ring(1000, (1,), (1,))
    ring.add(0, lost.fragment(5))
    ring.add(1, other.fragment(5))
    assert ring.workers() == [0, 1]
    ring.cut(0)
    assert ring.workers() == [1]
    for env in range(2):
        lost.cut(env)
    _agree(_complete(ring, 3), lost.transitions(3, GAMMA) | other.transitions(3, GAMMA))
    ring.cut(0)
    assert ring.workers() == [1] and len(ring) == 22


def test_head_that_its_own_end_row_would_overwrite_is_not_ended():
    oldest, other = Worker(1, 1, end=0.0), Worker(2, 1, end=0.0)
    ring = Ring(3, (1,), (1,))
    ring.add(0, oldest.fragment(1))
    ring.add(1, other.fragment(2))
    ring.cut(0)  # its head is row 0, and so would the row after it be
    assert (ring.written, ring.link.tolist(), ring.workers()) == (3, [-1, 2, -1], [1])


def _wander(seed, capacity, fragments, n_step, check):
    """Workers of two environments send fragments in random order, with random lengths, ends, cuts and losses."""
    rng = np.random.default_rng(seed)
    workers = [Worker(10 * seed + index, 2, end=0.15) for index in range(3)]
    ring = Ring(capacity, (1,), (1,))
    for number in range(fragments):
        index = int(rng.integers(3))
        worker = workers[index]
        if rng.random() < 0.1:
            ring.cut(index)
            for env in range(2):
                worker.cut(env)
        cut = tuple(env for env in range(2) if rng.random() < 0.1)
        ring.add(index, worker.fragment(int(rng.integers(1, 5)), cut))
        if number % 7 == 0:
            check(ring, workers, n_step)
    return ring, workers


def _still_there(ring, workers, n_step):
    expected = {}
    for worker in workers:
        expected |= worker.transitions(n_step, GAMMA)
    steps = np.flatnonzero(ring.flags[: len(ring)] & 1)
    present = {int(number) for number in ring.obs[steps, 0]}
    return {number: value for number, value in expected.items() if number in present}


@pytest.mark.parametrize("capacity", [45, 64, 97])
@pytest.mark.parametrize("n_step", [1, 3, 6])
def test_every_row_still_there_finds_its_whole_window_over_many_laps(capacity, n_step):
    def check(ring, workers, n_step):
        _agree(_complete(ring, n_step), _still_there(ring, workers, n_step))

    ring, _ = _wander(capacity, capacity, 300, n_step, check)
    assert ring.written > 15 * capacity and len(ring) == capacity


def test_draws_are_uniform_over_all_complete_windows():
    ring, workers = _wander(5, 200, 150, 3, lambda *_: None)
    numbers = sorted(_still_there(ring, workers, 3))
    batch = ring.draw(200 * len(numbers), 3, GAMMA, np.random.default_rng(0))
    counts = np.bincount(np.searchsorted(numbers, batch["obs"][:, 0]), minlength=len(numbers))
    assert counts.sum() == 200 * len(numbers) and len(numbers) > 100
    assert stats.chisquare(counts).pvalue > 0.01


def test_drawn_columns_belong_together():
    ring, workers = _wander(6, 97, 200, 3, lambda *_: None)
    expected = _still_there(ring, workers, 3)
    batch = ring.draw(500, 3, GAMMA, np.random.default_rng(1))
    assert {name: (array.shape, array.dtype.name) for name, array in batch.items()} == {
        "obs": ((500, 1), "float32"),
        "action": ((500, 1), "float32"),
        "reward": ((500,), "float32"),
        "discount": ((500,), "float32"),
        "next_obs": ((500, 1), "float32"),
    }
    for row in range(500):
        reward, discount, behind = expected[int(batch["obs"][row, 0])]
        assert batch["action"][row, 0] == -batch["obs"][row, 0] and batch["next_obs"][row, 0] == behind
        np.testing.assert_allclose((batch["reward"][row], batch["discount"][row]), (reward, discount), rtol=1e-4)


@pytest.mark.parametrize("fragments", [0, 3, 200])
def test_state_and_load_go_on_as_if_nothing_had_happened(fragments):
    ring, workers = _wander(7, 97, fragments, 3, lambda *_: None)
    arrays, facts = copy.deepcopy(ring.state())
    other = Ring(97, (1,), (1,))
    other.load(arrays, facts)
    _agree(_complete(other, 3), _still_there(ring, workers, 3))
    for index, worker in enumerate(workers):  # links to the heads of the streams are still to be made
        columns = worker.fragment(3)
        ring.add(index, columns)
        other.add(index, columns)
    _agree(_complete(other, 3), _still_there(ring, workers, 3))
    first, second = (r.draw(50, 3, GAMMA, np.random.default_rng(2)) for r in (ring, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_rows_behind_an_end_hold_nothing_that_was_never_written():
    """What a checkpoint stores must repeat: memory that was there before must not go into it."""
    ring = Ring(97, (1,), (1,))
    for name in ("obs", "action", "reward"):
        getattr(ring, name).fill(np.nan)
    worker = Worker(8, 2, end=0.3)
    ring.add(0, worker.fragment(10))
    ring.cut(0)
    arrays, _ = ring.state()
    assert all(np.isfinite(arrays[name]).all() for name in ("obs", "action", "reward"))


def _state():
    ring, _ = _wander(9, 97, 60, 3, lambda *_: None)
    return copy.deepcopy(ring.state())


HOSTILE = {
    "another capacity": ("facts", "capacity", 96, "97"),
    "negative written": ("facts", "written", -5, "written"),
    "written is no number": ("facts", "written", "many", "written"),
    "fewer written than the heads say": ("facts", "written", 5, "head"),
    "a head that is still to be written": ("facts", "heads", [[0, 0, 10**6]], "head"),
    "a head before the first row": ("facts", "heads", [[0, 0, -1]], "head"),
    "a head of three texts": ("facts", "heads", [["a", "b", "c"]], "head"),
    "a head without its number": ("facts", "heads", [[0, 0]], "head"),
    "no heads": ("facts", "heads", None, "head"),
    "more heads than observations": ("facts", "heads", [[0, 0, 1], [0, 1, 2], [1, 0, 3]] * 5, "head"),
    "a link outside": ("arrays", "link", 97, "link"),
    "a link below": ("arrays", "link", -2, "link"),
    "unknown flags": ("arrays", "flags", 200, "flags"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_load_of_a_state_that_cannot_be_is_refused(change):
    kind, name, value, said = change
    arrays, facts = _state()
    if kind == "facts":
        facts[name] = value
    else:
        arrays[name][0] = value
    ring = Ring(97, (1,), (1,))
    with pytest.raises(ValueError, match=said):
        ring.load(arrays, facts)
    assert len(ring) == 0


@pytest.mark.parametrize("name", ["obs", "action", "reward", "link", "flags", "head_obs"])
@pytest.mark.parametrize("how", ["missing", "shape", "dtype"])
def test_load_of_a_column_that_does_not_fit_is_refused(name, how):
    arrays, facts = _state()
    if how == "missing":
        del arrays[name]
    elif how == "shape":
        arrays[name] = arrays[name][..., None]
    else:
        arrays[name] = arrays[name].astype(np.float64)
    ring = Ring(97, (1,), (1,))
    with pytest.raises(ValueError, match=name):
        ring.load(arrays, facts)
    assert len(ring) == 0
