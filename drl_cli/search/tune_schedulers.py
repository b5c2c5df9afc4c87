"""Ray Tune's schedulers, made from the keys of ``config.sections.schedulers``. Used by ``search.tune_runner``.

Deviations from Tune: values that PBT changes stay inside the bounds that they are drawn from; in a resumed search ASHA and the
median rule get the results of the trials that are over again, HyperBand and PBT what ``scheduler_state`` kept.
"""

import warnings
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from ray import tune
from ray.tune import schedulers
from ray.tune.experiment import Trial

from drl_cli.config.search_space import Sampler
from drl_cli.experiments.search_data import SearchData
from drl_cli.search import scheduler_state
from drl_cli.search.search_record import EarlierRows, Row

REPLAYED = ("AsyncHyperBand", "MedianStoppingRule")
"""Schedulers whose state follows from the rows of the trials."""


def make(data: SearchData, rows: EarlierRows, kept: Mapping[str, Any] | None = None) -> schedulers.TrialScheduler:
    """Return the scheduler of a search's ``data``; of a resumed search, ``kept`` is what ``scheduler_state.snapshot`` gave."""
    name, config = data["scheduler"]["name"], dict(data["scheduler"]["config"])
    if name == "FIFO":
        return schedulers.FIFOScheduler()
    compared: dict[str, Any] = {"metric": data["metric"], "mode": data["mode"]}
    if name == "MedianStoppingRule":
        made = schedulers.MedianStoppingRule(**config, **compared)
    elif name == "AsyncHyperBand":
        made = Halving(**config, **compared)
    elif name == "HyperBand":
        made = schedulers.HyperBandScheduler(**config, **compared)
    else:
        made = _population(data, config, compared)
    if name in REPLAYED:
        _replay(made, rows)
    scheduler_state.restore(made, kept or {})
    return made


class Halving(schedulers.AsyncHyperBandScheduler):
    """ASHA without NumPy's warning at a rung where no trial has been evaluated yet, and nothing is halved."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict) -> str:
        """As Tune's."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice encountered", RuntimeWarning)
            return super().on_trial_result(tune_controller, trial, result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict) -> None:
        """As Tune's."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice encountered", RuntimeWarning)
            super().on_trial_complete(tune_controller, trial, result)


def _population(
    data: SearchData, config: dict[str, Any], compared: dict[str, Any]
) -> schedulers.PopulationBasedTraining:
    del config["hyperparam_mutations"]
    samplers = {name: Sampler(kind, tuple(arguments)) for name, (kind, arguments) in data["samplers"].items()}

    def bounded(changed: dict[str, Any]) -> dict[str, Any]:
        values = changed["point"]["values"]
        for name, sampler in samplers.items():
            if not sampler.is_listed:
                values[name] = sampler.clip(values[name])
                values[name] = int(values[name]) if sampler.is_whole else values[name]
        return changed

    mutations = {name: domain(sampler) for name, sampler in samplers.items()}
    return schedulers.PopulationBasedTraining(
        **config,
        **compared,
        hyperparam_mutations={"point": {"values": mutations}},
        custom_explore_fn=bounded,
        log_config=False,
    )


def domain(sampler: Sampler) -> Any:
    """Return Tune's own object for a Sampler; for a list the list, whose neighbours PBT moves between."""
    if sampler.is_listed:
        return list(sampler.arguments)
    return getattr(tune, sampler.kind)(*sampler.arguments)


def _replay(scheduler: schedulers.TrialScheduler, rows: EarlierRows) -> None:
    """Report the earlier results to ``scheduler``: of trials that are over now, of the others when they are added again."""
    controller: Any = SimpleNamespace(get_live_trials=list, get_trials=list, search_alg=None)
    add = scheduler.on_trial_add

    def report(trial: Any, earlier: Iterable[Row]) -> None:
        for row in earlier:
            scheduler.on_trial_result(controller, trial, row)

    def added(tune_controller: Any, trial: Trial) -> None:
        add(tune_controller, trial)
        report(trial, rows.live.pop(scheduler_state.number_of(trial), ()))

    for number, earlier in rows.over.items():
        over: Any = _TrialThatIsOver(number)
        add(controller, over)
        report(over, earlier)
        if earlier:
            scheduler.on_trial_complete(controller, over, earlier[-1])
    scheduler_state.replace_on_trial_add(scheduler, added)


class _TrialThatIsOver:
    """A trial of an earlier session, with what schedulers read of one."""

    status = "TERMINATED"

    def __init__(self, number: int) -> None:
        self.trial_id = f"earlier_{number}"

    def is_finished(self) -> bool:
        """It is over."""
        return True
