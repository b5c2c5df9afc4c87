"""CartPole with several agents, and its crashes."""

import time

import numpy as np
import pytest

from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.cart_poles import CrashingCartPoles


def test_number_of_agents_is_that_of_env_config():
    assert open_envs.open_env("drl/MultiAgentCartPole-v1", {}, "dictionary").agents == ["0", "1"]
    assert len(open_envs.open_env("drl/MultiAgentCartPole-v1", {"num_agents": 50}, "dictionary").agents) == 50


def crash_of(seed):
    """Return after how many steps an episode with ``seed`` crashes, or None where it ends before."""
    env = CrashingCartPoles(p_crash=0.05, p_stall=0.0)
    step, count = env.reset(seed), 0
    while not step.is_over:
        try:
            step = env.step(dict.fromkeys(step.acting(), np.int64(1)))
        except RuntimeError:
            return count
        count += 1
    return None


def test_seed_of_the_episode_decides_when_it_crashes():
    crashes = [crash_of(seed) for seed in range(20)]
    assert crashes == [crash_of(seed) for seed in range(20)]
    assert 0 < sum(one is not None for one in crashes) < 20


def test_crash_in_reset_and_stall():
    with pytest.raises(RuntimeError, match="p_crash_reset"):
        CrashingCartPoles(p_crash_reset=1.0).reset(0)
    env = CrashingCartPoles(p_crash=0.0, p_stall=1.0, stall_time_sec=0.05)
    step, began = env.reset(0), time.perf_counter()
    env.step(dict.fromkeys(step.acting(), np.int64(0)))
    assert time.perf_counter() - began >= 0.05


def test_env_config_of_rllib_2_holds_the_arguments_in_a_mapping_called_config():
    given = {
        "config": {"num_agents": 3, "p_crash": 0.0, "p_stall": 0.0, "init_time_s_min": 0.0, "init_time_s_max": 0.0}
    }
    assert open_envs.open_env("drl/MultiAgentCartPole-v1", {"config": {"num_agents": 4}}, "dictionary").agents[3] == "3"
    assert len(CrashingCartPoles(**given).agents) == 3
    with pytest.raises(RuntimeError, match="p_crash_reset"):
        CrashingCartPoles(config={"p_crash_reset": 1.0}).reset(0)


def test_construction_takes_the_time_that_init_time_s_asks_for():
    began = time.perf_counter()
    CrashingCartPoles(config={"init_time_s": 0.1})
    assert time.perf_counter() - began >= 0.1
