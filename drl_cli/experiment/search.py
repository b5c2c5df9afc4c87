"""From what was typed, and the file it names, to a search: experiments, the points to try, how they are compared.

Used by ``drl train`` before ``experiment.spec``: several experiments in a file, a value to search over anywhere in them,
``num_samples``, ``--seeds`` or an option of a search make one; otherwise a single run follows. Every point is checked as a
run of its own before anything starts. RLlib's rules: grids multiply, then ``num_samples``; all experiments of a file run side
by side. Deviations: points that differ in their grids only share a seed; a seed is drawn for each point that has none.

``wishes`` is a dict of what was typed; a missing key or None means that it was not:

    num_samples, max_failures    int            resources_per_trial, scheduler_config   text of an object
    seeds                        "0..4,7"       scheduler, search                       names
    write                        path of a file to be made     write_top, write_seeds   int
"""

import dataclasses
import re
import secrets
from pathlib import Path

from drl_cli import events
from drl_cli.configs import sampling, schedulers, variants
from drl_cli.configs.allowed import shown
from drl_cli.configs.flags import parse_object
from drl_cli.configs.parse import read_section, refuse
from drl_cli.configs.resources import bundles
from drl_cli.configs.results import NUMBER_FIELDS
from drl_cli.configs.where import Where
from drl_cli.errors import ConfigError, DrlError, suggestion
from drl_cli.experiment import defaults, files
from drl_cli.experiment.flags import with_flags
from drl_cli.experiment.layers import Layers
from drl_cli.experiment.spec import Draft, import_modules

EVALUATED, TRAINED = "evaluation/episode_reward_mean", "episode_reward_mean"
SEARCHES = {"grid": None, "random": None, "tpe": "tpe"}
FLAGS_OF_TRIALS = ("env", "strict_env", "imports", "command", "ray_address", "ray_num_cpus", "ray_num_gpus")
FLAGS_OF_TRIALS += ("ray_object_store_memory",)
WORKERS = ("num_workers", "num_rollout_workers", "num_env_runners")
RESOURCES = ("cpu", "gpu", "extra_cpu", "extra_gpu")
CHECKED = 200  # points that are checked as whole runs; beyond, every listed value and both ends of each range are
_SEEDS = re.compile(r"(\d{1,10})(?:\.\.(\d{1,10}))?")
_MOST_SEEDS = 1000


@dataclasses.dataclass(frozen=True)
class Search:
    """A search that can run: ``data`` is plain and goes to the trials and into the record, ``specs`` are for the screen.

    data: id, experiments (see ``configs.variants``), points, flags, scheduler (name, config), search ("tpe" or None), samplers
    of the keys that are drawn while it runs, num_trials, metric, mode, goal, max_failures, seed, write, folder.
    """

    data: dict
    specs: list
    notices: list


def asked(path_or_name, flags, wishes):
    """Return the Search that flags and file ask for, or None for a single run. Raises InputError with all that is wrong."""
    import_modules(flags)
    sources = files.load(path_or_name) if path_or_name else [("default", {}, Where("the command"))]
    flags = {**flags, **{name: wishes.get(name) for name in ("num_samples", "max_failures")}}
    asked = [_Asked(flags.get("experiment_name") or name, m, w, flags, wishes) for name, m, w in sources]
    options = ("scheduler", "scheduler_config", "search", "write", "resources_per_trial", "max_failures", "seeds")
    if len(asked) == 1 and not asked[0].is_searched and all(wishes.get(name) is None for name in options):
        return None
    for one in asked:
        one.spread()
    return _Drawing(asked, flags, wishes, str(path_or_name or "the command")).search()


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


def spec_of(data, point):
    """Return the ExperimentSpec of one point of a search's ``data``. Raises InputError."""
    experiment = data["experiments"][point["experiment"]]
    import_modules(data["flags"])
    draft = Draft(
        experiment["name"],
        Layers(variants.filled(experiment, point), Where("the search")),
        data["flags"],
        is_from_file=True,
    )
    refuse(draft.problems(), f"trial {point['trial']}")
    return dataclasses.replace(draft.finish(), trial=f"{data['id']}_{point['trial']:05d}")


class _Asked:
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
            grid = {sampling.GRID: seeds(wishes["seeds"])}
            self.layers.set(("config", "seed"), grid, Where("--seeds"))
        found, wrong = sampling.find(self.layers.data)
        for path, why in wrong.items():
            self.problems.append(f"{_dotted(path)}: {why} ({self.layers.where.place(path)}).")
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
            config["num_workers"] = 0
            self.layers.notices.append(
                "num_workers: 0 in each trial, since none was given: trials run side by side, each in one process."
            )

    def mutate(self, mutations):
        """Take in the keys that PBT changes; return {name: Sampler} of them. Their start is drawn unless it is given."""
        lists = {name: {"choice": value} if isinstance(value, list) else value for name, value in mutations.items()}
        found, wrong = sampling.find({"config": lists})
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
        return () if sampling.name_of(value) else (value,)

    def _check_resources(self):
        given = self.layers.data.get("resources_per_trial")
        for name, value in given.items() if isinstance(given, dict) else ():
            place = self.layers.where.place(("resources_per_trial", name))
            if name not in RESOURCES:
                hint = suggestion(name, RESOURCES) or f" It has {', '.join(RESOURCES)}."
                self.problems.append(f"resources_per_trial.{name}: unknown key ({place}).{hint}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1024:
                self.problems.append(f"resources_per_trial.{name}: {shown(value)} is not a number from 0 to 1024 ({place}).")


class _Drawing:
    """From experiments to points, all of them checked."""

    def __init__(self, asked, flags, wishes, source):
        self._asked, self._flags, self._wishes, self._source = asked, flags, wishes, source
        self._problems = [line for one in asked for line in one.problems]
        self._notices = [text for one in asked for text in one.layers.notices]
        self._scheduler, self._settings = self._read_scheduler()
        self._algorithm = self._read_algorithm()
        self._changing = {}  # keys whose values are drawn while the search runs
        self._seed = flags_seed(flags)

    def search(self):
        """Return the Search. Raises ConfigError with all problems, or what making an environment raises."""
        if self._scheduler == "PopulationBasedTraining":
            self._read_mutations()
        self._check_wishes()
        points = self._points()
        drafts = self._check(points)
        refuse(list(dict.fromkeys(self._problems)), self._source)
        specs = self._finish(points, drafts)
        return Search(self._data(points, specs), specs, list(dict.fromkeys(self._notices)))

    # -- options ------------------------------------------------------------------------------------------------

    def _read_scheduler(self):
        typed = self._wishes.get("scheduler") or "FIFO"
        name = schedulers.canonical(typed)
        if name is None:
            known = ", ".join(schedulers.SECTIONS)
            hint = suggestion(typed, [*schedulers.SECTIONS, "ASHA", "PBT", "MedianStopping"])
            self._problems.append(f"--scheduler: {typed[:60]!r} is no scheduler.{hint} There are {known}.")
            return "FIFO", schedulers.FIFOKeys()
        given, where = {}, Where("--scheduler-config")
        if self._wishes.get("scheduler_config") is not None:
            given, where = parse_object(self._wishes["scheduler_config"], "--scheduler-config")
        section, wrong = read_section(schedulers.SECTIONS[name], given, where, lambda path: _other(path, name))
        self._problems += wrong
        for key, field in schedulers.unknown_fields(section) if section else ():
            hint = suggestion(field, NUMBER_FIELDS)
            self._problems.append(f"{key}: {field[:100]!r} is no field of a result ({where.place((key,))}).{hint}")
        return name, section or schedulers.FIFOKeys()

    def _read_algorithm(self):
        typed = self._wishes.get("search") or "grid"
        if typed.lower() not in SEARCHES:
            hint = suggestion(typed, SEARCHES)
            self._problems.append(f"--search: {typed[:60]!r} is no search.{hint} There are {', '.join(SEARCHES)}.")
        return SEARCHES.get(typed.lower())

    def _read_mutations(self):
        mutations = self._settings.hyperparam_mutations
        for one in self._asked:
            self._changing = one.mutate(mutations)
        if not mutations and not self._problems:
            self._problems.append(
                'hyperparam_mutations is missing: what may PBT change? Type --scheduler-config \'{"hyperparam_mutations": '
                '{"lr": {"loguniform": [1e-5, 1e-2]}}}\'.'
            )
        unbounded = [name for name, sampler in self._changing.items() if sampler.kind.endswith("randn")]
        if unbounded:
            self._problems.append(f"hyperparam_mutations: {unbounded[0]}: a normal value has no bounds to stay in.")

    def _check_wishes(self):
        wishes = self._wishes
        if wishes.get("seeds") is not None and flags_seed(self._flags) is not None:
            self._problems.append("--seed and --seeds: give one of them.")
        if wishes.get("write") and Path(wishes["write"]).expanduser().exists():
            self._problems.append(f"--write: {wishes['write']} exists already. Name another file, or remove it.")
        elif wishes.get("write") and not Path(wishes["write"]).expanduser().absolute().parent.is_dir():
            self._problems.append(f"--write: {wishes['write']}: there is no such folder.")
        if self._algorithm:
            self._check_tpe()

    def _check_tpe(self):
        one = self._asked[0]
        drawn = {name: s for name, s in one.samplers.items() if s.kind != sampling.GRID}
        unfit = next((name for name, s in drawn.items() if s.kind.endswith("randn")), None)
        if len(self._asked) > 1:
            self._problems.append("--search tpe: one experiment at a time.")
        elif self._scheduler == "PopulationBasedTraining":
            self._problems.append("--search tpe: PBT changes values by itself. Leave one of them out.")
        elif len(drawn) < len(one.samplers):
            grid = next(name for name in one.samplers if name not in drawn)
            self._problems.append(f"--search tpe: {grid} is a grid, which tries all values. Write it as {{choice: […]}}.")
        elif not drawn:
            self._problems.append("--search tpe: no value to search over. Write, say, -s 'lr={loguniform: [1e-5, 1e-2]}'.")
        elif unfit:
            self._problems.append(f"--search tpe: {unfit}: normal values are not among its distributions. Take uniform.")
        elif one.num_samples < 2:
            self._problems.append("--search tpe: how many trials? Type --num-samples 20.")
        self._changing = drawn

    # -- points -------------------------------------------------------------------------------------------------

    def _points(self):
        self._seed = secrets.randbelow(2**31) if self._seed is None else self._seed
        total = sum(variants.count(one.samplers, one.num_samples) for one in self._asked)
        if total > variants.MAX_POINTS:
            self._problems.append(f"{total:,} trials; at most {variants.MAX_POINTS:,} fit into a search.")
            return []
        points = []
        for index, one in enumerate(self._asked):
            if one.has_seed and one.num_samples > 1 and "seed" not in one.samplers and not self._drawn(one):
                self._notices.append(
                    f"{one.name}: its seed is given, so that all {one.num_samples} samples of a point are the same run. "
                    f"Take --seeds 0..{one.num_samples - 1} instead."
                )
            for values, seed in variants.draw(one.samplers, one.num_samples, self._seed, one.has_seed):
                for name in self._changing if self._scheduler == "PopulationBasedTraining" else ():
                    values[name] = (*one.given(name), values[name])[0]
                points.append({"trial": len(points), "experiment": index, "values": values, "seed": seed})
        return points

    def _drawn(self, one):
        return [name for name, sampler in one.samplers.items() if sampler.kind != sampling.GRID]

    def _check(self, points):
        """Collect the problems of the points; return the drafts of those that are checked as whole runs, by trial."""
        drafts, extremes = {}, []
        for index, one in enumerate(self._asked):
            samplers = {**one.samplers, **self._changing}
            seed = None if one.has_seed else 0
            extremes += [
                {"trial": -1, "experiment": index, "values": values, "seed": seed} for values in variants.corners(samplers)
            ]
        for point in [*points[:CHECKED], *extremes]:
            draft = self._draft(point)
            wrong = draft.problems()
            self._problems += wrong
            if point["trial"] >= 0 and not wrong:
                drafts[point["trial"]] = draft
        return drafts

    def _draft(self, point):
        one = self._asked[point["experiment"]]
        mapping = variants.filled({"mapping": one.layers.data, "paths": one.paths}, point)
        return Draft(one.name, Layers(mapping, one.layers.where), self._flags, is_from_file=self._source != "the command")

    def _finish(self, points, drafts):
        """Return the specs of the checked points, and give each point what it asks of Ray."""
        specs, told = [], lambda kind, fields: kind == "notice" and self._notices.append(fields["text"])
        unsubscribe = events.subscribe(told)
        try:
            for point in points:
                draft = drafts.get(point["trial"]) or self._draft(point)
                if draft.problems():
                    raise ConfigError(f"trial {point['trial']}: {draft.problems()[0]}")
                specs.append(draft.finish())
                resources = self._asked[point["experiment"]].layers.data.get("resources_per_trial")
                point["bundles"] = bundles(specs[-1].config, resources)
        except DrlError as error:
            values = ", ".join(f"{name}={shown(value)}" for name, value in point["values"].items())
            raise type(error)(f"{error} (trial {point['trial']}: {values})" if values else str(error)) from error
        finally:
            unsubscribe()
        return specs

    # -- the record ---------------------------------------------------------------------------------------------

    def _data(self, points, specs):
        settings = self._settings.model_dump(mode="json")
        evaluated = all(spec.config.evaluation_interval for spec in specs)
        metric = settings.pop("metric") or (EVALUATED if evaluated else TRAINED)
        goals = {spec.stop.get(metric) for spec in specs}
        wishes = self._wishes
        write = wishes.get("write")
        flags = {name: self._flags.get(name) for name in FLAGS_OF_TRIALS}
        return {
            "id": secrets.token_hex(3)[:5],
            "experiments": [self._experiment(one) for one in self._asked],
            "points": [] if self._algorithm else points,
            "flags": flags,
            "ray": defaults.ray_settings(self._flags),
            "scheduler": {"name": self._scheduler, "config": settings},
            "search": self._algorithm,
            "samplers": {name: [s.kind, list(s.arguments)] for name, s in self._changing.items()},
            "num_trials": len(points),
            "metric": metric,
            "mode": settings.pop("mode"),
            "goal": goals.pop() if len(goals) == 1 else None,
            "max_failures": max((self._failures(one) for one in self._asked), key=lambda n: n if n >= 0 else 10**9),
            "seed": self._seed,
            "bundles": points[0]["bundles"],
            "seeded": self._asked[0].has_seed,
            "folder": str(specs[0].local_dir / specs[0].name),
            "write": write and {
                "path": str(Path(write).expanduser().absolute()),
                "top": wishes.get("write_top") or 3,
                "seeds": wishes.get("write_seeds") or 3,
            },
        }

    def _failures(self, one):
        return int(one.layers.data.get("max_failures") or 0)

    def _experiment(self, one):
        mapping = {**one.layers.data, "local_dir": str(defaults.results_folder(one.layers.data.get("local_dir")))}
        return {"name": one.name, "mapping": mapping, "paths": one.paths}


def flags_seed(flags):
    """Return the seed that ``-s seed=N`` (or ``--seed N``, which becomes it) gives, or None."""
    typed = [text.partition("=")[2] for text in flags.get("set") or () if text.partition("=")[0].strip() == "seed"]
    return int(typed[-1]) if typed and typed[-1].strip().isdigit() else None


def _other(path, name):
    """Return why a key of another scheduler is refused, or None."""
    owners = [other for other, section in schedulers.SECTIONS.items() if path[-1] in section.model_fields]
    if path[-1] == "custom_explore_fn":
        return "holds code, which is not run"
    return f"a key of {', '.join(owners)}, not of {name}" if owners else None


def _dotted(path):
    return ".".join(map(str, path))
