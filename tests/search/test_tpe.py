"""Optuna behind Tune's searcher; no Ray is started."""

import pytest
import searches
from searches import METRIC

from drl_cli import process
from drl_cli.config.search_space import Sampler

process.prepare_ray()
optuna = pytest.importorskip("optuna")

from drl_cli.search import tpe  # noqa: E402

pytestmark = pytest.mark.tensorflow

SAMPLERS = {"lr": ["loguniform", [1e-5, 1e-1]], "layers": ["choice", [[8], [16, 16]]], "n": ["randint", [1, 9]]}


class Points:
    """Makes points as the search does."""

    def __init__(self):
        self.made = []

    def __call__(self, values):
        self.made.append(values)
        return searches.point(len(self.made) - 1, 0) | {"values": values}


def searcher(points=None, waiting=(), told=(), samplers=None, **changes):
    data = searches.data(search="tpe", samplers=samplers or SAMPLERS, **changes)
    return tpe.ParzenSearcher(data, points or Points(), waiting, told)


def test_suggestions_are_points_with_values_of_the_space():
    point = searcher().suggest("a")["point"]
    values = point["values"]
    assert 1e-5 <= values["lr"] <= 1e-1 and values["layers"] in ([8], [16, 16]) and 1 <= values["n"] < 9
    assert (point["trial"], point["bundles"]) == (0, [{"CPU": 1}])


def test_it_learns_where_the_score_is_high():
    points = Points()
    made = searcher(points, samplers={"x": ["uniform", [0, 1]]})
    for number in range(60):
        x = made.suggest(f"t{number}")["point"]["values"]["x"]
        made.on_trial_complete(f"t{number}", {METRIC: -((x - 0.8) ** 2)})
    early = [abs(values["x"] - 0.8) for values in points.made[:10]]
    late = [abs(values["x"] - 0.8) for values in points.made[-10:]]
    assert sum(late) < 0.4 * sum(early)


def test_low_scores_are_looked_for_where_low_is_good():
    points = Points()
    made = searcher(points, samplers={"x": ["uniform", [0, 1]]}, mode="min")
    for number in range(40):
        made.on_trial_complete(f"t{number}", {METRIC: made.suggest(f"t{number}")["point"]["values"]["x"]})
    late = sorted(values["x"] for values in points.made[-20:])
    assert late[0] < 0.02 and late[10] < 0.25


def test_points_that_wait_come_first_and_count():
    waiting = [searches.point(5, 0) | {"values": {"lr": 1e-3, "layers": [16, 16], "n": 4}}]
    made = searcher(waiting=waiting)
    assert made.suggest("a")["point"] == waiting[0]
    made.on_trial_complete("a", {METRIC: 3.0})
    known = made._study.trials[0]
    assert (known.value, known.params) == (3.0, {"lr": 1e-3, "layers": 1, "n": 4})


def test_trials_of_an_earlier_session_are_known():
    told = [({"lr": 1e-3, "layers": [8], "n": 4}, 7.0), ({"lr": 1e-4, "layers": [8], "n": 2}, None)]
    states = [(t.state.name, t.value) for t in searcher(told=told)._study.trials]
    assert states == [("COMPLETE", 7.0), ("FAIL", None)]


def test_resumed_search_does_not_repeat_its_first_points():
    first = searcher().suggest("a")["point"]["values"]
    told = [(first, 1.0)]
    assert searcher(told=told).suggest("b")["point"]["values"] != first


@pytest.mark.parametrize("outcome", [{"error": True}, {"result": {METRIC: float("nan")}}, {"result": None}])
def test_trial_without_a_score_is_told_as_failed(outcome):
    made = searcher()
    made.suggest("a")
    made.on_trial_complete("a", **outcome)
    assert made._study.trials[0].state.name == "FAIL"


def test_steps_and_logarithms_become_optunas():
    assert tpe.distribution(Sampler("quniform", (0, 1, 0.25))).step == 0.25
    assert tpe.distribution(Sampler("loguniform", (1e-3, 1))).log is True
    whole = tpe.distribution(Sampler("randint", (3, 9)))
    assert (whole.low, whole.high) == (3, 8)
