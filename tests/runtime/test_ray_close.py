"""Ending a cluster whose processes are gone already."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from drl_cli.errors import ClusterUnavailable
from drl_cli.extras import load
from drl_cli.runtime.cluster import ACTOR

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
def test_gcs_of_a_joined_cluster_that_is_gone_ends_the_run_after_its_limit_and_not_while_it_may_come_back(monkeypatch):
    module, clock = load("drl_cli.runtime.ray_cluster"), SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    cluster = object.__new__(module.RayCluster)
    cluster._woken, cluster._looked, cluster.check, cluster._daemons = threading.Condition(), 0.0, lambda: None, {}

    def wait(seconds):
        clock.now += seconds
        assert cluster.wait([], 0.0) == []

    def listening(port=0):
        return socket.create_server(("127.0.0.1", port))

    gcs = listening()
    port = gcs.getsockname()[1]
    cluster._gcs = f"127.0.0.1:{port}"
    with gcs:
        wait(1)
    wait(module.GCS_LOOK_S)
    wait(module.GCS_S - 1)
    with listening(port):
        wait(module.GCS_LOOK_S)
    wait(module.GCS_S)
    wait(module.GCS_S - 1)
    assert not cluster._is_broken
    clock.now += module.GCS_LOOK_S
    with pytest.raises(ClusterUnavailable, match=rf"^The cluster's GCS at 127.0.0.1:{port} has not answered for 44 s"):
        cluster.wait([], 0.0)
    assert cluster._is_broken


@pytest.mark.ray
def test_run_that_called_a_part_when_its_raylet_had_ended_was_ended_by_ray_with_code_1(monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    cluster = object.__new__(module.RayCluster)
    cluster._looked, cluster._daemons = 0.0, {os.getpid(): "another name"}
    invoke = SimpleNamespace(options=lambda **_: pytest.fail("Ray ends the process"))
    handle = module.RemoteHandle("worker 0", SimpleNamespace(invoke=invoke), cluster._check_daemons)
    with pytest.raises(ClusterUnavailable, match=r"^Ray's another name ended"):
        handle.call("push", {})
    kind, given = handle.__reduce__()
    assert kind is module.RemoteHandle and given == (handle.name, handle.actor)  # what it asks before stays here


@pytest.mark.ray
@pytest.mark.parametrize("asked", [("resources",), ("nodes",), ("spawn", "x", "y:Z", (), ACTOR)])
def test_run_that_asked_a_gcs_that_was_gone_was_ended_by_ray_with_code_1(monkeypatch, asked):
    module, clock = load("drl_cli.runtime.ray_cluster"), SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.ray, "cluster_resources", lambda: pytest.fail("Ray waits for the GCS"))
    monkeypatch.setattr(module.ray, "nodes", lambda: pytest.fail("Ray waits for the GCS"))
    monkeypatch.setattr(module.ray, "remote", lambda kind: pytest.fail("Ray waits for the GCS"))

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    cluster = object.__new__(module.RayCluster)
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster._gcs = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ClusterUnavailable, match="has not answered for 40 s"):
        getattr(cluster, asked[0])(*asked[1:])
    assert clock.now == 100.0 + module.GCS_S


@pytest.mark.ray
def test_raylet_of_a_joined_cluster_is_found_by_its_socket(tmp_path):
    module = load("drl_cli.runtime.ray_cluster")
    (tmp_path / "raylet").symlink_to(shutil.which("sh") or "/bin/sh")
    own, other = (
        subprocess.Popen(
            [tmp_path / "raylet", "-c", "read x; true", f"--raylet_socket_name={tmp_path}/{name}"], stdin=-1
        )
        for name in ("raylet", "raylet.1")
    )
    try:
        assert module._raylets([f"{tmp_path}/raylet"]) == {own.pid: "raylet"}
    finally:
        for one in (own, other):
            one.communicate()


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
    (tmp_path / "half removed" / "logs").mkdir(parents=True)
    os.utime(tmp_path / "half removed", (1e9, 1e9))
    load("drl_cli.runtime.ray_folder").remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "foreign", "odd"]
