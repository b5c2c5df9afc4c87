"""An environment keyed by agent that returns what it is given, for tests of what environments leave out."""

import gymnasium
import numpy as np

from drl_cli.envs.multi_agent.dictionary import DictionaryEnv

BOX, TWO = gymnasium.spaces.Box(-10, 10, (1,), np.float32), gymnasium.spaces.Discrete(2)


class Scripted:
    """Returns ``steps`` one after another; each is (obs, rewards, terminated, truncated[, agents who are left])."""

    observation_space, action_space = BOX, TWO

    def __init__(self, start, *steps, agents=("a", "b")):
        self.possible_agents, self.agents = list(agents), list(agents)
        self._start, self._steps = start, steps
        self.given = []

    def reset(self, seed=None):
        self._left, self.agents = iter(self._steps), list(self.possible_agents)
        return seen(self._start), {}

    def step(self, actions):
        self.given.append(actions)
        obs, rewards, terminated, truncated, *present = next(self._left)
        if present:
            self.agents = present[0]
        return seen(obs), rewards, terminated, truncated, {}


def seen(numbers):
    """Return observations of one number each."""
    return {agent: None if one is None else np.array([one], np.float32) for agent, one in numbers.items()}


def opened(start, *steps, agents=("a", "b"), **options):
    """Return a DictionaryEnv of a script that has begun, and its first step."""
    env = DictionaryEnv(Scripted(start, *steps, agents=agents), **options)
    return env, env.reset(0)


def acts(step):
    """Return an action for all who act."""
    return dict.fromkeys(step.acting(), np.int64(1))


def plain(step):
    """Return (obs, rewards, terminated, truncated, is_over) in plain Python."""
    obs = {agent: one.item() for agent, one in step.obs.items()}
    return obs, dict(step.rewards), sorted(step.terminated), sorted(step.truncated), step.is_over
