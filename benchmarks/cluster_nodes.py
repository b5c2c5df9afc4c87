"""Ray nodes on one machine, each with daemons and an object store of its own, and environments that stand for slow simulators.

Used by ``scaling.py``, ``chaos.py`` and ``kill_parts.py``. Workers import this module for its environment: its folder is put
into PYTHONPATH.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drl_cli import process

STORE_BYTES = 200 * 2**20
ADDRESS = "127.0.0.1"
SLEEPING = "Sleeping-v0"
JOIN_S = 120.0  # in which a node joins
STARTS = 3  # of a node
KILL_S = 10.0  # for killed daemons to be gone
PR_SET_TIMERSLACK = 29  # prctl(2): nanoseconds by which the kernel may wake a process too late, 50,000 by default


class Sleeping(gymnasium.Env):
    """A step takes ``seconds``, and ``factor`` times as long in the first process that makes ``slow_file``.

    The kernel does not prolong the sleep: a simulator that computes for 10 ms takes 10 ms.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, seconds: float = 0.01, slow_file: str = "", factor: float = 20.0) -> None:
        self._seconds, self._steps = seconds, 0
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        if slow_file:
            try:
                os.close(os.open(slow_file, os.O_CREAT | os.O_EXCL))
                self._seconds *= factor
            except FileExistsError:
                pass

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode of 100 steps."""
        super().reset(seed=seed)
        self._steps = 0
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Sleep for what is left of the step once it is computed; the reward is 1 for action 0."""
        ends = time.perf_counter() + self._seconds
        self._steps += 1
        obs = self.np_random.uniform(-1, 1, 8).astype(np.float32)
        time.sleep(max(0.0, ends - time.perf_counter()))
        return obs, float(action == 0), self._steps == 100, False, {}


class SleepingBox(Sleeping):
    """The same with actions of two numbers."""

    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Sleep; the reward is 1 for a positive first number."""
        return super().step(int(action[0] <= 0))


for name, kind in ((SLEEPING, Sleeping), ("SleepingBox-v0", SleepingBox)):
    if name not in gymnasium.registry:
        gymnasium.register(name, kind)


class Nodes:
    """A head without CPUs, and nodes in sessions of their own, which end with this process; this process joins."""

    def __init__(self, cpus: list[int]) -> None:
        """``cpus``: of each node beside the head."""
        process.prepare_ray()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        import ray
        from ray.cluster_utils import Cluster

        self._ray, self.nodes = ray, []
        self._cluster = Cluster(initialize_head=True, head_node_args={**_options(0), "include_dashboard": False})
        ray.init(address=self._cluster.address, configure_logging=False, log_to_driver=False)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # after Ray, whose own handler aborts
        for count in cpus:  # one by one: a node whose start takes longer than 30 s gives up
            self.join(count)

    def join(self, cpus: int) -> None:
        """Start a node and wait until it has joined; without any success the script ends."""
        before, until = self._ray.cluster_resources().get("CPU", 0), time.monotonic() + JOIN_S
        self.add(cpus)
        while self._ray.cluster_resources().get("CPU", 0) < before + cpus:
            if time.monotonic() > until or self.nodes[-1].poll() is not None:
                number = len(self.nodes)
                self.close()
                sys.exit(f"node {number} has not joined; the logs are in /tmp/ray/session_latest/logs")
            time.sleep(0.5)

    def add(self, cpus: int) -> None:
        """Start a node; it joins later."""
        self.nodes.append(_started(self._cluster.address, cpus))

    def kill(self, index: int) -> None:
        """Kill the daemons of a node, and with them all that runs on it."""
        node = self.nodes.pop(index)
        node.stdin.close()
        node.wait()

    def close(self) -> None:
        """End everything."""
        self._ray.shutdown()
        while self.nodes:
            self.kill(0)
        process.kill_descendants(KILL_S)  # the head's
        self._cluster.shutdown()


class Head:
    """A Ray of one node in a session of its own, which this process does not join; ends with it."""

    def __init__(self, cpus: int) -> None:
        process.prepare_ray()
        self.node = _started("", cpus)
        self.address = self.node.stdout.readline().decode().strip()
        if not self.address:
            sys.exit("the Ray to join has not started; the logs are in /tmp/ray/session_latest/logs")

    def close(self) -> None:
        """End everything."""
        self.node.stdin.close()
        self.node.wait()


def _started(address: str, cpus: int) -> subprocess.Popen:
    command = [sys.executable, __file__, address, str(cpus)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, **pipes)


def _options(cpus: int) -> dict[str, Any]:
    return {"num_cpus": cpus, "object_store_memory": STORE_BYTES, "node_ip_address": ADDRESS}


def be_a_node(address: str, cpus: int) -> None:
    """Be a node of the Ray at ``address`` until stdin is closed, then kill all that runs on it.

    "": be the head of a new Ray, and print its address.

    It makes the same object as ``ray.cluster_utils.Cluster.add_node``, which has to be called in the main thread and leaves the
    daemons in the caller's session. ``ray start`` takes 127.0.0.1 for the machine's other address, where no head listens.
    """
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    options = {**_options(cpus), "num_gpus": 0, "min_worker_port": 0, "max_worker_port": 0, "node_manager_port": 0}
    options |= {"gcs_address": address, "include_log_monitor": False} if address else {"include_dashboard": False}
    for _ in range(STARTS):
        try:
            node = Node(RayParams(**options), head=not address)
        except Exception as error:  # on a busy machine it can take longer than Ray's 30 s
            print(error, file=sys.stderr)
            process.kill_descendants(KILL_S)
        else:
            print(node.gcs_address, flush=True)
            sys.stdin.read()
            break
    process.kill_descendants(KILL_S)
    os._exit(0)  # Ray's own way out waits for what is dead


if __name__ == "__main__":
    be_a_node(sys.argv[1], int(sys.argv[2]))
