"""Optuna's tree-structured Parzen estimator (TPE) as a searcher of Ray Tune. Needs the extra ``optuna``.

Used by ``search.tune_runner``. Optuna's ask-and-tell interface is used directly: Tune's own ``OptunaSearch`` pickles its state,
which here follows from the record of the search. Source: Bergstra et al. 2011; Optuna's ask-and-tell interface.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from ray.tune.search import Searcher

from drl_cli.config.search_space import Sampler
from drl_cli.experiments.search_data import Point, SearchData

Values = dict[str, Any]


class ParzenSearcher(Searcher):
    """Suggests points: those given first, then new ones.

    ``next_point(values)`` makes the point of new values. ``waiting``: points that have values already. ``observed``: (values,
    score) of trials that are over, a score of None for one without.
    """

    def __init__(
        self,
        data: SearchData,
        next_point: Callable[[Values], Point],
        waiting: Iterable[Point],
        observed: Sequence[tuple[Values, float | None]],
    ) -> None:
        super().__init__(metric=data["metric"], mode=data["mode"])
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._data, self._next_point, self._waiting = data, next_point, list(waiting)
        samplers = {name: Sampler(kind, tuple(arguments)) for name, (kind, arguments) in data["samplers"].items()}
        # Optuna's categories must be plain values; a list of layer widths is known by its place.
        self._lists = {name: sampler.arguments for name, sampler in samplers.items() if sampler.is_listed}
        self._space = {name: distribution(sampler) for name, sampler in samplers.items()}
        self._open: dict[str, optuna.trial.Trial] = {}  # by Tune's id of the trial
        direction = "maximize" if data["mode"] == "max" else "minimize"
        # A resumed search takes another seed than its earlier sessions: with the same one it would draw its first points again.
        sampler = optuna.samplers.TPESampler(seed=(data["seed"] + len(observed)) % 2**32)
        self._study = optuna.create_study(direction=direction, sampler=sampler)
        for values, score in observed:
            self._study.add_trial(self._earlier(values, score))

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: the copy of its parts that Tune writes is not used."""
        return {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return the part of the config that Tune fills in."""
        if self._waiting:
            point = self._waiting.pop(0)
            self._study.enqueue_trial(self._places(point["values"]))
            self._open[trial_id] = self._study.ask(self._space)
        else:
            trial = self._open[trial_id] = self._study.ask(self._space)
            values = {name: self._lists[name][v] if name in self._lists else v for name, v in trial.params.items()}
            point = self._next_point(values)
        return {"point": point}

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Do nothing: only the last result of a trial counts."""

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Report the score of a trial that is over to Optuna."""
        trial = self._open.pop(trial_id, None)
        score = (result or {}).get(self.metric)
        if trial is None:
            return
        if error or score is None or not math.isfinite(score):
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, score)

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: what was suggested is in the record of the search."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, as ``save``."""

    def _places(self, values: Values) -> Values:
        return {name: self._lists[name].index(v) if name in self._lists else v for name, v in values.items()}

    def _earlier(self, values: Values, score: float | None) -> optuna.trial.FrozenTrial:
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        params = self._places(values)
        return optuna.trial.create_trial(state=state, value=score, params=params, distributions=self._space)


def distribution(sampler: Sampler) -> BaseDistribution:
    """Return Optuna's distribution for a Sampler (no normal one)."""
    if sampler.is_listed:
        return CategoricalDistribution(list(range(len(sampler.arguments))))
    low, high = sampler.bounds
    if sampler.is_whole:
        # Optuna knows steps or logarithms, not both.
        return IntDistribution(low, high, log=sampler.is_log, step=1 if sampler.is_log else sampler.step or 1)
    return FloatDistribution(low, high, log=sampler.is_log, step=None if sampler.is_log else sampler.step)
