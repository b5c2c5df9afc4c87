"""A save that dies, or meets a full disk, at each of its system calls: the checkpoint before it stays loadable."""

import errno
import os

import pytest
from checkpoint_maker import read_everything, save

from drl_cli.runs import retention, run_folder

CALLS = ("mkdir", "open", "write", "fsync", "chmod", "rename", "unlink", "rmdir")


class Died(BaseException):
    """The process is gone: from here on no call succeeds."""


class Breaker:
    """Counts the calls of ``os`` that change the disk; from call ``at`` on they fail (``once``: only that one)."""

    def __init__(self, monkeypatch, at, error, once):
        self.count, self.at, self.error, self.once = 0, at, error, once
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, real):
        def call(*arguments, **keywords):
            self.count += 1
            if self.count == self.at or (self.count > self.at and not self.once):
                raise self.error
            return real(*arguments, **keywords)

        return call


def steps(tmp_path, action):
    with pytest.MonkeyPatch.context() as patch:
        breaker = Breaker(patch, 10**9, None, True)
        action(tmp_path)
    return breaker.count


def make(folder):
    folder.mkdir()
    save(folder, 10)
    return folder


def again(folder):
    save(folder, 20)


def replace(folder):
    save(folder, 10)


def drop(folder):
    retention.drop_replay(folder / "checkpoint_000010")


def prune(folder):
    retention.prune(folder, keep=0, protected=[])


@pytest.mark.parametrize("action", [again, replace, drop], ids=lambda action: action.__name__)
def test_death_at_every_call_leaves_a_whole_checkpoint(tmp_path, action):
    total = steps(make(tmp_path / "count"), action)
    assert total > 5
    for at in range(1, total + 1):
        folder = make(tmp_path / f"{action.__name__}{at}")
        with pytest.MonkeyPatch.context() as patch:
            Breaker(patch, at, Died(), once=False)
            with pytest.raises(Died):
                action(folder)
                raise Died  # died after the last call that matters
        run_folder.remove_leftovers(folder)
        assert not [name for name in os.listdir(folder) if name.startswith(".")]
        found, skipped = retention.newest_valid(folder)
        assert found.number in (10, 20) and skipped == []
        assert read_everything(found.path)["state"]["iteration"] == found.number


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("action", [again, replace], ids=lambda action: action.__name__)
def test_error_at_every_call_of_a_save_is_an_oserror_and_harms_nothing(tmp_path, action, code):
    total = steps(make(tmp_path / "count"), action)
    for at in range(1, total + 1):
        folder = make(tmp_path / f"{action.__name__}{at}")
        with pytest.MonkeyPatch.context() as patch:
            Breaker(patch, at, OSError(code, "injected"), once=True)
            try:
                action(folder)
            except OSError as error:
                assert error.errno == code
        assert read_everything(folder / "checkpoint_000010")["state"]["iteration"] == 10
        assert not [name for name in os.listdir(folder) if name.startswith(".tmp")]


def test_death_while_pruning_never_leaves_half_a_checkpoint(tmp_path):
    def make_two(folder):
        save(make(folder), 20)
        return folder

    total = steps(make_two(tmp_path / "count"), prune)
    assert total > 5
    for at in range(1, total + 1):
        folder = make_two(tmp_path / f"prune{at}")
        with pytest.MonkeyPatch.context() as patch:
            Breaker(patch, at, Died(), once=False)
            with pytest.raises(Died):
                prune(folder)
                raise Died
        run_folder.remove_leftovers(folder)
        for _, path in retention.numbers(folder):
            assert read_everything(path)["state"]["iteration"] in (10, 20)
        assert retention.newest_valid(folder)[0].number == 20


def test_disk_that_cannot_sync_folders_takes_checkpoints_all_the_same(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(fd):
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EINVAL, "Invalid argument")  # as CIFS answers
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    save(make(tmp_path / "run"), 20)
    assert retention.newest_valid(tmp_path / "run")[0].number == 20
