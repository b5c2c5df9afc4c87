"""Ending a cluster whose processes are gone already."""

import os
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from drl_cli.errors import ClusterUnavailable
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
def test_close_after_ray_was_shut_down_starts_no_other_ray(monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")
    calls = []  # ray.kill starts a Ray where there is none
    fake = SimpleNamespace(is_initialized=lambda: False, kill=lambda *_, **__: calls.append("kill"))
    monkeypatch.setattr(module, "ray", fake)
    cluster = object.__new__(module.RayCluster)
    cluster._owned, cluster._folder = False, None
    cluster._handles = [SimpleNamespace(is_remote=True, actor=None)]
    cluster.kill(cluster._handles[0])
    assert cluster._handles == []
    cluster._handles = [SimpleNamespace(is_remote=True, actor=None)]
    cluster.close()
    assert calls == [] and cluster._handles == []


@pytest.mark.ray
def test_worker_of_ray_that_outlives_its_shutdown_is_killed_with_it(tmp_path, monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")
    monkeypatch.setattr(module.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(module.ray, "shutdown", lambda: None)
    cluster = object.__new__(module.RayCluster)
    cluster._handles, cluster._owned, cluster._folder = [], True, tmp_path / "session"
    own = subprocess.Popen(["sleep", "60"])  # of the user's program
    raylet = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait", str(tmp_path / "session")], stdout=subprocess.PIPE
    )
    try:
        worker = psutil.Process(int(raylet.stdout.readline()))
        cluster.close()
        raylet.wait(timeout=30)  # for its worker
        assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
        assert own.poll() is None
    finally:
        for one in (own, raylet):
            one.kill()
            one.wait()


@pytest.mark.ray
def test_wait_after_a_daemon_of_our_ray_has_ended_raises_its_name_and_no_earlier(monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    cluster = object.__new__(module.RayCluster)
    cluster._woken, cluster._looked, cluster.check = threading.Condition(), 0.0, lambda: None
    daemons = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    cluster._daemons = {daemon.pid: "sleep" for daemon in daemons}
    try:
        assert cluster.wait([], 0.0) == []
        daemons[0].kill()
        os.waitid(os.P_PID, daemons[0].pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie, as the children of Ray do
        with pytest.raises(ClusterUnavailable, match=r"^Ray's sleep ended \(killed"):
            cluster.wait([], 0.0)
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


@pytest.mark.ray
def test_folder_of_somebody_else_is_not_used(monkeypatch, tmp_path):
    module = load("drl_cli.runtime.ray_folder")
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
    load("drl_cli.runtime.ray_folder").remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "foreign", "odd"]
