"""The loop of IMPALA and APPO: a bounded stream of trajectories, which nobody waits for at the other end of.

Workers act with the newest weights they have heard of and are asked for the next fragment at once; fragments come in
completion order, of mixed versions, and a batch is the oldest ``train_batch_size`` steps of them. Back-pressure: while
``learner_queue_size`` batches' worth wait or are under way, workers are not asked for more (one fragment each is always
allowed, or nothing would ever fill a batch). That bounds how old a step can be when it is learnt from, which is what
V-trace has to correct for; ``staleness`` is reported, in versions.

Without workers it is the same loop in one process: fragments are taken in the order of the calls, and a worker adopts no
weights but those of updates that have been dealt with, so that a run repeats bit for bit. Between iterations such a run
stands still with nothing in the queue: a batch that has been begun is completed and learnt from.

Source: Espeholt et al. 2018, "IMPALA" (arXiv 1802.01561), section 3; replay and the minibatch buffer as in RLlib's
execution plan (MixInReplay, MinibatchBuffer).
"""

import collections
import math
import time

from drl_cli.configs.impala import passes_per_call
from drl_cli.data.randomness import generator, set_state, state_of
from drl_cli.errors import RunFailed
from drl_cli.runtime.loops.ledger import Ledger


def make(cluster, pool, replay, learner, config):
    """Return the loop over these parts; ``replay`` is not used."""
    return StreamLoop(cluster, pool, learner, config)


class StreamLoop:
    """``step`` does what can be done and waits for one thing to happen."""

    def __init__(self, cluster, pool, learner, config, clock=time.monotonic):
        """``learner``: handle of a BatchLearner; ``pool``: WorkerPool; ``clock``: seconds."""
        self._cluster, self._pool, self._learner, self._config, self._clock = cluster, pool, learner, config, clock
        steps = config.num_envs_per_worker * config.rollout_fragment_length
        self._fragments = math.ceil(config.train_batch_size / steps)  # of a batch
        # Every worker may always hold one fragment, however small the queue is.
        self._room = max(config.learner_queue_size * self._fragments, config.num_workers)  # fragments
        self._queue = collections.deque()  # (token, columns reference, is_new), oldest first
        self._stock = _Stock(config)
        self._turns = _Turns(config)
        self._running = None  # reference of the learner's call
        self._ready, self._started = None, False
        self._ledger = Ledger(config)
        self._fed = clock()  # when the learner last had something to do
        self._staleness = _Staleness()

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
        """Env steps that wait for the learner."""
        return sum(token.steps for token, _, _ in self._queue)

    @property
    def is_learning(self):
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self):
        """Env steps learnt from, counted once for every pass over them."""
        return self._ledger.trained

    def step(self, timeout=0.25):
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._request_update()
        self._request_samples(self._room)
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()
        self._watch()

    def quiesce(self):
        """Deal with everything under way: afterwards no call is outstanding, and inline nothing waits in the queue."""
        inline = not self._cluster.is_remote
        self._stock.is_open = False
        while self._pending() or (inline and (self._queue or self._turns.pending)):
            if inline:
                self._request_update()
                begun = math.ceil((len(self._queue) + self._pool.outstanding) / self._fragments)  # batches
                self._request_samples(begun * self._fragments)
            self._deal(self._cluster.wait(self._pending(), 0.25))
            self._pool.watch()
        self._stock.is_open = True

    def settle(self):
        """Deal with the update that is running: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running])

    def waiting(self):
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers for the learner to load"
        if self._running is None:
            return "learner for samples"
        return "" if self._pool.outstanding else "workers for the learner"

    def info(self):
        """Return what a result says of the stream, since the last time: how old what was learnt from was."""
        return self._staleness.close() | {
            "queue_size": len(self._queue),
            "queue_capacity": self._room,
            "num_steps_replayed": self._stock.replayed,
        }

    def _pending(self):
        # Fragments before the learner: inline, what may be sampled beside an update is sampled before it is waited for.
        pending = self._pool.references()
        return pending + [reference for reference in (self._running, self._ready) if reference is not None]

    def _request_samples(self, room):
        count = room - len(self._queue) - self._pool.outstanding
        if count > 0:
            # Without Ray a worker must not see weights that a running update happens to have pushed already, or not yet.
            newest = None if self._cluster.is_remote else self.meters.version
            self._pool.request(count, max_version=newest)

    def _request_update(self):
        if self._ready is not None or self._running is not None:
            return
        batch = self._turns.take(self._batch)
        if batch is None:
            return
        fragments, is_new = batch
        versions = [token.meta.version for token, _, _ in fragments]
        self._staleness.learnt(self.meters.version, versions)
        # What a filter has seen of a fragment counts once, however often it is learnt from.
        seen = [getattr(token, "seen", None) if is_new and fresh else None for token, _, fresh in fragments]
        columns = [reference for _, reference, _ in fragments]
        self._running = self._learner.call("learn", self.sampled, seen, *columns)

    def _batch(self):
        """Take the oldest fragments of the queue that make up a batch, or None."""
        if len(self._queue) < self._fragments:
            return None
        return [self._queue.popleft() for _ in range(self._fragments)]

    def _deal(self, done):
        for reference in done:
            if reference is self._running:
                self._running, self._fed = None, self._clock()
                self._ledger.learnt(reference.result())
            elif reference is self._ready:
                self._ready, self._fed = None, self._clock()
                self._ledger.loaded(reference.result())
            else:
                self._take(reference)
        self._pool.lost_workers.clear()  # fragments know of no stream that one before them began

    def _take(self, reference):
        taken = self._pool.take(reference)
        if taken is None:
            return
        token, columns = taken
        self._ledger.took(token)
        self._queue.append((token, columns, True))
        self._queue.extend((*old, False) for old in self._stock.beside(token, columns))

    def _watch(self):
        if self._running is not None or self._ready is not None or not self._cluster.is_remote:
            return
        idle = self._clock() - self._fed
        if idle > self._config.learner_queue_timeout:
            raise RunFailed(
                f"The learner has had no train batch for {idle:.0f} s (learner_queue_timeout). Raise it for a slow "
                "environment, or lower rollout_fragment_length or train_batch_size."
            )

    def state(self):
        """Return the counters that a checkpoint keeps, as plain data; what waits in the queue is not kept."""
        return self._ledger.state() | {"stock": self._stock.state()}

    def load(self, facts, with_replay):
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self._ledger.load(facts)
        self._stock.load(facts["stock"])


class _Stock:
    """The newest fragments, to be learnt from again: RLlib's MixInReplay."""

    def __init__(self, config):
        self._proportion = config.replay_proportion
        self._slots = collections.deque(maxlen=config.replay_buffer_num_slots)
        self._rng = generator(config.seed or 0, "replay")
        self.replayed = 0
        self.is_open = True

    def beside(self, token, columns):
        """Keep a new fragment, and return older ones that join it: as many as ``replay_proportion``, on average."""
        if not self._proportion or not self.is_open:
            return []
        left, drawn = self._proportion, []
        while self._slots and self._rng.random() < left:
            left -= 1.0
            drawn.append(self._slots[self._rng.integers(len(self._slots))])
        self._slots.append((token, columns))
        self.replayed += sum(token.steps for token, _ in drawn)
        return drawn

    def state(self):
        """Return plain data; the fragments themselves are not kept."""
        return {"rng": state_of(self._rng), "replayed": self.replayed}

    def load(self, facts):
        """Continue from ``state`` with empty slots."""
        set_state(self._rng, facts["rng"])
        self.replayed = facts["replayed"]


class _Turns:
    """Batches whose passes take turns: RLlib's MinibatchBuffer. One slot gives each batch once, for all of its passes."""

    def __init__(self, config):
        self._calls = config.num_sgd_iter // passes_per_call(config)  # of the learner for each batch
        self._slots = [(None, 0)] * config.minibatch_buffer_size  # (batch, calls left)
        self._at = 0

    @property
    def pending(self):
        """Whether a batch waits for another pass."""
        return any(left for _, left in self._slots)

    def take(self, new):
        """Return (batch, whether it is looked at for the first time), or None; ``new()`` gives the next one, or None.

        A slot that nothing waits for is passed over.
        """
        for _ in self._slots:
            at, self._at = self._at, (self._at + 1) % len(self._slots)
            batch, left = self._slots[at]
            is_new = not left
            if is_new:
                batch, left = new(), self._calls
            if batch is not None:
                self._slots[at] = (batch, left - 1) if left > 1 else (None, 0)
                return batch, is_new
        return None


class _Staleness:
    """How many versions behind the newest the weights were that had acted in what is learnt from."""

    def __init__(self):
        self._lags = []

    def learnt(self, newest, versions):
        """Note a batch that is about to be learnt from."""
        self._lags.extend(max(0, newest - version) for version in versions)

    def close(self):
        """Return the mean and the largest since the last call; None where nothing was learnt."""
        lags, self._lags = self._lags, []
        return {"weight_lag_mean": sum(lags) / len(lags) if lags else None, "weight_lag_max": max(lags, default=None)}
