"""The sum tree against walking along the masses one by one."""

import numpy as np
import pytest
from scipy import stats

from drl_cli.experience.sum_tree import SumTree


def _walk(masses, point):
    """The number that ``find`` wants, by walking: subtract one mass after the other."""
    for number, mass in enumerate(masses):
        if point < mass:
            return number
        point -= mass
    raise AssertionError("the point lies behind all masses")


def _tree(masses):
    tree = SumTree(len(masses))
    tree.set(np.arange(len(masses)), np.float64(masses))
    return tree


def test_a_point_finds_the_number_whose_interval_it_is_in():
    tree = _tree([1, 2, 3, 0, 4])
    assert tree.total == 10.0 and tree.masses.tolist() == [1, 2, 3, 0, 4]
    found = tree.find([0.0, 0.999, 1.0, 2.999, 3.0, 5.999, 6.0, 9.999])
    assert found.tolist() == [0, 0, 1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000])
def test_random_masses_are_found_as_by_walking(size):
    rng = np.random.default_rng(size)
    masses = rng.integers(0, 4, size).astype(np.float64)  # whole numbers: no rounding on either side
    masses[rng.integers(size)] = 5.0
    points = rng.random(300) * masses.sum()
    assert _tree(masses).find(points).tolist() == [_walk(masses, point) for point in points]


def test_of_a_number_that_stands_twice_the_last_mass_counts():
    tree = _tree([1.0] * 6)
    tree.set(np.array([2, 4, 2, 2]), np.array([10.0, 20.0, 30.0, 40.0]))
    assert tree.masses.tolist() == [1, 1, 40, 1, 20, 1] and tree.total == 64.0


@pytest.mark.parametrize("size", [1, 5, 1000, 4096])
@pytest.mark.parametrize("changes", [1, 3, 200])
def test_sums_depend_on_the_masses_alone_to_the_bit(size, changes):
    rng = np.random.default_rng(size)
    tree, last = SumTree(size), np.zeros(size)
    for _ in range(300):
        numbers, masses = rng.integers(0, size, changes), rng.random(changes) ** 9 * 1e6
        tree.set(numbers, masses)
        last[numbers] = masses
    fresh = SumTree(size)
    fresh.fill(last)
    assert np.array_equal(tree._nodes, fresh._nodes)
    assert tree.total == pytest.approx(last.sum(), rel=1e-12)


def test_nothing_set_changes_nothing():
    tree = _tree([1.0, 2.0])
    tree.set(np.array([], np.int64), np.array([]))
    assert tree.total == 3.0


def test_fill_with_fewer_masses_leaves_the_rest_without():
    tree = _tree([1.0] * 5)
    tree.fill(np.array([2.0, 3.0]))
    assert tree.masses.tolist() == [2, 3, 0, 0, 0] and tree.total == 5.0


def test_a_number_without_mass_is_not_found_however_points_are_rounded():
    # 0.1 + 0.2 and 0.3 … are not exact: points at and around every border, and the total itself.
    rng = np.random.default_rng(0)
    masses = np.where(rng.random(500) < 0.5, 0.0, rng.random(500) * 0.1)
    masses[-40:] = 0.0
    tree = _tree(masses)
    borders = np.concatenate([np.cumsum(masses), [tree.total]])
    points = np.concatenate([borders, np.nextafter(borders, 1e9), np.nextafter(borders, 0.0)])
    points = np.minimum(points, tree.total)
    found = tree.find(points)
    assert (masses[found] > 0.0).all()
    ends = np.cumsum(masses)[found]
    assert (ends - masses[found] - 1e-12 <= points).all() and (points <= ends + 1e-12).all()


def test_a_point_that_was_rounded_up_to_the_total_finds_the_last_number_with_mass():
    for unit in (1.0, 0.125):
        tree = _tree([0.0, unit, 2.0 * unit, 0.0, 0.0])
        assert tree.find([3.0 * unit, 0.0, unit]).tolist() == [2, 1, 2]


def test_each_batch_has_one_number_of_every_part_of_the_mass():
    tree = _tree([1.0] * 100)
    drawn = tree.stratified(7, 50, np.random.default_rng(0))
    assert drawn.shape == (7, 50)
    assert np.array_equal(drawn // 2, np.broadcast_to(np.arange(50), (7, 50)))
    assert 0.3 < (drawn % 2).mean() < 0.7


def test_independent_draws_are_in_proportion_to_mass():
    masses = np.array([1.0, 0.0, 2.0, 4.0, 8.0, 0.5])
    counts = np.bincount(_tree(masses).independent(60_000, np.random.default_rng(1)), minlength=6)
    present = masses > 0
    assert counts[1] == 0
    assert stats.chisquare(counts[present], 60_000 * masses[present] / masses.sum()).pvalue > 0.01


def test_stratified_draws_are_in_proportion_to_mass():
    masses = np.random.default_rng(2).random(300) ** 3
    counts = np.bincount(_tree(masses).stratified(3000, 40, np.random.default_rng(3)).ravel(), minlength=300)
    expected = 120_000 * masses / masses.sum()
    present = expected > 5
    assert (np.abs(counts - expected)[present] < 5 * np.sqrt(expected[present])).all()
    assert stats.chisquare(counts, expected).pvalue > 0.01
