"""Environments that break a rule of gymnasium each, late in a run, which a trial before the run does not see."""

import os
import signal
import sys
import threading
import traceback

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Well(gymnasium.Env):
    """Behaves; the others change one thing."""

    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Discrete(2)
    metadata = {"render_modes": []}
    made = 0  # episodes begun in this process, by all

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        type(self).made += 1
        self.late, self.at = type(self).made > 40, 0
        return self.begin() if self.late else np.zeros(3, np.float32), {}

    def step(self, action):
        self.at += 1
        out = (np.full(3, 0.1 * self.at, np.float32), 1.0, self.at == 8, False, {})
        return self.badly(*out) if self.late and self.at == 5 else out

    def begin(self):
        return np.zeros(3, np.float32)

    def badly(self, *out):
        return out


class NanObs(Well):
    def badly(self, obs, *rest):
        return obs * np.nan, *rest


class InfReward(Well):
    def badly(self, obs, reward, *rest):
        return obs, np.inf, *rest


class TextReward(Well):
    def badly(self, obs, reward, *rest):
        return obs, "many", *rest


class NoReward(Well):
    def badly(self, obs, reward, *rest):
        return obs, None, *rest


class LongObs(Well):
    def badly(self, obs, *rest):
        return np.zeros(4, np.float32), *rest


class TextObs(Well):
    def badly(self, obs, *rest):
        return np.array(["a", "b", "c"]), *rest


class NoObs(Well):
    def badly(self, obs, *rest):
        return None, *rest


class DoubleObs(Well):
    def badly(self, obs, *rest):
        return obs.astype(np.float64), *rest


class OtherReset(Well):
    def begin(self):
        return np.zeros((2, 2), np.float32)


class FourResults(Well):
    def badly(self, *out):
        return out[:4]


class NoInfo(Well):
    def badly(self, *out):
        return *out[:4], None


class Raises(Well):
    def badly(self, *out):
        raise RuntimeError("two\nlines " + "x" * 5000)


class Exits(Well):
    def badly(self, *out):
        sys.exit(7)


class OtherSpaces(Well):
    def begin(self):
        self.observation_space = Box(-1.0, 1.0, (type(self).made,), np.float32)
        return np.zeros(type(self).made, np.float32)


class Prints(Well):
    def badly(self, *out):
        print("x" * 2**16)
        return out


class Collects(Well):
    def badly(self, *out):
        raise MemoryError


class RaisesOnClose(Well):
    def close(self):
        raise RuntimeError("cannot be closed")


class HangsOnClose(Well):
    def close(self):
        if self.late:
            threading.Event().wait()


class HangsInReset(Well):
    def begin(self):
        return threading.Event().wait()


class HangsInStep(Well):
    def badly(self, *out):
        return threading.Event().wait()


class RaisesAndHangsOnClose(Raises):
    """Hangs when the run that its errors have ended is closed, not in the closes before."""

    def close(self):
        if any(frame.name == "close" and frame.filename.endswith("driver.py") for frame in traceback.extract_stack()):
            threading.Event().wait()


class HangsOnCloseBetweenEpisodes(Raises):
    close = HangsOnClose.close


class Leaks(Well):
    kept = []

    def badly(self, *out):
        self.kept.append(np.ones(250_000, np.int8))
        return out


class Forks(Well):
    def badly(self, *out):
        if not (child := os.fork()):
            signal.pause()  # until the test ends it
        with open(os.environ["FORKED"], "a") as file:
            print(child, file=file)
        return out


class ExitsAtOnce(Well):
    def badly(self, *out):
        os._exit(7)


for _kind in (Well, RaisesAndHangsOnClose, HangsOnCloseBetweenEpisodes, *Well.__subclasses__()):
    gymnasium.register(f"Misbehaving{_kind.__name__}-v0", entry_point=_kind)
