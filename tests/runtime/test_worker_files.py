"""Recordings and films of workers on a node with another disk: a node of Ray that does not see the folder of the results."""

import ctypes
import json
import threading

import pytest

from drl_cli import cli, process
from drl_cli.extras import load
from drl_cli.runs.find import find_run

pytestmark = [pytest.mark.ray, pytest.mark.slow]

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # linux/sched.h, linux/mount.h
NODE = {"object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.1"}
SMALL = {
    "num_workers": 2,
    "custom_resources_per_worker": {"far": 1},
    "output": "logdir",
    "record_env": True,
    "rollout_fragment_length": 64,
    "train_batch_size": 256,
    "sgd_minibatch_size": 128,
    "num_sgd_iter": 1,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
    "seed": 3,
    "xla": False,
}


class OtherDisk:
    """A thread for whose child processes another disk, an empty one, is at ``folder``; ``call`` runs something in it."""

    def __init__(self, folder):
        self._folder, self._done, self._over = str(folder).encode(), threading.Event(), threading.Event()
        self.error = None

    def call(self, act):
        """Call ``act`` in the thread, which lives on until ``end``: Ray's processes end with the one that started them."""
        threading.Thread(target=self._run, args=(act,), daemon=True).start()
        self._done.wait()
        if self.error is not None:
            raise self.error

    def end(self):
        self._over.set()

    def _run(self, act):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
            self.error = PermissionError(ctypes.get_errno(), "a thread cannot have mounts of its own")
        elif libc.mount(b"none", self._folder, b"tmpfs", 0, None):
            self.error = PermissionError(ctypes.get_errno(), "nothing can be mounted")
        else:
            try:
                act()
            except Exception as error:
                self.error = error
        self._done.set()
        self._over.wait()


@pytest.fixture
def results(tmp_path):
    """The folder of the results."""
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


@pytest.fixture
def address(results, monkeypatch):
    """The address of a Ray whose second node, which alone has the resource far, does not see the results."""
    process.prepare_ray()
    disk = OtherDisk(results)
    try:
        disk.call(lambda: None)
    except PermissionError as error:
        pytest.skip(str(error))
    finally:
        disk.end()
    cluster = load("ray.cluster_utils:Cluster")(
        initialize_head=True, head_node_args={**NODE, "num_cpus": 2, "include_dashboard": False}
    )
    # The node is started in a thread, which may set no signal handler.
    monkeypatch.setattr("ray._private.utils.set_sigterm_handler", lambda handler: None)
    disk = OtherDisk(results)
    disk.call(lambda: cluster.add_node(**NODE, num_cpus=2, resources={"far": 2}))
    yield cluster.address
    cluster.shutdown()
    disk.end()


def test_files_of_workers_that_do_not_see_the_results_come_to_the_run_and_its_storage(address, results, tmp_path):
    words = ["--run", "PPO", "--env", "CartPole-v1", "--config", json.dumps(SMALL), "--stop", "training_iteration=2"]
    words += ["--ray-address", address, "--local-dir", str(results), "--storage-path", str(tmp_path / "store"), "-q"]
    assert cli.main(["train", *words]) == 0
    run = find_run(str(next((results / "default").glob("PPO_*"))), [results])
    for folder in (run, tmp_path / "store" / "default" / run.name):
        recorded = sorted((folder / "experience").glob("*.json"))
        assert sorted(path.name.split("_worker-")[1] for path in recorded) == ["0_0.json", "1_0.json"]
        lines = [json.loads(line) for path in recorded for line in path.read_text().splitlines()]
        assert sum(len(line["rewards"]) for line in lines) >= 512
        films = sorted(path.name for path in (folder / "videos").iterdir())
        assert films[:2] == ["episode-000000.mp4", "episode-000001.mp4"]
