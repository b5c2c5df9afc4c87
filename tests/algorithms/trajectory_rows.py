"""Every row that learns from trajectories in a small shape, fed by a real worker: ``CASES``, ``Played``, ``machine_of``."""

from typing import NamedTuple

import batch_machine
import numpy as np
import paced_envs  # noqa: F401  registers Paced-v0
from machine import SCOPE

from drl_cli.actors.graph_gradients import GraphGradients
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import a3c_graph, table
from drl_cli.algorithms.a3c_gradients import NumpyGradients, is_computed
from drl_cli.envs import make, preprocessors
from drl_cli.experience.trajectories import join
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.runtime.cluster import LocalHandle
from drl_cli.tf1.tensorflow import function, tf

ROWS = [row for row in table.built_in() if row.postprocess == "trajectory" and not row.team]
WORKER = {"num_envs_per_worker": 3, "rollout_fragment_length": 6, "horizon": 4}
PASSES = {"num_sgd_iter": 2, "sgd_minibatch_size": 12, "vf_iterations": 2, "train_batch_size": 36}
PASSES |= {"target_update_frequency": 2}  # APPO's, in batches
LSTM = {"use_lstm": True, "lstm_cell_size": 3, "max_seq_len": 3}
PREVIOUS = LSTM | {"lstm_use_prev_action_reward": True}
FILTER = {"observation_filter": "MeanStdFilter"}


class Case(NamedTuple):
    """A row on a kind of actions."""

    row: str
    actions: str
    keys: dict
    masked: bool = False


def _cases():
    for row in ROWS:
        if row.actions == ("Discrete",):
            yield f"{row.name}-Discrete-filter", Case(row.name, "Discrete", FILTER)
            yield f"{row.name}-Discrete-masked-filter", Case(row.name, "Discrete", FILTER, True)
            continue
        name, shared = row.name, {} if row.name == "TRPO" else {"vf_share_layers": True}  # which TRPO refuses
        yield f"{name}-Box-filter", Case(name, "Box", FILTER)
        if "use_sde" in load(row.config).model_fields:
            yield f"{name}-Box-smooth", Case(name, "Box", {"use_sde": True, "log_std_init": -0.5})
        yield f"{name}-Discrete-LSTM", Case(name, "Discrete", {"model": LSTM})
        yield f"{name}-MultiDiscrete-shared", Case(name, "MultiDiscrete", shared)
        yield f"{name}-MultiBinary-LSTM-filter", Case(name, "MultiBinary", FILTER | {"model": PREVIOUS})
        yield f"{name}-Composite-LSTM-filter", Case(name, "Composite", FILTER | {"model": PREVIOUS})
        yield f"{name}-Discrete-masked-filter", Case(name, "Discrete", FILTER, True)
        yield f"{name}-Discrete-masked-LSTM", Case(name, "Discrete", {"model": LSTM}, True)


CASES = dict(_cases())


class Played:
    """What a worker of the case did with weights none of which is special: ``batch``, and the shape (E, T, M) of it."""

    def __init__(self, case):
        row = table.find(case.row)
        known = load(row.config).model_fields
        passes = {key: value for key, value in PASSES.items() if key in known and case.row != "A3C"}
        if case.row == "DDPPO":  # whose batch is one fragment of each worker
            passes.pop("train_batch_size")
        self.config = batch_machine.config(case.row, **(WORKER | passes | case.keys))
        plan = preprocessors.plan(self.config, "Paced-v0")
        env = {"id": "Paced-v0", "env_config": {"actions": case.actions, "masked": case.masked}, "imports": ()}
        self.spaces = make.check(env["id"], env["env_config"], row, plan)
        nets = load(row.nets)
        self.spec = nets.policy_spec(self.config, self.spaces)
        rng, initial = np.random.default_rng(1), nets.initial_weights(self.config, self.spec, 3)
        self.weights = {n: (w + rng.normal(0, 0.3, w.shape)).astype(np.float32) for n, w in initial.items()}
        size = self.spec.obs_shape[0]
        if self.spec.filter:
            kept = np.zeros(size, bool)
            if self.spec.mask:
                kept[self.spec.mask[0] : sum(self.spec.mask)] = True
            self.weights |= {
                "filter/mean": np.float32(np.where(kept, 0, 1)),
                "filter/var": np.float32(np.where(kept, 1, 3)),
            }
        server = LocalHandle("server", "drl_cli.actors.parameter_server:ParameterServer", ())
        server.call("push", {"default_policy": {name: self.weights[name] for name in self.spec.weight_names()}})
        place = {"seed": 7, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": 3, "base": 0}
        worker = RolloutWorker(self.config, env | {"preprocessing": plan}, self.spec, place, server)
        fragments = [worker.collect(1)[1] for _ in range(2)]
        worker.close()
        sequence = self.config.model.max_seq_len if self.spec.state else 1
        self.batch = join(fragments, self.config.gamma, sequence, self.spec.stepwise)
        self.shape = (*self.batch["mask"].shape, len(self.batch["end_at"]))


def machine_of(case, played, seed=5):
    """Return the machine that learns as the case's row does, with the weights of ``played``."""
    kind = GradientMachine if case.row == "A3C" else batch_machine.BatchMachine
    machine = kind(case.row, played.config, played.spaces, played.shape, seed)
    targets = {f"target_{name}": value for name, value in played.weights.items()}
    machine.set(**played.weights, **{name: targets[name] for name in machine.values() if name in targets})
    return machine


class GradientMachine(batch_machine.BatchMachine):
    """A3C's learner, and what computes gradients for it in a worker: NumPy where it can, else a graph."""

    def _build(self, row, made, spaces, shape, seed):
        nets = load(table.find(row).nets)
        self.config, self.shape = made, shape
        self.spec = nets.policy_spec(made, spaces)
        self.initial = nets.initial_weights(made, self.spec, seed)
        self.compute = (NumpyGradients if is_computed(self.spec) else GraphGradients)(made, self.spec)
        with tf.Graph().as_default() as graph:
            self.graph = a3c_graph.build(made, self.spec, self.initial, seed, SCOPE)
            self._given = {name: tf.placeholder(tf.float32, size) for name, size in self.graph.trained.items()}
            self._rate = tf.placeholder(tf.float32, [])
            self._step = function(self.graph.apply, autograph=False)(self._given, {"lr": self._rate})
            self._start(graph)

    def gradients(self, batch):
        """Return ({name: gradient}, {name: statistic}) of the present weights."""
        values = self.values()
        policy = NumpyPolicy(self.spec, {name: values[name] for name in self.spec.weight_names()})
        return self.compute(policy, batch, self.config.entropy_coeff)

    def learn(self, batch, lr=1e-2):
        """Apply the gradient; returns its statistics."""
        found, stats = self.gradients(batch)
        feeds = {placeholder: found[name] for name, placeholder in self._given.items()} | {self._rate: lr}
        assert self.session.run(self._step, feeds)["finite"]
        return stats
