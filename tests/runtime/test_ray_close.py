"""Ending a cluster whose processes are gone already."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from drl_cli.extras import load

pytestmark = pytest.mark.process


@pytest.mark.ray
def test_close_removes_the_folder_though_ray_has_crashed(monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")
    down = []

    def crashed(*_, **__):
        raise module.RayError("the raylet is gone")

    fake = SimpleNamespace(
        is_initialized=lambda: not down, kill=crashed, shutdown=lambda: down.append(True), init=lambda **_: None
    )
    cluster = object.__new__(module.RayCluster)
    cluster._folder = module.private_folder()
    cluster._owned, cluster._handles = True, [SimpleNamespace(is_remote=True, actor=None)] * 2
    folder = cluster._folder
    monkeypatch.setattr(module, "ray", fake)
    cluster.close()
    assert down == [True]
    assert not os.path.exists(folder)


@pytest.mark.ray
def test_folder_of_somebody_else_is_not_used(monkeypatch, tmp_path):
    module = load("drl_cli.runtime.ray_cluster")
    monkeypatch.setattr(module.os, "getuid", lambda: 4_000_000_000)
    link = "/tmp/drl-4000000000"
    os.symlink(tmp_path, link)
    try:
        made = module.private_folder()
        assert os.path.realpath(made) == made
        assert not made.startswith(link)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.unlink(link)
        shutil.rmtree(made)
        os.rmdir(os.path.dirname(made))


def test_folder_of_a_killed_run_is_removed_at_the_next_start_and_others_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name, owner in (("dead", str(dead.pid)), ("alive", str(os.getpid())), ("foreign", None), ("odd", "x")):
        (tmp_path / name).mkdir()
        if owner is not None:
            (tmp_path / name / "owner").write_text(owner)
    load("drl_cli.runtime.ray_cluster").remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "foreign", "odd"]
