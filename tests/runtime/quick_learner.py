"""A learner without TensorFlow for runs in which what an update computes does not matter, only which batches it is of."""

import zlib

import numpy as np

from drl_cli.actors.running_filters import Observed
from drl_cli.policies.numpy_policy import DEFAULT_POLICY


class QuickLearner:
    """Has the methods of ``learner.Learner``. Each update moves all weights by a number that every bit of its batch decides."""

    def __init__(self, config, spec, graph, initial, identity, server):
        self._config, self._server, self._policy = config, server, identity.get("policy", DEFAULT_POLICY)
        self._scope, self._acting = self._policy + "/", spec.weight_names()
        self._arrays = {self._scope + name: np.array(value) for name, value in initial.items()}
        self._arrays[self._scope + "num_updates"] = np.array(0, np.int64)
        self._observed = Observed(spec, self, self._scope)
        self._pushed_at, self.version = 0, 1

    @property
    def _updates(self):
        return int(self._arrays[self._scope + "num_updates"])

    def get(self):
        return dict(self._arrays)

    def set(self, arrays):
        self._arrays |= arrays

    def prepare(self):
        return 0.0

    def observe(self, seen):
        self._observed.add(seen)

    def learn(self, block, count, env_steps):
        self._observed.write()
        weights = [n for n, a in self._arrays.items() if a.dtype == np.float32 and "/filter/" not in n]
        for update in range(count):
            digest = 0
            for name in sorted(block):
                digest = zlib.crc32(np.ascontiguousarray(block[name][update]), digest)
            for name in weights:
                self._arrays[name] = self._arrays[name] + np.float32((digest / 2**32 - 0.5) * 1e-3)
        self._arrays[self._scope + "num_updates"] = np.array(self._updates + count, np.int64)
        if self._updates - self._pushed_at >= self._config.publish_every:
            self._send(keep=False)
        result = {
            "updates": count,
            "stats": {"digest": float(digest)},
            "seconds": 1e-4 * count,
            "version": self.version,
        }
        if "serial" in block:
            result["serial"] = block["serial"][:count].ravel()
            result["priority"] = np.random.default_rng(digest).uniform(0.1, 2.0, result["serial"].shape)
        return result

    def _send(self, keep):
        self._observed.write()
        self._pushed_at, self.version = self._updates, self.version + 1
        acting = {name: self._arrays[self._scope + name] for name in self._acting}
        return self._server.call("push", {self._policy: acting}, keep)

    def push(self, keep=False):
        self._send(keep).result()
        return self.version

    def publish(self):
        self._send(keep=True).result()
        return self.version, self.state()

    def state(self):
        self._observed.write()
        return {name: array.copy() for name, array in self._arrays.items()}

    def load(self, arrays, version):
        assert set(arrays) >= set(self._arrays)
        self._arrays = {name: np.array(array) for name, array in arrays.items()}
        self._observed.read()
        self.version, self._pushed_at = version, self._updates
