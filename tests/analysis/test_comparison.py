"""Groups of runs against one another."""

import pytest
from fake_runs import evaluation, row, write_run

from drl_cli.analysis.comparison import CompareOptions, against_published, compare
from drl_cli.analysis.run_groups import group
from drl_cli.runs import run_summary
from drl_cli.runs.loggers import read_rows


@pytest.fixture
def make(tmp_path):
    """A function that writes a run with these evaluations, one an iteration, and reads it."""
    made = []

    def make(*values, **params):
        made.append(values)
        rows = [row(n, evaluation=evaluation(n, value)) for n, value in enumerate(values, 1)]
        params = {"seed": len(made), **params}
        path = write_run(tmp_path, len(made), rows, **{"config": {"seed": params["seed"]}, **params})
        return run_summary.read(path)

    return make


def compared(runs, **asked):
    return compare(group(runs), lambda run: read_rows(run.path), CompareOptions(**asked))


def test_a_group_has_scores_of_its_seeds_and_medians_of_steps_and_seconds(make):
    told = compared([make(1.0, 4.0), make(2.0, 6.0, 8.0)])
    (entry,) = told["groups"]
    assert [run["score"] for run in entry["runs"]] == [4.0, 8.0]
    assert (entry["n"], entry["mean"], entry["iqm"], entry["steps"], entry["seconds"]) == (2, 6.0, 6.0, 2500, 5.0)
    assert entry["goal"] is None and told["notices"] == [] and told["improvement"] == []


def test_the_better_of_two_groups_comes_first(make):
    told = compared([make(1.0), make(2.0), make(3.0, run="TD3"), make(1.5, run="TD3")])
    (pair,) = told["improvement"]
    assert (pair["x"], pair["y"], pair["probability"]) == ("TD3", "SAC", 0.75)
    assert pair["low"] <= 0.75 <= pair["high"]


def test_at_and_goal_look_at_the_same_steps(make):
    told = compared([make(1.0, 5.0), make(1.0, 2.0, 7.0), make(1.0)], goal=5.0, at=2000)
    (entry,) = told["groups"]
    assert [run["score"] for run in entry["runs"]] == [5.0, 2.0, 1.0]
    assert entry["goal"] == {"reached": 1, "steps": 2000, "seconds": 4.0}
    assert [run["goal_steps"] for run in entry["runs"]] == [2000, None, None]


def test_groups_of_quite_different_lengths_are_told(make):
    runs = [make(*[1.0] * 4), make(*[1.0] * 9, run="TD3")]
    told = compared(runs)["notices"]
    assert told == ["Pendulum-v1: scored after 4,000 to 9,000 steps; --at 4000 compares what was reached by then."]
    assert compared(runs, at=4000)["notices"] == []


def test_runs_without_a_score_are_told_with_a_way_out(make):
    told = compared([make(1.0), make()])
    assert told["groups"][0]["n"] == 1
    assert told["notices"] == [
        "SAC on Pendulum-v1: left out, without greedy evaluation: 00000002; --score training compares training episodes."
    ]


def test_repeated_seeds_and_runs_that_go_on_are_told(make):
    told = compared([make(1.0, seed=1), make(2.0, seed=1, status={"state": "failed"})])
    assert told["notices"] == [
        "SAC on Pendulum-v1: seed 1 occurs more than once; these runs are not independent replicates.",
        "SAC on Pendulum-v1: not finished: 00000002; their scores are those so far.",
    ]


def test_several_environments_are_put_together_by_ranks_and_by_scaled_scores(make):
    runs = [
        make(0.0),
        make(10.0, run="TD3"),
        make(-100.0, env="CartPole-v1"),
        make(-100.0, env="CartPole-v1", run="TD3"),
    ]
    told = compared(runs)
    (pair,) = told["overall"]
    assert (pair["x"], pair["y"], pair["probability"]) == ("TD3", "SAC", 0.75)
    assert pair["envs"] == ["Pendulum-v1", "CartPole-v1"]
    assert [(entry["label"], entry["iqm"]) for entry in told["scaled"]] == [("SAC", 0.0), ("TD3", 0.5)]


def test_scores_are_not_scaled_when_an_algorithm_lacks_an_environment(make):
    told = compared([make(0.0), make(10.0, run="TD3"), make(-100.0, env="CartPole-v1")])
    assert told["scaled"] == [] and told["overall"] == []


def test_published_figures_of_another_metric_are_no_best(make):
    told = against_published(compared([make(-60.0, env="mpe2/simple_spread-v3", run="MADDPG")]))
    assert [(f["source"], f["mean"]) for f in told["figures"]] == [
        ("epymarl", -120),
        ("tf2marl", -531.2),
        ("mava", -25),
    ]
    assert told["best"] == [] and told["sources"]["epymarl"]["metric"] == "the return divided by the number of agents"


def test_published_figures_are_those_of_the_same_algorithms_and_environments(make):
    runs = [make(0.0, env="LunarLanderContinuous-v3"), make(0.0, env="LunarLanderContinuous-v3", run="ES")]
    told = against_published(compared(runs))
    assert {(f["algorithm"], f["env"]) for f in told["figures"]} == {
        ("SAC", "LunarLanderContinuous-v2"),
        ("SAC", "LunarLanderContinuous-v3"),
    }
    (best,) = told["best"]
    assert (best["algorithm"], best["mean"], best["source"]) == ("TQC", 277.96, "rl-zoo3")
    assert set(told["sources"]) == {"rl-zoo3", "slm-lab"}
    assert told["notices"] == [
        "No figure is shipped for ES on LunarLanderContinuous-v3.",
        "LunarLanderContinuous-v3 is compared with LunarLanderContinuous-v2: v2 and v3 pay the same rewards and fly "
        "alike without wind.",
    ]
