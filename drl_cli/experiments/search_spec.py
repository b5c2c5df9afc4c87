"""From what was typed, and the file it names, to an experiment or a search: points to try, how they are compared.

Used by ``drl train``. Several experiments in a file, a value to search over anywhere in them, ``num_samples``, ``--seeds`` or
an option of a search make a search; otherwise it is a single run. Every point is checked as a run of its own before anything
starts. RLlib's rules: grids multiply, then ``num_samples``; all experiments of a file run side by side. Deviations: points that
differ in their grids only share a seed; a seed is drawn for each point that has none.
"""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drl_cli import events
from drl_cli.config import search_space
from drl_cli.config.experiment_keys import listed_formats
from drl_cli.config.origins import Layers, Where
from drl_cli.config.parse import refuse
from drl_cli.config.plain_data import redact_command
from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD
from drl_cli.config.search_space import Sampler
from drl_cli.config.sections import schedulers
from drl_cli.config.sections.common import bundles
from drl_cli.errors import ConfigError, DrlError, shown
from drl_cli.experiments import config_tree, experiment_defaults, search_choices
from drl_cli.experiments.config_tree import ConfigTree, Flags
from drl_cli.experiments.draft import Draft
from drl_cli.experiments.search_choices import SearchedExperiment, SearchOptions
from drl_cli.experiments.search_data import ExperimentData, Point, SearchData, WriteData
from drl_cli.experiments.spec import ExperimentSpec, finish, from_trees
from drl_cli.runs.run_folder import results_folder

FLAGS_OF_TRIALS = ("env", "strict_env", "imports", "command", "ray_address", "ray_num_cpus", "ray_num_gpus")
FLAGS_OF_TRIALS += ("ray_object_store_memory", "log_format")
MAKE_A_SEARCH = ("scheduler", "scheduler_config", "search", "write", "resources_per_trial", "max_failures", "seeds")
MAKE_A_SEARCH += ("search_space",)
"""Options that make a search of a single experiment."""

CHECKED = 200  # points that are checked as whole runs; beyond, every listed value and both ends of each range are


@dataclasses.dataclass(frozen=True)
class SearchSpec:
    """A search that can run: ``data`` goes to the trials and into the record, ``specs`` of its points are for the screen."""

    data: SearchData
    specs: list[ExperimentSpec]
    notices: list[str]


def read(path_or_name: Path | str | None, flags: Flags, options: SearchOptions) -> ExperimentSpec | SearchSpec:
    """Return the run or the search that a file and flags describe. Raises InputError with everything that is wrong.

    ``path_or_name``: a file of experiments, or None for those of the flags alone.
    """
    laid_over = {name: options.get(name) for name in ("num_samples", "max_failures")}
    flags = {**flags, **laid_over}
    trees = config_tree.read(path_or_name, flags)
    source = str(path_or_name or "the command")
    if trees[0].recorded:
        return from_trees(trees, flags, source)[0]
    searched = [SearchedExperiment(tree, options) for tree in trees]
    is_search = any(options.get(name) is not None for name in MAKE_A_SEARCH)
    if not is_search and len(searched) == 1 and not searched[0].is_searched:
        return from_trees(trees, flags, source)[0]
    return _search(searched, flags, options, source)


def of_tree(tree: ConfigTree, flags: Flags, options: SearchOptions, source: str) -> SearchSpec:
    """Return the search over one experiment, be it of a single trial; ``source``: where it comes from, for messages."""
    return _search([SearchedExperiment(tree, options)], flags, options, source)


def _search(searched: list[SearchedExperiment], flags: Flags, options: SearchOptions, source: str) -> SearchSpec:
    if flags.get("local_mode"):
        raise ConfigError("--local-mode: the trials of a search are separate processes, on Ray. Omit it.")
    for one in searched:
        _refuse_exports(one.layers)
        one.run_without_workers()
    return _Planner(searched, flags, options, source).search()


def _refuse_exports(layers: Layers) -> None:
    formats = listed_formats(layers.data.get("export_formats")) or ()
    if isinstance(formats, (list, tuple)) and set(map(str, formats)) - {"checkpoint"}:
        raise ConfigError(
            f"export_formats: this is a search, and a single run is exported at its end "
            f"({layers.where.place(('export_formats',))}). Leave it out; then: drl checkpoint export RUN -o policy"
        )


def spec_of(data: SearchData, point: Point) -> ExperimentSpec:
    """Return the ExperimentSpec of one point of a search's ``data``. Raises InputError."""
    experiment = data["experiments"][point["experiment"]]
    config_tree.import_modules(data["flags"])
    layers = Layers(search_space.filled(experiment, point), Where("the search"))
    tree = ConfigTree(experiment["name"], layers, is_from_file=experiment.get("is_from_file", False))
    draft = Draft(tree, data["flags"], is_trial=True)
    refuse(draft.problems(), f"trial {point['trial']}")
    return dataclasses.replace(finish(draft), trial=f"{data['id']}_{point['trial']:05d}")


class _Planner:
    """From experiments to points, all of them checked."""

    def __init__(self, searched: list[SearchedExperiment], flags: Flags, options: SearchOptions, source: str) -> None:
        self._searched, self._flags, self._options = searched, flags, options
        self._source, self._is_from_file = source, searched[0].is_from_file
        self._problems: list[str] = []
        self._notices = [text for one in searched for text in one.layers.notices]
        self._scheduler, self._settings, wrong = search_choices.scheduler(options)
        self._algorithm, more = search_choices.algorithm(options)
        self._problems += [*wrong, *more]
        self._changing: dict[str, Sampler] = {}  # keys whose values are drawn while the search runs
        self._given_seed = _flags_seed(flags)
        self._seed = secrets.randbelow(2**31) if self._given_seed is None else self._given_seed

    def search(self) -> SearchSpec:
        """Return the SearchSpec. Raises ConfigError with all problems, or what making an environment raises."""
        if isinstance(self._settings, schedulers.PopulationBasedTrainingKeys):
            self._read_mutations(self._settings)
        self._problems += [line for one in self._searched for line in one.problems]
        self._check_options()
        points = self._points()
        drafts = self._check(points)
        refuse(list(dict.fromkeys(self._problems)), self._source)
        specs = self._finish(points, drafts)
        return SearchSpec(self._data(points, specs), specs, list(dict.fromkeys(self._notices)))

    # -- options ------------------------------------------------------------------------------------------------

    def _read_mutations(self, settings: schedulers.PopulationBasedTrainingKeys) -> None:
        mutations = settings.hyperparam_mutations
        for one in self._searched:
            self._changing = one.mutate(mutations)
        if not mutations and not self._problems:
            self._problems.append(
                'hyperparam_mutations is missing: what may PBT change? Type --scheduler-config \'{"hyperparam_mutations": '
                '{"lr": {"loguniform": [1e-5, 1e-2]}}}\'.'
            )
        unbounded = [name for name, sampler in self._changing.items() if sampler.kind.endswith("randn")]
        if unbounded:
            self._problems.append(f"hyperparam_mutations: {unbounded[0]}: a normal distribution has no bounds.")

    def _check_options(self) -> None:
        options = self._options
        if options.get("seeds") is not None and self._given_seed is not None:
            self._problems.append("--seed and --seeds: give one of them.")
        if options.get("write") and Path(options["write"]).expanduser().exists():
            self._problems.append(f"--write: {options['write']} exists already. Name another file, or remove it.")
        elif options.get("write") and not Path(options["write"]).expanduser().absolute().parent.is_dir():
            self._problems.append(f"--write: {options['write']}: there is no such folder.")
        if self._algorithm:
            self._problems += search_choices.misfits(self._algorithm, self._searched, self._scheduler)
            self._changing = self._searched[0].samplers

    # -- points -------------------------------------------------------------------------------------------------

    def _points(self) -> list[Point]:
        total = sum(search_space.count(one.samplers, one.num_samples) for one in self._searched)
        if total > search_space.MAX_POINTS:
            self._problems.append(f"{total:,} trials; at most {search_space.MAX_POINTS:,} fit into a search.")
            return []
        points: list[Point] = []
        for index, one in enumerate(self._searched):
            if one.has_seed and one.num_samples > 1 and "seed" not in one.samplers and not self._drawn(one):
                self._notices.append(
                    f"{one.name}: its seed is given, so that all {one.num_samples} samples of a point are the same run. "
                    f"Take --seeds 0..{one.num_samples - 1} instead."
                )
            for values, seed in search_space.draw(one.samplers, one.num_samples, self._seed, one.has_seed):
                for name in self._changing if self._scheduler == "PopulationBasedTraining" else ():
                    values[name] = (*one.given(name), values[name])[0]
                points.append({"trial": len(points), "experiment": index, "values": values, "seed": seed})
        return points

    def _drawn(self, one: SearchedExperiment) -> list[str]:
        return [name for name, sampler in one.samplers.items() if sampler.kind != search_space.GRID]

    def _check(self, points: Sequence[Point]) -> dict[int, Draft]:
        """Collect the problems of the points; return the drafts of those that are checked as whole runs, by trial."""
        drafts: dict[int, Draft] = {}
        extremes: list[Point] = []
        for index, one in enumerate(self._searched):
            samplers = {**one.samplers, **self._changing}
            seed = None if one.has_seed else 0
            for values in search_space.corners(samplers):
                extremes.append({"trial": -1, "experiment": index, "values": values, "seed": seed})
        for point in [*points[:CHECKED], *extremes]:
            draft = self._draft(point)
            wrong = draft.problems()
            self._problems += wrong
            if point["trial"] >= 0 and not wrong:
                drafts[point["trial"]] = draft
        return drafts

    def _draft(self, point: Point) -> Draft:
        one = self._searched[point["experiment"]]
        mapping = search_space.filled({"mapping": one.layers.data, "paths": one.paths}, point)
        tree = ConfigTree(one.name, Layers(mapping, one.layers.where), is_from_file=self._is_from_file)
        return Draft(tree, self._flags, is_trial=True)

    def _finish(self, points: Sequence[Point], drafts: Mapping[int, Draft]) -> list[ExperimentSpec]:
        """Return the specs of the points, and set what each of them reserves of Ray."""
        specs: list[ExperimentSpec] = []

        def note(kind: str, fields: Mapping[str, Any]) -> None:
            if kind == "notice":
                self._notices.append(fields["text"])

        unsubscribe = events.subscribe(note)
        try:
            for point in points:
                specs.append(self._finished(point, drafts.get(point["trial"])))
                resources = self._searched[point["experiment"]].layers.data.get("resources_per_trial")
                point["bundles"] = bundles(specs[-1].config, resources)
        finally:
            unsubscribe()
        return specs

    def _finished(self, point: Point, draft: Draft | None) -> ExperimentSpec:
        """Return the spec of a point; ``draft``: None of one that has not been checked."""
        try:
            if draft is None:
                draft = self._draft(point)
                if problems := draft.problems():
                    raise ConfigError(f"trial {point['trial']}: {problems[0]}")
            return finish(draft)
        except DrlError as error:
            values = ", ".join(f"{name}={shown(value)}" for name, value in point["values"].items())
            raise type(error)(f"{error} (trial {point['trial']}: {values})" if values else str(error)) from error

    # -- the record ---------------------------------------------------------------------------------------------

    def _data(self, points: list[Point], specs: list[ExperimentSpec]) -> SearchData:
        if self._options.get("write") and len({spec.env for spec in specs}) > 1:
            names = ", ".join(sorted({spec.env for spec in specs}))
            raise ConfigError(f"--write: there are several environments ({names}), whose scores do not compare.")
        settings = self._settings.model_dump(mode="json")
        evaluated = all(spec.config.evaluation_interval for spec in specs)
        metric = settings.pop("metric") or (EVALUATION_REWARD if evaluated else TRAINING_REWARD)
        goals = {spec.stop.get(metric) for spec in specs}
        flags: dict[str, Any] = {name: self._flags.get(name) for name in FLAGS_OF_TRIALS}
        flags["command"] = redact_command(flags["command"] or ())
        return {
            "id": secrets.token_hex(3)[:5],
            "experiments": [self._experiment(one) for one in self._searched],
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
            "max_failures": max((self._failures(one) for one in self._searched), key=lambda n: n if n >= 0 else 10**9),
            "seed": self._seed,
            "bundles": points[0].get("bundles", []),
            "seeded": self._searched[0].has_seed,
            "folder": str(specs[0].local_dir / specs[0].name),
            "write": self._file_to_write(),
        }

    def _file_to_write(self) -> WriteData | None:
        options = self._options
        if not options.get("write"):
            return None
        path = str(Path(options["write"]).expanduser().absolute())
        return {"path": path, "top": options.get("write_top") or 3, "seeds": options.get("write_seeds") or 3}

    def _failures(self, one: SearchedExperiment) -> int:
        return int(one.layers.data.get("max_failures") or 0)

    def _experiment(self, one: SearchedExperiment) -> ExperimentData:
        # Trials run elsewhere, and a resumed search may be typed in another folder.
        mapping = {**one.layers.data, "local_dir": str(results_folder(one.layers.data.get("local_dir")))}
        if isinstance(mapping.get("restore"), str):
            mapping["restore"] = str(Path(mapping["restore"]).expanduser().absolute())
        return {"name": one.name, "mapping": mapping, "paths": one.paths, "is_from_file": self._is_from_file}


def _flags_seed(flags: Flags) -> int | None:
    """Return the seed that ``-s seed=N`` (or ``--seed N``, which becomes it) gives, or None."""
    typed = [text.partition("=")[2] for text in flags.get("set") or () if text.partition("=")[0].strip() == "seed"]
    return int(typed[-1]) if typed and typed[-1].strip().isdigit() else None
