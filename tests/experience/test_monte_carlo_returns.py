"""Whole returns of a ring against a slow list of episodes."""

import numpy as np
import pytest
from episodes import Worker

from drl_cli.experience.monte_carlo_returns import WholeReturns
from drl_cli.experience.ring_buffer import Ring

GAMMA = 0.9
LONGEST = 10_000  # steps: more than any episode here has


def returns(capacity=10_000):
    return WholeReturns(Ring(capacity, (1,), (1,)), GAMMA)


def drawn(held, draws=4000, seed=0):
    """{number of an observation: (reward, discount, number behind its episode)} of all that many draws bring."""
    batch = held.draw(draws, None, None, np.random.default_rng(seed))
    assert np.array_equal(batch["action"], -batch["obs"])
    found = {}
    for obs, reward, discount, behind in zip(
        *(batch[n] for n in ("obs", "reward", "discount", "next_obs")), strict=True
    ):
        outcome = (float(reward), float(discount), int(behind[0]))
        assert found.setdefault(int(obs[0]), outcome) == outcome
    return found


def ended(worker):
    """The slow list: the same of every step whose episode has ended, in whatever way."""
    open_steps = {number for episode in worker.episodes if episode["kind"] is None for number, _ in episode["steps"]}
    return {first: told for first, told in worker.transitions(LONGEST, GAMMA).items() if first not in open_steps}


def agree(found, expected):
    assert set(found) == set(expected)
    for first, (reward, discount, behind) in expected.items():
        assert found[first][2] == behind
        np.testing.assert_allclose(found[first][:2], (reward, discount), rtol=1e-5, atol=1e-6)


def test_return_reaches_to_the_end_and_is_bootstrapped_where_it_was_cut():
    held = returns()
    held.add(
        0,
        {
            "obs": np.float32([[[1]], [[2]], [[4]], [[5]], [[7]]]),
            "action": -np.float32([[[1]], [[2]], [[4]], [[5]], [[7]]]),
            "reward": np.float32([[1.0], [10.0], [100.0], [1000.0], [5.0]]),
            "terminated": np.array([[False], [True], [False], [False], [False]]),
            "truncated": np.array([[False], [False], [False], [True], [False]]),
            "end_obs": np.float32([[3], [6]]),
            "tail_obs": np.float32([[8]]),
            "cut": np.array([True]),
        },
    )
    found = drawn(held, 200)
    assert set(found) == {1, 2, 4, 5}  # 7's episode goes on
    np.testing.assert_allclose(found[1], (1.0 + 0.9 * 10.0, 0.0, 3), rtol=1e-6)
    np.testing.assert_allclose(found[4], (100.0 + 0.9 * 1000.0, 0.81, 6), rtol=1e-6)
    np.testing.assert_allclose(found[5], (1000.0, 0.9, 6), rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_returns_of_streams_in_fragments_are_those_of_the_slow_list(seed):
    held, worker, rng = returns(), Worker(seed, 3, end=0.1), np.random.default_rng(seed)
    for _ in range(12):
        cut = [env for env in range(3) if rng.random() < 0.1]
        held.add(0, worker.fragment(int(rng.integers(1, 12)), cut))
        if rng.random() < 0.5:
            drawn_now = drawn(held) if ended(worker) else {}  # sums are made as far as they can be, again and again
            agree(drawn_now, ended(worker))
    agree(drawn(held), ended(worker))
    assert len(ended(worker)) > 50


def test_rows_that_were_overwritten_are_not_drawn_and_their_successors_are():
    held, worker = returns(capacity=60), Worker(1, 2, end=0.15)
    for _ in range(20):
        held.add(0, worker.fragment(5))
        found, expected = drawn(held), ended(worker)
        agree(found, {first: expected[first] for first in found})
        assert 0 < len(found) <= 60 and max(expected) in found


def test_lost_stream_ends_its_episode_and_the_steps_of_it_can_be_drawn():
    held, worker = returns(), Worker(2, 1, end=0.0)
    held.add(0, worker.fragment(4))
    with pytest.raises(ValueError, match="no 5 steps of ended episodes in 4 rows"):
        held.draw(5, None, None, np.random.default_rng(0))
    held.cut(0)
    worker.cut(0)
    agree(drawn(held, 300), ended(worker))


def test_saved_returns_are_drawn_alike_after_loading():
    held, worker, other = returns(300), Worker(3, 2, end=0.1), returns(300)
    for _ in range(50):
        held.add(0, worker.fragment(4))
    arrays, facts = held.state()
    other.load({name: array.copy() for name, array in arrays.items()}, facts)
    assert drawn(other) == drawn(held)
    more = worker.fragment(20)
    for one in (held, other):
        one.add(0, more)
    assert drawn(other, seed=1) == drawn(held, seed=1)


def test_steps_are_drawn_uniformly():
    held, worker = returns(), Worker(4, 1, lengths=[(10, "terminated")] * 10)
    held.add(0, worker.fragment(100))
    batch = held.draw(50_000, None, None, np.random.default_rng(0))
    _, counts = np.unique(batch["obs"], return_counts=True)
    assert len(counts) == 100 and counts.min() > 400 and counts.max() < 600


def test_bytes_are_those_of_the_ring_and_of_the_sums():
    held, worker = WholeReturns(Ring(10, (1,), (1,)), GAMMA), Worker(5, 1, end=0.0)
    held.add(0, worker.fragment(2))
    # observation, action, reward, link: 4 each, flags 1; sum, discount, last row, place: 4 each, known 1
    assert (held.nbytes(), held.reserved()) == (2 * 34, 10 * 34)
