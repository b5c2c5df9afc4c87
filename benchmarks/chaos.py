"""Runs whose workers and nodes are killed, against undisturbed ones: the goal, the steps learnt, and the sum of all fragments.

    python benchmarks/chaos.py                               # PPO, IMPALA, SAC, APEX and ES, twice 60 s each
    python benchmarks/chaos.py --only sac --seconds 600 --calm 120 --worker-every 5 --node-every 30 --stopped 0.5

Four workers on three Ray nodes on this machine. Every few seconds a worker's process is killed, or with the share ``--stopped``
stopped (SIGSTOP), and every half minute a node is killed; a new one joins at once. A stopped worker is replaced when it has
been silent for ``--silence`` seconds (60 in a run), or for 20 times as long as its slowest fragment took, whichever is more.
How long stopped processes lasted is printed, and the longest time without a result. Time counts from the moment at which all
workers have delivered and the learner has made an update. The sum holds where requested = learnt + lost + dropped + waiting, of
fragments, after the loop has come to rest. The exit code is 1 where a sum does not hold or a goal was not reached.
``kill_parts.py`` kills the driver and the daemons of Ray.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import statistics
import sys
import threading
import time
from typing import Any, NamedTuple

import psutil

from drl_cli import process

process.prepare()
process.prepare_tensorflow(1, 1, 0, "ERROR")

from cluster_nodes import Nodes  # noqa: E402

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime import pool  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

WORKERS, CPUS, NODES = 4, 2, 3
ANSWER_S = 5.0  # for a worker to say its process id
SETTINGS: dict[str, tuple[str, str, float, dict[str, Any]]] = {
    "ppo": ("PPO", "CartPole-v1", 150, {"rollout_fragment_length": 64, "train_batch_size": 2048}),
    "impala": ("IMPALA", "CartPole-v1", 150, {"rollout_fragment_length": 50, "train_batch_size": 800, "lr": 1e-3}),
    "sac": ("SAC", "Pendulum-v1", -400, {"num_envs_per_worker": 2, "learning_starts": 1000}),
    "apex": ("APEX", "CartPole-v1", 150, {"num_replay_shards": 2, "learning_starts": 1000, "lr": 1e-3, "n_step": 5}),
    "es": ("ES", "CartPole-v1", 150, {"episodes_per_batch": 24, "noise_stdev": 0.3, "num_envs_per_worker": 4}),
}
"""Name → (algorithm, environment, goal: mean return of recent episodes, config)."""
REPLAY = ("sac", "apex")  # what they store is learnt from; progress is updates


class Outcome(NamedTuple):
    """What a run came to."""

    learnt: float  # env steps or, with a replay, updates a second
    best: float  # highest mean return of recent episodes
    killed: tuple[int, int, int]  # workers, workers stopped, nodes
    stopped_s: tuple[float, ...]  # how long each stopped process lasted
    still: int  # stopped processes that were there at the end
    longest_s: float  # between two results
    requested: int
    accounted: dict[str, int]  # of fragments

    @property
    def holds(self) -> bool:
        """Whether every fragment is accounted for."""
        return self.requested == sum(self.accounted.values())


class Killer(threading.Thread):
    """Kills or stops workers, and kills nodes, until it is stopped."""

    def __init__(self, run: Driver, nodes: Nodes, options: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self._run, self._nodes, self._options = run, nodes, options
        self._rng, self._over = random.Random(options.seed), threading.Event()
        self.workers = self.stopped = self.nodes = 0
        self.standing: dict[psutil.Process, float] = {}  # stopped process → when it was stopped
        self.stopped_s: list[float] = []

    def run(self) -> None:
        """Kill, and add a node for each that was killed."""
        began = time.monotonic()
        due_worker, due_node = self._options.worker_every, self._options.node_every
        while not self._over.wait(0.2):
            self._look()
            now = time.monotonic() - began
            if now >= due_worker:
                due_worker += self._options.worker_every
                self._kill_worker()
            if now >= due_node:
                due_node += self._options.node_every
                self._nodes.kill(self._rng.randrange(len(self._nodes.nodes)))
                self.nodes += 1
                self._nodes.add(CPUS)

    def stop(self) -> None:
        """Kill no more."""
        self._over.set()
        self.join()

    def _look(self) -> None:
        """Take note of the stopped processes that have ended."""
        for victim, since in list(self.standing.items()):
            if not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE:
                self.stopped_s.append(time.monotonic() - since)
                del self.standing[victim]

    def _kill_worker(self) -> None:
        try:
            pid = self._rng.choice(list(self._run.parts.pool.placed().values())).ready().result(ANSWER_S)
            is_stopped, victim = self._rng.random() < self._options.stopped, psutil.Process(pid)
            victim.send_signal(signal.SIGSTOP if is_stopped else signal.SIGKILL)
        except Exception as error:  # none is there, or it is stopped already, or it died, or its node, in this moment
            print(f"  no worker killed: {type(error).__name__}", file=sys.stderr)
        else:
            self.stopped += is_stopped
            self.standing |= {victim: time.monotonic()} if is_stopped else {}
            self.workers += not is_stopped


def main() -> None:
    """Run every setting undisturbed and disturbed, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the disturbed run")
    parser.add_argument("--calm", type=float, help="seconds of the undisturbed run; as long as the other one")
    parser.add_argument("--worker-every", type=float, default=5.0, help="seconds between two kills of a worker")
    parser.add_argument("--node-every", type=float, default=30.0, help="seconds between two kills of a node")
    parser.add_argument("--stopped", type=float, default=0.25, help="share of the workers that are stopped, not killed")
    parser.add_argument("--silence", type=float, default=5.0, help="seconds after which a stopped worker is replaced")
    parser.add_argument("--seed", type=int, default=100)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    pool.SILENCE_S = options.silence
    nodes, is_well = Nodes([CPUS] * NODES), True
    try:
        for name in options.only:
            calm, torn = (_outcome(name, nodes, options, disturbed) for disturbed in (False, True))
            goal = SETTINGS[name][2]
            print(
                f"{name}: learnt {torn.learnt:,.0f} a second, undisturbed {calm.learnt:,.0f}: {torn.learnt / calm.learnt:.2f}; "
                f"best return {torn.best:.0f} (goal {goal:g}, undisturbed {calm.best:.0f}); killed {torn.killed[0]} workers, "
                f"stopped {torn.killed[1]}, killed {torn.killed[2]} nodes"
            )
            lasted = torn.stopped_s or (0.0,)
            print(
                f"{name}: stopped processes lasted {statistics.median(lasted):.0f} s (median), {max(lasted):.0f} s at most, "
                f"{torn.still} were there at the end; longest time without a result {torn.longest_s:.0f} s, "
                f"undisturbed {calm.longest_s:.0f} s"
            )
            parts = ", ".join(f"{count} {what}" for what, count in torn.accounted.items())
            state = "the sum holds" if torn.holds and calm.holds else "THE SUM DOES NOT HOLD"
            print(
                f"{name}: {torn.requested} fragments requested, {parts}: {state}; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            is_well = is_well and torn.holds and calm.holds and torn.best >= goal
    finally:
        nodes.close()
    sys.exit(not is_well)


def _outcome(name: str, nodes: Nodes, options: argparse.Namespace, is_disturbed: bool) -> Outcome:
    algorithm, env_id, _, keys = SETTINGS[name]
    row = table.find(algorithm)
    keys = {"num_workers": WORKERS, "evaluation_interval": None, "seed": options.seed, **keys}
    spaces = make.check(env_id, {}, row)
    env = {"id": env_id, "asked": env_id, "env_config": {}, "spaces": spaces, "imports": ()}
    run = Driver(algorithm, load(row.config).model_validate(keys), env)
    killer = Killer(run, nodes, options)
    try:
        run.start()
        workers, ledger = run.parts.pool, run.loop.ledger
        while not ledger.updates or len(workers.delivered()) < WORKERS:
            run.train()
        if is_disturbed:
            killer.start()
        seconds = options.seconds if is_disturbed or options.calm is None else options.calm
        began, first, best, longest = time.monotonic(), _learnt(run, name), -float("inf"), 0.0
        while (before := time.monotonic()) - began < seconds:
            best = max(best, run.train()["episode_reward_mean"] or -float("inf"))
            longest = max(longest, time.monotonic() - before)
        took, learnt = time.monotonic() - began, _learnt(run, name) - first
        if is_disturbed:
            killer.stop()
        run.loop.quiesce()
        steps = run.config.num_envs_per_worker * run.config.rollout_fragment_length
        waiting = 0 if name in REPLAY else run.loop.stored // steps
        dropped = run.loop.info().get("fragments_dropped", 0)
        accounted = {"learnt": ledger.fragments, "lost": workers.fragments_lost, "dropped": dropped, "waiting": waiting}
        killed, lasted = (killer.workers, killer.stopped, killer.nodes), tuple(killer.stopped_s)
        still = len(killer.standing)
        return Outcome(learnt / took, best, killed, lasted, still, longest, workers.requested, accounted)
    finally:
        run.close()


def _learnt(run: Driver, name: str) -> int:
    return run.loop.ledger.updates if name in REPLAY else run.loop.trained()


if __name__ == "__main__":
    main()
