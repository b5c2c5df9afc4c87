"""Ray Tune's schedulers, made from the keys of ``config.sections.schedulers``. Used by ``search.tune_runner``.

Deviations from Tune: values that PBT changes stay inside the bounds that they are drawn from; in a resumed search ASHA and the
median rule get the results of the trials that are over again, HyperBand and PBT what ``snapshot`` kept.

A scheduler's state beyond the rows of its trials is plain data in the record of the search (``snapshot``, ``restore``), so that
a resumed search continues its comparison. That reads and sets private fields of Ray 2.60's ``HyperBandScheduler`` and
``PopulationBasedTraining``: the public ``TrialScheduler.save`` and ``restore`` use a pickle, which is not read here.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from ray import tune
from ray.tune import schedulers
from ray.tune.experiment import Trial
from ray.tune.schedulers import HyperBandScheduler, PopulationBasedTraining, TrialScheduler

from drl_cli.config.search_space import Sampler
from drl_cli.experiments.search_data import SearchData
from drl_cli.search.search_record import EarlierRows, Row

REPLAYED = ("AsyncHyperBand", "MedianStoppingRule")
"""Schedulers whose state follows from the rows of the trials."""


def make(data: SearchData, rows: EarlierRows, kept: Mapping[str, Any] | None = None) -> TrialScheduler:
    """Return the scheduler of a search's ``data``; of a resumed search, ``kept`` is what ``snapshot`` gave."""
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
    restore(made, kept or {})
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


def _replay(scheduler: TrialScheduler, rows: EarlierRows) -> None:
    """Report the earlier results to ``scheduler``: of trials that are over now, of the others when they are added again."""
    controller: Any = SimpleNamespace(get_live_trials=list, get_trials=list, search_alg=None)
    add = scheduler.on_trial_add

    def report(trial: Any, earlier: Iterable[Row]) -> None:
        for row in earlier:
            scheduler.on_trial_result(controller, trial, row)

    def added(tune_controller: Any, trial: Trial) -> None:
        add(tune_controller, trial)
        report(trial, rows.live.pop(number_of(trial), ()))

    for number, earlier in rows.over.items():
        over: Any = _TrialThatIsOver(number)
        add(controller, over)
        report(over, earlier)
        if earlier:
            scheduler.on_trial_complete(controller, over, earlier[-1])
    replace_on_trial_add(scheduler, added)


class _TrialThatIsOver:
    """A trial of an earlier session, with what schedulers read of one."""

    status = "TERMINATED"

    def __init__(self, number: int) -> None:
        self.trial_id = f"earlier_{number}"

    def is_finished(self) -> bool:
        """It is over."""
        return True


Kept = Mapping[str, Any]


def snapshot(scheduler: TrialScheduler) -> dict[str, Any]:
    """Return the state of ``scheduler`` as plain data; {} of one whose state follows from the rows."""
    if isinstance(scheduler, HyperBandScheduler):
        return {"bands": [[_bracket(one) for one in band] for band in scheduler._hyperbands]}
    if isinstance(scheduler, PopulationBasedTraining):
        times = {number_of(trial): _population_state(state) for trial, state in scheduler._trial_state.items()}
        return {"trials": times, "next_sync": scheduler._next_perturbation_sync}
    return {}


def restore(scheduler: TrialScheduler, kept: Kept) -> None:
    """Restore a ``snapshot`` into ``scheduler``, which has no trials yet: each trial gets its part when it is added."""
    if isinstance(scheduler, HyperBandScheduler) and kept.get("bands"):
        _restore_brackets(scheduler, kept["bands"])
    if isinstance(scheduler, PopulationBasedTraining) and kept.get("trials"):
        _restore_population(scheduler, kept)


def number_of(trial: Trial) -> int:
    """Return the number that a trial has in its search."""
    return int(trial.custom_trial_name or "")


def _bracket(bracket: Any) -> dict[str, Any]:
    return {
        "n": bracket._n,
        "r": bracket._r,
        "halves": bracket._halves,
        "trials": [number_of(trial) for trial in bracket.current_trials()],
    }


def _population_state(state: Any) -> dict[str, Any]:
    return {"score": state.last_score, "compared": state.last_perturbation_time, "trained": state.last_train_time}


def _restore_brackets(scheduler: HyperBandScheduler, bands: list[list[dict[str, Any]]]) -> None:
    homes: dict[int, Any] = {}
    add = scheduler.on_trial_add
    scheduler._hyperbands = [[_made(scheduler, place, kept) for place, kept in enumerate(band)] for band in bands]
    scheduler._state = {"bracket": (scheduler._hyperbands[-1] or [None])[-1], "band_idx": len(bands) - 1}
    for index, (band, kept_band) in enumerate(zip(scheduler._hyperbands, bands, strict=True)):
        for bracket, kept in zip(band, kept_band, strict=True):
            homes |= dict.fromkeys(kept["trials"], (bracket, index))

    def added(tune_controller: Any, trial: Trial) -> None:
        home = homes.pop(number_of(trial), None)
        if home is None:
            add(tune_controller, trial)
            return
        # Without a result: a bracket is halved only when all of it have reported in this session, since Tune cannot stop
        # a trial that has not been started again.
        home[0]._live_trials[trial] = None
        home[0]._all_trials.append(trial)
        scheduler._trial_info[trial] = home

    replace_on_trial_add(scheduler, added)


def _made(scheduler: HyperBandScheduler, place: int, kept: Kept) -> Any:
    bracket = scheduler._create_bracket(place)
    bracket._n, bracket._halves = kept["n"], kept["halves"]
    bracket._r = bracket._cumul_r = kept["r"]
    return bracket


def _restore_population(scheduler: PopulationBasedTraining, kept: Kept) -> None:
    scheduler._next_perturbation_sync = kept["next_sync"]
    add = scheduler.on_trial_add

    def added(tune_controller: Any, trial: Trial) -> None:
        add(tune_controller, trial)
        known, state = kept["trials"].get(str(number_of(trial))), scheduler._trial_state[trial]
        if known:
            state.last_perturbation_time = known["compared"]
        if known and not scheduler._synch:  # a synchronous population is compared once all of it has reported again
            state.last_score, state.last_train_time = known["score"], known["trained"]

    replace_on_trial_add(scheduler, added)


def replace_on_trial_add(scheduler: TrialScheduler, added: Callable[[Any, Trial], None]) -> None:
    """Have Tune call ``added`` for each new trial."""
    scheduler.on_trial_add = added  # pyright: ignore[reportAttributeAccessIssue]  a method of this instance alone
