"""Compressed rows against the array that they replace."""

import numpy as np
import pytest

from drl_cli.experience.compressed_rows import PackedRows


def _frames(count, seed=0):
    """Frames like a game's: one colour with a few lines."""
    rng = np.random.default_rng(seed)
    frames = np.full((count, 84, 84, 1), 87, np.uint8)
    for frame in frames:
        frame[rng.integers(84, size=4)] = rng.integers(256, size=(4, 1, 1))
    return frames


def test_rows_read_as_they_were_written():
    rows, frames = PackedRows(10, (84, 84, 1), np.uint8), _frames(6)
    rows[np.array([3, 9, 0])] = frames[:3]
    rows[np.array([9])] = frames[3:4]
    assert np.array_equal(rows[np.array([9, 3, 3, 0])], frames[[3, 0, 0, 2]])
    assert rows[np.array([5])].max() == 0 and rows.shape == (10, 84, 84, 1) and rows.dtype == np.uint8
    assert rows[np.array([], np.int64)].shape == (0, 84, 84, 1)


def test_noise_and_vectors_of_floats_come_back_to_the_bit():
    noise = np.random.default_rng(0).integers(256, size=(3, 20, 20, 3), dtype=np.uint8)
    rows = PackedRows(3, (20, 20, 3), np.uint8)
    rows[np.arange(3)] = noise
    assert np.array_equal(rows[np.arange(3)], noise)
    vectors = np.float32([[1.5, -0.0, np.pi], [0.0, 1e-30, 3e38]])
    rows = PackedRows(2, (3,), np.float32)
    rows[np.arange(2)] = vectors
    assert np.array_equal(rows[np.arange(2)].view(np.uint32), vectors.view(np.uint32))


def test_images_take_a_fraction_of_their_bytes_with_everything_counted():
    rows, frames = PackedRows(50, (84, 84, 1), np.uint8), _frames(50)
    rows[np.arange(50)] = frames
    assert 50 * (8 + 33) < rows.nbytes(50) < frames.nbytes / 5


def test_state_of_equal_rows_is_equal_and_comes_back():
    states = []
    for _ in range(2):
        rows = PackedRows(20, (84, 84, 1), np.uint8)
        rows[np.arange(12)] = _frames(12)
        states.append(rows.state(12))
    first, second = states
    assert all(np.array_equal(first[name], second[name]) for name in ("packed_obs", "packed_lengths"))
    again = PackedRows.from_state(first, 12, (84, 84, 1), np.uint8)
    assert np.array_equal(again[np.arange(12)], _frames(12))
    whole = PackedRows(20, (84, 84, 1), np.uint8)
    whole.adopt(again)
    assert np.array_equal(whole[np.arange(12)], _frames(12)) and whole[np.array([15])].max() == 0


def test_rows_without_a_byte_come_back():
    rows = PackedRows(2, (0,), "float32")
    other = PackedRows.from_state(rows.state(2), 2, (0,), "float32")
    assert other[np.arange(2)].shape == (2, 0)


def test_no_rows_have_a_state_too():
    state = PackedRows(4, (2,), np.float32).state(0)
    assert {name: (array.shape, array.dtype.name) for name, array in state.items()} == {
        "packed_obs": ((0,), "uint8"),
        "packed_lengths": ((0,), "int32"),
    }
    assert PackedRows.from_state(state, 0, (2,), np.float32).shape == (0, 2)


def _broken(change):
    rows = PackedRows(5, (8, 8, 1), np.uint8)
    rows[np.arange(5)] = np.arange(5 * 64, dtype=np.uint8).reshape(5, 8, 8, 1)
    state = {name: array.copy() for name, array in rows.state(5).items()}
    change(state)
    return state


DAMAGE = {
    "no lengths": (lambda s: s.pop("packed_lengths"), "packed_lengths"),
    "no bytes": (lambda s: s.pop("packed_obs"), "packed_obs"),
    "a row more": (lambda s: s.update(packed_lengths=np.append(s["packed_lengths"], np.int32(1))), "packed_lengths"),
    "a length too long": (lambda s: s["packed_lengths"].__setitem__(0, 10**6), "packed_obs"),
    "a negative length": (
        lambda s: s["packed_lengths"].__setitem__(slice(2), (-9, s["packed_lengths"][:2].sum() + 9)),
        "empty",
    ),
    "a byte lost between rows": (
        lambda s: s["packed_lengths"].__setitem__(slice(2), s["packed_lengths"][:2] + [1, -1]),
        "compressed",
    ),
    "wrong bytes": (lambda s: s["packed_obs"].__setitem__(0, 0), "compressed"),
}


@pytest.mark.parametrize(("change", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_rows_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        PackedRows.from_state(_broken(change), 5, (8, 8, 1), np.uint8)


def test_rows_of_another_shape_are_refused():
    state = _broken(lambda s: None)
    with pytest.raises(ValueError, match="expected 65"):
        PackedRows.from_state(state, 5, (65,), np.uint8)
    with pytest.raises(ValueError, match="damaged"):
        PackedRows.from_state(state, 5, (63,), np.uint8)
