"""The loop of off-policy algorithms: workers → replay → learner, side by side, at a fixed ratio.

Workers step environments or read files; ``loops.pace`` says which updates are due, and how much may be asked of them.
Fragments are consumed in completion order (inline: in the order of the calls, so that a run repeats), and the next block of
batches is prepared while the present one is learnt.

The driver moves references; batches go from worker to replay, and from replay to learner, without it reading them.
"""

from drl_cli.config.sections.replay import intensity
from drl_cli.runtime import pace
from drl_cli.runtime.ledger import milestone, pass_on
from drl_cli.runtime.meters import Meters


def make(cluster, pool, replay, learner, config):
    """Return the loop over these parts; ``replay``: Shards."""
    return ReplayLoop(cluster, pool, replay, learner, config)


class ReplayLoop:
    """``step`` does what can be done and waits for one thing to happen."""

    def __init__(self, cluster, pool, replay, learner, config):
        """``replay``: Shards; ``learner``: handle; ``pool``: WorkerPool."""
        self._cluster, self._pool, self._replay, self._learner, self._config = cluster, pool, replay, learner, config
        self._batch, self.intensity = config.train_batch_size, intensity(config)
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        per_fragment = self._fragment * self.intensity / self._batch
        self._chunk = max(1, min(config.updates_per_call, int(per_fragment)))
        self.pace = pace.make(config)
        self.updates = 0
        self._running = self._prepared = None  # (reference, count, shard)
        self._adding = []  # (reference, token) of fragments on their way into the replay
        self._seen, self._told = [], None  # what the learner's filters have not heard of; the newest such call
        self._ready, self._started = None, False
        self.meters = Meters(config)
        self.meters.read = self.pace.tally

    def start(self):
        """Let the learner build its graph; sampling can begin at once."""
        self._ready, self._started = self._learner.call("prepare"), True

    @property
    def sampled(self):
        """Env steps so far, as the pace counts them."""
        return self.pace.timesteps(self.updates)

    @property
    def stored(self):
        """Env steps in the replay, all of its rows in use counted."""
        return self.pace.stored

    def intensity_got(self):
        """Return the transitions learnt from per env step sampled since learning began; None before."""
        return self.pace.got(self.updates)

    @property
    def is_learning(self):
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self):
        """Transitions learnt from, counted once for every update they were in."""
        return self.updates * self._batch

    def step(self, timeout=0.25):
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._request_updates()
        self._request_samples()
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()

    def quiesce(self):
        """Deal with everything under way and ask for nothing new: afterwards no call is outstanding."""
        self._prepared = None
        while self._pending():
            self._deal(self._cluster.wait(self._pending(), 0.25))
            self._prepared = None
            self._pool.watch()
        self._tell()

    def settle(self):
        """Deal with the update that is running: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running[0]])
        self._tell()

    def waiting(self):
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers are waiting for the learner to load"
        return self.pace.waiting(self._running is not None, self._pool.outstanding)

    def info(self):
        """Return what a result says of the replay and of the pace."""
        return {
            "training_intensity_asked": self.intensity,
            "training_intensity_got": self.intensity_got(),
            "replay_size": self._replay.size(),
            "replay_capacity": self._config.buffer_size,
            "replay_shards": len(self._replay.handles),
            **self.pace.info(self.updates),
        }

    def _pending(self):
        first = [entry[0] for entry in (self._running, *self._adding) if entry is not None]
        if self._ready is not None:
            first.append(self._ready)
        return first + self._pool.references()

    def _request_samples(self):
        coming = self.updates + (self._running[1] if self._running else 0)
        count, among = self.pace.asked(coming, self._pool.outstanding + len(self._adding))
        if count:
            # Without Ray a worker must not see weights that a running update happens to have pushed already, or not yet.
            newest = None if self._cluster.is_remote else self.meters.version
            self._pool.request(count, max_version=newest, among=among)

    def _owed(self):
        under_way = sum(entry[1] for entry in (self._running, self._prepared) if entry is not None)
        return self.pace.owed(self.updates + under_way)

    def _request_updates(self):
        if self._ready is not None:
            return
        if self._prepared is None:
            self._prepare()
        if self._running is None and self._prepared is not None:
            block, count, shard = self._prepared
            self._prepared = None
            self._tell()
            self._running = (self._learner.call("learn", block, count, self.sampled), count, shard)
            self._prepare()

    def _tell(self):
        """Hand the learner what the stored fragments add to its filters: it goes into the updates asked for after it."""
        if self._told is not None and self._told.done():
            self._told.result()  # raises what went wrong
            self._told = None
        if self._seen:
            self._told, self._seen = self._learner.call("observe", self._seen), []

    def _prepare(self):
        owed = self._owed()
        if owed >= self._chunk:
            count = min(owed, self._config.updates_per_call)
            drawn = self._replay.sample(count, self.pace.complete)
            if drawn is not None:
                self._prepared = (drawn[1], count, drawn[0])

    def _deal(self, done):
        for reference in done:
            adding = next((entry for entry in self._adding if entry[0] is reference), None)
            if self._running is not None and reference is self._running[0]:
                self._learnt(reference.result())
            elif reference is self._ready:
                self.meters.loaded(reference.result())
                self._ready = None
                milestone("learner_ready")
            elif adding is not None:
                self._adding.remove(adding)
                self._added(*adding)
            else:
                self._take(reference)
        for worker in self._pool.lost_workers:
            self._replay.cut(worker)
        self._pool.lost_workers.clear()

    def _learnt(self, result):
        _, _, shard = self._running
        self._running = None
        if not self.meters.has_learnt:
            milestone("first_update")
        self.updates += result["updates"]
        self.meters.learnt(result)
        self._replay.learnt(shard, result)

    def _take(self, reference):
        taken = self._pool.take(reference)
        if taken is None:
            return
        token, columns = taken
        if not self.meters.has_sampled:
            milestone("first_sample")
        self.pace.came(token)
        if not token.steps:
            return  # a reader that has nothing left
        reference = self._replay.add(token, columns)
        if reference.done():
            self._added(reference, token)
        else:
            self._adding.append((reference, token))

    def _added(self, reference, token):
        stored = reference.result()
        if not stored:
            return  # it had been seen, or its worker has been replaced
        self.pace.added(token, stored)
        self._replay.added(token, stored)
        if token.seen is not None:
            self._seen.append(token.seen)
        self.meters.sampled(token, stored)
        pass_on(token, self.meters.bad_transitions, self.sampled)

    def state(self):
        """Return the counters that a checkpoint keeps, as plain data."""
        return {
            "updates": self.updates,
            "shards": self._replay.state(),
            "meters": self.meters.state(),
            **self.pace.state(self.updates),
        }

    def load(self, facts, with_replay):
        """Continue from ``state``; without the replay's contents it fills anew before learning goes on."""
        self.updates = facts["updates"]
        self.pace.load(facts, with_replay)
        # Older checkpoints know of no shards: all that was sampled is in the only one.
        only = {"next": 0, "least": [None], "stored": [self.stored]}
        self._replay.restore(facts.get("shards", only), with_replay)
        self.meters.load(facts["meters"])
