"""Runs that are replicates of one another: the same algorithm, environment and config, other seeds.

Used by ``drl compare`` and ``drl plot``. A run is anything with ``algorithm``, ``env``, ``experiment``, ``seed`` and
``config`` (a nested dict).
"""

import json
from dataclasses import dataclass

BY = ("config", "algorithm", "experiment", "run")
IDLE = ("seed", "env", "log_level")  # config keys that change nothing about what is learnt, or are the seed itself
MAX_KEYS = 3  # shown in a label


@dataclass
class Group:
    """Replicates: a label that is unlike that of the others, algorithm, env, and the runs."""

    label: str
    algorithm: str
    env: str
    runs: list

    @property
    def seeds(self):
        """The seeds of the runs, in their order."""
        return [run.seed for run in self.runs]

    @property
    def repeated(self):
        """Seeds that more than one run has: the same draw of luck, counted twice."""
        return sorted({seed for seed in self.seeds if seed is not None and self.seeds.count(seed) > 1})


def group(runs, by="config"):
    """Return the Groups of ``runs`` in the order of their first runs, those of one environment side by side.

    ``by``: "config" (the same algorithm and config but for the seed), "algorithm", "experiment" (the same algorithm in
    the same experiment), "run" (every run for itself).
    """
    found = {}
    for place, run in enumerate(runs):
        found.setdefault((run.env, run.algorithm, _key(run, by, place)), []).append(run)
    groups = [Group("", algorithm, env, members) for (env, algorithm, _), members in found.items()]
    environments = list(dict.fromkeys(one.env for one in groups))
    groups.sort(key=lambda one: environments.index(one.env))
    for one in groups:
        one.runs.sort(key=lambda run: (run.seed is None, run.seed))
        alike = [other for other in groups if (other.algorithm, other.env) == (one.algorithm, one.env)]
        one.label = _label(one, alike, by)
    return _unlike(groups)


def _key(run, by, place):
    if by == "algorithm":
        return ""
    if by == "experiment":
        return run.experiment
    if by == "run":
        return place
    return json.dumps({k: v for k, v in run.config.items() if k not in IDLE}, sort_keys=True)


def _label(one, alike, by):
    if by == "run":
        return f"{one.algorithm} seed {one.runs[0].seed}"
    if len(alike) == 1:
        return one.algorithm
    if by == "experiment":
        return f"{one.algorithm} {one.runs[0].experiment}"
    settings = [_flat(other.runs[0].config) for other in alike]
    keys = sorted({key for flat in settings for key in flat} - set(IDLE))
    differing = [key for key in keys if len({_text(flat.get(key)) for flat in settings}) > 1]
    own = _flat(one.runs[0].config)
    shown = [
        f"{key.rpartition('.')[2]}={_shortest(own.get(key), [flat.get(key) for flat in settings])}"
        for key in differing[:MAX_KEYS]
    ]
    more = f" +{len(differing) - MAX_KEYS}" if len(differing) > MAX_KEYS else ""
    return f"{one.algorithm} {' '.join(shown)}{more}"


def _unlike(groups):
    """Number labels that came out alike on one environment."""
    for one in groups:
        same = [other for other in groups if (other.label, other.env) == (one.label, one.env)]
        if len(same) > 1:
            for number, other in enumerate(same, 1):
                other.label = f"{other.label} #{number}"
    return groups


def _flat(config, prefix=""):
    flat = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _shortest(value, others):
    """Return a number to four digits where that tells it from ``others`` still, everything else in full."""
    if not isinstance(value, float):
        return _text(value)
    short = f"{value:.4g}"
    same = {other for other in others if isinstance(other, float) and f"{other:.4g}" == short}
    return short if same <= {value} else _text(value)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)
