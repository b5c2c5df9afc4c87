"""A slow list of episodes beside ``experience.ring_buffer``: streams of numbered observations, cut into fragments of
any length."""

import numpy as np


class Worker:
    """Streams of N environments whose every observation has a number of its own.

    ``fragment(steps)`` returns the columns of the next steps and remembers them as episodes; ``transitions`` lists what a
    replay may draw, by walking over those episodes one at a time.
    """

    numbers = 0  # given to observations so far, over all workers

    def __init__(self, seed, envs, end=0.2, lengths=None):
        """``end``: probability that a step ends its episode; ``lengths``: [(steps, kind)…] for every environment instead."""
        self.rng = [np.random.default_rng([seed, env]) for env in range(envs)]
        self.envs, self.end = envs, end
        self.lengths = [list(lengths or ()) for _ in range(envs)]
        self.open = [None] * envs  # the running episode of each environment
        self.episodes = []
        self.obs = [self._number() for _ in range(envs)]

    def _number(self):
        Worker.numbers += 1
        return Worker.numbers

    def cut(self, env):
        """End the running episode where it is, as a lost stream does."""
        if self.open[env] is not None:
            self.open[env]["kind"] = "cut"
        self.open[env] = None
        self.obs[env] = self._number()

    def fragment(self, steps, cut=()):
        """Return columns of ``steps`` steps; the streams of the environments in ``cut`` begin anew before them."""
        for env in cut:
            self.cut(env)
        shape = (steps, self.envs)
        columns = {
            "obs": np.zeros((*shape, 1), np.float32),
            "action": np.zeros((*shape, 1), np.float32),
            "reward": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
        }
        ends = []
        for step in range(steps):
            for env in range(self.envs):
                self._step(step, env, columns, ends)
        columns["end_obs"] = np.float32(ends).reshape(-1, 1)
        columns["tail_obs"] = np.float32(self.obs).reshape(-1, 1)
        columns["cut"] = np.isin(np.arange(self.envs), list(cut))
        return columns

    def _step(self, step, env, columns, ends):
        if self.open[env] is None:
            self.open[env] = {"steps": [], "kind": None, "after": None}
            self.episodes.append(self.open[env])
        episode, reward, kind = self.open[env], self.rng[env].normal(), self._ending(env)
        columns["obs"][step, env], columns["action"][step, env] = self.obs[env], -self.obs[env]
        columns["reward"][step, env] = reward
        episode["steps"].append((self.obs[env], float(np.float32(reward))))
        self.obs[env] = self._number()
        episode["after"] = self.obs[env]
        if kind is None:
            return
        for column in ("terminated", "truncated"):
            columns[column][step, env] = column in kind
        episode["kind"] = kind
        ends.append([self.obs[env]])
        self.open[env], self.obs[env] = None, self._number()

    def _ending(self, env):
        chance, which = self.rng[env].random(), self.rng[env].integers(3)
        if not self.lengths[env]:
            return ("terminated", "truncated", "terminated truncated")[which] if chance < self.end else None
        steps, kind = self.lengths[env][0]
        if len(self.open[env]["steps"]) < steps - 1:
            return None
        del self.lengths[env][0]
        return kind

    def transitions(self, n_step, gamma):
        """Return {number of the first observation: (reward, discount, number of the observation behind the window)}."""
        found = {}
        for episode in self.episodes:
            steps, kind = episode["steps"], episode["kind"]
            for first in range(len(steps)):
                window = steps[first : first + n_step]
                ends = first + len(window) == len(steps)
                if ends and kind is None:
                    continue  # what comes behind it has not been seen as a step yet
                reward = sum(gamma**power * r for power, (_, r) in enumerate(window))
                dead = ends and "terminated" in kind
                behind = episode["after"] if ends else steps[first + len(window)][0]
                found[steps[first][0]] = (reward, 0.0 if dead else gamma ** len(window), behind)
        return found

    def stacks(self, frames):
        """Return {number of an observation: the numbers of its stack, the oldest first}, the ones behind ends included."""
        found = {}
        for episode in self.episodes:
            numbers = [number for number, _ in episode["steps"]] + [episode["after"]]
            for place, number in enumerate(numbers):
                found[number] = [numbers[max(0, place - back)] for back in reversed(range(frames))]
        return found


def as_images(columns):
    """Return ``columns`` with every observation as a uint8 image [2, 2, 1] whose four bytes are its number."""
    images = {
        name: columns[name].astype("<u4").view(np.uint8).reshape(*columns[name].shape[:-1], 2, 2, 1)
        for name in ("obs", "end_obs", "tail_obs")
    }
    return columns | images


def numbers_in(stacks):
    """Return the numbers [M, frames] in the stacks [M, 2, 2, frames] of such images."""
    frames = np.moveaxis(stacks, -1, 1).reshape(len(stacks), stacks.shape[-1], 4)
    return np.ascontiguousarray(frames).view("<u4")[..., 0].astype(np.int64)
