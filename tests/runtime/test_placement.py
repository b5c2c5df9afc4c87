"""Which resources learner and replay are placed by, and what is said where no node has them."""

from types import SimpleNamespace

import pytest
from runtime_runs import small_config

from drl_cli.config.sections.common import bundles
from drl_cli.errors import ClusterUnavailable
from drl_cli.runtime import placement

NODES = [
    {"CPU": 4.0, "memory": 2.0**30, "node:10.0.0.1": 1.0},
    {"CPU": 8.0, "GPU": 1.0, "fast": 1.0, "memory": 2.0**33},
]
APART = {"num_workers": 1, "learner_actor": True, "num_replay_shards": 1}


def cluster(nodes=NODES, is_patient=False):
    return SimpleNamespace(nodes=lambda: nodes, is_patient=is_patient)


def test_parts_stay_on_the_node_of_the_run_unless_resources_are_named():
    config = small_config(**APART)
    assert placement.learner_options(config) == {"pinned": True, "num_gpus": 0.0}
    assert placement.replay_options(config) == {"pinned": True}


def test_learner_goes_where_its_gpu_and_its_resources_are():
    config = small_config(**APART, num_gpus=1, custom_resources_for_learner={"fast": 0.5})
    assert placement.learner_options(config) == {"near": True, "num_gpus": 1.0, "resources": {"fast": 0.5}}
    assert placement.learner_options(small_config(**APART, num_gpus=1)) == {
        "near": True,
        "num_gpus": 1.0,
        "resources": {},
    }


def test_learner_in_the_process_of_the_run_stays_there_with_its_gpu():
    assert placement.learner_options(small_config(num_workers=1, num_gpus=1)) == {"pinned": True, "num_gpus": 1.0}


def test_replay_goes_where_its_memory_is():
    config = small_config(**APART, memory_for_replay=2**32, custom_resources_for_replay={"big": 1})
    assert placement.replay_options(config) == {"near": True, "resources": {"big": 1.0}, "memory": 2**32}


def test_trial_of_a_search_reserves_what_its_parts_are_placed_by():
    config = small_config(**APART, custom_resources_for_learner={"fast": 1}, memory_for_replay=5)
    assert bundles(config)[2:] == [{"fast": 1.0}, {"memory": 5.0}]


def test_gpu_of_a_trial_is_reserved_for_the_process_that_learns():
    asked = {"cpu": 2, "gpu": 1, "extra_cpu": 3}
    here = small_config(num_workers=1, num_gpus=1)
    assert bundles(here, asked) == [{"CPU": 2, "GPU": 1}, {"CPU": 3}]
    assert bundles(small_config(**APART, num_gpus=1), asked) == [{"CPU": 2}, {"CPU": 3}, {"GPU": 1}]
    assert bundles(small_config(**APART, num_gpus=1), {"cpu": 2}) == [{"CPU": 2}, {"GPU": 1}]


def test_resources_per_trial_leave_memory_and_custom_resources_reserved():
    config = small_config(
        num_workers=2, memory_per_worker=2**20, custom_resources_per_worker={"sim": 1}, custom_resources_for_learner={"x": 1},
        learner_actor=True, num_replay_shards=1, memory_for_replay=5,
    )  # fmt: skip
    assert bundles(config, {"cpu": 1, "extra_cpu": 2}) == [
        {"CPU": 1},
        {"CPU": 2, "memory": 2**21, "sim": 2},
        {"x": 1},
        {"memory": 5},
    ]


@pytest.mark.parametrize(
    "given",
    [{}, {"num_gpus": 1}, {"num_gpus": 1, "custom_resources_for_learner": {"fast": 1}}, {"memory_for_replay": 2**32}],
)
def test_resources_that_a_node_has_are_accepted(given):
    assert placement.check(small_config(**APART, **given), cluster()) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"custom_resources_for_learner": {"fats": 1}},
            r"^custom_resources_for_learner: no node has what the learner requests \(1 fats\); the most that a node has: "
            r"0 fats. Did you mean 'fast'\?",
        ),
        ({"custom_resources_for_learner": {"fast": 2}}, r"requests \(2 fast\); the most that a node has: 1 fast\."),
        (
            {"num_gpus": 2},
            r"^num_gpus: no node has what the learner requests \(2 GPU\); the most that a node has: 1 GPU",
        ),
        (
            {"memory_for_replay": 2**34, "num_replay_shards": 2, "num_workers": 2},
            r"^memory_for_replay: no node has what each of the 2 shards of the replay requests \(16.0 GiB memory\); the most "
            "that a node has: 8.0 GiB memory",
        ),
    ],
)
def test_resources_that_no_node_has_are_one_line(given, said):
    with pytest.raises(ClusterUnavailable, match=said) as caught:
        placement.check(small_config(**{**APART, **given}), cluster())
    assert "\n" not in str(caught.value)


def test_resources_of_two_nodes_are_not_added_up():
    nodes = [{"fast": 1.0}, {"GPU": 1.0}]
    with pytest.raises(ClusterUnavailable, match="no node has"):
        config = small_config(**APART, num_gpus=1, custom_resources_for_learner={"fast": 1})
        placement.check(config, cluster(nodes))


def test_nodes_that_may_still_join_are_waited_for():
    config = small_config(**APART, custom_resources_for_learner={"fats": 1})
    assert placement.check(config, cluster(is_patient=True)) is None


def test_part_without_a_place_ends_the_start(monkeypatch):
    monkeypatch.setattr(placement, "PLACEMENT_S", -1.0)
    waiting = SimpleNamespace(name="learner", ready=lambda: None)
    with pytest.raises(
        ClusterUnavailable, match="learner has found no place: the nodes that have its resources are taken"
    ):
        placement.await_place(waiting, SimpleNamespace(wait=lambda calls, seconds: [], is_patient=False))
