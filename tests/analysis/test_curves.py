"""Rows → curves on a grid."""

import numpy as np
import pytest
from fake_runs import evaluation, row

from drl_cli.analysis import curves
from drl_cli.analysis.curves import Bundle, Line


def line(x, y):
    return Line("path", 1, np.array(x, float), np.array(y, float))


@pytest.mark.parametrize(
    "axis, expected", [("steps", [1000, 2000, 3000]), ("seconds", [2, 4, 6]), ("updates", [40, 80, 120])]
)
def test_points_over_each_axis(axis, expected):
    x, y = curves.points([row(1), row(2), row(3)], "episode_reward_mean", axis)
    assert (x.tolist(), y.tolist()) == (expected, [10.0, 20.0, 30.0])


def test_points_of_evaluations_count_once_at_the_weights_they_scored():
    rows = [
        row(1),
        row(2, evaluation=evaluation(1, 5.0)),
        row(3, evaluation=evaluation(1, 5.0)),
        row(4, evaluation=evaluation(4, 7.0)),
    ]
    x, y = curves.points(rows, "evaluation/episode_reward_mean", "steps")
    assert (x.tolist(), y.tolist()) == ([1000, 4000], [5.0, 7.0])
    assert curves.points(rows, "evaluation/episode_reward_mean", "seconds")[0].tolist() == [4.0, 8.0]


def test_points_leave_out_rows_without_a_value():
    rows = [row(1, episode_reward_mean=None), row(2), row(3, time_total_s=None)]
    assert curves.points(rows, "episode_reward_mean", "seconds")[0].tolist() == [4.0]
    assert len(curves.points([], "episode_reward_mean", "steps")[0]) == 0


def test_smoothed_without_a_width_is_straight_lines_inside_and_nothing_outside():
    got = curves.smoothed(np.array([1.0, 3.0]), np.array([0.0, 4.0]), np.linspace(0, 4, 5), 0.0)
    assert np.isnan(got[[0, 4]]).all() and got[1:4].tolist() == [0.0, 2.0, 4.0]


def test_smoothed_agrees_with_the_kernel_written_out():
    grid, x, y = np.linspace(0, 10, 11), np.arange(11.0), np.array([0, 5, 1, 7, 2, 9, 3, 8, 1, 4, 6.0])
    slow = []
    for here in grid:
        weights = [np.exp(-0.5 * ((here - there) / 2.0) ** 2) for there in grid]
        line = np.polyfit(grid, y, 1, w=np.sqrt(weights))
        slow.append(np.polyval(line, here))
    assert curves.smoothed(x, y, grid, 0.2) == pytest.approx(slow)


def test_smoothing_of_a_short_curve_is_by_its_own_length():
    x, y = np.arange(11.0), np.array([0, 5, 1, 7, 2, 9, 3, 8, 1, 4, 6.0])
    alone = curves.smoothed(x, y, np.linspace(0, 10, 101), 0.05)
    beside_a_long_one = curves.smoothed(x, y, np.linspace(0, 1000, 10001), 0.05)
    assert beside_a_long_one[:101] == pytest.approx(alone) and np.isnan(beside_a_long_one[101:]).all()


def test_a_curve_that_rises_begins_where_its_run_began():
    got = curves.smoothed(np.array([0.0, 10.0]), np.array([20.0, 500.0]), np.linspace(0, 10, 50), 0.1)
    assert got == pytest.approx(np.linspace(20.0, 500.0, 50))


def test_smoothing_keeps_a_constant_curve():
    got = curves.smoothed(np.array([0.0, 10.0]), np.array([3.0, 3.0]), np.linspace(0, 10, 50), 0.1)
    assert got == pytest.approx(np.full(50, 3.0))


def test_a_run_of_one_point_stands_where_it_is():
    got = curves.smoothed(np.array([6.9]), np.array([3.0]), np.linspace(0, 10, 11), 0.1)
    assert np.flatnonzero(~np.isnan(got)).tolist() == [7] and got[7] == 3.0


def test_panel_draws_mean_and_band_where_all_runs_are_there():
    bundle = Bundle("SAC", [line([0, 10], [0, 0]), line([0, 10], [2, 2]), line([0, 5], [4, 4])])
    panel = curves.panel("Pendulum-v1", [bundle], 0.0, "range", goal=1.0)
    early, late = panel.grid < 5, panel.grid > 5.1
    assert bundle.complete[early].all() and not bundle.complete[late].any()
    assert bundle.mean[early] == pytest.approx(2.0) and bundle.mean[late] == pytest.approx(1.0)
    assert bundle.low[early] == pytest.approx(0.0) and bundle.high[early] == pytest.approx(4.0)
    assert np.isnan(bundle.low[late]).all() and panel.goal == 1.0


def test_panel_ends_the_mean_where_fewer_than_half_of_the_runs_are_left():
    bundle = Bundle("SAC", [line([0, 10], [9, 9]), line([0, 5], [1, 1]), line([0, 5], [1, 1])])
    panel = curves.panel("Pendulum-v1", [bundle], 0.0, "ci")
    assert np.isnan(bundle.mean[panel.grid > 5.1]).all()


def test_panel_of_single_runs_has_no_band():
    bundle = Bundle("SAC", [line([0, 10], [0, 10])])
    curves.panel("Pendulum-v1", [bundle], 0.0, "ci")
    assert np.isnan(bundle.low).all() and bundle.mean[-1] == 10.0


@pytest.mark.parametrize("value, text", [(0, "0"), (9999, "9999"), (15_540, "15.54k"), (1.5e6, "1.5M"), (-2e9, "-2G")])
def test_short_ticks(value, text):
    assert curves.short(value) == text
