"""How a statistic of many updates is made of those of each."""

import pytest

from drl_cli.config.update_statistics import Reducer, reducer_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [("min_q", Reducer.LEAST), ("max_q", Reducer.GREATEST), ("mean_q", Reducer.MEAN), ("entropy_max_", Reducer.MEAN)],
)
def test_prefix_of_a_name_decides(name, expected):
    assert reducer_of(name) is expected


@pytest.mark.parametrize(("name", "expected"), [("min_q", -1.0), ("max_q", 5.0), ("loss", (3 * 5.0 - 1.0) / 4)])
def test_statistic_of_all_updates_follows_from_those_of_the_calls(name, expected):
    reducer, joined = reducer_of(name), None
    for value, updates in ((5.0, 3), (-1.0, 1)):
        joined = reducer.joined(joined, value, updates)
    assert reducer.closed(joined, 4) == expected


def test_start_changes_nothing():
    for reducer in Reducer:
        assert reducer.joined(reducer.start, 2.0, 1) == reducer.joined(None, 2.0, 1) == 2.0
