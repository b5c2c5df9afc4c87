"""Where Ray is asked to place a part: in a run of its own, and in the placement group of a search's trial. Starts no Ray."""

from types import SimpleNamespace

import pytest
from runtime_runs import small_config

from drl_cli.extras import load
from drl_cli.runtime import placement
from drl_cli.runtime.cluster import ACTOR

HERE = "0a" * 28  # ids of Ray's nodes are hexadecimal
pytestmark = pytest.mark.ray


@pytest.fixture
def asked(monkeypatch):
    """Function (bundles of the group by node, None for no group, resources of ``spawn``) → the options of the actor."""
    module = load("drl_cli.runtime.ray_cluster")

    def of(nodes, resources):
        found = []

        def remote(kind):
            def options(**given):
                found.append(given)
                return SimpleNamespace(remote=lambda *args: "actor")

            return SimpleNamespace(options=options)

        group = None if nodes is None else "the group"
        fake = SimpleNamespace(
            remote=remote,
            get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: HERE),
            util=SimpleNamespace(
                get_current_placement_group=lambda: group,
                placement_group_table=lambda one: {"bundles_to_node_id": nodes},
            ),
        )
        monkeypatch.setattr(module, "ray", fake)
        cluster = object.__new__(module.RayCluster)
        cluster._handles = []
        cluster.spawn("learner", object, (), ACTOR, resources)
        return found[0]

    return of


def test_learner_of_a_run_is_on_the_node_of_the_run(asked):
    found = asked(None, placement.learner_options(small_config(num_workers=1, learner_actor=True)))
    strategy = found["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (HERE, False)


def test_learner_of_a_trial_is_in_the_bundle_of_the_trials_group_on_its_node(asked):
    options = placement.learner_options(small_config(num_workers=1, learner_actor=True))
    strategy = asked({0: "there", 1: HERE, 2: HERE}, options)["scheduling_strategy"]
    assert (strategy.placement_group, strategy.placement_group_bundle_index) == ("the group", 1)


def test_learner_of_a_trial_takes_its_gpu_from_the_group(asked):
    found = asked(
        {0: HERE, 1: "there"}, placement.learner_options(small_config(num_workers=1, learner_actor=True, num_gpus=1))
    )
    assert found["num_gpus"] == 1 and "scheduling_strategy" not in found  # Ray places children of a group in the group


def test_driver_that_is_in_no_bundle_of_its_group_keeps_its_parts_on_its_node(asked):
    assert asked({0: "there"}, {"pinned": True})["scheduling_strategy"].node_id == HERE
