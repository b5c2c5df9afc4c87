"""Several learners: the same weights as one, what becomes of errors and of replicas that are started again."""

import numpy as np
import pytest
from parts import server

from drl_cli import events
from drl_cli.actors.batch_learner import BatchLearner
from drl_cli.actors.learner_replica import ReplicaGroup, parallel_of
from drl_cli.algorithms import table
from drl_cli.errors import ClusterUnavailable, ConfigError, RunFailed
from drl_cli.extras import load
from drl_cli.runtime.cluster import ACTOR, InlineCluster, finished

pytestmark = pytest.mark.tensorflow

SPACES = {
    "obs": {"kind": "Box1d", "shape": (3,), "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": ()},
    "frames": 1,
}
SMALL = {
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 6,
    "train_batch_size": 24,
    "xla": False,
    "grad_clip": 0.1,
    "entropy_coeff": 0.01,
    "model": {"fcnet_hiddens": [5]},
}
PPO = {"sgd_minibatch_size": 9, "num_sgd_iter": 4, "kl_coeff": 0.2}
IMPALA = {"num_sgd_iter": 1}
LSTM = {"model": {"fcnet_hiddens": [5], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3}}


def _learner(row, **keys):
    """A learner of ``row``, and its replicas as its config has them."""
    row = table.find(row)
    config = load(row.config).model_validate(SMALL | keys)
    nets = load(row.nets)
    spec = nets.policy_spec(config, SPACES)
    initial, cluster = nets.initial_weights(config, spec, 3), InlineCluster()
    identity = {"seed": 3, "with_ray": False}
    args = (config, spec, row.graph, initial, identity)
    others = range(1, config.num_learners)
    handles = [
        cluster.spawn(f"learner {n}", "drl_cli.actors.learner_replica:LearnerReplica", args, ACTOR) for n in others
    ]
    started = server()
    started.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}})
    own = identity | ({"replicas": handles} if handles else {})
    learner = BatchLearner(*args[:-1], own, started)
    learner.prepare(4, 6)
    return learner


def _fragment(rng, states=0):
    steps, streams = 6, 2
    columns = {
        "obs": rng.normal(0, 1, (steps, streams, 3)).astype(np.float32),
        "action": rng.integers(0, 2, (steps, streams)).astype(np.int32),
        "reward": rng.normal(0, 1, (steps, streams)).astype(np.float32),
        "logp": np.full((steps, streams), -0.7, np.float32),
        "terminated": np.zeros((steps, streams), bool),
        "truncated": np.zeros((steps, streams), bool),
        "tail_obs": rng.normal(0, 1, (streams, 3)).astype(np.float32),
        "position": np.arange(steps)[:, None].repeat(streams, 1).astype(np.int32),
    }
    columns["terminated"][2, 0] = True
    columns["end_obs"] = rng.normal(0, 1, (1, 3)).astype(np.float32)
    for index in range(states):
        columns[f"state_{index}"] = rng.normal(0, 1, (steps, streams, 4)).astype(np.float32)
        columns[f"end_state_{index}"] = rng.normal(0, 1, (1, 4)).astype(np.float32)
        columns[f"tail_state_{index}"] = rng.normal(0, 1, (streams, 4)).astype(np.float32)
    return columns


@pytest.mark.parametrize(
    ("row", "count", "batches", "expected", "keys"),
    [
        ("PPO", 2, 9, 108, PPO),
        ("PPO", 3, 2, 24, PPO | LSTM),
        ("PPO", 2, 2, 24, PPO | {"xla": True}),
        ("A2C", 2, 100, 100, {}),
        ("IMPALA", 2, 100, 100, IMPALA),
        ("IMPALA", 3, 3, 3, IMPALA | LSTM),
        ("IMPALA", 2, 3, 3, IMPALA | {"xla": True, "vtrace": False}),
        ("A2C", 2, 5, 5, {"microbatch_size": 7, "standardize_advantages": True}),
    ],
)
def test_several_learners_make_the_updates_of_one(row, count, batches, expected, keys):
    learners = [_learner(row, num_learners=number, **keys) for number in (1, count)]
    results = []
    for learner in learners:
        rng, result = np.random.default_rng(0), {}
        updates = 0
        for _ in range(batches):
            states = 2 if "model" in keys else 0
            result = learner.learn(0, None, _fragment(rng, states), _fragment(rng, states))
            updates += result["updates"]
        results.append((updates, result["stats"], learner.state()))
    (updates, stats, one), (made, more, several) = results
    assert made == updates == expected
    assert several.keys() == one.keys()
    for name, value in one.items():
        np.testing.assert_allclose(several[name], value, rtol=1e-5, atol=1e-5 * np.abs(value).max(), err_msg=name)
    for name, value in stats.items():
        assert more[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


class _Answers:
    """A handle whose calls answer from a list of (process id, number), or raise what is in it."""

    name = "learner 1"

    def __init__(self, *answers):
        self._answers = list(answers)

    def call(self, method, *args):
        assert method == "gradients" and len(args) == 3
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            return type("Failed", (), {"result": lambda self, timeout: (_ for _ in ()).throw(answer)})()
        process, number = answer
        return finished((process, [np.float32([number])], np.float32([number, 1]), np.float32([number])))


def test_sums_are_those_of_all_replicas_and_a_new_process_is_reported_once():
    seen = []
    group = ReplicaGroup([_Answers((1, 5.0), (2, 1.0), (2, 1.0)), _Answers((7, 3.0), (7, 1.0), (7, 1.0))])
    found = []
    stop = events.subscribe(lambda kind, fields: seen.append((kind, fields)))
    try:
        for _ in range(3):
            group.begin([], {}, [{}, {}])
            found.append(group.sums())
    finally:
        stop()
    gradients, added, tops = found[0]
    assert (gradients.tolist(), added.tolist(), tops.tolist()) == ([8.0], [8.0, 2.0], [5.0])
    assert len(seen) == 1 and "learner 1 was lost and has been started again" in str(seen[0])


def test_a_replica_that_cannot_be_had_again_ends_the_run_with_its_own_error():
    learner = _learner("A2C", num_learners=2)
    learner._replicas._handles = [_Answers(RunFailed("learner 1 was lost: gone"))]
    rng = np.random.default_rng(0)
    with pytest.raises(RunFailed, match="^learner 1 was lost: gone$"):
        learner.learn(0, None, _fragment(rng), _fragment(rng))


def test_a_replica_without_a_place_is_named_with_what_helps():
    def late(self, timeout=None):
        assert timeout == 120.0
        raise TimeoutError

    handle = _Answers()
    handle.ready = lambda: type("Waiting", (), {"result": late})()
    with pytest.raises(ClusterUnavailable, match="^learner 1 has not answered for 120 s: .* Lower num_learners"):
        ReplicaGroup([handle]).ready()


def test_a_graph_without_gradients_to_share_is_refused():
    with pytest.raises(ConfigError, match="Set num_learners to 1"):
        parallel_of(type("Built", (), {"parallel": None}))
