"""Keys of ``--scheduler-config``: one section per scheduler of a search.

Used by ``experiments.search_spec``, which reads them, and ``search.tune_schedulers``, which creates Ray Tune's scheduler.
Names and meanings are those of Ray Tune 2.60; RLlib's spellings of the schedulers' names are accepted too.
"""

from typing import Literal

from drl_cli.config.result_names import is_number_field
from drl_cli.config.schema import PlainMapping, Range, Section, Whole, key

_FIELD = "a field of a result, such as training_iteration, timesteps_total or time_total_s"


class FIFOKeys(Section):
    """FIFO: no trial is stopped early; the keys that all schedulers have."""

    metric: str | None = key(
        None,
        "Result field by which trials are compared; null uses evaluation/episode_reward_mean if trials are "
        "evaluated, otherwise episode_reward_mean.",
        allowed="a field of a result",
    )
    mode: Literal["max", "min"] = key("max", "Whether the metric is maximised or minimised.")


class MedianStoppingKeys(FIFOKeys):
    """Median stopping rule: stops a trial whose best value is below the median of the others' running means."""

    time_attr: str = key("time_total_s", "Result field that measures the progress of a trial.", allowed=_FIELD)
    grace_period: float = key(60.0, "Progress before which no trial is stopped.", "units of time_attr", ge=0)
    min_samples_required: Whole = key(3, "Minimum number of trials for a median.", "trials", ge=1)
    min_time_slice: float = key(
        60.0,
        "Time after which a trial that cannot be compared yet is paused in favour of a waiting one.",
        "units of time_attr",
        ge=0,
        rllib=0,
        why="with 0, trials that wait for each other are swapped at every result",
    )
    hard_stop: bool = key(True, "Stop trials below the median; otherwise pause them until all others have finished.")


class AsyncHyperBandKeys(FIFOKeys):
    """ASHA: at each rung (grace_period times 1, eta, eta²…) only the top 1/eta of the trials that reached it continue."""

    time_attr: str = key("training_iteration", "Result field that measures the progress of a trial.", allowed=_FIELD)
    max_t: Whole = key(100, "Progress at which every trial is stopped.", "units of time_attr", ge=1)
    grace_period: Whole = key(
        1, "The first rung: progress before which no trial is stopped.", "units of time_attr", ge=1
    )
    reduction_factor: float = key(4.0, "Reduction factor eta: one in eta trials continues at each rung.", gt=1)
    brackets: Whole = key(1, "Number of brackets over which trials are distributed.", "brackets", ge=1, le=100)
    stop_last_trials: bool = key(True, "Stop trials at max_t.")


class HyperBandKeys(FIFOKeys):
    """HyperBand: trials pause at the rungs of their bracket; when all have arrived, the top 1/eta continue."""

    time_attr: str = key("training_iteration", "Result field that measures the progress of a trial.", allowed=_FIELD)
    max_t: Whole = key(81, "Progress at which every trial is stopped.", "units of time_attr", ge=1)
    reduction_factor: float = key(3.0, "Reduction factor eta: one in eta trials continues at each rung.", gt=1)
    stop_last_trials: bool = key(True, "Stop trials at max_t.")


class PopulationBasedTrainingKeys(FIFOKeys):
    """PBT: trials in the lowest quantile are replaced by copies of trials in the highest, with perturbed values."""

    time_attr: str = key("time_total_s", "Result field that measures the progress of a trial.", allowed=_FIELD)
    perturbation_interval: float = key(
        60.0, "Progress between two perturbations of a trial.", "units of time_attr", gt=0
    )
    burn_in_period: float = key(0.0, "Progress before which no trial is perturbed.", "units of time_attr", ge=0)
    hyperparam_mutations: PlainMapping = key(
        {}, 'Config key → how it is perturbed: {"uniform": [0, 1]} and similar, or a list of values in their order.'
    )
    quantile_fraction: float = key(
        0.25, "Share of trials at the top that are copied, and at the bottom that are replaced.", "share", ge=0, le=0.5
    )
    resample_probability: float = key(0.25, "Probability that a value is resampled instead of perturbed.", ge=0, le=1)
    perturbation_factors: Range = key((1.2, 0.8), "Factors by which a number is multiplied, one or the other.")
    synch: bool = key(False, "Compare all trials at the same time_attr.")


SECTIONS = {
    "FIFO": FIFOKeys,
    "MedianStoppingRule": MedianStoppingKeys,
    "AsyncHyperBand": AsyncHyperBandKeys,
    "HyperBand": HyperBandKeys,
    "PopulationBasedTraining": PopulationBasedTrainingKeys,
}
"""Scheduler → its keys."""

OTHER_NAMES = {
    "medianstopping": "MedianStoppingRule",
    "asha": "AsyncHyperBand",
    "ashascheduler": "AsyncHyperBand",
    "asynchyperbandscheduler": "AsyncHyperBand",
    "hyperbandscheduler": "HyperBand",
    "fifoscheduler": "FIFO",
    "pbt": "PopulationBasedTraining",
}
"""Other spellings, in lower case without ``_`` and ``-``, → the name in ``SECTIONS``."""


def canonical(name: str) -> str | None:
    """Return the name in ``SECTIONS`` of a scheduler, or None if it is unknown."""
    plain = name.lower().replace("_", "").replace("-", "")
    return OTHER_NAMES.get(plain) or next((known for known in SECTIONS if known.lower() == plain), None)


def unknown_fields(section: FIFOKeys) -> list[tuple[str, str]]:
    """Return the (key, value) pairs among ``metric`` and ``time_attr`` whose value is not a field of a result."""
    given = {name: value for name, value in section if name in ("metric", "time_attr")}
    return [(name, field) for name, field in given.items() if field is not None and not is_number_field(field)]
