"""Filters and order of runs."""

import dataclasses

import pytest
from fake_runs import STARTED, row, write_run

from drl_cli.runs import run_summary, select
from drl_cli.runs.select import Wanted


@pytest.fixture
def runs(tmp_path):
    """SAC 1 (best 5, failed), TD3 2 (no best), SAC 3 on LunarLander (best 9, experiment "late", a day later)."""
    best = {"checkpoint": "checkpoint_000001", "metric": "episode_reward_mean"}
    paths = [
        write_run(tmp_path, 1, [row(3)], {"state": "failed"}, best={**best, "value": 5.0}),
        write_run(tmp_path, 2, [row(9)], run="TD3"),
        write_run(tmp_path, 3, [row(1)], best={**best, "value": 9.0}, env="LunarLander-v3", experiment="late"),
    ]
    made = [run_summary.read(path) for path in paths]
    later = [(STARTED, STARTED + 100), (STARTED + 1, STARTED + 100), (STARTED + 86_400, STARTED + 86_500)]
    return [dataclasses.replace(run, started=a, updated=b) for run, (a, b) in zip(made, later, strict=True)]


def numbers(runs):
    return [int(run.id, 16) for run in runs]


@pytest.mark.parametrize(
    "wanted, expected",
    [
        (Wanted(), [1, 2, 3]),
        (Wanted(states=("failed", "died")), [1]),
        (Wanted(algorithms=("sac",)), [1, 3]),
        (Wanted(envs=("lunar*",)), [3]),
        (Wanted(envs=("lunar*", "Pendulum-v1"), algorithms=("TD3",)), [2]),
        (Wanted(experiments=("la?e",)), [3]),
        (Wanted(older_than=3600.0), [1, 2]),
        (Wanted(newer_than=3600.0), [3]),
        (Wanted(algorithms=("SA",)), []),
    ],
)
def test_select_keeps_what_passes_every_filter(runs, wanted, expected):
    assert numbers(select.select(runs, wanted, now=STARTED + 86_600)) == expected


def test_wanted_knows_that_it_is_empty():
    assert Wanted().is_empty and not Wanted(states=("died",)).is_empty and not Wanted(older_than=0.0).is_empty


@pytest.mark.parametrize(
    "by, reverse, expected",
    [
        ("started", False, [3, 2, 1]),
        ("started", True, [1, 2, 3]),
        ("best", False, [3, 1, 2]),
        ("best", True, [1, 3, 2]),  # what has no best stays last
        ("steps", False, [2, 1, 3]),
        ("time", False, [2, 1, 3]),
        ("algorithm", False, [3, 1, 2]),
        ("env", False, [3, 2, 1]),
        ("state", True, [3, 2, 1]),
    ],
)
def test_order_puts_the_largest_or_newest_first(runs, by, reverse, expected):
    assert numbers(select.order(runs, by, reverse)) == expected


def test_order_has_a_field_for_every_sort_key(runs):
    assert all(len(select.order(runs, by)) == 3 for by in select.SORTS)
