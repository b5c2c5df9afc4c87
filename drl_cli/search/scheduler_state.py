"""The state of a Ray Tune scheduler beyond the rows of its trials, as plain data in the record of the search.

Used by ``search.tune_schedulers`` (restores it) and ``search.tune_runner`` (takes snapshots), so that a resumed search
continues its comparison. It reads and sets private fields of Ray 2.60's ``HyperBandScheduler`` and
``PopulationBasedTraining``: the public ``TrialScheduler.save`` and ``restore`` use a pickle, which is not read here. The state
of ASHA and of the median rule follows from the rows (``search.tune_schedulers``).
"""

from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import HyperBandScheduler, PopulationBasedTraining, TrialScheduler

Kept = Mapping[str, Any]


def snapshot(scheduler: TrialScheduler) -> dict[str, Any]:
    """Return the state of ``scheduler`` as plain data; {} of one whose state follows from the rows."""
    if isinstance(scheduler, HyperBandScheduler):
        return {"bands": [[_bracket(one) for one in band] for band in scheduler._hyperbands]}
    if isinstance(scheduler, PopulationBasedTraining):
        times = {number_of(trial): _population(state) for trial, state in scheduler._trial_state.items()}
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


def _population(state: Any) -> dict[str, Any]:
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
