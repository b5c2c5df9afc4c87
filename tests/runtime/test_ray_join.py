"""A run that joins a Ray which somebody else has started, and leaves it as it was."""

import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from process_family import asked, children
from runtime_runs import env_facts, small_config

from drl_cli import process
from drl_cli.errors import ClusterUnavailable
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.ray

CONFIG = {
    "num_workers": 1,
    "learning_starts": 400,
    "timesteps_per_iteration": 400,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
}
STARTED = b"Ray runtime started"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def foreign():
    """The address of a Ray with 2 CPUs in processes of its own, ended by their ids."""
    process.prepare_ray()  # loopback, and a token that this process knows
    folder = Path(f"/tmp/drl-test-{secrets.token_hex(4)}")
    port = free_port()
    options = f"start --head --block --num-cpus 2 --port {port} --node-ip-address 127.0.0.1 --include-dashboard false"
    command = [str(Path(sys.executable).with_name("ray")), *options.split(), "--temp-dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as head:
        own, daemons = psutil.Process(head.pid), []
        try:
            for line in head.stdout:
                if STARTED in line:
                    break
            daemons = own.children(recursive=True)
            yield f"127.0.0.1:{port}", own
        finally:
            # Where a daemon has been killed, the head ends of its own accord; the others may outlive it.
            family = own.children(recursive=True) if head.poll() is None else daemons
            head.send_signal(signal.SIGTERM)
            _, alive = psutil.wait_procs([own, *family], timeout=8)
            for one in alive:
                one.kill()
            head.stdout.close()
            subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_run_joins_a_ray_by_its_address_and_leaves_it_running(foreign, quick_learner):
    address, head = foreign
    daemons = {name for _, name in asked(children(head.pid), lambda process: process.name())}
    assert {"raylet", "gcs_server"} <= daemons
    trainer = Driver("SAC", small_config(**CONFIG), env_facts("Pendulum-v1"), options={"ray": {"address": address}})
    try:
        trainer.start()
        parents = asked(children(), lambda process: [process, *process.parents()])
        # nothing was started beside the Ray that is there
        assert [process for process, above in parents if head not in above] == []
        worker = psutil.Process(trainer.parts.pool.handles()[0].ready().result())
        assert head in worker.parents()
        while trainer.loop.ledger.updates == 0:
            result = trainer.train()
        assert result["timesteps_total"] >= 400
        assert trainer._cluster._folder is None
    finally:
        trainer.close()
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running()
    assert {"raylet", "gcs_server"} <= {name for _, name in asked(children(head.pid), lambda process: process.name())}


@pytest.mark.slow
def test_run_whose_joined_raylet_was_killed_waited_two_minutes_and_advised_fewer_workers(foreign, quick_learner):
    address, head = foreign
    trainer = Driver("SAC", small_config(**CONFIG), env_facts("Pendulum-v1"), options={"ray": {"address": address}})
    try:
        trainer.start()
        trainer.train()
        names = asked(children(head.pid), lambda process: process.name())
        next(process for process, name in names if name == "raylet").kill()
        began = time.monotonic()
        with pytest.raises(ClusterUnavailable, match=r"^Ray's raylet ended \(killed"):
            while time.monotonic() - began < 100:
                trainer.train()
    finally:
        trainer.close()


def test_address_where_no_ray_is_ends_in_one_clear_error_at_once():
    address = f"127.0.0.1:{free_port()}"
    trainer = Driver("SAC", small_config(**CONFIG), env_facts("Pendulum-v1"), options={"ray": {"address": address}})
    try:
        with pytest.raises(ClusterUnavailable) as caught:
            trainer.start()
        assert str(caught.value) == (
            f"No Ray cluster could be joined at --ray-address {address}: [Errno 111] Connection refused. "
            "Start one with: ray start --head"
        )
    finally:
        trainer.close()


def test_cluster_that_asks_for_a_token_says_how_to_give_it(monkeypatch):
    module = load("drl_cli.runtime.ray_cluster")

    def init(**options):
        raise RuntimeError("Failed to connect to GCS.")

    monkeypatch.setattr(module.ray, "init", init)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ClusterUnavailable, match="wants it here too: RAY_AUTH_MODE=token RAY_AUTH_TOKEN="):
            module.RayCluster({"address": address}, 1)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        with pytest.raises(ClusterUnavailable, match="Failed to connect to GCS. Start one with: ray start --head"):
            module.RayCluster({"address": address}, 1)
