"""A cluster, workers, a learner and a replay that do what a test says, in a time of their own: no Ray, no TensorFlow."""

from drl_cli.experience.columns import Meta, Token
from drl_cli.runtime.cluster import PartLost


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Later:
    """A reference whose outcome a test decides; with ``due`` it comes by itself at that time."""

    def __init__(self, value=None, due=None):
        self.value, self.due, self.error, self.over = value, due, None, False

    def finish(self, value=None):
        self.value, self.over = value, True
        return self

    def fail(self, error):
        self.error, self.over = error, True

    def done(self):
        return self.over

    def result(self, timeout=None):
        assert self.over, "asked for a result that has not come"
        if self.error is not None:
            raise self.error
        return self.value


class Cluster:
    """``wait`` lets the time pass until something is due."""

    def __init__(self, clock, is_remote=True, cpus=(4.0, 1.0)):
        self.clock, self.is_remote, self.cpus = clock, is_remote, cpus
        self.is_patient = False
        self.killed = []
        self.pending = []  # every Later that has a due time

    def wait(self, references, timeout=None):
        due = [r.due for r in references if not r.done() and r.due is not None]
        if due and not any(r.done() for r in references):
            self.advance(min(min(due) - self.clock.now, timeout))
        elif not any(r.done() for r in references):
            self.advance(timeout)
        return [reference for reference in references if reference.done()]

    def advance(self, seconds):
        self.clock.now += max(0.0, seconds)
        for reference in [r for r in self.pending if r.due <= self.clock.now + 1e-9]:
            self.pending.remove(reference)
            if not reference.over:
                reference.finish(reference.value)

    def kill(self, handle):
        self.killed.append(handle)

    def resources(self):
        return {"CPU": self.cpus[0]}, {"CPU": self.cpus[1]}


def token_of(worker, incarnation, sequence, steps=100, version=1, **over):
    """The Token of a fragment without episodes."""
    fields = {"episodes": (), "bad_transitions": 0, "notes": (), "seconds": {"env": 0.0, "policy": 0.0, "total": 0.0}}
    return Token(Meta(worker, incarnation, sequence, version), steps, **(fields | over))


class Worker:
    """A worker's handle. ``takes`` seconds a fragment, one after the other; None: until ``deliver`` is called."""

    def __init__(self, cluster, index, incarnation, takes=None, steps=100, version=lambda: 1):
        """``version``: of the weights that act, asked when a fragment is."""
        self.cluster, self.index, self.incarnation, self.version = cluster, index, incarnation, version
        self.takes, self.steps = takes, steps
        self.is_remote = cluster.is_remote
        self.name = f"worker {index}"
        self.asked, self.open = [], []  # (min_version, max_version) of all calls; [(token Later, columns Later)]
        self.sequence = 0
        self.placed = Later().finish(1234)
        self.dead = False
        self._free_at = 0.0

    def ready(self):
        return self.placed

    def call(self, method, *args, returns=1):
        if method == "state":
            return Later().finish(({}, {}))
        assert (method, returns) == ("collect", 2)
        self.asked.append(args)
        token = token_of(self.index, self.incarnation, self.sequence, self.steps, self.version())
        self.sequence += 1
        pair = (Later(token), Later(("columns", token.meta)).finish(("columns", token.meta)))
        if self.dead:
            pair[0].fail(PartLost(self.name, "killed"))
        elif self.takes is not None:
            self._free_at = max(self._free_at, self.cluster.clock.now) + self.takes
            pair[0].due = self._free_at
            self.cluster.pending.append(pair[0])
        self.open.append(pair)
        return pair

    def deliver(self, **over):
        token, _ = self.open.pop(0)
        return token.finish(token.value._replace(**over))

    def die(self, text="killed"):
        self.dead = True
        for token, _ in self.open:
            if not token.over:
                token.fail(PartLost(self.name, text))


class Makes:
    """The pool's ``make``: keeps every worker it made."""

    def __init__(self, cluster, **keywords):
        self.cluster, self.keywords = cluster, keywords
        self.made = []
        self.born_dead = False
        self.placed = True

    def __call__(self, index, incarnation, standing):
        worker = Worker(self.cluster, index, incarnation, **self.keywords)
        worker.dead = self.born_dead
        if not self.placed:
            worker.placed = Later()
        self.made.append(worker)
        return worker


class Learner:
    """A learner's handle: ``prepare`` and ``learn`` take their seconds."""

    name, is_remote = "learner", False

    def __init__(self, cluster, per_update=0.001, prepare=0.0, publish_every=50):
        self.cluster, self.per_update, self.prepare, self.publish_every = cluster, per_update, prepare, publish_every
        self.counts, self.version, self.blocks = [], 1, []

    def call(self, method, *args):
        if method == "prepare":
            return self._due(self.prepare, self.prepare)
        assert method == "learn"
        block, count, _ = args
        self.blocks.append(block)
        self.counts.append(count)
        if sum(self.counts) // self.publish_every > (sum(self.counts) - count) // self.publish_every:
            self.version += 1
        seconds = count * self.per_update
        return self._due(seconds, {"updates": count, "stats": {}, "seconds": seconds, "version": self.version})

    def _due(self, seconds, value):
        later = Later(value, self.cluster.clock.now + seconds)
        self.cluster.pending.append(later)
        return later


class Replay:
    """A replay's handle: remembers what it was given; ``add`` is idempotent as the real one."""

    name, is_remote = "replay", False

    def __init__(self):
        self.added, self.cut, self.samples, self._seen = [], [], [], {}

    def call(self, method, *args, returns=1):
        found = getattr(self, f"_{method}")(*args)
        return Later().finish(found) if returns == 1 else tuple(Later().finish(one) for one in found)

    def _add(self, token, columns):
        mark = (token.meta.incarnation, token.meta.sequence)
        if mark <= self._seen.get(token.meta.worker, (-1, -1)):
            return 0
        self._seen[token.meta.worker] = mark
        self.added.append(token.meta)
        return token.steps

    def _cut(self, worker):
        self.cut.append(worker)

    def _sample(self, count, least):
        self.samples.append(count)
        return ("block", len(self.samples), count), None
