"""Weights of ``deterministic: true`` with 0, 1, 2 and 4 workers, undisturbed and with workers killed at random, and its cost.

    python benchmarks/determinism.py                               # all rows, all numbers of workers
    python benchmarks/determinism.py --rows PPO SAC --workers 0 2 --kills 2
    python benchmarks/determinism.py --workers 0 2 4 --nodes 3    # two workers on one Ray node, four on three
    python benchmarks/determinism.py --cost cartpole-ppo lunarlander-continuous-sac --turns 3

The first prints a digest of all that the learner holds after each iteration, and exits with 1 unless those of a row are equal.
``--nodes``: over so many Ray nodes on this machine, which are started when the workers of a run need them. ``--kills``: workers
of a run with workers that are killed, each at a random moment. ``--cost``: env steps per second of a tuned file with 2
workers, free-running and deterministic in turns, both with as many environments, after the learner is ready.
"""

import argparse
import contextlib
import hashlib
import os
import platform
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from drl_cli import process

process.prepare()
process.prepare_ray()

from cluster_nodes import Nodes  # noqa: E402

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.config.strict_yaml import load_yaml_text  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.experiments import tuned_files  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime import ray_cluster  # noqa: E402
from drl_cli.runtime.cluster import PartLost  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

BASE = {
    "seed": 107,
    "deterministic": True,
    "timesteps_per_iteration": 400,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 2,
    "evaluation_config": {"horizon": 50},
    "xla": False,
}
TRAJECTORIES = {"num_envs_per_worker": 3, "rollout_fragment_length": 10, "model": {"fcnet_hiddens": [16]}}
REPLAY = {"num_envs_per_worker": 2, "rollout_fragment_length": 10, "train_batch_size": 32, "learning_starts": 200}
SAC_NETS = {"policy_model": {"fcnet_hiddens": [16, 16]}, "Q_model": {"fcnet_hiddens": [16, 16]}}
PASSES = {"train_batch_size": 90, "num_sgd_iter": 2, "sgd_minibatch_size": 30}
ROWS = {
    "PPO": ("CartPole-v1", TRAJECTORIES | PASSES | {"observation_filter": "MeanStdFilter"}),
    "IMPALA": ("CartPole-v1", TRAJECTORIES | {"train_batch_size": 60}),
    "APPO": ("CartPole-v1", TRAJECTORIES | {"train_batch_size": 60}),
    "SAC": ("Pendulum-v1", REPLAY | SAC_NETS | {"updates_per_call": 10, "publish_every": 10, "buffer_size": 5000}),
    "DQN": ("CartPole-v1", REPLAY | {"buffer_size": 5000, "model": {"fcnet_hiddens": [16]}}),
    "APEX": ("CartPole-v1", REPLAY | {"buffer_size": 5000, "model": {"fcnet_hiddens": [16]}}),
    "SimpleQ": ("CartPole-v1", REPLAY | {"buffer_size": 5000, "model": {"fcnet_hiddens": [16]}}),
    "ES": ("CartPole-v1", {"num_envs_per_worker": 2, "episodes_per_batch": 8, "train_batch_size": 100}),
}


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS, help="algorithms")
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2, 4], help="numbers of workers")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0, help="workers to kill in each run")
    parser.add_argument("--nodes", type=int, default=0, help="Ray nodes for the most workers; 0: one Ray, without CPUs")
    parser.add_argument("--cost", nargs="+", metavar="FILE", help="tuned files to measure in place of all that")
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind, for --cost")
    parser.add_argument("--steps", type=int, default=20_000, help="env steps of a run, for --cost")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}", flush=True)
    os.environ["HOME"] = tempfile.mkdtemp()
    cluster = None
    if options.nodes and not options.cost:
        cluster = options.cluster = Nodes([])
    elif options.cost or any(options.workers):
        cluster = ray_cluster.RayCluster({}, 16)
    try:
        if options.cost:
            for file in options.cost:
                cost(file, options)
            return 0
        return 0 if are_equal(options) else 1
    finally:
        if cluster is not None:
            cluster.close()


def are_equal(options):
    """Run each row with each number of workers; returns whether all weights of a row were equal after each iteration."""
    found = {name: [] for name in options.rows}
    for workers in options.workers:
        if options.nodes:
            grow(workers, options)
        for name in options.rows:
            found[name].append(digests(name, workers, options))
    equal = {name: all(one == runs[0] for one in runs) for name, runs in found.items()}
    for name, is_equal in equal.items():
        print(f"{name:8} {'equal' if is_equal else 'DIFFERENT'}", flush=True)
    return all(equal.values())


def digests(name, workers, options):
    """Return the digests of a run of the row ``name`` with so many workers, and print them."""
    env, keys = ROWS[name]
    own = {"num_workers": workers, "num_cpus_per_worker": 1 if options.nodes else 0}
    driver = started(name, env, BASE | keys | own)
    killer = Killer(driver, options.kills if workers else 0)
    try:
        found = [digest(driver) for _ in range(options.iterations)]
        nodes = len({handle.node().result() for handle in driver.parts.pool.placed().values()}) if workers else 0
    finally:
        killed = killer.stop()
        driver.close()
    print(f"{name:8} {workers} workers on {nodes} nodes, {killed} killed: {' '.join(found)}", flush=True)
    return found


def grow(workers, options):
    """Let nodes join until there is a CPU for each of ``workers``: ``options.nodes`` of them for the most workers of a run."""
    most, count = max(options.workers), options.nodes
    sizes = [most // count + (index < most % count) for index in range(count)]
    while sum(sizes[: len(options.cluster.nodes)]) < workers:
        options.cluster.join(sizes[len(options.cluster.nodes)])


def started(name, env, keys):
    """Return a Driver of the row ``name``, started."""
    row = table.find(name)
    facts = {"id": env, "asked": env, "env_config": {}, "imports": (), "spaces": make.check(env, {}, row)}
    driver = Driver(name, load(row.config).model_validate(keys), facts)
    driver.start()
    return driver


def digest(driver):
    """Train an iteration; returns a digest of everything that the learner then holds."""
    driver.train()
    arrays, found = driver.parts.learner.call("state").result(), hashlib.sha256()
    for array_name in sorted(arrays):
        found.update(array_name.encode() + arrays[array_name].tobytes())
    return found.hexdigest()[:12]


class Killer:
    """Kills running workers of ``driver``, ``count`` of them, each 0.1 to 1 s after the last one ran."""

    def __init__(self, driver, count):
        self._driver, self._count, self._killed, self._over = driver, count, 0, threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self):
        while self._killed < self._count and not self._over.wait(random.uniform(0.1, 1.0)):
            handles = list(self._driver.parts.pool.handles().values())
            with contextlib.suppress(PartLost, TimeoutError, ValueError):
                os.kill(random.choice(handles).ready().result(5.0), signal.SIGKILL)
                self._killed += 1

    def stop(self):
        """End it; returns how many it has killed."""
        self._over.set()
        self._thread.join()
        return self._killed


def cost(file, options):
    """Print env steps per second of a tuned file, free-running and deterministic, and their ratio."""
    experiment = next(iter(load_yaml_text(Path(tuned_files.find(file).path).read_text(), file)[0].values()))
    keys = experiment["config"] | {"seed": 107, "num_workers": 2, "num_cpus_per_worker": 0}
    rates = {False: [], True: []}
    for turn in range(options.turns):
        for deterministic in (False, True) if turn % 2 == 0 else (True, False):
            more = {"deterministic": True, "num_env_blocks": 2} if deterministic else {}
            driver = started(experiment["run"], experiment["env"], keys | more)
            try:
                while not driver.loop.is_learning or driver.iteration < 2:
                    driver.train()
                first, began = driver.loop.sampled, time.perf_counter()
                while driver.loop.sampled - first < options.steps:
                    driver.train()
                rates[deterministic].append((driver.loop.sampled - first) / (time.perf_counter() - began))
            finally:
                driver.close()
            kind = "deterministic" if deterministic else "free-running"
            print(
                f"{file} {kind:13} {rates[deterministic][-1]:8.0f} steps/s, load {os.getloadavg()[0]:.1f}", flush=True
            )
    free, bound = (statistics.median(rates[kind]) for kind in (False, True))
    print(
        f"{file}: free-running takes {free:.0f} steps/s, deterministic {bound:.0f}: {free / bound:.2f} times the time"
    )


if __name__ == "__main__":
    sys.exit(main())
