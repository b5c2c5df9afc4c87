"""Learner and replay on nodes of their own: a cluster of several nodes on this machine, told apart by custom resources."""

import pytest
from runtime_runs import env_facts, small_config

from drl_cli import checkpoints
from drl_cli.errors import ClusterUnavailable
from drl_cli.extras import load
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.driver import Driver

pytestmark = [pytest.mark.ray, pytest.mark.slow]

NODE = {"object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.1"}
FAST, BIG = {"num_cpus": 0, "resources": {"fast": 1}}, {"num_cpus": 0, "resources": {"big": 2}}
KEYS = {
    "num_workers": 1,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
    "learner_actor": True,
    "num_replay_shards": 1,
    "custom_resources_for_learner": {"fast": 1},
    "custom_resources_for_replay": {"big": 1},
}


@pytest.fixture(scope="module")
def nodes():
    """A Cluster that this process has joined: its own node, one with the resource fast, and one with big."""
    cluster = load("ray.cluster_utils:Cluster")(
        initialize_head=True, head_node_args={**NODE, "num_cpus": 2, "include_dashboard": False}
    )
    cluster.named = {"fast": cluster.add_node(**NODE, **FAST), "big": cluster.add_node(**NODE, **BIG)}
    load("ray").init(address=cluster.address, configure_logging=False, log_to_driver=False)
    yield cluster
    load("ray").shutdown()
    cluster.shutdown()


@pytest.fixture
def run_of(nodes):
    """Function (keys, checkpoint to resume from) → a started Driver."""
    runs = []

    def begin(found=None, **keys):
        runs.append(Driver("SAC", small_config(**KEYS | keys), env_facts("Pendulum-v1")))
        if found:
            runs[-1].restore(found, exact=True)
        runs[-1].start()
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def node_with(resource):
    """Ray's id of the living node that has a resource."""
    found = [node["NodeID"] for node in load("ray").nodes() if node["Alive"] and resource in node["Resources"]]
    return found[0]


def trained(run, updates):
    for _ in range(300):
        if run.train()["info"]["num_updates"] >= updates:
            return
    raise AssertionError("no update was made")


def test_learner_and_replay_live_where_their_resources_are_train_save_and_resume(run_of, tmp_path):
    run = run_of()
    assert run.parts.learner.node().result() == node_with("fast")
    assert run.parts.replay.handles[0].node().result() == node_with("big")
    trained(run, 1)
    found = checkpoints.load(run.save(tmp_path), optional=True)
    stored, updates = run.parts.replay.size(), run.loop.ledger.updates
    run.close()
    assert found.has("replay")
    again = run_of(found)
    assert again.parts.learner.node().result() == node_with("fast")
    assert again.parts.replay.size() == stored and again.loop.ledger.updates == updates
    trained(again, updates + 1)


def test_resource_that_no_node_has_is_one_line_before_any_part_is_made(run_of):
    with pytest.raises(
        ClusterUnavailable, match=r"no node has what the learner requests \(1 fats\).* Did you mean 'fast'"
    ):
        run_of(custom_resources_for_learner={"fats": 1})


def test_run_whose_learner_is_lost_with_its_node_ends_and_is_resumed_on_another(run_of, nodes, tmp_path):
    run = run_of()
    trained(run, 1)
    found = checkpoints.load(run.save(tmp_path), optional=True)
    nodes.remove_node(nodes.named["fast"], allow_graceful=False)
    with pytest.raises(PartLost, match="^learner was lost") as caught:
        trained(run, 10**9)
    assert caught.value.exit_code == 3
    run.close()
    nodes.named["fast"] = nodes.add_node(**NODE, **FAST)
    again = run_of(found)
    assert again.parts.learner.node().result() == node_with("fast")
    trained(again, again.loop.ledger.updates + 1)
