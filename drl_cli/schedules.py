"""Values that change with env steps, or with another number."""

from collections.abc import Sequence


def value_at(schedule: float | Sequence[Sequence[float]], step: float) -> float:
    """Return ``schedule`` itself if it is a number, else the linear interpolation of its (env step, value) points.

    Constant before the first point and after the last one.
    """
    if isinstance(schedule, (int, float)):
        return float(schedule)
    before = schedule[0]
    for point in schedule:
        if step < point[0]:
            if point[0] == before[0]:
                return float(point[1])
            share = (step - before[0]) / (point[0] - before[0])
            return float(before[1] + max(0.0, share) * (point[1] - before[1]))
        before = point
    return float(before[1])
