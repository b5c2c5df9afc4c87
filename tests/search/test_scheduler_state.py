"""HyperBand and PBT of a resumed search go on comparing where they were; no Ray is started."""

import json

import pytest
from searches import METRIC
from test_tune_schedulers import NOTHING, data, live, result

from drl_cli import process

process.prepare_ray()

from drl_cli.search import tune_schedulers  # noqa: E402

pytestmark = pytest.mark.tensorflow

PBT = {"perturbation_interval": 10.0, "hyperparam_mutations": {"lr": {"uniform": [0, 1]}}, "quantile_fraction": 0.5}
LR = {"lr": ["uniform", [0.0, 1.0]]}


class Controller:
    """Tune's controller, as far as HyperBand and PBT ask it."""

    search_alg = None

    def __init__(self, trials, scheduler=None):
        self.trials, self.scheduler = trials, scheduler

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return self.trials

    def stop_trial(self, trial):
        self.scheduler.on_trial_remove(self, trial)

    def _schedule_trial_save(self, trial, result):
        return None


def trials(count, status="RUNNING"):
    made = [live(number, {"lr": 0.5}) for number in range(count)]
    for trial in made:
        trial.status, trial.is_saving, trial.experiment_tag, trial.evaluated_params = status, False, "", {}
        trial.is_finished = lambda: False
        trial.run_metadata = type(
            "Metadata", (), {"checkpoint_manager": type("Manager", (), {"checkpoint_config": _Kept})}
        )
    return made


class _Kept:
    num_to_keep = None


def started(name, found, kept=None, samplers=None, **config):
    scheduler = tune_schedulers.make(data(name, samplers, **config), NOTHING, kept)
    for trial in found:
        scheduler.on_trial_add(Controller(found), trial)
    return scheduler


def stored(scheduler):
    """What a record gives back: through JSON."""
    return json.loads(json.dumps(tune_schedulers.snapshot(scheduler)))


def test_hyperband_goes_on_at_the_rung_where_it_was():
    found = trials(8)
    before = started("HyperBand", found, max_t=9)  # the last five make a bracket with rungs at 3 and 9
    for number, trial in enumerate(found[3:]):
        trial.status = "RUNNING"
        before.on_trial_result(Controller(found, before), trial, result(3, float(number)))
        trial.status = "PAUSED"
    kept = stored(before)
    assert kept["bands"][0] == [
        {"n": 3, "r": 9, "halves": 0, "trials": [0, 1, 2]},
        {"n": 2, "r": 9, "halves": 0, "trials": [6, 7]},
    ]
    again = [trial for trial in trials(8) if tune_schedulers.number_of(trial) in (0, 1, 2, 6, 7)]
    after = started("HyperBand", again, kept, max_t=9)
    # Started anew, 4 iterations would be beyond the first rung, and the trial would wait there to be compared.
    assert after.on_trial_result(Controller(again), again[3], result(4, 1.0)) == "CONTINUE"
    assert [tune_schedulers.number_of(t) for t in after._hyperbands[0][1].current_trials()] == [6, 7]


def test_hyperband_waits_for_trials_that_have_not_reported_again():
    found = trials(8)
    kept = stored(started("HyperBand", found, max_t=9))
    again = trials(8, "PENDING")
    after = started("HyperBand", again, kept, max_t=9)
    again[3].status = "RUNNING"
    assert after.on_trial_result(Controller(again), again[3], result(3, 1.0)) == "PAUSE"


def test_hyperband_new_trials_join_the_bracket_that_was_filled_last():
    kept = stored(started("HyperBand", trials(4), max_t=9))
    after = started("HyperBand", trials(5), kept, max_t=9)
    members = [[tune_schedulers.number_of(t) for t in bracket.current_trials()] for bracket in after._hyperbands[0]]
    assert members == [[0, 1, 2], [3, 4]]


def test_population_is_not_compared_before_its_interval_is_over():
    found = trials(2)
    first = started("PopulationBasedTraining", found, samplers=LR, time_attr="training_iteration", **PBT)
    for trial, score in zip(found, (1.0, 2.0), strict=True):
        first.on_trial_result(Controller(found), trial, result(20, score))
    kept = stored(first)
    assert kept["trials"]["0"] == {"score": 1.0, "compared": 20, "trained": 20}
    again = trials(2)
    after = started("PopulationBasedTraining", again, kept, LR, time_attr="training_iteration", **PBT)
    after.on_trial_result(Controller(again), again[0], result(25, 9.0))
    assert after._trial_state[again[0]].last_score == 1.0  # not looked at: 5 of 10 iterations
    after.on_trial_result(Controller(again), again[0], result(30, 9.0))
    assert after._trial_state[again[0]].last_score == 9.0
    assert after._quantiles() == ([again[1]], [again[0]])  # the other one's score is known too


def test_synchronous_population_keeps_when_it_is_compared_next():
    config = {**PBT, "synch": True, "time_attr": "training_iteration"}
    first = started("PopulationBasedTraining", trials(2), samplers=LR, **config)
    first._next_perturbation_sync = 40
    again = trials(2)
    after = started("PopulationBasedTraining", again, stored(first), LR, **config)
    assert after._next_perturbation_sync == 40 and after._trial_state[again[0]].last_train_time == 0


def test_schedulers_that_follow_from_rows_keep_nothing():
    for name in ("FIFO", "AsyncHyperBand", "MedianStoppingRule"):
        assert tune_schedulers.snapshot(tune_schedulers.make(data(name), NOTHING)) == {}
    assert METRIC in result(1, 0.0)
