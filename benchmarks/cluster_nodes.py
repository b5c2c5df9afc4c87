"""Ray nodes on one machine, each with daemons and an object store of its own, and environments that stand for slow simulators.

Used by ``scaling.py`` and ``chaos.py``. Workers import this module for its environment: its folder is put into PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil

STORE_BYTES = 200 * 2**20
ADDRESS = "127.0.0.1"
SLEEPING = "Sleeping-v0"
JOIN_S = 120.0  # in which all nodes have joined


class Sleeping(gymnasium.Env):
    """A step takes ``seconds``, and ``factor`` times as long in the first process that makes ``slow_file``."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, seconds: float = 0.01, slow_file: str = "", factor: float = 20.0) -> None:
        self._seconds, self._steps = seconds, 0
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
        """Sleep; the reward is 1 for action 0."""
        time.sleep(self._seconds)
        self._steps += 1
        obs = self.np_random.uniform(-1, 1, 8).astype(np.float32)
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
    """A head without CPUs, and nodes of ``ray start`` in process groups of their own; this process joins."""

    def __init__(self, cpus: list[int]) -> None:
        """``cpus``: of each node beside the head."""
        from drl_cli import process

        process.prepare_ray()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        import ray
        from ray.cluster_utils import Cluster

        self._ray, self.nodes = ray, []
        head = {
            "num_cpus": 0,
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "node_ip_address": ADDRESS,
        }
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        for count in cpus:
            self.add(count)
        ray.init(address=self._cluster.address, configure_logging=False, log_to_driver=False)
        until = time.monotonic() + JOIN_S
        while ray.cluster_resources().get("CPU", 0) < sum(cpus):
            if time.monotonic() > until:
                self.close()
                sys.exit(
                    f"not all nodes have joined within {JOIN_S:.0f} s: where the machine has another address than {ADDRESS}, "
                    "ray start looks for the head there"
                )
            if any(node.poll() is not None for node in self.nodes):
                sys.exit("a node has ended before it joined; type its ray start command to see why")
            time.sleep(0.5)

    def add(self, cpus: int) -> None:
        """Start a node; it joins later."""
        options = f"start --block --address {self._cluster.address} --node-ip-address {ADDRESS} --num-cpus {cpus}"
        options += f" --object-store-memory {STORE_BYTES}"
        command = [sys.executable, "-m", "ray.scripts.scripts", *options.split()]
        # ``ray start --address`` refuses the variable that keeps Ray on loopback; --node-ip-address does so here.
        environ = os.environ | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.nodes.append(subprocess.Popen(command, env=environ, start_new_session=True, **quiet))

    def kill(self, index: int) -> None:
        """Kill the daemons of a node, and with them all that runs on it."""
        node = self.nodes.pop(index)
        family = psutil.Process(node.pid)
        for one in [*family.children(recursive=True), family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        node.wait()

    def close(self) -> None:
        """End everything."""
        self._ray.shutdown()
        while self.nodes:
            self.kill(0)
        self._cluster.shutdown()
