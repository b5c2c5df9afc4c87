"""Processes that save without pause are killed at random moments: what they had acknowledged is there and whole."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_maker import save

from drl_cli.runs import pack, run_folder, unpack

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_saves.py"


@pytest.fixture
def kill_saves(monkeypatch):
    """benchmarks/kill_saves.py, whose savers are killed a little sooner."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("kill_saves", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LONGEST_S", 0.2)
    return module


def test_killed_savers_leave_whole_checkpoints_and_archives_of_which_none_is_lost(kill_saves, tmp_path):
    died = kill_saves.kill_savers(tmp_path, count=15, seed=4)
    assert sum(died.values()) == 15


@pytest.mark.slow
def test_killed_savers_leave_nothing_half_at_any_moment(kill_saves, tmp_path):
    died = kill_saves.kill_savers(tmp_path, count=400, seed=5)
    assert {"resuming", "saving", "replacing"} <= set(died)


def test_kill_while_the_disk_is_probed_leaves_no_file_for_ever(tmp_path, monkeypatch):
    (tmp_path / "params.json").write_text("{}")

    monkeypatch.setattr(Path, "unlink", lambda path: os._exit(9))
    child = os.fork()
    if child == 0:
        run_folder.reopen(tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    assert len(list(tmp_path.glob(".*"))) == 2  # the lock and the probe
    run_folder.reopen(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "params.json"]


def test_killed_pack_and_unpack_leave_nothing_once_they_are_repeated(tmp_path):
    child = subprocess.Popen(["true"])
    child.wait()
    dead = child.pid
    (tmp_path / "run").mkdir()
    path = save(tmp_path / "run", 10)
    mine = tmp_path / f".tmp-other.zip-{dead}-0123abcd"
    half, folder = tmp_path / f".tmp-a.zip-{dead}-0123abcd", tmp_path / f".tmp-unpack-{dead}-0123abcd"
    half.write_bytes(b"PK")
    mine.write_bytes(b"PK")
    (folder / "checkpoint_000010").mkdir(parents=True)
    unpack.unpack(pack.pack(path, tmp_path / "a.zip").path, tmp_path)
    assert (half.exists(), folder.exists(), mine.exists()) == (False, False, True)
