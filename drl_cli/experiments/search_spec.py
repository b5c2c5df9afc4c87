"""From what was typed, and the file it names, to a search: experiments, the points to try, how they are compared.

Used by ``drl train`` before ``experiments.spec``: several experiments in a file, a value to search over anywhere in them,
``num_samples``, ``--seeds`` or an option of a search make one; otherwise a single run follows. Every point is checked as a
run of its own before anything starts. RLlib's rules: grids multiply, then ``num_samples``; all experiments of a file run side
by side. Deviations: points that differ in their grids only share a seed; a seed is drawn for each point that has none.

``wishes`` is a dict of what was typed; a missing key or None means that it was not:

    num_samples, max_failures    int            resources_per_trial, scheduler_config   text of an object
    seeds                        "0..4,7"       scheduler, search                       names
    write                        path of a file to be made     write_top, write_seeds   int
"""

import dataclasses
import secrets
from pathlib import Path

from drl_cli import events
from drl_cli.config import search_space, variants
from drl_cli.config.experiment_keys import listed_formats
from drl_cli.config.origins import Layers, Where
from drl_cli.config.parse import refuse
from drl_cli.config.plain_data import redact_command
from drl_cli.config.sections.common import bundles
from drl_cli.errors import ConfigError, DrlError, shown
from drl_cli.experiments import experiment_defaults, experiment_files, scheduler_choice
from drl_cli.experiments.searched_experiment import Searched
from drl_cli.experiments.spec import Draft, import_modules
from drl_cli.runs.run_folder import results_folder

EVALUATED, TRAINED = "evaluation/episode_reward_mean", "episode_reward_mean"
FLAGS_OF_TRIALS = ("env", "strict_env", "imports", "command", "ray_address", "ray_num_cpus", "ray_num_gpus")
FLAGS_OF_TRIALS += ("ray_object_store_memory", "log_format")
CHECKED = 200  # points that are checked as whole runs; beyond, every listed value and both ends of each range are


@dataclasses.dataclass(frozen=True)
class Search:
    """A search that can run: ``data`` is plain and goes to the trials and into the record, ``specs`` are for the screen.

    data: id, experiments (see ``config.variants``), points, flags, scheduler (name, config), search ("tpe" or None), samplers
    of the keys that are drawn while it runs, num_trials, metric, mode, goal, max_failures, seed, write, folder.
    """

    data: dict
    specs: list
    notices: list


def asked(path_or_name, flags, wishes):
    """Return the Search that flags and file ask for, or None for a single run. Raises InputError with all that is wrong."""
    import_modules(flags)
    sources = experiment_files.load(path_or_name) if path_or_name else [("default", {}, Where("the command"))]
    flags = {**flags, **{name: wishes.get(name) for name in ("num_samples", "max_failures")}}
    asked = [Searched(flags.get("experiment_name") or name, m, w, flags, wishes) for name, m, w in sources]
    options = ("scheduler", "scheduler_config", "search", "write", "resources_per_trial", "max_failures", "seeds")
    if len(asked) == 1 and not asked[0].is_searched and all(wishes.get(name) is None for name in options):
        return None
    if flags.get("local_mode"):
        raise ConfigError("--local-mode: the trials of a search are processes of their own, on Ray. Leave it out.")
    for one in asked:
        formats = listed_formats(one.layers.data.get("export_formats")) or ()
        if isinstance(formats, (list, tuple)) and set(map(str, formats)) - {"checkpoint"}:
            raise ConfigError(
                f"export_formats: this is a search, and a single run is exported at its end "
                f"({one.layers.where.place(('export_formats',))}). Leave it out; then: drl checkpoint export RUN -o policy"
            )
        one.spread()
    return _Drawing(asked, flags, wishes, path_or_name).search()


def spec_of(data, point):
    """Return the ExperimentSpec of one point of a search's ``data``. Raises InputError."""
    experiment = data["experiments"][point["experiment"]]
    import_modules(data["flags"])
    draft = Draft(
        experiment["name"],
        Layers(variants.filled(experiment, point), Where("the search")),
        data["flags"],
        is_from_file=experiment.get("is_from_file", False),
        is_trial=True,
    )
    refuse(draft.problems(), f"trial {point['trial']}")
    return dataclasses.replace(draft.finish(), trial=f"{data['id']}_{point['trial']:05d}")


class _Drawing:
    """From experiments to points, all of them checked."""

    def __init__(self, asked, flags, wishes, path_or_name):
        self._asked, self._flags, self._wishes = asked, flags, wishes
        self._source, self._is_from_file = str(path_or_name or "the command"), path_or_name is not None
        self._problems = []
        self._notices = [text for one in asked for text in one.layers.notices]
        self._scheduler, self._settings, wrong = scheduler_choice.scheduler(wishes)
        self._algorithm, more = scheduler_choice.algorithm(wishes)
        self._problems += [*wrong, *more]
        self._changing = {}  # keys whose values are drawn while the search runs
        self._seed = flags_seed(flags)

    def search(self):
        """Return the Search. Raises ConfigError with all problems, or what making an environment raises."""
        if self._scheduler == "PopulationBasedTraining":
            self._read_mutations()
        self._problems += [line for one in self._asked for line in one.problems]
        self._check_wishes()
        points = self._points()
        drafts = self._check(points)
        refuse(list(dict.fromkeys(self._problems)), self._source)
        specs = self._finish(points, drafts)
        return Search(self._data(points, specs), specs, list(dict.fromkeys(self._notices)))

    # -- options ------------------------------------------------------------------------------------------------

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
            self._problems += scheduler_choice.misfits(self._algorithm, self._asked, self._scheduler)
            self._changing = self._asked[0].samplers

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
        return [name for name, sampler in one.samplers.items() if sampler.kind != search_space.GRID]

    def _check(self, points):
        """Collect the problems of the points; return the drafts of those that are checked as whole runs, by trial."""
        drafts, extremes = {}, []
        for index, one in enumerate(self._asked):
            samplers = {**one.samplers, **self._changing}
            seed = None if one.has_seed else 0
            extremes += [
                {"trial": -1, "experiment": index, "values": values, "seed": seed}
                for values in variants.corners(samplers)
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
        layers = Layers(mapping, one.layers.where)
        return Draft(one.name, layers, self._flags, is_from_file=self._is_from_file, is_trial=True)

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
        if self._wishes.get("write") and len({spec.env for spec in specs}) > 1:
            names = ", ".join(sorted({spec.env for spec in specs}))
            raise ConfigError(f"--write: there are several environments ({names}), whose scores do not compare.")
        settings = self._settings.model_dump(mode="json")
        evaluated = all(spec.config.evaluation_interval for spec in specs)
        metric = settings.pop("metric") or (EVALUATED if evaluated else TRAINED)
        goals = {spec.stop.get(metric) for spec in specs}
        wishes = self._wishes
        write = wishes.get("write")
        flags = {name: self._flags.get(name) for name in FLAGS_OF_TRIALS}
        flags["command"] = redact_command(flags["command"] or ())
        return {
            "id": secrets.token_hex(3)[:5],
            "experiments": [self._experiment(one) for one in self._asked],
            "points": [] if self._algorithm else points,
            "flags": flags,
            "demands": [list(demand) for demand in specs[0].demands],
            "ray": experiment_defaults.ray_settings(self._flags),
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
            "write": write
            and {
                "path": str(Path(write).expanduser().absolute()),
                "top": wishes.get("write_top") or 3,
                "seeds": wishes.get("write_seeds") or 3,
            },
        }

    def _failures(self, one):
        return int(one.layers.data.get("max_failures") or 0)

    def _experiment(self, one):
        # Trials run elsewhere, and a resumed search may be typed in another folder.
        mapping = {**one.layers.data, "local_dir": str(results_folder(one.layers.data.get("local_dir")))}
        if isinstance(mapping.get("restore"), str):
            mapping["restore"] = str(Path(mapping["restore"]).expanduser().absolute())
        return {"name": one.name, "mapping": mapping, "paths": one.paths, "is_from_file": self._is_from_file}


def flags_seed(flags):
    """Return the seed that ``-s seed=N`` (or ``--seed N``, which becomes it) gives, or None."""
    typed = [text.partition("=")[2] for text in flags.get("set") or () if text.partition("=")[0].strip() == "seed"]
    return int(typed[-1]) if typed and typed[-1].strip().isdigit() else None
