"""Small environments whose agents act at once: Rashid's two-step game, and one whose agents end at different times."""

import gymnasium
import numpy as np

from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.envs.multi_agent.team import TeamEnv

PAYOFF = {"A": ((7.0, 7.0), (7.0, 7.0)), "B": ((0.0, 1.0), (1.0, 8.0))}
STATES = ("first", "A", "B")


def vector(size):
    """Return the description of a vector of ``size`` numbers."""
    return {"kind": "Box", "shape": [size], "dtype": "float32", "low": None, "high": None}


def discrete(n, start=0):
    """Return the description of ``n`` actions."""
    return {"kind": "Discrete", "n": n, "start": start, "shape": [], "dtype": "int64"}


def box(low, high, size):
    """Return the description of a Box of ``size`` dimensions."""
    return {"kind": "Box", "shape": [size], "dtype": "float32", "low": [low] * size, "high": [high] * size}


class TwoStep(MultiAgentEnv):
    """The first agent's action leads to game A, where all is worth 7, or to B, whose best is worth 8."""

    agents = ("one", "two")
    is_turn_based = False

    notes = ()

    def spaces(self, agent):
        return {"obs": vector(3), "action": discrete(2)}

    def reset(self, seed=None):
        self.at = "first"
        return self._step(0.0, over=False)

    def step(self, actions):
        if self.at == "first":
            self.at = "AB"[int(actions["one"])]
            return self._step(0.0, over=False)
        return self._step(PAYOFF[self.at][int(actions["one"])][int(actions["two"])], over=True)

    def _step(self, reward, over):
        ended = frozenset(self.agents if over else ())
        obs = {agent: self.state() for agent in self.agents}
        # A reward of the team, half of it each.
        return AgentsStep(obs, dict.fromkeys(self.agents, reward / 2), ended, frozenset(), over, {})

    def state(self):
        return np.eye(3, dtype=np.float32)[STATES.index(self.at)]

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)

    def close(self):
        pass


class Odd(MultiAgentEnv):
    """Three agents of 2, 3 and 2 numbers and 2, 4 and 3 actions; "a" ends after 2 steps, "b" and "c" after ``length``.

    Observations are (step, agent, …), rewards 1, 10 and 100 a step to those that act; ``cut``: it ends by a time limit. The
    first number of ``mask`` says which action of "b" alone is allowed, None for all.
    """

    agents = ("a", "b", "c")
    is_turn_based = False
    notes = ()
    sizes, counts = (2, 3, 2), (2, 4, 3)

    def __init__(self, length=4, cut=False, box_actions=False, mask=None):
        self.length, self.cut, self.box, self.mask = length, cut, box_actions, mask
        self.taken = []

    def spaces(self, agent):
        index = self.agents.index(agent)
        n = self.counts[index]
        action = box(-2.0, 4.0, n) if self.box else discrete(n, start=index)
        found = {"obs": vector(self.sizes[index]), "action": action}
        if self.mask is not None and agent == "b":
            found = {"obs": vector(self.sizes[index] + n), "action": action, "mask": [self.sizes[index], n]}
        return found

    def reset(self, seed=None):
        self.at, self.living = 0, list(self.agents)
        return AgentsStep({a: self._seen(a) for a in self.living}, {}, frozenset(), frozenset(), False, {})

    def step(self, actions):
        assert list(actions) == self.living
        self.taken.append(actions)
        self.at += 1
        rewards = {agent: 10.0 ** self.agents.index(agent) for agent in self.living}
        over = self.at == self.length
        ended = frozenset(self.living) if over else frozenset({"a"}) if self.at == 2 else frozenset()
        obs = {agent: self._seen(agent) for agent in self.living}
        self.living = [agent for agent in self.living if agent not in ended]
        ends = (frozenset(), ended) if over and self.cut else (ended, frozenset())
        return AgentsStep(obs, rewards, *ends, over, {})

    def _seen(self, agent):
        index = self.agents.index(agent)
        seen = [self.at + 1.0, index, *([0.5] * (self.sizes[index] - 2))]
        if self.mask is not None and agent == "b":
            seen += [float(action == self.mask) for action in range(self.counts[index])]
        return np.float32(seen)

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)

    def close(self):
        pass


class Recall(MultiAgentEnv):
    """Each of two agents sees a sign, 1 or -1, then nothing; the team is paid 1 where both then act by their own signs.

    What an agent sees in its second step does not depend on its sign, so that without memory the mean return is 1/4.
    """

    agents = ("one", "two")
    is_turn_based = False
    notes = ()

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def spaces(self, agent):
        return {"obs": vector(2), "action": discrete(2)}

    def reset(self, seed=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.signs, self.at = dict(zip(self.agents, self.rng.integers(0, 2, 2), strict=True)), 0
        return self._step({agent: [2.0 * sign - 1.0, 0.0] for agent, sign in self.signs.items()}, 0.0)

    def step(self, actions):
        self.at += 1
        right = all(int(actions[agent]) == self.signs[agent] for agent in self.agents)
        return self._step(dict.fromkeys(self.agents, [0.0, 1.0]), float(self.at == 2 and right))

    def _step(self, obs, reward):
        over = self.at == 2
        ended = frozenset(self.agents if over else ())
        given = {agent: np.float32(seen) for agent, seen in obs.items()}
        return AgentsStep(given, dict.fromkeys(self.agents, reward / 2), ended, frozenset(), over, {})

    def state(self):
        return np.float32([self.signs[agent] for agent in self.agents])

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)

    def close(self):
        pass


gymnasium.register("RecallTeam-v0", entry_point=lambda **keys: TeamEnv(Recall(), **keys))
gymnasium.register("TwoStepTeam-v0", entry_point=lambda **keys: TeamEnv(TwoStep(), **keys))
gymnasium.register("OddTeam-v0", entry_point=lambda render_mode=None, **keys: TeamEnv(Odd(**keys)))
