"""Measures a few seconds of a run in one process: ``python -m drl_cli.checks.run_probe``.

Started by ``checks.run_time``. Reads from stdin one JSON object {"run", "config", "env", "imports", "seconds", "workers"} and
writes one JSON line: the rates of a worker and of the learner, or, with workers (in a Ray of its own), the costs between
processes. The run has no evaluations and a small replay, and starts to learn early; its results are thrown away.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.algorithms import table
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.envs import make
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver
from drl_cli.runtime.meters import mean

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys

SMALL = {
    "num_workers": 0,
    "num_replay_shards": 0,
    "learner_actor": False,
    "num_learners": 1,
    "num_aggregation_workers": 0,
    "evaluation_interval": None,
    "worker_side_prioritization": False,
    "deterministic": False,
}
FRAGMENTS = 5  # that are sampled before the first update of a replay
IMAGE_UPDATES = 5  # of one call of the learner where it sees images: fifty take it seconds
LONGEST_S = 60.0  # for TensorFlow to be loaded and its graph to be compiled
LEAST_UPDATES = 3  # calls of the learner that are worth a rate


def smaller(config: CommonKeys, shape: Sequence[int], workers: int = 0) -> CommonKeys:
    """Return the config of the probe: ``config`` with ``workers`` and a replay that is soon learnt from.

    ``shape``: of an observation.
    """
    over: dict[str, Any] = {name: value for name, value in SMALL.items() if name in type(config).model_fields}
    over["num_workers"] = workers
    if isinstance(config, BufferKeys):
        fragment = config.num_envs_per_worker * config.rollout_fragment_length
        over["learning_starts"] = min(config.learning_starts, FRAGMENTS * fragment)
        if len(shape) == 3:
            over["updates_per_call"] = min(config.updates_per_call, IMAGE_UPDATES)
        over["buffer_size"] = min(config.buffer_size, max(20_000, 4 * config.num_workers * fragment, 4 * fragment))
    return config.model_copy(update=over)


def measure(driver: Driver, seconds: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Run a started Driver's loop until the learner has been at work for ``seconds``; return the rates, see ``plan``."""
    loop, began, ready = driver.loop, clock(), None
    while True:
        loop.step()
        now = clock()
        if ready is None and loop.ledger.meters.has_learnt:
            ready = (now, loop.sampled, loop.ledger.updates, dict(loop.ledger.meters.spent))
        if ready is not None and now - ready[0] >= seconds and loop.ledger.updates - ready[2] >= LEAST_UPDATES:
            break
        if now - began >= LONGEST_S or (ready is not None and now - ready[0] >= 2 * seconds):
            break
    loop.quiesce()
    spent, first = (
        loop.ledger.meters.spent,
        ready or (clock(), loop.sampled, loop.ledger.updates, dict(loop.ledger.meters.spent)),
    )
    updates, learn_s = loop.ledger.updates - first[2], spent["learn"] - first[3]["learn"]
    if not updates:  # the first batch took all of the time
        updates, learn_s = loop.ledger.updates, spent["learn"]
    closed = loop.ledger.meters.close_iteration()
    return {
        "start_s": first[0] - began,
        "env_steps": loop.sampled,
        "env_steps_per_s": loop.sampled / spent["sample"] if spent["sample"] else None,
        "updates": loop.ledger.updates,
        "updates_per_s": updates / learn_s if updates and learn_s > 0 else None,
        "updates_per_env_step": loop.ledger.updates / loop.sampled if loop.sampled and loop.ledger.updates else None,
        "env_s_per_step": spent["env"] / loop.sampled if loop.sampled else None,
        "policy_s_per_call": spent["policy"] / (loop.sampled / driver.config.num_envs_per_worker)
        if loop.sampled
        else None,
        "episode_len_mean": mean(closed.lengths),
        "seconds": clock() - began,
    }


def traffic(driver: Driver, seconds: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Run the loop of a started Driver that has workers for ``seconds`` of learning; return what passes between its parts.

    {"driver_us": microseconds of the driver's thread for each fragment, "bytes_per_env_step": of fragments, "weights_bytes",
    "versions_per_env_step": of weights, "push_s": from the learner to a process that pulls them}.
    """
    loop, pool, began = driver.loop, driver.parts.pool, clock()
    while not loop.ledger.meters.has_learnt and clock() - began < LONGEST_S:
        loop.step()
    ready, cpu, taken, sampled, version = clock(), time.thread_time(), pool.taken, loop.sampled, loop.ledger.version
    while clock() - ready < seconds or (
        (pool.taken == taken or loop.ledger.version == version) and clock() - ready < LONGEST_S
    ):
        loop.step()
    cpu, taken, sampled = time.thread_time() - cpu, pool.taken - taken, loop.sampled - sampled
    versions = loop.ledger.version - version
    loop.quiesce()
    began = clock()
    driver.parts.learner.call("push").result()
    _, weights = driver.parts.server.call("pull", 0, None).result()
    push_s = clock() - began
    token, columns = next(iter(pool.handles().values())).call("collect", 0, None, returns=2)
    return {
        "driver_us": 1e6 * cpu / taken if taken else None,
        "bytes_per_env_step": size_of(columns.result()) / max(1, token.result().steps),
        "weights_bytes": size_of(weights),
        "versions_per_env_step": versions / sampled if sampled else 0.0,
        "push_s": push_s,
    }


def size_of(value: Any) -> int:
    """Return the bytes of the arrays in nested dicts and sequences."""
    if isinstance(value, Mapping):
        return sum(size_of(part) for part in value.values())
    if isinstance(value, list | tuple):
        return sum(size_of(part) for part in value)
    return int(value.nbytes) if isinstance(value, np.ndarray | np.generic) else 0


def main() -> None:
    """Answer the question on stdin."""
    began = time.perf_counter()
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        make.import_module(module)
    make.resolve(asked["env"]["id"], trusted=True)
    row = table.find(asked["run"])
    whole = load(row.config).model_validate(asked["config"])
    workers = asked.get("workers", 0)
    config = smaller(whole, asked["env"]["spaces"]["obs"]["shape"], workers)
    trainer = Driver(row.name, config, {**asked["env"], "imports": tuple(asked["imports"])})
    try:
        trainer.start()
        found = (traffic if workers else measure)(trainer, asked["seconds"])
        print(json.dumps({**found, "whole_s": time.perf_counter() - began}), flush=True)
    finally:
        trainer.close()


if __name__ == "__main__":
    main()
