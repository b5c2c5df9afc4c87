"""From what was typed, and the file it names, to experiments that can run: checked, complete, plain.

Used by ``drl train``. Everything that can be wrong with the input is refused here, all at once, before Ray or
TensorFlow is imported. RLlib's flags and files; deviations: flags beside a file override it, visibly; a run without
stop rules gets some; a seed is drawn and recorded.

``flags`` is a dict of what was typed; a missing key or None means that it was not:

    run, env, experiment_name, local_dir, restore, checkpoint_score_attr, export_formats   str
    config                       text of --config, or a list of texts, laid over one another
    set                          list of "a.b=c"
    stop                         list of objects or "field=threshold"
    checkpoint_freq, keep_checkpoints_num, num_samples, max_failures   int      checkpoint_at_end   bool      strict_env   bool
    resume                       True for the newest unfinished run of the experiment, or the path of a run
    ray_address                  str    ray_num_cpus, ray_num_gpus, ray_object_store_memory   numbers
    local_mode, queue_trials     bool   asserts   list of "field>=threshold"
    defaults                     names of flags that were not typed, but set once by the person; a file goes before them
    imports                      list of modules    verbose   0, 1, 2    command   list of words, as typed
    loggers                      list of names      log_format   "text" or "json"
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drl_cli import process
from drl_cli.actors import custom_evaluation
from drl_cli.algorithms import table
from drl_cli.config import environment_variables, experiment_keys
from drl_cli.config.experiment_keys import ExperimentKeys, refusal
from drl_cli.config.key_description import fields_of
from drl_cli.config.origins import Where
from drl_cli.config.parse import read, read_section, refuse
from drl_cli.config.result_names import NUMBER_FIELDS, is_number_field
from drl_cli.config.rllib import semantics
from drl_cli.config.rllib.experiment_aliases import settled
from drl_cli.config.rllib.other_libraries import FIELDS, RLLIB_2
from drl_cli.config.sections import exploration_settings
from drl_cli.config.sections.rollout import filter_misfits
from drl_cli.envs import callbacks, make, preprocessors, remote_env, render
from drl_cli.errors import ConfigError, DrlError, ExperienceError, InputError, suggestion
from drl_cli.events import report
from drl_cli.experiments import (
    estimate_checks,
    experiment_defaults,
    experiment_files,
    offline_checks,
    provenance,
)
from drl_cli.experiments import (
    resume as resuming,
)
from drl_cli.experiments.flags import with_flags
from drl_cli.extras import load
from drl_cli.policies import custom_models
from drl_cli.runs import demands, run_names
from drl_cli.runs import stop_rules as stop
from drl_cli.runs.loggers import custom_loggers
from drl_cli.runs.run_folder import results_folder
from drl_cli.runtime import footprint


@dataclass(frozen=True)
class ExperimentSpec:
    """One experiment, ready to run.

    ``env_facts`` holds ``id``, ``asked``, ``env_config``, ``spaces`` (see ``envs.spaces``) and ``preprocessing`` (see
    ``envs.preprocessors``). ``restore`` is a path or None, ``resume`` the folder of the run to go on with or None.
    ``pass_criteria``, and the Demands of ``--assert`` in ``demands``, are held against the last result. ``trial`` stands in the
    name of the run's folder. ``origins``: {dotted key: where it was given}, see ``provenance``. ``loggers``: names, see
    ``runs.loggers.custom_loggers``; ``log_format``: of drl.log, "text" or "json". ``export_formats``: what the best
    checkpoint becomes at the end.
    """

    name: str
    run: str
    env: str
    env_asked: str
    config: Any
    stop: dict
    pass_criteria: dict
    checkpoint_freq: int
    checkpoint_at_end: bool
    keep_checkpoints_num: int | None
    checkpoint_score_attr: str | None
    local_dir: Path
    restore: Path | None
    resume: Path | None
    ray: dict
    seed: int
    imports: list
    command: list
    env_facts: dict
    trial: str = "0"
    origins: dict = field(default_factory=dict)
    demands: tuple = ()
    export_formats: tuple = ()
    loggers: tuple = ()
    log_format: str = "text"


def from_flags(flags):
    """Return the ExperimentSpec of a command without ``-f``; with ``resume``, of the run to go on with.

    Raises ConfigError, EnvError or another InputError with everything that is wrong.
    """
    import_modules(flags)
    name = flags.get("experiment_name") or "default"
    recorded = None
    mapping, where = {}, Where("the command")
    if flags.get("resume"):
        folder = resuming.find_run(flags["resume"], results_folder(flags.get("local_dir")), name)
        recorded = resuming.Recorded(folder)
        name, mapping, where = recorded.experiment, recorded.mapping, recorded.where
    draft = Draft(name, with_flags(mapping, where, flags), flags, recorded)
    refuse(draft.problems(), "the command")
    draft.note_what_only_searches_read()
    return draft.finish()


def from_file(path_or_name, flags):
    """Return the ExperimentSpecs of a file, with the flags laid over each of its experiments.

    ``path_or_name``: a path, or the name of a tuned file that comes with the program. Raises as ``from_flags``.
    """
    if flags.get("resume"):
        raise ConfigError("--resume goes on with a run that was started; leave out -f, or start anew without --resume.")
    import_modules(flags)
    renamed = None if "experiment_name" in (flags.get("defaults") or ()) else flags.get("experiment_name")
    drafts = [
        Draft(renamed or name, with_flags(mapping, where, flags), flags, is_from_file=True)
        for name, mapping, where in experiment_files.load(path_or_name)
    ]
    problems = [line for draft in drafts for line in draft.problems()]
    refuse(list(dict.fromkeys(problems)), str(path_or_name))
    for draft in drafts:
        draft.note_what_only_searches_read()
    try:
        return [draft.finish() for draft in drafts]
    except ExperienceError as error:
        command = experiment_files.recording_command(path_or_name)
        if command is None:
            raise
        raise ExperienceError(f"{error} To record what this file reads: {command}") from error


def import_modules(flags):
    """Import the modules of ``--import``, which register environments."""
    for module in flags.get("imports") or ():
        make.import_module(module)


def _refusal(path):
    """Return why a field of an experiment is refused, or None; keys of a config are known to belong one level deeper."""
    rows = table.rows()
    return refusal(path, {*RLLIB_2, *(name for row in rows for name in fields_of(load(row.config)))})


def _placed(error, place):
    return f"{str(error).rstrip('.')} ({place})."


class Draft:
    """An experiment on its way to a spec: first all problems, then the finished thing."""

    def __init__(self, name, layers, flags, recorded=None, is_from_file=False, is_trial=False):
        self._name = name
        self._where = layers.where
        self._mapping, notices, self._unsettled = settled(layers.data, layers.where)
        self._notices = [*layers.notices, *notices]
        self._flags = flags
        self._demands = demands.parse(flags.get("asserts"))
        self._recorded = recorded
        self._is_from_file, self._is_trial = is_from_file, is_trial
        self._filled = {}  # keys of the config that are RLlib's because they are not given, with their values
        self._keys = self._row = self._config = self._env = None

    def problems(self):
        """Check everything that can be checked without making an environment; return one line for each problem."""
        found = []
        if wrong := run_names.misfit(self._name):
            found.append(wrong)
        self._keys, wrong = read_section(ExperimentKeys, self._mapping, self._where, _refusal)
        found += self._unsettled + wrong
        for check in (self._read_algorithm, self._read_environment, self._check_rules, self._check_exports):
            found += check()
        if self._recorded:
            found += self._recorded.changes(self._mapping, self._where)
        return found

    def _read_algorithm(self):
        name = self._mapping.get("run")
        if name is None and self._is_misnamed("run"):
            return []  # said already
        if name is None:
            return [f"run is missing ({self._where.place()}): which algorithm? Type --run SAC."]
        if not isinstance(name, str):
            return []  # said already
        try:
            self._row = table.find(name)
        except InputError as error:
            return [_placed(error, self._where.place(("run",)))]
        self._mapping["run"] = self._row.name  # as the table spells it
        given, where = self._mapping.get("config", {}), self._where.inside("config")
        self._config, problems, notices = read(self._row, given, where, table.rows())
        self._notices += notices
        if not problems:
            self._mean_what_rllib_means()
            lines = [*callbacks.problems(self._config, self._row), *custom_evaluation.problems(self._config)]
            problems = [_placed(line, where.place((line.partition(":")[0],))) for line in lines]
        return problems or [
            *self._unknown_model(),
            *offline_checks.problems(self._row, self._config, self._mapping, self._where),
        ]

    def _mean_what_rllib_means(self):
        if self._recorded or self._row not in table.ALGORITHMS:
            return  # every key was recorded, those that were meant included; or RLlib has no such algorithm
        self._config, self._filled, notices = semantics.completed(self._config, self._is_from_file)
        self._notices += notices

    def _unknown_model(self):
        """Return the problem of a custom model that nobody has registered, in a list."""
        name = getattr(
            getattr(self._config, "model", None), "custom_model", None
        )  # a registered algorithm may have neither
        try:
            if name is not None:
                custom_models.MODELS.find(name)
        except InputError as error:
            place = self._where.inside("config").place(("model", "custom_model"))
            return [_placed(f"model.custom_model: {error}", place)]
        return []

    def _is_misnamed(self, name):
        """Whether a field stands there that is refused as another name of ``name``."""
        return any(FIELDS.get(field, "").startswith(f"{name}:") for field in self._mapping)

    def _read_environment(self):
        name = self._mapping.get("env")
        if name is None and self._is_misnamed("env"):
            return []  # said already
        if name is None:
            return [f"env is missing ({self._where.place()}): which environment? Type --env LunarLanderContinuous-v3."]
        if not isinstance(name, str):
            return []  # said already
        try:
            typed = self._flags.get("env") == name
            self._env = make.resolve(name, strict=bool(self._flags.get("strict_env")), trusted=typed)
        except DrlError as error:
            return [_placed(error, self._where.place(("env",)))]
        return []

    def _check_rules(self):
        found = []
        asked = {name: self._mapping.get(name) for name in ("stop", "pass_criteria")}
        asked["assert"] = {one.field: one.threshold for one in self._demands}
        for name, rules in asked.items():
            if not isinstance(rules, dict):
                continue
            where = Where("--assert") if name == "assert" else self._where.inside(name)
            found += stop.problems(rules, where, name)
            needs = [field for field in rules if field.startswith("evaluation/") and is_number_field(field)]
            if needs and self._config is not None and self._config.evaluation_interval is None:
                place = where.place((needs[0],))
                found.append(
                    f"{name}: {needs[0]} needs evaluations ({place}). Set evaluation_interval, or drop the rule."
                )
        if self._keys is not None:
            place = self._where.place(("loggers",))
            found += [f"{text} ({place})" for text in custom_loggers.problems(self._keys.loggers)]
        score = self._mapping.get("checkpoint_score_attr")
        if isinstance(score, str) and not is_number_field(score.removeprefix("min-")):
            place = self._where.place(("checkpoint_score_attr",))
            hint = suggestion(score.removeprefix("min-"), NUMBER_FIELDS)
            found.append(f"checkpoint_score_attr: unknown result field {score[:100]!r} ({place}).{hint}")
        return found

    def _check_exports(self):
        place = self._where.place(("export_formats",))
        return experiment_keys.missing_packages(self._keys.export_formats, place) if self._keys else []

    def note_what_only_searches_read(self):
        """Say which keys have no effect because this is a single run."""
        keys = self._keys
        if keys.max_failures:
            self._notices.append(
                "max_failures restarts the trials of a search; this is a single run. A run that "
                "failed goes on with drl train --resume."
            )
        if keys.resources_per_trial is not None:
            self._notices.append("resources_per_trial is for the trials of a search; this is a single run.")

    def _hints(self):
        """Return what is worth knowing about the environment that was named: what runs in its place, a tuned file."""
        found = [self._env.notice] if self._env.notice else []
        is_chosen = self._is_from_file or self._is_trial or self._recorded
        tuned = None if is_chosen else experiment_defaults.tuned_file(self._row.name, self._env.id)
        return [*found, f"tuned file: -f {tuned}"] if tuned else found

    def finish(self):
        """Try the environment out, fill in what was left open, say what should be known, return the spec."""
        keys, env = self._keys, self._env
        env_config = self._config.env_config
        plan = preprocessors.plan(self._config, env.id)
        process.set_environs(environment_variables.as_strings(self._config.extra_python_environs_for_driver))
        spaces = make.check(env.id, env_config, self._row, plan, table.fitting())
        misfits = exploration_settings.misfits(self._config, spaces["action"]["kind"])
        misfits += filter_misfits(self._config, spaces["obs"]["shape"])
        misfits += remote_env.misfits(self._config)
        refuse([*misfits, *render.misfits(self._config, env.id, plan)], "the command")
        asked = (self._recorded and self._recorded.env_asked) or env.asked
        self._notices += self._hints()
        rules = experiment_defaults.stop_rules(keys, self._config, env.id, self._notices)
        policy = load(self._row.nets).policy_spec(self._config, spaces)
        custom_models.try_out(policy)
        footprint.check_replay(self._row, self._config, spaces, rules)
        config = experiment_defaults.complete(self._config, env.id, policy.sees_images)
        facts = {"id": env.id, "env_config": env_config, "spaces": spaces, "preprocessing": plan}
        offline_checks.check_files(config, facts)
        estimate_checks.check(self._row, config, facts)
        ray = experiment_defaults.ray_settings(self._flags)
        for text in dict.fromkeys(self._notices):
            report("notice", text=text)
        return ExperimentSpec(
            name=self._name,
            run=self._row.name,
            env=env.id,
            env_asked=asked,
            config=config,
            stop=rules,
            pass_criteria=keys.pass_criteria,
            demands=self._demands,
            export_formats=experiment_keys.exported_formats(keys.export_formats),
            checkpoint_freq=keys.checkpoint_freq,
            checkpoint_at_end=keys.checkpoint_at_end,
            keep_checkpoints_num=keys.keep_checkpoints_num,
            checkpoint_score_attr=keys.checkpoint_score_attr,
            local_dir=results_folder(keys.local_dir),
            restore=Path(os.path.abspath(os.path.expanduser(keys.restore))) if keys.restore else None,
            resume=self._recorded.folder if self._recorded else None,
            ray=ray,
            seed=config.seed,
            imports=list(self._flags.get("imports") or ()),
            command=list(self._flags.get("command") or ()),
            env_facts={
                "id": env.id,
                "asked": asked,
                "env_config": env_config,
                "spaces": spaces,
                "preprocessing": plan,
            },
            loggers=tuple(dict.fromkeys(keys.loggers)),
            log_format=self._flags.get("log_format") or "text",
            origins=provenance.collect(self._mapping, self._where, load(self._row.config))
            | {f"config.{name}": semantics.SOURCE for name in self._filled},
        )
