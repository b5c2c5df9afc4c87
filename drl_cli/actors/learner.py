"""Learner: owns the graph and its session, runs updates, pushes what it publishes to the parameter server.

TensorFlow is imported with this module, so it is loaded by its dotted name, in the thread or process that learns.
"""

import time

import numpy as np

from drl_cli.actors.session_state import Trained
from drl_cli.tf1.repeat import repeated


class Learner:
    """Runs updates on blocks of batches. ``prepare`` must come before the first ``learn``."""

    def __init__(self, config, spec, graph, initial, identity, server):
        """See ``Trained``; ``graph``: dotted name of the algorithm's graph module, which builds a LearnerGraph."""
        self._config = config
        self._trained = Trained(config, spec, graph, initial, identity, server)
        self._loop = None
        self.publish, self.push = self._trained.publish, self._trained.push
        self.state, self.load = self._trained.state, self._trained.load
        self.observe = self._trained.observe

    def prepare(self):
        """Build and compile the graph without touching a weight; returns the seconds that it took."""
        began = time.perf_counter()

        def add(built):
            self._loop = repeated(built, self._config.updates_per_call, self._config.train_batch_size, self._config.xla)

        self._trained.open(add, lambda: self._call({name: self._zeros(name) for name in self._loop.block}, 0, 0))
        self._trained.graph.finalize()
        return time.perf_counter() - began

    def learn(self, block, count, env_steps):
        """Make ``count`` updates on the first batches of ``block`` (see ReplayBuffer.sample).

        ``env_steps`` places the learning rates on their schedules. Returns dict(updates, stats, seconds, version), and for
        a prioritized block ``serial`` [M] and ``priority`` [M] of the rows learnt from.
        Raises Diverged when a loss or gradient is not finite; that update has not been applied.
        """
        began = time.perf_counter()
        self._trained.filter_anew()
        out = self._call(block, count, env_steps)
        self._trained.made(out["done"], out["finite"])
        if self._trained.unpushed >= self._config.publish_every:
            self._trained.send(keep=False)
        stats = {name: float(value) for name, value in out["stats"].items()}
        seconds = time.perf_counter() - began
        result = {"updates": int(out["done"]), "stats": stats, "seconds": seconds, "version": self._trained.version}
        if "serial" in block and "priority" in out["rows"]:
            for name, rows in (("serial", block["serial"]), ("priority", out["rows"]["priority"])):
                result[name] = rows[: result["updates"]].ravel()
        return result

    def _call(self, block, count, env_steps):
        feeds = {self._loop.block[name]: block[name] for name in self._loop.block}
        feeds[self._loop.count] = count
        return self._trained.run(self._loop.fetches, feeds, self._loop.rates, env_steps)

    def _zeros(self, name):
        placeholder = self._loop.block[name]
        return np.zeros(placeholder.shape.as_list(), placeholder.dtype.as_numpy_dtype)
