"""What a search was given: how an experiment is searched, how trials are compared (``--scheduler``) and chosen (``--search``).

Used by ``experiments.search_spec``. Collects problems instead of raising them, so that all are shown at once.

``SearchOptions`` holds what was typed; a missing key or None means that it was not:

    num_samples, max_failures    int            resources_per_trial, scheduler_config   string of an object
    seeds                        "0..4,7"       scheduler, search, search_space         names
    write                        path of a file to be made     write_top, write_seeds   int
"""

import importlib.util
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from drl_cli.config import search_space
from drl_cli.config.assignments import parse_object
from drl_cli.config.origins import Where
from drl_cli.config.parse import read_section
from drl_cli.config.plain_data import has_path
from drl_cli.config.result_names import NUMBER_FIELDS
from drl_cli.config.search_space import Sampler
from drl_cli.config.sections import schedulers
from drl_cli.errors import ConfigError, shown, suggestion
from drl_cli.experiments import default_spaces
from drl_cli.experiments.config_tree import FILLED, ConfigTree

SearchOptions = Mapping[str, Any]

SEARCHES = {"grid": None, "random": None, "tpe": "tpe"}
"""Name of ``--search`` → the algorithm that chooses points, None where all points are drawn before the search starts."""

WORKERS = ("num_workers", "num_rollout_workers", "num_env_runners")
RESOURCES = ("cpu", "gpu", "extra_cpu", "extra_gpu")
_SEEDS = re.compile(r"(\d{1,10})(?:\.\.(\d{1,10}))?")
_MOST_SEEDS = 1000


def seeds(text: str) -> list[int]:
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


class SearchedExperiment:
    """One experiment of a search: its layers, and the keys to search over.

    ``samplers`` and ``paths``: {name of a key: Sampler} and {name: path of the key in the layers}. ``problems``: one line each.
    ``is_searched``: whether the experiment itself asks for more than one run.
    """

    def __init__(self, tree: ConfigTree, options: SearchOptions) -> None:
        self.name, self.layers, self.is_from_file = tree.name, tree.layers, tree.is_from_file
        self.problems: list[str] = []
        if options.get("resources_per_trial") is not None:
            given, origin = parse_object(options["resources_per_trial"], "--resources-per-trial")
            self.layers.replace("resources_per_trial", given, origin)
        self._check_resources()
        if options.get("search_space") is not None:
            self._add_default_space()
        if options.get("seeds") is not None:
            grid = {search_space.GRID: seeds(options["seeds"])}
            self.layers.set(("config", "seed"), grid, Where("--seeds"))
        found, wrong = search_space.find(self.layers.data)
        for path, why in wrong.items():
            self.problems.append(f"{_dotted(path)}: {why} ({self.layers.where.place(path)}).")
            _drop(self.layers.data, path)  # the rest is checked without it
        self.paths = {name: list(path) for name, path in search_space.names(found).items()}
        self.samplers = {name: found[tuple(path)] for name, path in self.paths.items()}
        times = self.layers.data.get("num_samples", 1)
        whole = isinstance(times, int) or (isinstance(times, float) and times.is_integer())
        self.num_samples = int(times) if whole and 1 <= times <= 10_000 else 1
        self.is_searched = bool(found or wrong or self.num_samples > 1)

    def _add_default_space(self) -> None:
        """Search over the keys of the algorithm's own space that are not given."""
        run = self.layers.data.get("run")
        if not isinstance(run, str):
            raise ConfigError("--search-space default: of which algorithm? Type --run NAME.")
        for key, sampler in default_spaces.of(run).items():
            path = ("config", *key.split("."))
            if not has_path(self.layers.data, path):
                self.layers.set(path, sampler, Where("--search-space"))

    @property
    def has_seed(self) -> bool:
        """Whether the experiment gives its seed, or searches over it."""
        return (self.layers.data.get("config") or {}).get("seed") is not None

    def run_without_workers(self) -> None:
        """Set num_workers 0 where no number is given: whole trials side by side use the machine better."""
        config = self.layers.data.setdefault("config", {})
        if isinstance(config, dict) and not any(name in config for name in (*WORKERS, "learner_actor")):
            self.layers.set(("config", "num_workers"), 0, Where(FILLED))
            self.layers.notices.append(
                "num_workers: 0 in each trial, since none was given: trials run in parallel, each in one process."
            )

    def mutate(self, mutations: Mapping[str, Any]) -> dict[str, Sampler]:
        """Add the keys that PBT changes; return {name: Sampler} of them. Their first values are drawn unless they are given."""
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
        changed = search_space.names(found)
        for name, path in changed.items():
            self.paths[name] = list(path)
            self.samplers.setdefault(name, found[path])
        return {name: found[path] for name, path in changed.items()}

    def given(self, name: str) -> tuple[Any, ...]:
        """Return (value,) that the experiment itself gives for a searched key, or ()."""
        value = self.layers.data
        for key in self.paths[name]:
            if not isinstance(value, dict) or key not in value:
                return ()
            value = value[key]
        return () if search_space.name_of(value) else (value,)

    def _check_resources(self) -> None:
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


def _drop(data: Any, path: Sequence[Any]) -> None:
    for key in path[:-1]:
        data = data[key]
    if isinstance(data, dict):
        del data[path[-1]]


def _dotted(path: Sequence[Any]) -> str:
    return ".".join(map(str, path))


def scheduler(options: SearchOptions) -> tuple[str, schedulers.FIFOKeys, list[str]]:
    """Return (name, section of its keys, problems) of ``scheduler`` and ``scheduler_config``; FIFO where they are wrong."""
    typed: str = options.get("scheduler") or "FIFO"
    problems: list[str] = []
    name = schedulers.canonical(typed)
    if name is None:
        known = ", ".join(schedulers.SECTIONS)
        hint = suggestion(typed, [*schedulers.SECTIONS, "ASHA", "PBT", "MedianStopping"])
        problems.append(f"--scheduler: {typed[:60]!r} is no scheduler.{hint} There are {known}.")
        return "FIFO", schedulers.FIFOKeys(), problems
    given: Any = {}
    where = Where("--scheduler-config")
    if options.get("scheduler_config") is not None:
        given, where = parse_object(options["scheduler_config"], "--scheduler-config")
    section, problems = read_section(schedulers.SECTIONS[name], given, where, lambda path: _other(path, name))
    for key, field in schedulers.unknown_fields(section) if section else ():
        hint = suggestion(field, NUMBER_FIELDS)
        problems.append(f"{key}: unknown result field {field[:100]!r} ({where.place((key,))}).{hint}")
    if isinstance(section, schedulers.AsyncHyperBandKeys) and section.grace_period > section.max_t:
        problems.append(f"grace_period: {section.grace_period} is beyond max_t {section.max_t} (--scheduler-config).")
    if isinstance(section, schedulers.HyperBandKeys):
        problems += _too_short(section)
    return name, section or schedulers.SECTIONS[name](), problems


def _too_short(section: schedulers.HyperBandKeys) -> list[str]:
    """Return why HyperBand's largest bracket cannot begin: Tune would search its first rung in an endless loop."""
    eta, most = section.reduction_factor, section.max_t
    halvings = round(math.log(most) / math.log(eta))
    if int(most * eta**-halvings) >= 1:
        return []
    fits = f"{math.ceil(eta**halvings)} or {int(eta ** (halvings - 1))}"
    return [
        f"max_t: {most} with a reduction_factor of {eta:g} leaves no whole first rung. Take {fits} (--scheduler-config)."
    ]


def algorithm(options: SearchOptions) -> tuple[str | None, list[str]]:
    """Return (None or "tpe", problems) of ``search``."""
    typed: str = options.get("search") or "grid"
    if typed.lower() in SEARCHES:
        return SEARCHES[typed.lower()], []
    hint = suggestion(typed, SEARCHES)
    return None, [f"--search: {typed[:60]!r} is no search.{hint} There are {', '.join(SEARCHES)}."]


def missing_package(name: str | None) -> str | None:
    """Return the error message where the package of the search algorithm ``name`` is not installed, else None."""
    if name is None or importlib.util.find_spec("optuna") is not None:
        return None
    return f"--search {name} needs Optuna, which is not installed. Run: pip install 'drl-cli[optuna]'"


def misfits(name: str, experiments: Sequence[SearchedExperiment], scheduler_name: str) -> list[str]:
    """Return why the search algorithm ``name`` cannot choose points for these experiments."""
    one = experiments[0]
    drawn = {key: sampler for key, sampler in one.samplers.items() if sampler.kind != search_space.GRID}
    unfit = next((key for key, sampler in drawn.items() if sampler.kind.endswith("randn")), None)
    if missing := missing_package(name):
        return [missing]
    if len(experiments) > 1:
        return [f"--search {name}: one experiment at a time."]
    if scheduler_name == "PopulationBasedTraining":
        return [f"--search {name}: PBT changes values itself. Omit one of them."]
    if len(drawn) < len(one.samplers):
        grid = next(key for key in one.samplers if key not in drawn)
        return [f"--search {name}: {grid} is a grid, which tries all values. Write it as {{choice: […]}}."]
    if not drawn:
        return [f"--search {name}: no value to search over. Write, say, -s 'lr={{loguniform: [1e-5, 1e-2]}}'."]
    if unfit:
        return [f"--search {name}: {unfit}: it does not support normal distributions. Use uniform."]
    if one.num_samples < 2:
        return [f"--search {name}: how many trials? Type --num-samples 20."]
    return []


def _other(path: tuple[str, ...], name: str) -> str | None:
    """Return why a key of another scheduler is refused, or None."""
    owners = [other for other, section in schedulers.SECTIONS.items() if path[-1] in section.model_fields]
    if path[-1] == "custom_explore_fn":
        return "holds code, which is not run"
    return f"a key of {', '.join(owners)}, not of {name}" if owners else None
