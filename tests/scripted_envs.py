"""An environment that plays a script, episode by episode, and breaks where the script says so."""

import gymnasium
import numpy as np

LOW, HIGH = -2.0, 4.0
ENV = {"id": "Scripted-v0", "env_config": {}, "imports": ()}


class Scripted(gymnasium.Env):
    """Every reset begins the next entry of ``plan``; when that is used up, an episode without end.

    An entry is a dict: ``ends`` (step, "terminated" | "truncated" | both), ``breaks`` (step, how), ``reset`` how. Obs
    are [episode, step], rewards 100·episode + step.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(LOW, HIGH, (1,), np.float32)
    metadata = {"render_modes": []}
    plan = []
    made = begun = 0
    seeds = []
    actions = []

    @classmethod
    def begin(cls, *plan):
        """Forget everything and play ``plan`` from now on."""
        cls.plan, cls.made, cls.begun, cls.seeds, cls.actions = list(plan), 0, 0, [], []

    def __init__(self, render_mode=None):
        type(self).made += 1
        self.is_closed = False

    def _obs(self):
        return np.float32([self.episode, self.at])

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.script = self.plan[self.begun] if self.begun < len(self.plan) else {}
        self.episode, self.at = self.begun, 0
        type(self).begun += 1
        how = self.script.get("reset")
        if how == "raise":
            raise RuntimeError(f"no start for episode {self.episode}")
        if how == "nan":
            return np.float32([np.nan, 0]), {}
        if how == "shape":
            return np.zeros(3, np.float32), {}
        return self._obs(), {}

    def step(self, action):
        self.actions.append(action.copy())
        at, how = self.script.get("breaks", (None, None))
        obs, reward = None, 100.0 * self.episode + self.at
        if self.at == at:
            if how == "raise":
                raise RuntimeError(f"motor of episode {self.episode} burnt")
            if how == "exit":
                raise SystemExit(3)
            obs = {"nan obs": np.float32([np.nan, 0]), "shape": np.zeros(1, np.float32)}.get(how)
            reward = {"nan reward": np.nan, "inf reward": np.inf, "word": "much"}.get(how, reward)
        if self.script.get("writes to its action"):
            action[:] = 77.0
        self.at += 1
        end, kind = self.script.get("ends", (None, ""))
        ended = self.at == end
        reward = np.array([reward]) if self.script.get("reward") == "array" else reward
        obs = self._obs() if obs is None else obs
        return obs, reward, ended and "terminated" in kind, ended and "truncated" in kind, {}

    def close(self):
        self.is_closed = True


gymnasium.register("Scripted-v0", entry_point=Scripted)
