"""Shuffled pieces: all of them once a pass, in an order by seed, mixed as far as what is held reaches, and gone on with."""

import json

import pytest
from recorded import batch, columns, layout, told, write

from drl_cli.errors import CheckpointError
from drl_cli.experience.recorded.read import Shuffled, Source

COUNT = 12


@pytest.fixture
def path(tmp_path):
    """A file of 12 episodes, in the order of their numbers."""
    return write(tmp_path / "a.json", *[batch(columns(number, 0, 2, True)) for number in range(COUNT)])


def shuffled(path, size, seed=1, passes=None):
    return Shuffled(Source(path, layout(), seed, passes), size, seed)


def episodes(source, count=None):
    return [piece.episode for piece, _ in zip(source, range(10**6 if count is None else count), strict=False)]


def test_each_pass_brings_every_piece_once_in_an_order_by_seed(path):
    one, same, other = (episodes(shuffled(path, 5, seed, passes=1)) for seed in (1, 1, 2))
    assert sorted(one) == sorted(other) == list(range(COUNT))
    assert one == same != other and one != sorted(one)


def test_no_piece_comes_before_it_has_been_read(path):
    for seed in range(20):
        found = episodes(shuffled(path, 3, seed, passes=1))
        assert all(number <= place + 2 for place, number in enumerate(found))
    assert episodes(shuffled(path, 1, passes=1)) == list(range(COUNT))


def test_every_piece_may_come_first(path):
    assert {episodes(shuffled(path, 100, seed, passes=1), 1)[0] for seed in range(100)} == set(range(COUNT))


def test_a_pass_is_over_when_more_is_asked_for_behind_its_last_piece(path):
    source = shuffled(path, 5)
    passed = []
    for _ in range(2 * COUNT + 5):
        next(source)
        passed.append(source.passed)
    assert passed[: COUNT - 5] == [0] * (COUNT - 5) and passed[-1] >= 1 and passed == sorted(passed)
    last = shuffled(path, 5, passes=1)
    assert [last.passed for _ in last] == [0] * COUNT and last.passed == 1  # asked for more, there was none


@pytest.mark.parametrize("taken", [0, 1, 6, 9, 12, 17])
def test_loaded_one_goes_on_exactly(path, taken):
    source = shuffled(path, 5)
    episodes(source, taken)
    state = json.loads(json.dumps(source.state()))
    rest = [(told(piece), piece.obs.tolist()) for piece, _ in zip(source, range(20), strict=False)]
    again = shuffled(path, 5)
    episodes(again, 3)
    again.load(state)
    assert [(told(piece), piece.obs.tolist()) for piece, _ in zip(again, range(20), strict=False)] == rest


@pytest.mark.parametrize("broken", [{"held": None}, {"held": [7]}, {"rng": {}}, {"held": [{"pass": "x"}]}])
def test_a_state_that_is_none_is_refused(path, broken):
    source = shuffled(path, 5)
    next(source)
    with pytest.raises(CheckpointError, match="The state of what reads experience"):
        shuffled(path, 5).load(source.state() | broken)


def test_a_state_without_what_was_held_is_refused(path):
    with pytest.raises(CheckpointError, match="is incomplete"):
        shuffled(path, 5).load(Source(path, layout()).state())


def test_pieces_that_no_file_holds_any_more_are_refused(path):
    source = shuffled(path, 5, passes=1)
    next(source)
    state = source.state()
    state["held"][0] = state["held"][0] | {"pass": 1}
    with pytest.raises(CheckpointError, match="names pieces that no file holds"):
        shuffled(path, 5, passes=1).load(state)
