"""Which runs are replicates."""

import pytest
from fake_runs import write_run

from drl_cli.analysis.run_groups import group
from drl_cli.runs import run_summary


@pytest.fixture
def make(tmp_path):
    """A function that writes a run of ``config`` and reads it."""
    made = []

    def make(seed, config=None, **params):
        made.append(seed)
        config = {"seed": seed, "gamma": 0.99, "optimization": {"lr": 0.1}, **(config or {})}
        return run_summary.read(write_run(tmp_path, len(made), config=config, **{"seed": seed, **params}))

    return make


def labels(groups):
    return [(one.label, one.seeds) for one in groups]


def test_runs_alike_but_for_the_seed_are_one_group_sorted_by_seed(make):
    (one,) = group([make(3), make(1), make(2)])
    assert (one.label, one.algorithm, one.env, one.seeds, one.repeated) == ("SAC", "SAC", "Pendulum-v1", [1, 2, 3], [])


def test_groups_of_one_algorithm_are_told_apart_by_what_differs(make):
    runs = [make(1), make(1, {"gamma": 0.9}), make(2, {"optimization": {"lr": 0.5}})]
    assert labels(group(runs)) == [
        ("SAC lr=0.1 gamma=0.99", [1]),
        ("SAC lr=0.1 gamma=0.9", [1]),
        ("SAC lr=0.5 gamma=0.99", [2]),
    ]


def test_environments_stand_side_by_side(make):
    runs = [make(1), make(1, env="CartPole-v1", run="DQN"), make(1, run="TD3")]
    assert [(one.env, one.label) for one in group(runs)] == [
        ("Pendulum-v1", "SAC"),
        ("Pendulum-v1", "TD3"),
        ("CartPole-v1", "DQN"),
    ]


def test_log_level_is_no_difference(make):
    assert len(group([make(1, {"log_level": "INFO"}), make(2, {"log_level": "WARN"})])) == 1


def test_by_algorithm_experiment_and_run(make):
    runs = [make(1, {"gamma": 0.9}, experiment="a"), make(2, experiment="b"), make(3, experiment="b")]
    assert labels(group(runs, "algorithm")) == [("SAC", [1, 2, 3])]
    assert labels(group(runs, "experiment")) == [("SAC a", [1]), ("SAC b", [2, 3])]
    assert labels(group(runs, "run")) == [("SAC seed 1", [1]), ("SAC seed 2", [2]), ("SAC seed 3", [3])]


def test_a_seed_that_is_there_twice_is_told(make):
    assert group([make(1), make(1), make(2)])[0].repeated == [1]


def test_bookkeeping_is_named_only_where_nothing_else_differs(make):
    every = [{"evaluation_interval": 5, "train_batch_size": 200}, {"evaluation_interval": 10, "train_batch_size": 400}]
    assert [one.label for one in group([make(1, one) for one in every])] == [
        "SAC train_batch_size=200",
        "SAC train_batch_size=400",
    ]
    only = [make(1, {"evaluation_interval": n}) for n in (5, 10)]
    assert [one.label for one in group(only)] == ["SAC evaluation_interval=5", "SAC evaluation_interval=10"]


def test_a_key_that_tells_nothing_further_apart_is_left_out(make):
    every = [make(1, {"lr": lr, "tau": 10 * lr, "zeta": -lr}) for lr in (0.1, 0.2, 0.3)]
    assert [one.label for one in group(every)] == ["SAC lr=0.1", "SAC lr=0.2", "SAC lr=0.3"]


def test_labels_that_come_out_alike_have_the_id(make):
    runs = [make(1), make(1)]
    assert [one.label for one in group(runs, "run")] == [f"SAC {run.id}" for run in runs]


def test_runs_of_several_configs_drawn_one_by_one_are_told_apart_by_config_and_seed(make):
    runs = [make(seed, {"lr": lr}) for lr in (0.1, 0.2) for seed in (1, 2)]
    assert [one.label for one in group(runs, "run")] == [
        "SAC lr=0.1 seed=1",
        "SAC lr=0.1 seed=2",
        "SAC lr=0.2 seed=1",
        "SAC lr=0.2 seed=2",
    ]


def test_given_labels_name_the_groups_and_make_them(make):
    runs = [make(1), make(2, {"gamma": 0.9}), make(3, run="TD3")]
    named = dict(zip([run.path for run in runs], ("old", "old", "new"), strict=True))
    assert labels(group(runs, labels=named)) == [("old", [1, 2]), ("new", [3])]


@pytest.mark.parametrize(
    ("rates", "labels"),
    [
        ((0.00029917772, 0.5), ["SAC lr=0.0002992", "SAC lr=0.5"]),
        ((0.12345678, 0.12345679), ["SAC lr=0.12345678", "SAC lr=0.12345679"]),
    ],
)
def test_numbers_of_labels_have_four_digits_unless_that_makes_two_alike(make, rates, labels):
    assert [one.label for one in group([make(1, {"optimization": {"lr": rate}}) for rate in rates])] == labels
