"""An on-policy algorithm's graph in a session of its own, for tests: ``machine(row, keys).learn(batch)``."""

import numpy as np
from machine import SCOPE, UNOPTIMISED, Shared, discrete_spaces, spaces

from drl_cli.algorithms import table
from drl_cli.extras import load
from drl_cli.tf1.tensorflow import function, tf

OBS, ACTIONS = 3, 2
SMALL = {"fcnet_hiddens": (4,), "fcnet_activation": "tanh"}
COMMON = {"num_workers": 0, "xla": False, "grad_clip": None, "lr": 1e-2, "adam_epsilon": 1e-8}
RATES = ("lr", "entropy_coeff")


def config(row, **keys):
    """Return the config of ``row`` with a small net; ``model``: keys over that net's."""
    model = SMALL | keys.pop("model", {})
    return load(table.find(row).config).model_validate(COMMON | {"model": model} | keys)


def spaces_for(kind):
    """Return spaces with vectors of OBS numbers and actions of ``kind``."""
    made = spaces(OBS, ACTIONS)
    if kind == "Discrete":
        return discrete_spaces(OBS, ACTIONS)
    if kind == "MultiDiscrete":
        made["action"] = {"kind": kind, "nvec": [2, 3], "start": [0, 0], "shape": [2], "dtype": "int64"}
    if kind == "MultiBinary":
        made["action"] = {"kind": kind, "n": ACTIONS, "shape": [ACTIONS], "dtype": "int8"}
    return made


class BatchMachine(Shared):
    """The graph of ``row`` for ``made`` over batches of ``shape`` (E, T, M); ``kind``: of actions, or spaces."""

    def __init__(self, row, made, kind="Box", shape=(3, 4, 6), seed=5):
        super().__init__(row, made, kind, shape, seed)

    def _build(self, row, made, kind, shape, seed):
        row = table.find(row)
        nets = load(row.nets)
        self.config, self.shape = made, shape
        self.spec = nets.policy_spec(made, kind if isinstance(kind, dict) else spaces_for(kind))
        self.initial = nets.initial_weights(made, self.spec, seed)
        self.sequence = made.model.max_seq_len if self.spec.state else 1
        with tf.Graph().as_default() as graph:
            self.graph = load(row.graph).build(made, self.spec, self.initial, seed, SCOPE)
            self._batch = {
                name: tf.placeholder(dtype, (*self.lead(of), *trailing))
                for name, (trailing, dtype, of) in self.graph.columns.items()
            }
            self._rates = {name: tf.placeholder(tf.float32, []) for name in self.graph.rates}

            def learn(batch, rates):
                return self.graph.learn(batch, rates, self.graph.variables["num_updates"].read_value())

            xla = made.xla and self.graph.in_one_place
            self._learnt = function(learn, jit_compile=True if xla else None, autograph=False)(self._batch, self._rates)
            options = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=False)
            options.graph_options.CopyFrom(UNOPTIMISED.graph_options)
            self._start(graph, options)

    def lead(self, of):
        """Return the leading axes of a column of the kind ``of``."""
        streams, steps, ends = self.shape
        return {"step": (streams, steps), "end": (ends,), "sequence": (streams, steps // self.sequence)}[of]

    def learn(self, batch, **rates):
        """Learn from ``batch``; returns the Learnt. ``rates``: other values than the config's."""
        feeds = {self._batch[name]: batch[name] for name in self._batch}
        for name, placeholder in self._rates.items():
            feeds[placeholder] = rates.get(name, getattr(self.config, name))
        return self.session.run(self._learnt, feeds)

    def values(self):
        """Return {name without the scope: array} of every variable."""
        return {name.removeprefix(SCOPE): value for name, value in self._weights.get().items()}

    def set(self, **values):
        """Give variables (names without the scope) new values."""
        self._weights.set({SCOPE + name: value for name, value in (self.values() | values).items()})

    def batch(self, seed=0, short=True):
        """Return a random batch with ends of both kinds, and with ``short`` streams of unequal length."""
        rng, (streams, steps, ends) = np.random.default_rng(seed), self.shape
        batch = {
            name: rng.normal(0, 0.7, (*self.lead(of), *trailing)).astype(dtype)
            for name, (trailing, dtype, of) in self.graph.columns.items()
        }
        nvec = {"MultiDiscrete": [2, 3]}.get(self.spec.action.kind, ACTIONS)
        if self.spec.action.dtype == "int32":
            batch["action"] = rng.integers(0, nvec, batch["action"].shape).astype(np.int32)
        lengths = np.maximum(1, steps - np.arange(streams)) if short else np.full(streams, steps)
        real = np.arange(steps) < lengths[:, None]
        last = np.arange(steps) == lengths[:, None] - 1
        terminated, truncated = rng.random(real.shape) < 0.2, rng.random(real.shape) < 0.2
        truncated &= ~terminated
        at = np.concatenate([np.flatnonzero(last), np.flatnonzero(truncated & real & ~last)])[:ends]
        truncated &= np.isin(np.arange(real.size), at).reshape(real.shape)
        batch["end_at"] = np.full(ends, real.size, np.int32)
        batch["end_at"][: len(at)] = at
        batch["mask"] = real.astype(np.float32)
        batch["reward"] *= real
        batch["discount"] = (self.config.gamma * (real & ~terminated)).astype(np.float32)
        batch["trace"] = (real & ~last & ~terminated & ~truncated).astype(np.float32)
        if "begins" in batch:
            ended = terminated | truncated
            batch["begins"] = np.zeros_like(batch["mask"])
            batch["begins"][:, 1:] = ended[:, :-1] & real[:, 1:]
        return batch
