"""An algorithm's graph in a session of its own, for tests: ``Machine(config, spaces).run(block, count)``.

Tracing the graph of an update takes longer than most tests of it: a machine that a test is done with goes to the next test
that asks for an equal one, with its first values in all variables.
"""

import collections

import numpy as np

from drl_cli.algorithms import sac, sac_graph
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.sections.max_entropy import Optimization
from drl_cli.tf1.repeat import repeated
from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.weights import Weights

RATES = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "entropy_learning_rate": 1e-2}
SCOPE = "default_policy/"


def spaces(obs, action, low=-1.0, high=1.0):
    """Return spaces as ``envs.make.describe`` does, with bounds of the actions."""
    return {
        "obs": {"kind": "Box", "shape": [obs], "dtype": "float32"},
        "action": {"kind": "Box", "shape": [action], "low": [low] * action, "high": [high] * action},
    }


def discrete_spaces(obs, n, start=0):
    """Return spaces with vectors of ``obs`` numbers, or images of that shape, and ``n`` actions from ``start`` on."""
    of_obs = {"kind": "Box", "shape": [obs], "dtype": "float32"}
    if isinstance(obs, tuple):
        of_obs |= {"shape": list(obs), "dtype": "uint8"}
    return {"obs": of_obs, "action": {"kind": "Discrete", "n": n, "start": start, "shape": [], "dtype": "int64"}}


def config(**keys):
    """Return a SACConfig of a small net and batch; ``hiddens``, ``activation``, ``layer_norm`` are those of both nets."""
    model = {
        "fcnet_hiddens": keys.pop("hiddens", (3,)),
        "fcnet_activation": keys.pop("activation", "tanh"),
        "layer_norm": keys.pop("layer_norm", False),
    }
    defaults = {"train_batch_size": 4, "updates_per_call": 8, "Q_model": model, "policy_model": model}
    return SACConfig(**(defaults | {"optimization": Optimization(**RATES)} | keys))


UNOPTIMISED = tf.ConfigProto()
"""TensorFlow runs the graph as it was built; to rewrite it first takes longer than the few updates of a test."""
UNOPTIMISED.graph_options.rewrite_options.disable_meta_optimizer = True
KEPT = 32  # machines that wait for a test; the one that has waited longest is closed
_waiting = collections.OrderedDict()


class Shared:
    """A graph in a session, made by ``_build``, that ``__exit__`` leaves to the next test that asks for an equal one."""

    def __init__(self, *of_what):
        self._of_what = repr((type(self), of_what))
        known = _waiting.pop(self._of_what, None)
        if known is None:
            self._build(*of_what)
        else:
            vars(self).update(known)
        self.session.run(self._first_values)

    def _start(self, graph, options=None):
        """Open the session on ``graph``, which is whole, with the variables of ``self.graph``."""
        self._first_values = tf.variables_initializer(list(self.graph.variables.values()))
        self.session = tf.Session(graph=graph, config=options or UNOPTIMISED)
        named = {variable.op.name: variable for variable in self.graph.variables.values()}
        self._weights = Weights(self.session, named, with_ray=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _waiting[self._of_what] = vars(self)
        if len(_waiting) > KEPT:
            _waiting.popitem(last=False)[1]["session"].close()


class Machine(Shared):
    """The graph for ``config`` over observations and actions of the given sizes; ``seed`` draws weights and noise.

    ``modules``: (nets, graph) of the algorithm; ``rates``: learning rates of a ``run`` by the keys of the graph's ``rates``.
    """

    def __init__(self, made, of_spaces, seed=5, xla=False, modules=(sac, sac_graph), rates=None):
        super().__init__(made, of_spaces, seed, xla, modules, rates)

    def _build(self, made, of_spaces, seed, xla, modules, rates):
        nets, graph_module = modules
        self.config, self.spec = made, nets.policy_spec(made, of_spaces)
        self.initial = nets.initial_weights(made, self.spec, seed)
        self._rates = rates or {f"optimization.{name}": rate for name, rate in RATES.items()}
        with tf.Graph().as_default() as graph:
            self.graph = graph_module.build(made, self.spec, self.initial, seed, SCOPE)
            self.loop = repeated(self.graph, made.updates_per_call, made.train_batch_size, xla)
            self._start(graph)

    def run(self, block, count, **rates):
        """Make ``count`` updates; returns the fetches. ``rates``: other learning rates by the last part of their names."""
        feeds = {self.loop.block[name]: block[name] for name in self.loop.block} | {self.loop.count: count}
        for name, placeholder in self.loop.rates.items():
            feeds[placeholder] = rates.get(name.rpartition(".")[2], self._rates[name])
        return self.session.run(self.loop.fetches, feeds)

    def values(self):
        """Return {name without the scope: array} of every variable."""
        return {name.removeprefix(SCOPE): value for name, value in self._weights.get().items()}

    def set(self, **values):
        """Give variables (names without the scope) new values."""
        self._weights.set({SCOPE + name: value for name, value in (self.values() | values).items()})

    def changed(self, block, count, **rates):
        """Return the names of the variables that ``count`` updates change."""
        before = self.values()
        self.run(block, count, **rates)
        after = self.values()
        return {name for name in before if not np.array_equal(before[name], after[name])}


def random_block(made, obs, action, seed=0):
    """Return a block of random transitions of every kind of discount."""
    rng = np.random.default_rng(seed)
    lead = (made.updates_per_call, made.train_batch_size)
    return {
        "obs": rng.normal(0, 1, (*lead, obs)).astype(np.float32),
        "action": rng.uniform(-1, 1, (*lead, action)).astype(np.float32),
        "reward": rng.normal(0, 1, lead).astype(np.float32),
        "discount": rng.choice(np.float32([0.0, 0.9, 0.81]), lead),
        "next_obs": rng.normal(0, 1, (*lead, obs)).astype(np.float32),
    }
