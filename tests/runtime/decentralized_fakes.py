"""Workers that learn beside others, as fakes: their variables are one number, which every step makes another one of."""

from runtime_fakes import Clock, Cluster, Later, token_of

from drl_cli.actors.part_records import Begun
from drl_cli.algorithms.ddppo import DDPPOConfig
from drl_cli.errors import DrlError
from drl_cli.policies.filters import nothing
from drl_cli.runtime.cluster import PartFailed, PartLost
from drl_cli.runtime.leader import Leader
from drl_cli.runtime.loops.decentralized import DecentralizedLoop
from drl_cli.runtime.pool import WorkerPool

STEPS = 40  # env steps of a whole fragment
KEYS = {"num_envs_per_worker": 2, "rollout_fragment_length": 20, "sgd_minibatch_size": 10, "num_sgd_iter": 5}
UPDATES = 20  # of a round of whole fragments


class Answer:
    """A reference to gradients, which only workers may read; some of them cannot, as when a node was lost."""

    def __init__(self, value, error=None, lost_for=(), is_there=True):
        self.value, self.error, self.lost_for, self.is_there = value, error, lost_for, is_there

    def read(self, reader):
        """Return the value to the worker ``reader``."""
        if self.error is not None or reader in self.lost_for:
            raise PartFailed(f"worker {reader} failed: an argument is lost")
        return self.value


class Worker:
    """A worker's handle. ``takes`` seconds a fragment; None: until ``deliver``. ``plan`` {(method, how often): what happens}.

    What happens at such a call: "die", "hang", "raise", "differ", or a set of the workers that do not get its answer.
    """

    is_remote = True

    def __init__(self, run, index, incarnation):
        self.run, self.index, self.incarnation, self.name = run, index, incarnation, f"worker {index}"
        self.value, self.version, self.taken = 1, 1, 0
        self.sequence, self.dead = 0, False
        self.calls = []  # names of the methods
        self.open = None  # (token, columns)
        self.plan = {} if incarnation else run.plans.get(index, {})

    def ready(self):
        return self._later(1234)

    def call(self, method, *args, returns=1):
        self.calls.append(method)
        happens = self.plan.get((method, self.calls.count(method)))
        self.dead = self.dead or happens == "die"
        if method == "collect":
            return self._collect(*args)
        if happens == "hang" or any(isinstance(arg, Answer) and not arg.is_there for arg in args):
            self.run.waiting.append((self, happens, Later()))
            later = self.run.waiting[-1][2]
            return later if returns == 1 else (later, Answer(None, is_there=False))
        try:
            if happens == "raise":
                raise DrlError("not finite")
            value = None if self.dead else getattr(self, f"_{method}")(*(read(arg, self.index) for arg in args))
        except DrlError as error:
            return self._failed(error, returns)
        if self.dead:
            return self._failed(PartLost(self.name, "killed"), returns)
        if happens == "differ":
            self.value += 1
            value["digest"] = self.value
        if returns == 2:
            receipt, answer = value
            return Later().finish(receipt), Answer(answer, lost_for=happens if isinstance(happens, set) else ())
        return Later().finish(value)

    def _later(self, value):
        later = Later().finish(value)
        if self.dead:
            later.fail(PartLost(self.name, "killed"))
        return later

    def _failed(self, error, returns):
        later = Later()
        later.fail(error)
        return later if returns == 1 else (later, Answer(None, error))

    def _collect(self, version, most):
        assert self.open is None and version == most == self.version, "the weights are not the present ones"
        token = Later(token_of(self.index, self.incarnation, self.sequence, STEPS, version))
        self.sequence, self.taken = self.sequence + 1, 0
        self.open = (token, Later().finish(None))
        if self.dead:
            self.die()
        elif self.run.takes is not None:
            token.due = self.run.clock.now + self.run.takes
            self.run.cluster.pending.append(token)
            self.open = None
        return (token, Later().finish(None)) if self.open is None else self.open

    def deliver(self, steps=STEPS):
        token, self.open = self.open[0], None
        token.finish(token.value._replace(steps=steps))

    def die(self):
        self.dead = True
        if self.open is not None:
            self.open[0].fail(PartLost(self.name, "killed"))
            self.open = None

    def _prepare(self):
        return 0.5

    def _begin(self, env_steps, factor):
        self.run.began_at.append(env_steps)
        return Begun(STEPS, nothing(()), {})

    def _plan(self, begun):
        self.run.teams.append(len(begun))
        return self.taken

    def _step(self, number, *answers):
        assert number == self.taken + bool(answers), "a step is missing"
        if answers:
            self.value = hash((self.value, answers))
            self.taken += 1
        self.run.steps.append((self.index, number, len(answers)))
        return self.taken, (self.index, number, self.value)

    def _end(self, seen):
        assert self.taken == UPDATES, "not all steps were taken"
        self.version += 1
        result = {"updates": self.taken, "stats": {}, "seconds": 0.1, "version": self.version, "steps": 0}
        return result | {"digest": self.value}

    def _held(self):
        return self.value, self.version, self.taken

    def _adopt(self, held):
        self.value, self.version, self.taken = held

    def _load_trained(self, value, version):
        self.value, self.version = value, version

    def _trained(self):
        return {"value": self.value}

    def _version(self):
        return self.version

    def _publish(self):
        return self.version, {"value": self.value}


def read(arg, reader):
    """What a worker sees of an argument of its call."""
    if isinstance(arg, Answer):
        return arg.read(reader)
    return arg.result() if isinstance(arg, Later) else arg


class Server:
    """A handle of the parameter server: remembers for which versions workers were cut off."""

    name, is_remote = "parameter server", True

    def __init__(self):
        self.cuts = []

    def call(self, method, *args):
        assert method == "cut"
        self.cuts.append(args[0])
        return Later().finish(None)


class Run:
    """A loop over fakes. ``takes``: seconds of a fragment, None: until it is delivered; ``plans``: {worker: see Worker}."""

    def __init__(self, workers=3, takes=1.0, plans=None, **keys):
        self.clock = Clock()
        self.cluster = Cluster(self.clock)
        self.takes, self.plans = takes, plans or {}
        self.made, self.steps, self.teams, self.began_at = [], [], [], []
        self.waiting = []  # (worker, why, Later) of calls that do not return
        self.cluster.kill = self._kill
        self.config = DDPPOConfig.model_validate(KEYS | {"num_workers": workers, "seed": 7} | keys)
        self.pool = WorkerPool(self.cluster, self._make, workers, 1, self.clock)
        self.server = Server()
        self.leader = Leader(self.server, self.pool)
        self.loop = DecentralizedLoop(self.cluster, self.pool, self.leader, self.config, self.clock)
        self.loop.start()
        self.pool.start({})

    def _make(self, index, incarnation, standing):
        self.made.append(Worker(self, index, incarnation))
        return self.made[-1]

    def _kill(self, worker):
        """Those of its calls that do not return fail, and so do those of others that depend on them."""
        self.cluster.killed.append(worker)
        worker.dead = True
        for waiting, why, later in self.waiting:
            if not later.done():
                own = waiting is worker and why == "hang"
                later.fail(PartLost(worker.name, "killed") if own else PartFailed("an argument is lost"))

    def until(self, condition, most=2000):
        """Step until ``condition()`` holds."""
        for _ in range(most):
            if condition():
                return
            self.loop.step()
        raise AssertionError("it did not come true")

    def rounds(self, count):
        """Step until so many more rounds are over."""
        version = self.loop.ledger.version
        self.until(lambda: self.loop.ledger.version == version + count)

    def living(self):
        """The workers that are there, by index."""
        return self.pool.handles()

    def sum_holds(self):
        """Whether every fragment was learnt from, was lost, or is under way."""
        waiting = len(self.loop._tokens)
        learnt, lost, under_way = self.loop.ledger.fragments, self.pool.fragments_lost, self.pool.outstanding
        return self.pool.requested == learnt + lost + under_way + waiting
