"""Environments with one flaw each, for ``drl env check``; importing this registers them."""

import os
import threading
import time

import gymnasium
import numpy as np


class Sound(gymnasium.Env):
    """A walk on a line, of 40 to 60 steps; everything as it should be."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps, self.end = self.np_random.uniform(-1, 1), 0, int(self.np_random.integers(40, 60))
        return self.seen(), {}

    def step(self, action):
        self.at += 0.1 * (2 * int(action) - 1)
        self.steps += 1
        return self.seen(), self.at, self.steps >= self.end, False, {}

    def seen(self):
        return np.array([self.at, self.steps], np.float32)


class Unseeded(Sound):
    def seen(self):
        return np.array([np.random.uniform(), self.steps], np.float32)


class Hashing(Sound):
    """Depends on the hash of a text, which differs between processes."""

    def seen(self):
        return np.array([self.at, hash("text") % 2**24 / 2**18], np.float32)  # in [0, 64), whole in float32


class Remembering(Sound):
    before = 0

    def reset(self, seed=None, options=None):
        self.before += 1
        return super().reset(seed=seed)

    def seen(self):
        return np.array([self.at, self.before], np.float32)


class KeepsCount(Sound):
    """Counts episodes, which changes nothing."""

    before = 0

    def reset(self, seed=None, options=None):
        self.before += 1
        return super().reset(seed=seed)


class Heavy(Sound):
    """Takes long to make."""

    def __init__(self):
        time.sleep(0.2)  # plays a simulator that loads its scene: the check measures how long


class Outside(Sound):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)


class NotFinite(Sound):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self.steps == 7 else reward, *rest


class Timed(Sound):
    """Tells its time limit as an end."""

    def reset(self, seed=None, options=None):
        told = super().reset(seed=seed)
        self.end = 50
        return told


class Endless(Sound):
    def step(self, action):
        return *super().step(action)[:2], False, False, {}


class Dying(Sound):
    def step(self, action):
        if self.steps == 5:
            os.kill(os.getpid(), 9)
        return super().step(action)


class Hanging(Sound):
    def step(self, action):
        threading.Event().wait()


for flaw in (
    Sound,
    Unseeded,
    Hashing,
    Remembering,
    KeepsCount,
    Heavy,
    Outside,
    NotFinite,
    Timed,
    Endless,
    Dying,
    Hanging,
):
    gymnasium.register(f"{flaw.__name__}-v0", flaw)
