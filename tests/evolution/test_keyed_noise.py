"""Noise is the same for whoever asks, needs no memory where policies are small, and is held once where they are large."""

import os
import subprocess
import sys

import numpy as np
import pytest

from drl_cli.errors import ResourcesExhausted
from drl_cli.evolution import noise_table
from drl_cli.evolution.keys import ESConfig

SHARE = """
import sys
from drl_cli.evolution.noise_table import SharedTable
table = SharedTable(7, 5000, sys.argv[1])
print(table.numbers[[0, 4999]].tolist(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def another(tmp_path):
    """Function () → a process that holds the table (7, 5000) of ``tmp_path`` until its stdin ends, and what it printed."""
    processes = []

    def start():
        words = [sys.executable, "-c", SHARE, str(tmp_path)]
        processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return processes[-1], processes[-1].stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def _tables(folder):
    return [name for name in os.listdir(folder) if name.startswith("noise-")]


def test_direction_depends_on_seed_round_and_index_alone():
    one, other = noise_table.KeyedNoise(7, 1000), noise_table.KeyedNoise(7, 1000)
    other.direction(0, 0)
    np.testing.assert_array_equal(one.direction(3, 5), other.direction(3, 5))
    different = [one.direction(3, 6), one.direction(4, 5), noise_table.KeyedNoise(8, 1000).direction(3, 5)]
    assert all(abs(np.corrcoef(one.direction(3, 5), drawn)[0, 1]) < 0.15 for drawn in different)
    drawn = np.concatenate([one.direction(0, index) for index in range(100)])
    assert drawn.dtype == np.float32 and abs(drawn.mean()) < 0.01 and abs(drawn.std() - 1) < 0.01


@pytest.mark.parametrize(
    ("weights", "asked", "size"), [(10, None, 0), (10_000, None, 0), (10_001, None, 640_064), (10, 50, 50)]
)
def test_table_is_sized_to_the_policy_and_small_policies_need_none(weights, asked, size):
    assert noise_table.table_size(weights, asked) == size


def test_small_policy_is_given_a_generator():
    made = noise_table.make(ESConfig(seed=7), 4610)
    assert type(made) is noise_table.KeyedNoise and made.direction(0, 0).shape == (4610,)


def test_direction_of_a_table_is_a_slice_of_it_at_a_keyed_place(tmp_path):
    table = noise_table.SharedTable(7, 5000, tmp_path)
    one, other = noise_table.TableNoise(7, 4990, table), noise_table.TableNoise(7, 4990, table)
    places = {int(np.flatnonzero(table.numbers == one.direction(2, index)[0])[0]) for index in range(200)}
    assert places == set(range(11))  # the last place too
    np.testing.assert_array_equal(one.direction(2, 3), other.direction(2, 3))
    assert np.shares_memory(one.direction(2, 3), table.numbers)
    assert abs(table.numbers.mean()) < 0.05 and abs(table.numbers.std() - 1) < 0.05
    one.close()
    assert _tables(tmp_path) == []


def test_processes_share_one_read_only_table_that_the_last_one_removes(tmp_path, another):
    table = noise_table.SharedTable(7, 5000, tmp_path)
    (name,) = _tables(tmp_path)
    before = os.stat(tmp_path / name)
    process, told = another()
    assert told == str(table.numbers[[0, 4999]].tolist())
    assert (os.stat(tmp_path / name).st_ino, before.st_size) == (before.st_ino, 20_000)
    assert os.stat(tmp_path / name).st_mtime_ns == before.st_mtime_ns  # nobody wrote it again
    with pytest.raises(ValueError, match="read-only"):
        table.numbers[0] = 1.0
    table.close()
    table.close()
    assert _tables(tmp_path) == [name]  # the other process has it still
    process.communicate("\n")
    assert noise_table.SharedTable(7, 100, tmp_path).close() is None
    assert _tables(tmp_path) == []


def test_table_of_a_killed_process_is_removed_by_the_next_that_comes(tmp_path, another):
    process, _ = another()
    process.kill()
    process.wait()
    assert _tables(tmp_path) == ["noise-7-5000.f32"]
    table = noise_table.SharedTable(8, 100, tmp_path)
    assert _tables(tmp_path) == ["noise-8-100.f32"]
    table.close()


def test_table_that_a_killed_process_left_half_written_is_written_anew(tmp_path):
    whole = noise_table.SharedTable(7, 5000, tmp_path)
    expected = np.array(whole.numbers)
    whole.close()
    (tmp_path / "noise-7-5000.f32").write_bytes(b"\0" * 400)
    table = noise_table.SharedTable(7, 5000, tmp_path)
    np.testing.assert_array_equal(table.numbers, expected)
    table.close()


def test_table_that_finds_no_room_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(noise_table.os, "posix_fallocate", full)
    with pytest.raises(
        ResourcesExhausted, match="noise table of 4 MiB cannot be stored in .*: No space left on device. Lower"
    ):
        noise_table.SharedTable(7, 2**20, tmp_path)
    assert _tables(tmp_path) == []


def test_own_folder_is_closed_to_others():
    table = noise_table.SharedTable(7, 10)
    assert os.stat(table._folder).st_mode & 0o077 == 0
    table.close()
