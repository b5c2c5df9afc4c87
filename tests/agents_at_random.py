"""An environment whose agents join late, wait, end early and break off, with a slow list of what each of them lived through."""

import itertools

import numpy as np

from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv

AGENTS = ("a", "b", "c")
SPACES = {
    "obs": {"kind": "Box", "shape": [1], "dtype": "float32", "low": None, "high": None},
    "action": {"kind": "Discrete", "n": 3, "start": 0, "shape": [], "dtype": "int64"},
}


class AtRandom(MultiAgentEnv):
    """Every observation is a number of its own; ``lived`` lists the steps of all agents, in the order in which they closed."""

    agents = AGENTS
    is_turn_based = False
    numbers = itertools.count(1)

    def __init__(self, breaks=0.0, always=False):
        """``breaks``: chance that a step raises; ``always``: every living agent acts at every step."""
        self.breaks, self.always = breaks, always
        self.lived = []  # dicts: agent, obs, action, reward, after, end (None, "terminated", "truncated" or "broken")
        self.open = {}
        self.notes = []
        self.resets = 0

    def spaces(self, agent):
        return SPACES

    def reset(self, seed=None):
        self._break_off()
        self.resets += 1
        self.rng = np.random.default_rng(seed)
        self.living, self.done, self.t = {}, set(), 0
        joining = set(AGENTS) if self.always else {"a"}
        return self._step({}, joining, {}, set(), set())

    def _break_off(self):
        """The steps that are under way never happened; what came before them was cut short."""
        self.open = {}
        for agent in AGENTS:
            mine = [one for one in self.lived if one["agent"] == agent]
            if mine and mine[-1]["end"] is None:
                mine[-1]["end"] = "broken"

    def step(self, actions):
        assert set(actions) == self.acting
        self.t += 1
        if self.rng.random() < self.breaks:
            self._break_off()
            raise RuntimeError("broken on purpose")
        for agent, action in actions.items():
            self.open[agent] = {"agent": agent, "obs": self.living[agent], "action": int(action), "reward": 0.0}
        rewards = {agent: float(np.float32(self.rng.normal())) for agent in self.living if self.rng.random() < 0.8}
        for agent, reward in rewards.items():
            if agent in self.open:
                self.open[agent]["reward"] += reward
        ends = {agent for agent in self.living if self.rng.random() < 0.08}
        cut = {agent for agent in ends if self.rng.random() < 0.4}
        staying = set(self.living) - ends
        seen = {agent for agent in staying if self.always or self.rng.random() < 0.6}
        joining = {
            agent for agent in AGENTS if agent not in self.living and agent not in self.done and self.rng.random() < 0.3
        }
        if not seen and not joining:
            seen = staying
        return self._step(rewards, seen | joining, actions, ends - cut, cut)

    def _step(self, rewards, seen, actions, terminated, truncated):
        obs = {agent: next(self.numbers) for agent in AGENTS if agent in seen | terminated | truncated}
        for agent, number in obs.items():
            if agent in self.open:
                end = "terminated" if agent in terminated else "truncated" if agent in truncated else None
                self.lived.append({**self.open.pop(agent), "after": number, "end": end})
        for agent in terminated | truncated:
            self.living.pop(agent)
            self.done.add(agent)
        for agent in seen:
            self.living[agent] = obs[agent]
        self.acting = set(seen)
        is_over = not self.living
        arrays = {agent: np.float32([number]) for agent, number in obs.items()}
        return AgentsStep(arrays, rewards, frozenset(terminated), frozenset(truncated), is_over, {})

    def render(self):
        return None

    def close(self):
        self._break_off()
