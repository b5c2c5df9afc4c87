"""What a scheduler of Ray Tune knows beyond the rows of its trials, as plain data: kept in the record of the search, so that a
resumed one compares on. Tune's own way would be a pickle, which is not read here.

Used by ``search.tune_schedulers`` (gives it back) and ``search.tune_runner`` (takes it down). It reads and sets private
fields of Ray 2.60's ``HyperBandScheduler`` and ``PopulationBasedTraining``; ASHA and the median rule follow from the
rows (``schedulers``).
"""

from ray.tune.schedulers import HyperBandScheduler, PopulationBasedTraining


def snapshot(scheduler):
    """Return what is to be kept of ``scheduler``, plain data; {} of one that needs nothing."""
    if isinstance(scheduler, HyperBandScheduler):
        return {"bands": [[_bracket(one) for one in band] for band in scheduler._hyperbands]}
    if isinstance(scheduler, PopulationBasedTraining):
        times = {number_of(trial): _population(state) for trial, state in scheduler._trial_state.items()}
        return {"trials": times, "next_sync": scheduler._next_perturbation_sync}
    return {}


def recall(scheduler, kept):
    """Give ``scheduler``, which has no trials yet, what ``snapshot`` kept: each trial gets its part when it is added."""
    if isinstance(scheduler, HyperBandScheduler) and kept.get("bands"):
        _recall_brackets(scheduler, kept["bands"])
    if isinstance(scheduler, PopulationBasedTraining) and kept.get("trials"):
        _recall_population(scheduler, kept)


def number_of(trial):
    """Return the number that a trial has in its search."""
    return int(trial.custom_trial_name)


def _bracket(bracket):
    return {
        "n": bracket._n,
        "r": bracket._r,
        "halves": bracket._halves,
        "trials": [number_of(trial) for trial in bracket.current_trials()],
    }


def _population(state):
    return {"score": state.last_score, "compared": state.last_perturbation_time, "trained": state.last_train_time}


def _recall_brackets(scheduler, bands):
    homes, add = {}, scheduler.on_trial_add
    scheduler._hyperbands = [[_made(scheduler, place, kept) for place, kept in enumerate(band)] for band in bands]
    scheduler._state = {"bracket": (scheduler._hyperbands[-1] or [None])[-1], "band_idx": len(bands) - 1}
    for index, (band, kept_band) in enumerate(zip(scheduler._hyperbands, bands, strict=True)):
        for bracket, kept in zip(band, kept_band, strict=True):
            homes |= dict.fromkeys(kept["trials"], (bracket, index))

    def added(tune_controller, trial):
        home = homes.pop(number_of(trial), None)
        if home is None:
            return add(tune_controller, trial)
        # Without a result: a bracket is halved only when all of it have reported in this session, since Tune cannot stop
        # a trial that has not been started again.
        home[0]._live_trials[trial] = None
        home[0]._all_trials.append(trial)
        scheduler._trial_info[trial] = home
        return None

    scheduler.on_trial_add = added


def _made(scheduler, place, kept):
    bracket = scheduler._create_bracket(place)
    bracket._n, bracket._halves = kept["n"], kept["halves"]
    bracket._r = bracket._cumul_r = kept["r"]
    return bracket


def _recall_population(scheduler, kept):
    scheduler._next_perturbation_sync = kept["next_sync"]
    add = scheduler.on_trial_add

    def added(tune_controller, trial):
        add(tune_controller, trial)
        known, state = kept["trials"].get(str(number_of(trial))), scheduler._trial_state[trial]
        if known:
            state.last_perturbation_time = known["compared"]
        if known and not scheduler._synch:  # those that are compared together have to be there first
            state.last_score, state.last_train_time = known["score"], known["trained"]

    scheduler.on_trial_add = added
