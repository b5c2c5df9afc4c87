"""ES over Ray, with a worker killed on the way, takes the very steps that it takes in one process; one table for all."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.evolution.keys import ESConfig
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.ray

KEYS = {
    "seed": 7,
    "num_envs_per_worker": 8,
    "episodes_per_batch": 32,
    "timesteps_per_iteration": 500,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
    "noise_size": 100_000,
    "num_cpus_per_worker": 0,
}


def _started(workers):
    spaces = make.check("CartPole-v1", {}, table.find("ES"))
    facts = {"id": "CartPole-v1", "asked": "CartPole-v1", "env_config": {}, "imports": (), "spaces": spaces}
    trainer = Driver("ES", ESConfig(num_workers=workers, **KEYS), facts)
    trainer.start()
    return trainer


def _tables_of(pid):
    """The files of noise that a process has mapped: {(inode, permissions)}."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "noise-7-100000" in line]
    return {(words[4], words[1]) for words in lines}


def _state(trainer):
    return trainer.parts.learner.call("state").result()


def test_run_over_ray_with_a_killed_worker_equals_the_run_in_one_process():
    remote = _started(2)
    try:
        remote.train()
        pids = [handle.ready().result() for handle in remote.parts.pool.handles().values()]
        (mapped,) = _tables_of(os.getpid())  # the learner's
        assert mapped[1].startswith("r--") and all(_tables_of(pid) == {mapped} for pid in pids)
        os.kill(pids[0], signal.SIGKILL)
        while remote.parts.pool.restarts == 0 or remote.loop.ledger.updates < 5:
            result = remote.train()
        remote.loop.quiesce()
        expected, rounds = _state(remote), remote.loop.ledger.updates
        assert (result["num_restarts"], result["num_healthy_workers"]) == (1, 2)
        assert remote.loop.trained() == expected["default_policy/filter/count"]  # every round whole, nothing twice
    finally:
        remote.close()
    inline = _started(0)
    try:
        while inline.loop.ledger.updates < rounds:
            inline.loop.step()
        found = _state(inline)
    finally:
        inline.close()
    assert inline.loop.ledger.updates == rounds == expected["default_policy/num_updates"] > 3
    assert [name for name in expected if not np.array_equal(expected[name], found[name])] == []
