"""Draws by priority from a ring against the list of episodes."""

import copy

import numpy as np
import pytest
from episodes import Worker
from scipy import stats

from drl_cli.errors import Diverged
from drl_cli.experience.priorities import Priorities
from drl_cli.experience.ring_buffer import STEP, Ring

GAMMA = 0.9


def _filled(fragments=8, capacity=1000, alpha=0.6, eps=0.01, end=0.1):
    """A ring with priorities, followed fragment by fragment; (worker, ring, priorities)."""
    worker, ring = Worker(1, 2, end=end), Ring(capacity, (1,), (1,))
    priorities = Priorities(ring, alpha, eps)
    for _ in range(fragments):
        priorities.follow(ring.add(0, worker.fragment(5)))
    return worker, ring, priorities


def _numbers(ring):
    """{number of the observation: serial number} of all steps present."""
    rows = np.flatnonzero(ring.flags[: len(ring)] & STEP)
    return dict(zip(ring.obs[rows, 0].astype(int).tolist(), ring.serials(rows).tolist(), strict=True))


def _expected(worker, ring, n_step, priority, alpha, eps):
    """{number: probability} by the definition: p^α over its sum, among the windows that are complete."""
    complete = sorted(_numbers(ring).keys() & worker.transitions(n_step, GAMMA).keys())
    raised = [(priority(number) + eps) ** alpha for number in complete]
    return complete, np.array(raised) / sum(raised)


def _priority(number):
    return (number * 7919 % 101) / 10.0


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("capacity", "fragments"), [(1000, 12), (90, 60)], ids=["not full", "after many laps"])
def test_draws_are_in_proportion_to_priority_to_the_alpha(capacity, fragments, alpha):
    worker, ring, priorities = _filled(fragments, capacity, alpha)
    numbers = _numbers(ring)
    priorities.set(np.array(list(numbers.values())), np.array([_priority(number) for number in numbers]))
    complete, expected = _expected(worker, ring, 3, _priority, alpha, 0.01)
    batch, serial, share = priorities.draw(500, 40, 3, GAMMA, np.random.default_rng(0))
    counts = np.bincount(np.searchsorted(complete, batch["obs"][:, 0]), minlength=len(complete))
    assert np.array_equal(np.array(complete)[np.searchsorted(complete, batch["obs"][:, 0])], batch["obs"][:, 0])
    assert [numbers[int(number)] for number in batch["obs"][:, 0]] == serial.tolist()
    assert stats.chisquare(counts, 20_000 * expected).pvalue > 0.01
    # Stratified draws are more even than chi-square asks for: each count is near its own expectation.
    assert (np.abs(counts - 20_000 * expected) < 5 * np.sqrt(20_000 * expected) + 1).all()
    raised = np.array([(_priority(int(number)) + 0.01) ** alpha for number in batch["obs"][:, 0]])
    np.testing.assert_allclose(share, raised / priorities.mass, rtol=1e-9)


def test_redrawing_incomplete_windows_keeps_the_others_in_proportion():
    """Half of the mass lies on the newest steps, which may not be drawn."""
    worker, ring, priorities = _filled(6, alpha=1.0, end=0.05)
    numbers, transitions = _numbers(ring), worker.transitions(5, GAMMA)
    open_ones = {number for number in numbers if number not in transitions}
    assert len(open_ones) > 2

    def priority(number):
        return 15.0 if number in open_ones else 1.0 + number % 3

    priorities.set(np.array(list(numbers.values())), np.array([priority(number) for number in numbers]))
    complete, expected = _expected(worker, ring, 5, priority, 1.0, 0.01)
    batch, _, _ = priorities.draw(500, 40, 5, GAMMA, np.random.default_rng(3))
    counts = np.bincount(np.searchsorted(complete, batch["obs"][:, 0]), minlength=len(complete))
    assert counts.sum() == 20_000 and stats.chisquare(counts, 20_000 * expected).pvalue > 0.01


def test_drawn_columns_belong_together():
    worker, ring, priorities = _filled(60, 90)
    expected = worker.transitions(3, GAMMA)
    batch, serial, share = priorities.draw(10, 20, 3, GAMMA, np.random.default_rng(0))
    assert serial.dtype == np.int64 and share.dtype == np.float64 and serial.shape == share.shape == (200,)
    assert serial.min() >= ring.written - 90 and serial.max() < ring.written
    for row in range(200):
        reward, discount, behind = expected[int(batch["obs"][row, 0])]
        assert batch["next_obs"][row, 0] == behind and ring.obs[serial[row] % 90, 0] == batch["obs"][row, 0]
        np.testing.assert_allclose((batch["reward"][row], batch["discount"][row]), (reward, discount), rtol=1e-4)


def test_new_steps_have_the_largest_priority_seen_so_far_and_end_rows_none():
    worker, ring, priorities = _filled(1, alpha=0.5, eps=0.25, end=0.4)
    steps = ring.flags[: len(ring)] & STEP > 0
    assert (~steps).sum() > 0
    assert priorities.state()["priority"].tolist() == np.where(steps, 1.25**0.5, 0.0).tolist()
    priorities.set(np.array([0, 1]), np.float32([8.75, 0.0]))
    assert priorities.state()["priority"][:2].tolist() == [3.0, 0.5] and priorities.largest == 8.75
    before = len(ring)
    priorities.follow(ring.add(0, worker.fragment(5)))
    later = ring.flags[before : len(ring)] & STEP > 0
    assert priorities.state()["priority"][before:].tolist() == np.where(later, 3.0, 0.0).tolist()
    priorities.set(np.array([0]), np.float32([0.1]))
    assert priorities.largest == 8.75  # the largest ever, not the largest now


def test_priorities_that_came_with_a_fragment_stand_and_count_as_seen():
    worker, ring = Worker(1, 2, end=0.3), Ring(100, (1,), (1,))
    priorities = Priorities(ring, 1.0, 0.5)
    ring_rows = ring.add(0, worker.fragment(5))
    priorities.follow(ring_rows)
    columns = worker.fragment(3, cut=(0, 1))  # end rows are written before its steps
    given = np.float32([[1, 2], [3, 4], [5, 6]])
    masses = priorities.masses(given)
    first = ring.add(0, columns)
    priorities.follow(first, masses)
    numbers = columns["obs"][..., 0].ravel().astype(int)
    found = _numbers(ring)
    kept = priorities.state()["priority"]
    assert [kept[found[number]] for number in numbers.tolist()] == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert priorities.largest == 6.0
    assert kept[ring.flags[: len(ring)] & STEP == 0].max() == 0.0


def test_rows_that_a_cut_overwrites_lose_their_priority():
    worker, ring, priorities = _filled(4, capacity=41, end=0.0)
    assert len(ring) == 40
    ring.cut(0)
    priorities.follow()
    assert ring.written == 42 and priorities.state()["priority"][[0, 40]].tolist() == [0.0, 0.0]
    assert priorities.mass == pytest.approx(39 * 1.01**0.6)


def test_write_back_to_an_overwritten_row_is_dropped():
    worker, ring, priorities = _filled(10, capacity=100, end=0.0)
    assert ring.written == 100
    priorities.follow(ring.add(0, worker.fragment(2)))  # rows 0 … 3 are the serials 100 … 103 now
    before = priorities.state()["priority"].copy()
    priorities.set(np.array([0, 3, 4, 103]), np.float32([5, 6, 7, 8]))
    after = priorities.state()["priority"]
    assert np.flatnonzero(before != after).tolist() == [3, 4]
    np.testing.assert_allclose(after[[3, 4]], [8.01**0.6, 7.01**0.6], rtol=1e-12)


def test_of_a_row_that_stands_twice_the_last_priority_counts():
    _, _, priorities = _filled(2, alpha=1.0, eps=0.5, end=0.0)
    priorities.set(np.array([3, 5, 3, 3]), np.float32([1, 2, 3, 4]))
    assert priorities.state()["priority"][[3, 5]].tolist() == [4.5, 2.5]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_priority_that_is_not_finite_is_refused_and_changes_nothing(bad):
    _, _, priorities = _filled(2)
    before = priorities.state()["priority"].copy()
    with pytest.raises(Diverged, match="1 of 3 priorities for the replay are not finite"):
        priorities.set(np.array([1, 2, 3]), np.float32([5.0, bad, 1.0]))
    assert np.array_equal(priorities.state()["priority"], before) and priorities.largest == 1.0


@pytest.mark.parametrize(
    ("serial", "priority", "said"),
    [
        ([1], [-0.5], "priority -0.5 is negative"),
        ([20], [1.0], "rows 20 to 20, of which 20 were written"),
        ([-1, 3], [1.0, 1.0], "rows -1 to 3"),
        ([1, 2], [1.0], r"\(1,\) priorities for \(2,\) rows"),
    ],
)
def test_priorities_that_cannot_be_are_mistakes(serial, priority, said):
    _, ring, priorities = _filled(2, end=0.0)
    assert ring.written == 20
    before = priorities.state()["priority"].copy()
    with pytest.raises(ValueError, match=said):
        priorities.set(np.array(serial), np.float32(priority))
    assert np.array_equal(priorities.state()["priority"], before) and priorities.largest == 1.0


def test_no_complete_window_is_said():
    _, ring, priorities = _filled(0)
    with pytest.raises(ValueError, match="no 8 complete windows of 3 steps in 0 rows"):
        priorities.draw(2, 4, 3, GAMMA, np.random.default_rng(0))
    priorities.follow(ring.add(0, Worker(0, 2, end=0.0).fragment(2)))
    with pytest.raises(ValueError, match="no 8 complete windows of 3 steps in 4 rows"):
        priorities.draw(2, 4, 3, GAMMA, np.random.default_rng(0))


def _restored(ring, arrays, facts, alpha=0.6, eps=0.01):
    other = Ring(ring.capacity, (1,), (1,))
    other.load(*copy.deepcopy(ring.state()))
    priorities = Priorities(other, alpha, eps)
    priorities.load(arrays, facts)
    return other, priorities


@pytest.mark.parametrize(("capacity", "fragments"), [(1000, 8), (90, 60)])
def test_state_and_load_go_on_to_the_bit(capacity, fragments):
    worker, ring, priorities = _filled(fragments, capacity)
    _, serial, _ = priorities.draw(4, 10, 3, GAMMA, np.random.default_rng(0))
    priorities.set(serial, np.random.default_rng(1).exponential(2.0, 40))
    other, again = _restored(ring, copy.deepcopy(priorities.state()), priorities.facts())
    assert np.array_equal(again._tree._nodes, priorities._tree._nodes) and again.largest == priorities.largest
    columns = worker.fragment(5)
    for where, mine in ((ring, priorities), (other, again)):
        mine.follow(where.add(0, columns))
    assert np.array_equal(again._tree._nodes, priorities._tree._nodes)
    first, second = (mine.draw(3, 10, 3, GAMMA, np.random.default_rng(2)) for mine in (priorities, again))
    assert np.array_equal(first[1], second[1]) and np.array_equal(first[2], second[2])


@pytest.mark.parametrize("case", ["no priorities", "no facts", "another alpha", "another eps"])
def test_steps_count_as_new_where_their_priorities_are_not_comparable(case):
    _, ring, priorities = _filled(4)
    priorities.set(np.arange(5), np.full(5, 3.0))
    arrays, facts = priorities.state(), priorities.facts()
    alpha, eps, largest = 0.6, 0.01, 3.0
    if case == "no priorities":
        arrays = {}
    elif case == "no facts":
        arrays, facts, largest = {}, None, 1.0
    elif case == "another alpha":
        alpha = 0.5
    else:
        eps = 0.1
    other, again = _restored(ring, arrays, facts, alpha, eps)
    steps = other.flags[: len(other)] & STEP > 0
    assert again.state()["priority"].tolist() == np.where(steps, (largest + eps) ** alpha, 0.0).tolist()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a, f: a.update(priority=a["priority"].astype(np.float32)), "priority"),
        (lambda a, f: a.update(priority=a["priority"][:-1]), "priority"),
        (lambda a, f: a["priority"].__setitem__(0, np.nan), "negative or not finite"),
        (lambda a, f: a["priority"].__setitem__(0, -1.0), "negative or not finite"),
        (lambda a, f: f.update(largest=0.5), "largest priority 0.5"),
        (lambda a, f: f.update(largest=float("nan")), "largest priority"),
        (lambda a, f: f.update(largest="big"), "largest priority big"),
    ],
)
def test_load_of_a_state_that_cannot_be_is_refused(change, said):
    _, ring, priorities = _filled(4)
    arrays, facts = copy.deepcopy(priorities.state()), priorities.facts()
    change(arrays, facts)
    with pytest.raises(ValueError, match=said):
        _restored(ring, arrays, facts)
