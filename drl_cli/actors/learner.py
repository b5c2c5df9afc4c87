"""Learner: owns the graph and its session, runs updates, pushes what it publishes to the parameter server.

TensorFlow is imported with this module, so it is loaded by its dotted name, in the thread or process that learns.
"""

import operator
import threading
import time

import numpy as np

from drl_cli.acting.policy import DEFAULT_POLICY
from drl_cli.actors.observed import Observed
from drl_cli.data.schedules import value_at
from drl_cli.errors import CheckpointError, Diverged, ResourcesExhausted
from drl_cli.loading import load
from drl_cli.tf1.repeat import repeated
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.weights import RAY_CLASS, Weights

SCOPE = DEFAULT_POLICY + "/"


class Learner:
    """Runs updates on blocks of batches. ``prepare`` must come before the first ``learn``."""

    def __init__(self, config, spec, graph, initial, identity, server):
        """``graph``: dotted name of the algorithm's graph module; ``initial``: {name: array} of its first weights.

        ``identity``: dict(seed, with_ray); ``server``: handle of the parameter server.
        """
        self._config, self._spec, self._server = config, spec, server
        self._module, self._initial, self._identity = graph, initial, identity
        self._updates = self._pushed_at = 0
        self._version = 1  # the first weights were pushed by whoever drew them

    def prepare(self):
        """Build and compile the graph without touching a weight; returns the seconds that it took."""
        began = time.perf_counter()
        config = self._config
        graph = tf.Graph()
        with graph.as_default(), tf.device("/GPU:0" if config.num_gpus else "/CPU:0"):
            built = load(self._module).build(config, self._spec, self._initial, self._identity["seed"], SCOPE)
            self._loop = repeated(built, config.updates_per_call, config.train_batch_size, config.xla)
            with tf.device("/CPU:0"):
                start = tf.variables_initializer(list(built.variables.values()))
        self._session = new_session(graph, config.tf_session_args.model_dump(exclude_none=True), config.num_gpus)
        self._session.run(start)
        # The compiler runs outside of Python: what has to be imported from Ray is imported beside it.
        beside = threading.Thread(target=load, args=(RAY_CLASS,)) if self._identity["with_ray"] else None
        if beside:
            beside.start()
        self._call({name: self._zeros(name) for name in self._loop.block}, 0, 0)
        if beside:
            beside.join()
        with graph.as_default():
            named = {variable.op.name: variable for variable in built.variables.values()}
            self._all = Weights(self._session, named, with_ray=False)
            published = {name: named[name] for name in built.published}
            self._published = Weights(self._session, published, self._identity["with_ray"])
            filters = {name: variable for name, variable in named.items() if name.startswith(SCOPE + "filter/")}
            self._observed = Observed(self._spec, Weights(self._session, filters, with_ray=False), SCOPE)
        graph.finalize()
        return time.perf_counter() - began

    def observe(self, seen):
        """Take note of what workers saw, a list of ``Token.seen``: it holds from the next update and the next push on."""
        self._observed.add(seen)

    def learn(self, block, count, env_steps):
        """Make ``count`` updates on the first batches of ``block`` (see ReplayBuffer.sample).

        ``env_steps`` places the learning rates on their schedules. Returns dict(updates, stats, seconds, version), and for
        a prioritized block ``serial`` [M] and ``priority`` [M] of the rows learnt from, and the block's ``least``.
        Raises Diverged when a loss or gradient is not finite; that update has not been applied.
        """
        began = time.perf_counter()
        self._observed.write()
        try:
            out = self._call(block, count, env_steps)
        except tf.errors.ResourceExhaustedError as error:
            raise ResourcesExhausted(f"TensorFlow ran out of memory: {error.message.splitlines()[0]}") from error
        self._updates += int(out["done"])
        if not out["finite"]:
            raise Diverged(
                f"Update {self._updates + 1} gave a loss or gradient that is not finite; it was not applied. Lower the "
                "learning rates, set grad_clip, or look for huge rewards."
            )
        if self._updates - self._pushed_at >= self._config.publish_every:
            self._push(keep=False)
        stats = {name: float(value) for name, value in out["stats"].items()}
        seconds = time.perf_counter() - began
        result = {"updates": int(out["done"]), "stats": stats, "seconds": seconds, "version": self._version}
        if "serial" in block and "priority" in out["rows"]:
            for name, rows in (("serial", block["serial"]), ("priority", out["rows"]["priority"])):
                result[name] = rows[: result["updates"]].ravel()
            result["least"] = float(block["least"])
        return result

    def publish(self):
        """Push the present weights to be scored; returns (version, state) of the same moment, for a checkpoint."""
        self._push(keep=True).result()
        return self._version, self.state()

    def push(self):
        """Push the present weights; returns their version."""
        self._push(keep=False).result()
        return self._version

    def state(self):
        """Return {name: array} of every variable: nets, targets, optimiser slots, temperature, counters."""
        self._observed.write()
        return self._all.get()

    def load(self, arrays, version):
        """Continue from ``state`` of a learner with the same nets, after the push of ``version``.

        CheckpointError when names or shapes differ.
        """
        try:
            self._all.set(arrays)
        except ValueError as error:
            raise CheckpointError(f"The checkpoint's weights do not fit this run's nets: {error}") from error
        self._observed.read()
        self._version = version
        self._updates = self._pushed_at = int(arrays[SCOPE + "num_updates"])

    def _push(self, keep):
        self._pushed_at = self._updates
        self._version += 1
        self._observed.write()
        acting = {name.removeprefix(SCOPE): value for name, value in self._published.get().items()}
        return self._server.call("push", {DEFAULT_POLICY: acting}, keep)

    def _call(self, block, count, env_steps):
        feeds = {self._loop.block[name]: block[name] for name in self._loop.block}
        feeds[self._loop.count] = count
        for name, placeholder in self._loop.rates.items():
            feeds[placeholder] = value_at(operator.attrgetter(name)(self._config), env_steps)
        return self._session.run(self._loop.fetches, feeds)

    def _zeros(self, name):
        placeholder = self._loop.block[name]
        return np.zeros(placeholder.shape.as_list(), placeholder.dtype.as_numpy_dtype)
