"""Optuna's tree-structured Parzen estimator as a searcher of Ray Tune. Needs the extra ``optuna``. Used by
``search.tune_runner``.

Optuna is asked and told directly: Tune's own bridge would pickle its state, which here follows from the record of the search.
Source: Bergstra et al. 2011; Optuna's ask-and-tell interface.
"""

import math

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from ray.tune.search import Searcher

from drl_cli.config.search_space import Sampler

ALGORITHMS = ("tpe",)


class ParzenSearcher(Searcher):
    """Suggests points: those given first, then new ones.

    ``next_point(values)`` makes the point of new values. ``waiting``: points that have values already. ``told``: (values,
    score) of trials that are over, a score of None for one without.
    """

    def __init__(self, data, next_point, waiting, told):
        super().__init__(metric=data["metric"], mode=data["mode"])
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._data, self._next_point, self._waiting = data, next_point, list(waiting)
        samplers = {name: Sampler(kind, tuple(arguments)) for name, (kind, arguments) in data["samplers"].items()}
        # Optuna's categories must be plain values; a list of layer widths is known by its place.
        self._lists = {name: sampler.arguments for name, sampler in samplers.items() if sampler.is_listed}
        self._space = {name: distribution(sampler) for name, sampler in samplers.items()}
        self._open = {}  # Tune's id of a trial → Optuna's trial
        direction = "maximize" if data["mode"] == "max" else "minimize"
        # Resumed, the sampler starts where no earlier session did: with one seed it would draw its first points again.
        sampler = optuna.samplers.TPESampler(seed=(data["seed"] + len(told)) % 2**32)
        self._study = optuna.create_study(direction=direction, sampler=sampler)
        for values, score in told:
            self._study.add_trial(self._earlier(values, score))

    def __getstate__(self):
        """Nothing: Tune writes a copy of its parts down, which nobody reads."""
        return {}

    def suggest(self, trial_id):
        """Return the part of the config that Tune is to fill in."""
        if self._waiting:
            point = self._waiting.pop(0)
            self._study.enqueue_trial(self._places(point["values"]))
            self._open[trial_id] = self._study.ask(self._space)
        else:
            asked = self._study.ask(self._space)
            self._open[trial_id] = asked
            values = {name: self._lists[name][v] if name in self._lists else v for name, v in asked.params.items()}
            point = self._next_point(values)
        return {"point": point}

    def on_trial_result(self, trial_id, result):
        """Nothing: what counts is how a trial ends."""

    def on_trial_complete(self, trial_id, result=None, error=False):
        """Tell Optuna the score of a trial that is over."""
        asked = self._open.pop(trial_id, None)
        score = (result or {}).get(self.metric)
        if asked is None:
            return
        if error or score is None or not math.isfinite(score):
            self._study.tell(asked, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(asked, score)

    def save(self, checkpoint_path):
        """Nothing: what was suggested is in the record of the search."""

    def restore(self, checkpoint_path):
        """Nothing, as ``save``."""

    def _places(self, values):
        return {name: self._lists[name].index(v) if name in self._lists else v for name, v in values.items()}

    def _earlier(self, values, score):
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        params = self._places(values)
        return optuna.trial.create_trial(state=state, value=score, params=params, distributions=self._space)


def distribution(sampler):
    """Return Optuna's distribution for a Sampler (no normal one)."""
    if sampler.is_listed:
        return CategoricalDistribution(list(range(len(sampler.arguments))))
    low, high = sampler.bounds
    if sampler.is_whole:
        # Optuna knows steps or logarithms, not both.
        return IntDistribution(low, high, log=sampler.is_log, step=1 if sampler.is_log else sampler.step or 1)
    return FloatDistribution(low, high, log=sampler.is_log, step=None if sampler.is_log else sampler.step)
