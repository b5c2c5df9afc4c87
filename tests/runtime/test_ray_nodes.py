"""Runs over several Ray nodes on this machine, whose nodes are killed: each has daemons and an object store of its own."""

import os
import time

import numpy as np
import pytest
from runtime_runs import env_facts, small_config

from drl_cli.algorithms.ddppo import DDPPOConfig
from drl_cli.algorithms.impala import IMPALAConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.errors import ConfigError
from drl_cli.extras import load
from drl_cli.runtime import loop_kinds
from drl_cli.runtime import pool as pool_module
from drl_cli.runtime.cluster import ACTOR
from drl_cli.runtime.driver import Driver

pytestmark = [pytest.mark.ray, pytest.mark.slow]

NODE = {"num_cpus": 2, "object_store_memory": 200 * 2**20, "node_ip_address": "127.0.0.1"}
SMALL = {"num_workers": 4, "num_envs_per_worker": 2, "min_iter_time_s": 0, "evaluation_interval": None, "seed": 7}
BATCHES = {"rollout_fragment_length": 16, "train_batch_size": 128, "timesteps_per_iteration": 128, "xla": False}


@pytest.fixture(scope="module")
def nodes():
    """A Cluster that this process has joined: a head without CPUs, and two nodes of two CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)  # for runtime_envs
        cluster = load("ray.cluster_utils:Cluster")(
            initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False}
        )
        for _ in range(2):
            cluster.add_node(**NODE)
        load("ray").init(address=cluster.address, configure_logging=False, log_to_driver=False)
        yield cluster
        load("ray").shutdown()
        cluster.shutdown()


@pytest.fixture
def begun(nodes):
    """Function (algorithm, config) → a started Driver; nodes that the test killed are replaced after it."""
    runs = []

    def begin(algorithm, config):
        runs.append(Driver(algorithm, config, env_facts("Pendulum-v1" if algorithm == "SAC" else "CartPole-v1")))
        runs[-1].start()
        return runs[-1]

    yield begin
    for run in runs:
        run.close()
    while len(nodes.worker_nodes) < 2:
        nodes.add_node(**NODE)


def kill_a_node(nodes):
    nodes.remove_node(sorted(nodes.worker_nodes, key=id)[0], allow_graceful=False)


def until(run, condition, seconds=120):
    """Train until ``condition(result)``; returns that result."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        result = run.train()
        if condition(result):
            return result
    raise AssertionError(f"it did not come true within {seconds} s")


def created_bytes():
    """Bytes that have been put into the object store of each node, {CPUs of the node: bytes}; fetched objects count."""
    stats = load("ray._private.internal_api:node_stats")
    found = {}
    for node in load("ray").nodes():
        if node["Alive"]:
            reply = stats(node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False)
            found[node["NodeID"]] = reply.store_stats.cumulative_created_bytes
    return found


@pytest.mark.parametrize(("dtype", "share"), [("float32", 1.0), ("float16", 0.5)])
def test_weights_are_sent_to_a_node_once_a_version_however_many_workers_it_has(nodes, dtype, share):
    cluster = load("drl_cli.runtime.ray_cluster:RayCluster")({}, 1)
    try:
        server = cluster.spawn("parameter server", loop_kinds.SERVER, (dtype,), ACTOR, {"pinned": True})
        weights = {"default_policy": {"kernel": np.full((512, 512), 1.0 + 2**-13, np.float32)}}
        server.call("push", weights).result()
        readers = [
            cluster.spawn(f"reader {n}", "runtime_envs:Reader", (server,), ACTOR, {"num_cpus": 1}) for n in range(4)
        ]
        for call in [reader.call("pull", 1) for reader in readers]:
            call.result()
        before = created_bytes()
        for version in range(2, 7):
            server.call("push", weights).result()
            read = [call.result() for call in [reader.call("pull", version) for reader in readers]]
        assert read == 4 * [{"kernel": ("float32", 1.0 if dtype == "float16" else 1.0 + 2**-13)}]
        here = load("ray").get_runtime_context().get_node_id()
        spent = [(after - before[node]) / 5 / 2**20 for node, after in created_bytes().items() if node != here]
        assert spent == pytest.approx([share, share], rel=0.05)  # of 1 MiB, with two workers on each node
    finally:
        cluster.close()


def test_run_goes_on_without_a_lost_node_and_grows_when_another_joins(
    nodes, begun, quick_learner, reports, monkeypatch
):
    monkeypatch.setattr(pool_module, "PLACEMENT_NOTE_S", 1.0)
    run = begun("SAC", small_config(**SMALL, learning_starts=400, buffer_size=100_000))
    until(run, lambda result: result["num_healthy_workers"] == 4 and run.loop.ledger.updates)
    kill_a_node(nodes)
    result = until(run, lambda result: result["num_healthy_workers"] == 2)
    noted = until(
        run,
        lambda result: any("has found no place" in text or "have found no place" in text for text in warned(reports)),
    )
    assert noted["num_healthy_workers"] == 2 and noted["timesteps_total"] > result["timesteps_total"]
    assert warned(reports)[-1].endswith(
        "no place for 1 s: the run goes on with 2 of 4 workers, and with more when there is room"
    )
    nodes.add_node(**NODE)
    until(run, lambda result: result["num_healthy_workers"] == 4)
    run.loop.quiesce()
    pool, ledger = run.parts.pool, run.loop.ledger
    assert pool.outstanding == 0 and pool.fragments_lost >= 2
    assert pool.requested == ledger.fragments + pool.fragments_lost
    assert ledger.sampled == ledger.fragments * 2 * 10  # each once


def warned(reports):
    return [fields["text"] for kind, fields in reports if kind == "warning"]


PASSES = {"sgd_minibatch_size": 64, "num_sgd_iter": 1}
DECENTRALIZED = {
    "train_batch_size": None,
    "sgd_minibatch_size": 8,
    "straggler_cutoff": 1.0,
}  # batches of a fragment, all whole


@pytest.mark.parametrize(
    ("algorithm", "config", "own"),
    [("PPO", PPOConfig, PASSES), ("IMPALA", IMPALAConfig, {}), ("DDPPO", DDPPOConfig, DECENTRALIZED)],
)
def test_every_fragment_is_learnt_from_once_or_counted_as_lost_when_a_node_dies(nodes, begun, algorithm, config, own):
    keys = SMALL | BATCHES | own
    run = begun(algorithm, config.model_validate(keys))
    until(run, lambda result: result["num_healthy_workers"] == 4 and run.loop.ledger.updates > 3)
    kill_a_node(nodes)
    lost = until(run, lambda result: result["num_healthy_workers"] == 2)["info"]["num_updates"]
    until(run, lambda result: result["info"]["num_updates"] > lost + 5)
    run.loop.quiesce()
    info, pool = run.loop.info(), run.parts.pool
    waiting = run.loop.stored // 32
    assert pool.outstanding == 0 and pool.fragments_lost > 0
    assert pool.requested == run.loop.ledger.fragments + waiting + pool.fragments_lost + info.get(
        "fragments_dropped", 0
    )
    assert run.loop.trained() == 32 * run.loop.ledger.fragments


NETS = {"policy_model": {"fcnet_hiddens": [8]}, "Q_model": {"fcnet_hiddens": [8]}}
FEW_UPDATES = {"learning_starts": 200, "train_batch_size": 32, "updates_per_call": 10, "publish_every": 10} | NETS
DETERMINISTIC = SMALL | {
    "deterministic": True,
    "rollout_fragment_length": 10,
    "timesteps_per_iteration": 200,
    "xla": False,
}


@pytest.mark.parametrize(
    ("algorithm", "config", "own"),
    [
        ("PPO", PPOConfig, {"train_batch_size": 80} | PASSES | {"sgd_minibatch_size": 40}),
        ("SAC", SACConfig, FEW_UPDATES),
    ],
)
def test_deterministic_run_on_two_nodes_of_which_one_dies_has_the_weights_of_one_without_workers(
    nodes, begun, algorithm, config, own
):
    def weights(run):
        run.train()
        return {name: array.tobytes() for name, array in run.parts.learner.call("state").result().items()}

    run, inline = (begun(algorithm, config.model_validate(DETERMINISTIC | own | {"num_workers": n})) for n in (4, 0))
    apart = [weights(run) for _ in range(2)]
    assert len({worker.node().result() for worker in run.parts.pool.placed().values()}) == 2
    kill_a_node(nodes)
    while run.parts.pool.restarts < 2 and len(apart) < 500:  # its workers may live for some seconds longer
        apart.append(weights(run))
    apart += [weights(run) for _ in range(2)]
    assert run.parts.pool.restarts >= 2 and run.loop.ledger.updates > 0
    assert [weights(inline) for _ in apart] == apart


def test_search_asks_the_other_nodes_whether_they_see_its_folder(nodes, tmp_path):
    tune_runner, record = load("drl_cli.search.tune_runner"), tmp_path / "search.json"
    record.touch()
    tune_runner.check_folder(record)  # all nodes are this machine
    record.unlink()
    with pytest.raises(ConfigError) as caught:
        tune_runner.check_folder(record)
    assert f"the nodes 127.0.0.1, 127.0.0.1 do not see {tmp_path}" in str(caught.value)
