"""The loop over trajectories: workers sample, a learner learns from whole batches, and a plan says who waits for whom.

``loops.sync`` and ``loops.stream`` make it with their plans. A plan has

- ``wanted(outstanding, is_busy, is_closing)``: (fragments to ask for, the least version they are to be made with);
  ``is_busy``: something is being learnt, ``is_closing``: the loop comes to rest;
- ``took(token, columns)``: whether the fragment counts; one that will not be learnt from was not sampled;
- ``batch(outstanding, newest)``: None, or what to learn from now: (what filters have seen, columns); ``newest``: the version
  of the weights at this moment;
- ``learnt(result)``: the env steps that this call of the learner saw for the first time;
- ``stored``: env steps that wait; ``is_begun``: whether the loop may not come to rest yet; ``patience``: seconds for which
  the learner may go without a batch, or None; ``info()``, ``state()``, ``load(facts, newest)``.

Fragments are whole in themselves: no stream goes on from one to the next, and a lost worker cuts none.
"""

import math
import time

from drl_cli.errors import RunFailed
from drl_cli.runtime.ledger import Ledger


class TrajectoryLoop:
    """``step`` does what can be done and waits for one thing to happen."""

    def __init__(self, cluster, pool, learner, config, plan, clock=time.monotonic):
        """``pool``: WorkerPool; ``learner``: handle of a BatchLearner; ``plan``: see the module; ``clock``: seconds."""
        self._cluster, self._pool, self._learner, self._config = cluster, pool, learner, config
        self._plan, self._clock = plan, clock
        self._running = None  # reference of the learner's call
        self._ready, self._started = None, False
        self.ledger = Ledger(config)
        self._fed = clock()  # when the learner last had something to do

    def start(self):
        """Let the learner build its graph; sampling can begin at once."""
        config = self._config
        streams = fragments_of_batch(config) * config.num_envs_per_worker
        self._ready = self._learner.call("prepare", streams, config.rollout_fragment_length)
        self._started = True

    @property
    def meters(self):
        """Meters of the run."""
        return self.ledger.meters

    @property
    def sampled(self):
        """Env steps sampled."""
        return self.ledger.sampled

    @property
    def updates(self):
        """Gradient steps taken."""
        return self.ledger.updates

    @property
    def stored(self):
        """Env steps that wait for the learner."""
        return self._plan.stored

    @property
    def is_learning(self):
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self):
        """Env steps learnt from, however many passes were made over them."""
        return self.ledger.trained

    def step(self, timeout=0.25):
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._go_on(timeout, closing=False)
        self._watch()

    def quiesce(self):
        """Come to rest as the plan wants it: afterwards no call is outstanding."""
        while self._pending() or self._plan.is_begun:
            self._go_on(0.25, closing=True)

    def settle(self):
        """Deal with what is being learnt from: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running])

    def waiting(self):
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers are waiting for the learner to load"
        if self._running is None:
            return "learner is waiting for samples"
        return "" if self._pool.outstanding else "workers are waiting for the learner"

    def info(self):
        """Return what a result says of this loop."""
        return self._plan.info()

    def state(self):
        """Return the counters that a checkpoint keeps, as plain data; what waits for the learner is not kept."""
        return self.ledger.state() | {"plan": self._plan.state()}

    def load(self, facts, with_replay):
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self.ledger.load(facts)
        self._plan.load(facts["plan"], self.ledger.version)

    def _go_on(self, timeout, closing):
        self._learn()
        count, least = self._plan.wanted(self._pool.outstanding, self._running is not None, closing)
        if count > 0:
            # Without Ray a worker must not see weights that a running update happens to have pushed already, or not yet.
            most = None if self._cluster.is_remote else self.ledger.version
            self._pool.request(count, min_version=least, max_version=most)
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()

    def _pending(self):
        # Without Ray what is sampled comes before the learner, whether that has done its work by then or not.
        last = [reference for reference in (self._running, self._ready) if reference is not None]
        return self._pool.references() + last

    def _learn(self):
        if self._running is not None or self._ready is not None:
            return
        batch = self._plan.batch(self._pool.outstanding, self.ledger.version)
        if batch is not None:
            seen, columns = batch
            self._running = self._learner.call("learn", self.sampled, seen, *columns)

    def _deal(self, done):
        for reference in done:
            if reference is self._running:
                self._running, self._fed, result = None, self._clock(), reference.result()
                self.ledger.learnt(result, self._plan.learnt(result))
            elif reference is self._ready:
                self._ready, self._fed = None, self._clock()
                self.ledger.loaded(reference.result())
            else:
                self._take(reference)
        self._pool.lost_workers.clear()

    def _take(self, reference):
        taken = self._pool.take(reference)
        if taken is not None and self._plan.took(*taken):
            self.ledger.stored(taken[0], taken[0].steps)

    def _watch(self):
        patience = self._plan.patience
        if patience is None or self._running is not None or self._ready is not None:
            return
        idle = self._clock() - self._fed
        if idle > patience:
            raise RunFailed(
                f"The learner has had no train batch for {idle:.0f} s (learner_queue_timeout). Raise it for a slow "
                "environment, or lower rollout_fragment_length or train_batch_size."
            )


def fragments_of_batch(config):
    """Return the fragments that make up a batch; of complete episodes, which bring more steps, fewer may do."""
    return math.ceil(config.train_batch_size / (config.num_envs_per_worker * config.rollout_fragment_length))


def seen_of(tokens):
    """Return what the observation filters of the workers saw for each of ``tokens``."""
    return [token.seen for token in tokens]
