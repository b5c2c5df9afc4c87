"""Environments with observations and actions of every kind; each observation tells the step, so that tests can follow."""

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Odd(gymnasium.Env):
    """Gives ``see(step)`` for observations, and its action back as the reward; notes what actions it was given."""

    metadata = {"render_modes": []}
    action_space = spaces.Discrete(2)
    given = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.see(0), {}

    def step(self, action):
        self.given.append(action)
        self.at += 1
        return self.see(self.at), float(np.sum(action)), False, False, {}


def register(name, observations, see, actions=None):
    """Register ``Odd-<name>-v0`` and return its id."""
    facts = {"observation_space": observations, "see": lambda self, step: see(step)}
    facts |= {"action_space": actions} if actions is not None else {}
    gymnasium.register(f"Odd-{name}-v0", entry_point=type(f"Odd{name}", (Odd,), facts))
    return f"Odd-{name}-v0"


def picture(shape, dtype=np.uint8):
    """Return a function of the step: an image full of it, but for its first pixel, which is 100 more."""

    def see(step):
        image = np.full(shape, step, dtype)
        image[0, 0] = 100 + step
        return image

    return see


def bytes_box(*shape):
    """Return the space of an image of bytes."""
    return spaces.Box(0, 255, shape, np.uint8)


register("number", spaces.Discrete(5), lambda step: np.int64(step % 5))
register("from3", BOX, lambda step: np.full(2, step, np.float32), spaces.Discrete(4, start=3))
register("box", BOX, lambda step: np.full(2, step, np.float32), spaces.Box(-1, 1, (3,), np.float32))
register("numbers", spaces.MultiDiscrete([2, 3]), lambda step: np.array([step % 2, step % 3]))
register("bits", spaces.MultiBinary(3), lambda step: np.array([1, 0, step % 2], np.int8))
register(
    "dict", spaces.Dict({"b": spaces.Discrete(2), "a": BOX}), lambda step: {"a": np.full(2, 0.5, np.float32), "b": 1}
)
register("tuple", spaces.Tuple((spaces.Discrete(3), BOX)), lambda step: (2, np.zeros(2, np.float32)))
register(
    "table", spaces.Box(0.0, 1.0, (2, 3), np.float32), lambda step: np.arange(6, dtype=np.float32).reshape(2, 3) / 6
)
register("scalar", spaces.Box(0.0, 9.0, (), np.float64), lambda step: np.float64(step))
register("double", spaces.Box(-1.0, 1.0, (2,), np.float64), lambda step: np.full(2, 1 / 3))
register("bytes", spaces.Box(0, 255, (4,), np.uint8), lambda step: np.array([0, 51, 204, 255], np.uint8))
register("sequence", spaces.Sequence(spaces.Discrete(3)), lambda step: (1, 2))
register("lie", spaces.Discrete(5), lambda step: np.zeros(2, np.float32))
register("empty", spaces.Box(0.0, 1.0, (0,), np.float32), lambda step: np.zeros(0, np.float32))
register("image", bytes_box(16, 16, 3), picture((16, 16, 3)))
register("gray", bytes_box(16, 12), picture((16, 12)))
register("onechannel", bytes_box(16, 12, 1), picture((16, 12, 1)))
register("four", bytes_box(16, 16, 4), picture((16, 16, 4)))
register("float", spaces.Box(0.0, 1.0, (8, 8, 3), np.float32), lambda step: np.full((8, 8, 3), 0.25, np.float32))
register("wrongtype", bytes_box(16, 16, 3), picture((16, 16, 3), np.float64))
register("multi", BOX, lambda step: np.zeros(2, np.float32), spaces.MultiDiscrete([2, 3]))
register("binary", BOX, lambda step: np.zeros(2, np.float32), spaces.MultiBinary(3))
register("dictaction", BOX, lambda step: np.zeros(2, np.float32), spaces.Dict({"a": spaces.Text(3)}))


class Lives(gymnasium.Env):
    """A game of three lives of four steps; it waits for FIRE (1), then for 2, before a life's steps count.

    Its image is full of the number of steps since the object was new, whatever they were. Action 3 ends the game.
    """

    observation_space = bytes_box(8, 8, 1)
    action_space = spaces.Discrete(4)
    metadata = {"render_modes": []}
    resets = []

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT", "LEFT"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append(seed)
        self.lives, self.left, self.waits_for = 3, 4, 1
        self.steps = 0 if seed is not None else self.steps
        return self._see(), {"lives": 3}

    def step(self, action):
        self.steps += 1
        reward = 0.0
        if self.waits_for:
            self.waits_for = {1: 2, 2: 0}[self.waits_for] if action == self.waits_for else self.waits_for
        else:
            reward, self.left = 1.0, self.left - 1
        if self.left == 0:
            self.lives, self.left, self.waits_for = self.lives - 1, 4, 1
        if action == 3:
            self.lives = 0
        return self._see(), reward, self.lives == 0, False, {"lives": self.lives}

    def _see(self):
        return np.full((8, 8, 1), self.steps, np.uint8)
