"""Values that change with env steps."""

import pytest

from drl_cli.schedules import value_at


@pytest.mark.parametrize("step", [0, 1, 10**9])
def test_a_number_holds_for_ever(step):
    assert value_at(0.25, step) == 0.25
    assert value_at(1, step) == 1.0


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 1.0), (99, 1.0), (100, 1.0), (150, 0.75), (200, 0.5), (300, 0.4), (400, 0.3), (500, 0.2), (10**9, 0.2)],
)
def test_points_are_joined_by_lines_and_hold_outside(step, expected):
    assert value_at(((100, 1.0), (200, 0.5), (500, 0.2)), step) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("step", "expected"), [(0, 3.0), (5, 3.0), (6, 3.0)])
def test_a_single_point_holds_for_ever(step, expected):
    assert value_at(((5, 3.0),), step) == expected


def test_a_point_at_step_zero_begins_to_fall_at_once():
    assert [value_at(((0, 1.0), (10, 0.0)), step) for step in (0, 1, 5, 10)] == [1.0, 0.9, 0.5, 0.0]
