"""Rate over ideal rate with environments that sleep 10 ms a step, over several Ray nodes on this machine.

    python benchmarks/scaling.py                                    # PPO and IMPALA, 8 and 32 workers over 4 nodes
    python benchmarks/scaling.py --only ppo --workers 16 --nodes 2 --slow --keys '{"straggler_cutoff": 0.9}'

The ideal is what the workers would sample if they did nothing but sleep. A run is measured for ``--seconds`` after the last
worker has delivered and the learner has made its first update. ``driver`` is the processor time of the driver's own
thread per fragment, ``learner`` the share of the time in which the learner was at work; ``--slow`` makes one worker 20 times
slower. Steps count that were learnt from, with SAC those stored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from drl_cli import process

process.prepare()
process.prepare_tensorflow(1, 1, 0, "ERROR")

from cluster_nodes import Nodes  # noqa: E402

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

NET = {"fcnet_hiddens": [32, 32]}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("PPO", {"model": NET, "num_sgd_iter": 4, "sgd_minibatch_size": 512}),
    "impala": ("IMPALA", {"model": NET}),
    "sac": ("SAC", {"policy_model": NET, "Q_model": NET, "training_intensity": 16, "learning_starts": 1000}),
}
"""Name → (algorithm, config)."""


def main() -> None:
    """Run every setting with every number of workers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=["ppo", "impala"])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sleep", type=float, default=0.01, help="seconds of a step")
    parser.add_argument("--fragment", type=int, default=100, help="steps of a fragment; a batch has one of each worker")
    parser.add_argument("--slow", action="store_true", help="make one worker 20 times slower")
    parser.add_argument("--keys", type=json.loads, default={}, help="config in JSON, laid over that of the setting")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    print(
        f"{'setting':>8}  {'workers':>7}  {'steps/s':>8}  {'ideal':>7}  {'ratio':>5}  {'driver':>8}  {'learner':>7}  "
        f"{'late':>5}  {'load':>5}"
    )
    each = -(-max(options.workers) // options.nodes)
    nodes = Nodes([each] * options.nodes)
    try:
        for name in options.only:
            for workers in options.workers:
                steps, driver, learner, late = _measured(name, workers, options)
                ideal = workers / options.sleep
                print(
                    f"{name:>8}  {workers:>7}  {steps:>8,.0f}  {ideal:>7,.0f}  {steps / ideal:>5.3f}  {driver:>5,.0f} us  "
                    f"{learner:>7.2f}  {late:>5}  {os.getloadavg()[0]:>5.1f}",
                    flush=True,
                )
    finally:
        nodes.close()


def _measured(name: str, workers: int, options: argparse.Namespace) -> tuple[float, float, float, int]:
    """Return (env steps a second, microseconds of the driver's thread a fragment, share of the time in which the learner
    was at work, late fragments that were learnt from)."""
    algorithm, keys = SETTINGS[name]
    keys = {"num_envs_per_worker": 1, "rollout_fragment_length": options.fragment, "seed": 100, **keys}
    if name != "sac":
        keys["train_batch_size"] = workers * options.fragment
    keys |= {"num_workers": workers, "evaluation_interval": None, "min_iter_time_s": 1, **options.keys}
    row = table.find(algorithm)
    env_id = "SleepingBox-v0" if name == "sac" else "Sleeping-v0"
    spaces = make.check(env_id, {"seconds": 0.0}, row)
    with tempfile.TemporaryDirectory() as folder:
        env_config: dict[str, Any] = {"seconds": options.sleep}
        if options.slow:
            env_config["slow_file"] = str(Path(folder) / "slow")
        env = {"id": env_id, "asked": env_id, "env_config": env_config, "spaces": spaces, "imports": ("cluster_nodes",)}
        run = Driver(algorithm, load(row.config).model_validate(keys), env)
        try:
            run.start()
            while len(run.parts.pool.delivered()) < workers or not run.loop.ledger.updates:
                run.train()
            return _rates(run, name, options.seconds)
        finally:
            run.close()


def _rates(run: Driver, name: str, seconds: float) -> tuple[float, float, float, int]:
    loop, pool = run.loop, run.parts.pool

    def steps() -> int:
        return loop.sampled if name == "sac" else loop.trained()

    def until_more() -> None:
        """Go on until more steps count: PPO's batches take seconds, one more or less would be some per cent of the rate."""
        before = steps()
        while steps() == before:
            loop.step()

    until_more()
    began, cpu, first, taken = time.perf_counter(), time.thread_time(), steps(), pool.taken
    late, learning, took = loop.info().get("fragments_late", 0), loop.ledger.meters.spent["learn"], 0.0
    while took < seconds:
        until_more()
        took = time.perf_counter() - began
    driver = 1e6 * (time.thread_time() - cpu) / max(1, pool.taken - taken)
    learning = loop.ledger.meters.spent["learn"] - learning
    return (steps() - first) / took, driver, learning / took, loop.info().get("fragments_late", 0) - late


if __name__ == "__main__":
    main()
