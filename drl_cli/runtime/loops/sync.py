"""The loop of synchronous algorithms: all workers sample with one version of the weights, then all of it is learnt from.

A batch is a fixed number of fragments, or, of complete episodes, as many as bring ``train_batch_size`` env steps. Every
fragment that was asked for is learnt from, whoever brought it and however late: a batch of the quickest would hold too many
short episodes. What a dying worker had under way is asked for again, of its successor or of whoever is free: a batch is
never smaller. A fragment of older weights is dropped and counted.

The first batch is collected while the learner loads TensorFlow. Between iterations a run without workers stands still with
nothing in hand: a batch that has been begun is completed and learnt from.
"""

import math

from drl_cli.runtime.loops.ledger import Ledger


def make(cluster, pool, replay, learner, config):
    """Return the loop over these parts; ``replay`` is not used."""
    return SyncLoop(cluster, pool, learner, config)


class SyncLoop:
    """``step`` does what can be done and waits for one thing to happen."""

    def __init__(self, cluster, pool, learner, config):
        """``learner``: handle of a BatchLearner; ``pool``: WorkerPool."""
        self._cluster, self._pool, self._learner, self._config = cluster, pool, learner, config
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length  # least env steps of one
        self._fragments = math.ceil(config.train_batch_size / self._fragment)
        self._batch = []  # (token, columns reference) in hand
        self._running = None  # reference of the learner's call
        self._ready, self._started = None, False
        self._ledger = Ledger(config)
        self._floor = 1  # version of the weights that the batch is sampled with; newer ones are the same weights
        self._dropped = 0

    def start(self):
        """Let the learner build its graph; sampling can begin at once."""
        streams = self._fragments * self._config.num_envs_per_worker
        self._ready = self._learner.call("prepare", streams, self._config.rollout_fragment_length)
        self._started = True

    @property
    def meters(self):
        """Meters of the run."""
        return self._ledger.meters

    @property
    def sampled(self):
        """Env steps sampled."""
        return self._ledger.sampled

    @property
    def updates(self):
        """Gradient steps taken."""
        return self._ledger.updates

    @property
    def stored(self):
        """Env steps of the batch in hand."""
        return sum(token.steps for token, _ in self._batch)

    @property
    def is_learning(self):
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self):
        """Env steps learnt from, however many passes were made over them."""
        return self._ledger.trained

    def step(self, timeout=0.25):
        """Ask for what is missing, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._request()
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._learn()
        self._pool.watch()

    def quiesce(self):
        """Complete a batch that has been begun and learn from it: afterwards no call is outstanding, nothing in hand."""
        while self._pending() or self._batch:
            if self._batch or self._pool.outstanding:
                self._request()
            self._deal(self._cluster.wait(self._pending(), 0.25))
            self._learn()
            self._pool.watch()

    def settle(self):
        """Deal with the batch that is being learnt from: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running])

    def waiting(self):
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers for the learner to load"
        return "learner for samples" if self._running is None else "workers for the learner"

    def info(self):
        """Return what a result says of this loop."""
        return {"fragments_dropped": self._dropped}

    def _pending(self):
        # Without Ray what is sampled comes before the learner, whether it has loaded by then or not.
        last = [reference for reference in (self._running, self._ready) if reference is not None]
        return self._pool.references() + last

    def _missing(self):
        """Fragments that are to be asked for still; of complete episodes at most, since each may bring more steps."""
        if self._config.batch_mode == "complete_episodes":
            wanted = math.ceil((self._config.train_batch_size - self.stored) / self._fragment)
        else:
            wanted = self._fragments - len(self._batch)
        return max(0, wanted - self._pool.outstanding)

    def _request(self):
        if self._running is None and self._missing():
            self._pool.request(self._missing(), min_version=self._floor)

    def _learn(self):
        whole = self._batch and not self._pool.outstanding and not self._missing()
        if self._running is not None or self._ready is not None or not whole:
            return
        # In the order of the workers, not of arrival: the same fragments make the same batch.
        batch = sorted(self._batch, key=lambda entry: entry[0].meta[:3])
        self._batch = []
        seen = [getattr(token, "seen", None) for token, _ in batch]
        self._running = self._learner.call("learn", self.sampled, seen, *[columns for _, columns in batch])

    def _deal(self, done):
        for reference in done:
            if reference is self._running:
                self._running, result = None, reference.result()
                self._ledger.learnt(result, result["steps"])
                self._floor = result["version"]
            elif reference is self._ready:
                self._ready = None
                self._ledger.loaded(reference.result())
            else:
                self._take(reference)
        self._pool.lost_workers.clear()  # a fragment is whole in itself: no stream goes on from one to the next

    def _take(self, reference):
        taken = self._pool.take(reference)
        if taken is None:
            return
        token, columns = taken
        if token.meta.version < self._floor:
            self._dropped += 1
            return
        self._ledger.took(token)
        self._batch.append((token, columns))

    def state(self):
        """Return the counters that a checkpoint keeps, as plain data."""
        return self._ledger.state() | {"dropped": self._dropped}

    def load(self, facts, with_replay):
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self._ledger.load(facts)
        self._dropped = facts["dropped"]
        self._floor = self.meters.version
