"""Ray Tune's schedulers, made from the keys of ``config.sections.schedulers``. Used by ``search.tune_runner``.

Deviations from Tune: values that PBT changes stay inside the bounds that they are drawn from; in a resumed search ASHA and the
median rule know the results of the trials that are over, HyperBand and PBT what ``remembering`` kept.
"""

import warnings
from types import SimpleNamespace

from ray import tune
from ray.tune import schedulers

from drl_cli.config.search_space import Sampler
from drl_cli.search import scheduler_state

REMEMBERING = ("AsyncHyperBand", "MedianStoppingRule")


def make(data, rows, kept=None):
    """Return the scheduler of a search's ``data``.

    Of a resumed search, ``rows``: {trial: rows of its earlier results}, ``kept``: what ``remembering.snapshot`` gave.
    """
    name, config = data["scheduler"]["name"], dict(data["scheduler"]["config"])
    if name == "FIFO":
        return schedulers.FIFOScheduler()
    compared = {"metric": data["metric"], "mode": data["mode"]}
    if name == "MedianStoppingRule":
        made = schedulers.MedianStoppingRule(**config, **compared)
    elif name == "AsyncHyperBand":
        made = Halving(**config, **compared)
    elif name == "HyperBand":
        made = schedulers.HyperBandScheduler(**config, **compared)
    else:
        made = _population(data, config, compared)
    if name in REMEMBERING:
        _remember(made, rows)
    scheduler_state.recall(made, kept or {})
    return made


class Halving(schedulers.AsyncHyperBandScheduler):
    """ASHA, which NumPy does not warn of: at a rung where no trial has been evaluated yet, nothing is halved."""

    def on_trial_result(self, tune_controller: object, trial: object, result: dict) -> str:
        """As Tune's."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice encountered", RuntimeWarning)
            return super().on_trial_result(tune_controller, trial, result)

    def on_trial_complete(self, tune_controller: object, trial: object, result: dict) -> None:
        """As Tune's."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice encountered", RuntimeWarning)
            super().on_trial_complete(tune_controller, trial, result)


def _population(data, config, compared):
    del config["hyperparam_mutations"]
    samplers = {name: Sampler(kind, tuple(arguments)) for name, (kind, arguments) in data["samplers"].items()}

    def bounded(changed):
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


def domain(sampler):
    """Return Tune's own object for a Sampler; for a list the list, whose neighbours PBT moves between."""
    if sampler.is_listed:
        return list(sampler.arguments)
    return getattr(tune, sampler.kind)(*sampler.arguments)


def _remember(scheduler, rows):
    """Tell ``scheduler`` the earlier results: of trials that are over now, of the others when they come back."""
    controller = SimpleNamespace(get_live_trials=list, get_trials=list, search_alg=None)
    add = scheduler.on_trial_add

    def tell(trial, told):
        for row in told:
            scheduler.on_trial_result(controller, trial, row)

    def added(tune_controller, trial):
        add(tune_controller, trial)
        tell(trial, rows["live"].pop(int(trial.custom_trial_name), ()))

    for number, told in rows["over"].items():
        gone = _Gone(number)
        add(controller, gone)
        tell(gone, told)
        if told:
            scheduler.on_trial_complete(controller, gone, told[-1])
    scheduler.on_trial_add = added


class _Gone:
    """A trial of an earlier session, as far as schedulers look at one."""

    status = "TERMINATED"

    def __init__(self, number):
        self.trial_id = f"earlier_{number}"

    def is_finished(self):
        """It is over."""
        return True
