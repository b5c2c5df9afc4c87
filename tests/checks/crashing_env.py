"""An environment whose constructor kills its process; importing this registers it."""

import os

import gymnasium


class Crash(gymnasium.Env):
    def __init__(self):
        os.kill(os.getpid(), 9)


gymnasium.register("Crash-v0", Crash)
