"""Ray Tune's schedulers as a search makes them; no Ray is started."""

import pytest
import searches
from searches import METRIC

from drl_cli import process
from drl_cli.config.search_space import Sampler
from drl_cli.config.sections import schedulers as keys
from drl_cli.search.search_record import EarlierRows

process.prepare_ray()

from ray.tune import schedulers as tunes  # noqa: E402

from drl_cli.search import tune_schedulers  # noqa: E402

pytestmark = pytest.mark.tensorflow

NOTHING = EarlierRows({}, {})


def data(name, samplers=None, **config):
    settings = keys.SECTIONS[name](**config).model_dump(mode="json")
    del settings["metric"], settings["mode"]
    return searches.data(scheduler={"name": name, "config": settings}, samplers=samplers or {})


def result(iteration, score):
    return {"training_iteration": iteration, "time_total_s": float(iteration), METRIC: score}


class Live:
    """A trial of Tune's, as far as schedulers look at one."""

    def __init__(self, number, values):
        self.trial_id, self.custom_trial_name = f"t{number}", f"{number:05d}"
        self.config = {"point": {"trial": number, "values": values or {}}}


def live(number, values=None):
    return Live(number, values)


@pytest.mark.filterwarnings("error")
def test_asha_before_the_first_evaluations_goes_on_and_numpy_warns_of_nothing():
    made = tune_schedulers.make(data("AsyncHyperBand", grace_period=1, max_t=100), NOTHING)
    trials = [live(number) for number in range(3)]
    for trial in trials:
        made.on_trial_add(None, trial)
    for iteration in (1, 2, 4):
        for trial in trials:
            assert made.on_trial_result(None, trial, result(iteration, float("nan"))) == tunes.TrialScheduler.CONTINUE
    made.on_trial_complete(None, trials[0], result(5, float("nan")))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FIFO", tunes.FIFOScheduler),
        ("MedianStoppingRule", tunes.MedianStoppingRule),
        ("AsyncHyperBand", tune_schedulers.Halving),
        ("HyperBand", tunes.HyperBandScheduler),
    ],
)
def test_every_scheduler_is_made_of_its_default_keys(name, kind):
    assert type(tune_schedulers.make(data(name), NOTHING)) is kind


def test_asha_stops_the_lower_half_at_a_rung():
    scheduler = tune_schedulers.make(data("AsyncHyperBand", grace_period=2, reduction_factor=2.0, max_t=10), NOTHING)
    first, second = live(0), live(1)
    scheduler.on_trial_add(None, first)
    scheduler.on_trial_add(None, second)
    assert scheduler.on_trial_result(None, first, result(2, 10.0)) == "CONTINUE"
    assert scheduler.on_trial_result(None, second, result(2, 5.0)) == "STOP"
    assert scheduler.on_trial_result(None, first, result(10, 10.0)) == "STOP"


def test_asha_of_a_resumed_search_knows_the_trials_that_are_over():
    rows = EarlierRows({0: [result(1, 3.0), result(2, 10.0)]}, {})
    scheduler = tune_schedulers.make(data("AsyncHyperBand", grace_period=2, reduction_factor=2.0, max_t=10), rows)
    second = live(1)
    scheduler.on_trial_add(None, second)
    assert scheduler.on_trial_result(None, second, result(2, 5.0)) == "STOP"


def test_asha_of_a_resumed_search_knows_what_a_trial_that_goes_on_has_shown():
    rows = EarlierRows({}, {0: [result(2, 10.0)]})
    scheduler = tune_schedulers.make(data("AsyncHyperBand", grace_period=2, reduction_factor=2.0, max_t=10), rows)
    first, second = live(0), live(1)
    scheduler.on_trial_add(None, first)
    scheduler.on_trial_add(None, second)
    assert scheduler.on_trial_result(None, second, result(2, 5.0)) == "STOP"


def test_median_rule_of_a_resumed_search_stops_what_is_below():
    rows = EarlierRows({n: [result(1, 10.0), result(2, 10.0)] for n in range(3)}, {})
    config = {"time_attr": "training_iteration", "grace_period": 1.0, "min_samples_required": 3}
    scheduler = tune_schedulers.make(data("MedianStoppingRule", **config), rows)
    last = live(3)
    scheduler.on_trial_add(None, last)
    assert scheduler.on_trial_result(None, last, result(1, 2.0)) == "STOP"


def test_metric_that_is_not_known_yet_stops_nobody():
    rows = EarlierRows({0: [result(2, 10.0)]}, {})
    scheduler = tune_schedulers.make(data("AsyncHyperBand", grace_period=2, reduction_factor=2.0, max_t=10), rows)
    second = live(1)
    scheduler.on_trial_add(None, second)
    assert scheduler.on_trial_result(None, second, result(2, float("nan"))) == "CONTINUE"


def test_values_that_pbt_changes_stay_in_their_bounds_and_lists():
    samplers = {"gamma": ["uniform", [0.9, 0.999]], "steps": ["randint", [1, 5]], "width": ["choice", [32, 64]]}
    config = {"perturbation_factors": (3.0, 3.0), "resample_probability": 0.0}
    scheduler = tune_schedulers.make(data("PopulationBasedTraining", samplers, **config), NOTHING)
    good = live(1, {"gamma": 0.95, "steps": 2, "width": 32, "kept": 7})
    new, _ = scheduler._get_new_config(live(0), good)
    values = new["point"]["values"]
    assert (values["gamma"], values["steps"], values["kept"]) == (0.999, 4, 7)
    assert isinstance(values["steps"], int) and values["width"] in (32, 64)


def test_list_stays_a_list_for_pbt_to_move_in_and_a_range_becomes_tunes_own():
    assert tune_schedulers.domain(Sampler("choice", (1, 2, 3))) == [1, 2, 3]
    low, high = tune_schedulers.domain(Sampler("loguniform", (1e-4, 1e-2))).lower, Sampler("uniform", (0, 1)).bounds[1]
    assert (low, high) == (1e-4, 1)
