"""gymnasium environments with Tuple spaces and a list of rewards."""

import gymnasium
import numpy as np
import pytest

from drl_cli.envs.multi_agent.dictionary import DictionaryEnv
from drl_cli.envs.multi_agent.tuples import TupleAgents
from drl_cli.errors import EnvError


class Pair(gymnasium.Env):
    """Two agents; the second one's action space has four actions."""

    observation_space = gymnasium.spaces.Tuple([gymnasium.spaces.Box(-1, 1, (2,), np.float64)] * 2)
    action_space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(4)])
    answer = ([0.5, 1], False, False)

    def reset(self, *, seed=None, options=None):
        return (np.zeros(2), np.ones(2)), {}

    def step(self, actions):
        self.given = actions
        return (np.zeros(2), np.ones(2)), *self.answer, {"step": 1}


def test_each_part_of_a_tuple_is_an_agent():
    env = DictionaryEnv(TupleAgents(Pair()))
    assert env.agents == ["0", "1"] and [env.spaces(agent)["action"]["n"] for agent in env.agents] == [2, 4]
    step = env.reset(0)
    assert step.obs["1"].dtype == np.float32 and step.acting() == ["0", "1"]
    step = env.step({"1": np.int64(3), "0": np.int64(1)})
    assert env._env._env.given == (1, 3) and step.rewards == {"0": 0.5, "1": 1.0} and step.infos["0"] == {"step": 1}


@pytest.mark.parametrize(
    ("ends", "terminated", "truncated"),
    [((True, False), ["0", "1"], []), (([False, True], False), ["1"], []), ((False, True), [], ["0", "1"])],
)
def test_end_is_one_for_all_or_one_for_each(ends, terminated, truncated):
    pair = Pair()
    pair.answer = ([0, 0], *ends)
    env = DictionaryEnv(TupleAgents(pair))
    env.reset(0)
    step = env.step({"0": np.int64(0), "1": np.int64(0)})
    assert (sorted(step.terminated), sorted(step.truncated)) == (terminated, truncated)


@pytest.mark.parametrize("reward", [1.0, [1.0]])
def test_reward_for_another_number_of_agents_is_an_error(reward):
    pair = Pair()
    pair.answer = (reward, False, False)
    env = DictionaryEnv(TupleAgents(pair))
    env.reset(0)
    with pytest.raises(EnvError, match="its rewards are .*; one of each of 2 agents is needed"):
        env.step({"0": np.int64(0), "1": np.int64(0)})
