"""XLA's files: where they lie, and when there are none."""

import os
import shutil
import time

import pytest

from drl_cli.runtime import xla_cache


@pytest.fixture
def environ(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_xla_is_told_a_folder_of_this_processor_and_of_the_flags_that_change_code(environ):
    xla_cache.prepare(environ)
    place = xla_cache.folder({"XDG_CACHE_HOME": environ["XDG_CACHE_HOME"]})
    assert environ[xla_cache.FLAGS] == f"--tf_xla_persistent_cache_directory={place}" and place.is_dir()
    assert place != xla_cache.folder({**environ, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"})


def test_option_of_the_user_stays_and_other_flags_are_kept(environ):
    environ[xla_cache.FLAGS] = "--tf_xla_persistent_cache_directory=mine"
    xla_cache.prepare(environ)
    assert environ[xla_cache.FLAGS] == "--tf_xla_persistent_cache_directory=mine"
    environ[xla_cache.FLAGS] = "--tf_xla_auto_jit=1"
    xla_cache.prepare(environ)
    assert environ[xla_cache.FLAGS].startswith("--tf_xla_auto_jit=1 --tf_xla_persistent_cache_directory=")


def test_no_cache_on_a_nearly_full_disk_or_where_no_folder_can_be_made(environ, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    xla_cache.prepare(nowhere)
    usage = shutil.disk_usage(tmp_path)._replace(free=10 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    xla_cache.prepare(environ)
    assert xla_cache.FLAGS not in nowhere | environ


def test_empty_files_those_over_a_month_old_and_the_oldest_of_too_many_are_removed(environ, monkeypatch):
    monkeypatch.setattr(xla_cache, "_KEPT_FILES", 3)
    place = xla_cache.folder(environ)
    place.mkdir(parents=True)
    for name, days in {"new": 0, "newer": 1, "third": 2, "old": 31, "empty": 0.5}.items():
        (place / name).write_text("" if name == "empty" else "code")
        os.utime(place / name, (time.time() - days * 86400,) * 2)
    xla_cache.prepare(environ)
    assert sorted(one.name for one in place.iterdir()) == ["new", "newer"]
