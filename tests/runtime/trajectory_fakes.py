"""A loop over trajectories with fake parts: no Ray, no TensorFlow, a time of its own."""

from runtime_fakes import Clock, Cluster, Later, Makes

from drl_cli.algorithms import table
from drl_cli.extras import load
from drl_cli.runtime.loops.trajectories import TrajectoryLoop
from drl_cli.runtime.pool import WorkerPool


class BatchLearner:
    """A learner's handle: ``prepare`` and ``learn`` take their seconds; every ``broadcast_interval``-th call pushes."""

    name, is_remote = "learner", False

    def __init__(self, cluster, config, takes=0.001, prepare=0.0):
        self.cluster, self.config, self.takes, self.prepare = cluster, config, takes, prepare
        self.batches, self.seen, self.version = [], [], 1  # metas of the fragments of each call
        self.busy_until = 0.0

    def call(self, method, *args):
        if method == "prepare":
            return self._due(self.prepare, self.prepare)
        if method == "joining":
            return Later("how").finish("how")
        assert method in ("learn", "learn_joined")
        assert self.cluster.clock.now >= self.busy_until - 1e-9, "two calls at a time"
        _, seen, *columns = args
        if method == "learn_joined":
            columns = columns[0].result()
        self.batches.append([reference.result()[1] for reference in columns])
        self.seen.append(seen)
        if len(self.batches) % getattr(self.config, "broadcast_interval", 1) == 0:
            self.version += 1
        self.busy_until = self.cluster.clock.now + self.takes
        steps = len(columns) * self.config.num_envs_per_worker * self.config.rollout_fragment_length
        result = {"updates": 1, "stats": {}, "seconds": self.takes, "version": self.version, "steps": steps}
        return self._due(self.takes, result)

    def _due(self, seconds, value):
        later = Later(value, self.cluster.clock.now + seconds)
        self.cluster.pending.append(later)
        return later


class Aggregator:
    """An aggregator's handle: ``join`` takes its seconds, one call after the other, and gives the references themselves."""

    is_remote = True

    def __init__(self, cluster, takes):
        self.cluster, self.takes, self.calls, self.name = cluster, takes, 0, "aggregator"
        self.free_at = 0.0

    def call(self, method, how, *columns, returns):
        assert (method, how.result(), returns) == ("join", "how", 2)
        self.calls += 1
        self.free_at = max(self.free_at, self.cluster.clock.now) + self.takes
        pair = Later(self.takes, self.free_at), Later(columns, self.free_at)
        self.cluster.pending.extend(pair)
        return pair


class Run:
    """A loop of ``row`` over fakes; workers act with the newest weights that have been dealt with when they are asked."""

    def __init__(self, row, plan, worker_takes, learner_takes, prepare=0.0, is_remote=True, joins=(), **keys):
        """``joins``: the seconds that each aggregator takes for a batch."""
        self.config = load(table.find(row).config).model_validate({"seed": 7, **keys})
        self.clock = Clock()
        self.cluster = Cluster(self.clock, is_remote)
        self.steps_of_fragment = self.config.num_envs_per_worker * self.config.rollout_fragment_length
        self.makes = Makes(
            self.cluster, takes=worker_takes, steps=self.steps_of_fragment, version=lambda: self.loop.ledger.version
        )
        count = max(1, self.config.num_workers)
        most = getattr(self.config, "max_sample_requests_in_flight_per_worker", 2) if is_remote else 1
        self.pool = WorkerPool(self.cluster, self.makes, count, most, self.clock)
        self.learner = BatchLearner(self.cluster, self.config, learner_takes, prepare)
        self.plan = plan(self.config)
        self.loop = TrajectoryLoop(self.cluster, self.pool, self.learner, self.config, self.plan, self.clock)
        self.aggregators = [Aggregator(self.cluster, takes) for takes in joins]
        self.loop.aggregate(self.aggregators)
        self.loop.start()
        self.pool.start({})

    def steps(self, count, check=lambda run: None):
        for _ in range(count):
            self.loop.step()
            check(self)

    @property
    def seconds(self):
        return self.clock.now - 1000.0
