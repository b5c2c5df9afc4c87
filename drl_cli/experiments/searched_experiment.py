"""One experiment of a search: its keys with the flags laid over them, and what is to be searched over in them.

Used by ``experiments.search_spec``.
"""

import re

from drl_cli.config import search_space, variants
from drl_cli.config.assignments import parse_object
from drl_cli.config.origins import Where
from drl_cli.errors import ConfigError, shown, suggestion
from drl_cli.experiments.flags import with_flags

WORKERS = ("num_workers", "num_rollout_workers", "num_env_runners")
FILLED = "filled in by drl"
RESOURCES = ("cpu", "gpu", "extra_cpu", "extra_gpu")
_SEEDS = re.compile(r"(\d{1,10})(?:\.\.(\d{1,10}))?")
_MOST_SEEDS = 1000


def seeds(text):
    """Return the list of seeds that ``"0..4,7"`` means. Raises ConfigError."""
    found = []
    for part in str(text).split(","):
        match = _SEEDS.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not 0 <= last - first < _MOST_SEEDS or last >= 2**31:
            raise ConfigError(f"--seeds: {part.strip()[:60]!r} is no seed and no range of seeds. Write 0..4, or 1,5,9.")
        found += range(first, last + 1)
    if len(set(found)) != len(found) or len(found) > _MOST_SEEDS:
        raise ConfigError(f"--seeds: {text[:60]!r} names a seed twice, or more than {_MOST_SEEDS}.")
    return found


class Searched:
    """One experiment as it was asked for: its layers, and what is to be searched over."""

    def __init__(self, name, mapping, where, flags, wishes):
        self.name = name
        self.layers = with_flags(mapping, where, flags)
        self.problems = []
        if wishes.get("resources_per_trial") is not None:
            given, origin = parse_object(wishes["resources_per_trial"], "--resources-per-trial")
            self.layers.replace("resources_per_trial", given, origin)
        self._check_resources()
        if wishes.get("seeds") is not None:
            grid = {search_space.GRID: seeds(wishes["seeds"])}
            self.layers.set(("config", "seed"), grid, Where("--seeds"))
        found, wrong = search_space.find(self.layers.data)
        for path, why in wrong.items():
            self.problems.append(f"{_dotted(path)}: {why} ({self.layers.where.place(path)}).")
            _drop(self.layers.data, path)  # said; what is left is checked
        self.paths = {name: list(path) for name, path in variants.names(found).items()}
        self.samplers = {name: found[tuple(path)] for name, path in self.paths.items()}
        times = self.layers.data.get("num_samples", 1)
        whole = isinstance(times, int) or (isinstance(times, float) and times.is_integer())
        self.num_samples = int(times) if whole and 1 <= times <= 10_000 else 1
        self.is_searched = bool(found or wrong or self.num_samples > 1)

    @property
    def has_seed(self):
        """Whether the experiment says its seed, or searches over it."""
        return (self.layers.data.get("config") or {}).get("seed") is not None

    def spread(self):
        """Leave workers out of trials that do not say their number: whole trials side by side use the machine better."""
        config = self.layers.data.setdefault("config", {})
        named = isinstance(config, dict) and not any(name in config for name in (*WORKERS, "learner_actor"))
        if named:
            self.layers.set(("config", "num_workers"), 0, Where(FILLED))
            self.layers.notices.append(
                "num_workers: 0 in each trial, since none was given: trials run side by side, each in one process."
            )

    def mutate(self, mutations):
        """Take in the keys that PBT changes; return {name: Sampler} of them. Their start is drawn unless it is given."""
        lists = {name: {"choice": value} if isinstance(value, list) else value for name, value in mutations.items()}
        found, wrong = search_space.find({"config": lists})
        for path, why in wrong.items():
            self.problems.append(f"hyperparam_mutations: {_dotted(path)}: {why} (--scheduler-config).")
        plain = [name for name, value in mutations.items() if not isinstance(value, (list, dict))]
        for name in plain:
            self.problems.append(
                f'hyperparam_mutations: {name}: {shown(mutations[name])} is no list and no {{"uniform": [low, high]}} or its '
                "like (--scheduler-config)."
            )
        changed = variants.names(found)
        for name, path in changed.items():
            self.paths[name] = list(path)
            self.samplers.setdefault(name, found[path])
        return {name: found[path] for name, path in changed.items()}

    def given(self, name):
        """Return (value,) that the experiment itself gives for a searched key, or ()."""
        value = self.layers.data
        for key in self.paths[name]:
            if not isinstance(value, dict) or key not in value:
                return ()
            value = value[key]
        return () if search_space.name_of(value) else (value,)

    def _check_resources(self):
        given = self.layers.data.get("resources_per_trial")
        for name, value in given.items() if isinstance(given, dict) else ():
            place = self.layers.where.place(("resources_per_trial", name))
            if name not in RESOURCES:
                hint = suggestion(name, RESOURCES) or f" It has {', '.join(RESOURCES)}."
                self.problems.append(f"resources_per_trial.{name}: unknown key ({place}).{hint}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1024:
                self.problems.append(
                    f"resources_per_trial.{name}: {shown(value)} is not a number from 0 to 1024 ({place})."
                )


def _drop(data, path):
    for key in path[:-1]:
        data = data[key]
    if isinstance(data, dict):
        del data[path[-1]]


def _dotted(path):
    return ".".join(map(str, path))
