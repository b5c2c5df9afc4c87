"""An experiment that is being read: a config tree held against the schemas, with everything that is wrong with it.

Used by ``experiments.spec`` and ``experiments.search_spec``. Nothing here makes an environment or imports TensorFlow or Ray.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from drl_cli import plugins
from drl_cli.actors import custom_evaluation
from drl_cli.algorithms import table
from drl_cli.algorithms.row import Algorithm
from drl_cli.config import experiment_keys, key_description, policy_overrides
from drl_cli.config.experiment_keys import ExperimentKeys, refusal
from drl_cli.config.key_description import fields_of
from drl_cli.config.origins import Where
from drl_cli.config.parse import ReadConfig, origins, own_network, read_given, read_section
from drl_cli.config.result_names import NUMBER_FIELDS, is_number_field
from drl_cli.config.rllib import semantics
from drl_cli.config.rllib.experiment_aliases import settled
from drl_cli.config.rllib.other_libraries import FIELDS, RLLIB_2
from drl_cli.config.sections.common import CommonKeys
from drl_cli.envs import callbacks, env_tasks, env_wrappers, make
from drl_cli.errors import ConfigError, DrlError, InputError, suggestion
from drl_cli.experiments import agent_checks, next_steps, offline_checks
from drl_cli.experiments.config_tree import ConfigTree, Flags
from drl_cli.extras import load
from drl_cli.runs import run_names, stop_rules
from drl_cli.runs.loggers import custom_loggers

REGISTRIES = {
    "custom_model": plugins.MODELS,
    "custom_action_dist": plugins.ACTION_DISTS,
    "custom_preprocessor": plugins.PREPROCESSORS,
}
"""Key of ``model`` → where the name in it is looked up."""
TOP_KEYS = ("run", "env", "checkpoint_freq", "checkpoint_at_end", "keep_checkpoints_num", "checkpoint_score_attr")
"""Keys of an experiment whose places are recorded, beside its rules and its config."""


class Draft:
    """One experiment on its way to a spec: ``problems`` reads it; without problems ``parts`` are there.

    ``mapping`` and ``where``: its keys, in this program's spelling, and their places; ``notices``: lines for the user;
    ``filled``: keys of the config that were left out and mean RLlib's default, with their values. ``is_trial``: whether it is
    a point of a search.
    """

    def __init__(self, tree: ConfigTree, flags: Flags, is_trial: bool = False) -> None:
        self.name, self.flags, self.is_trial = tree.name, flags, is_trial
        self.recorded, self.is_from_file = tree.recorded, tree.is_from_file
        self.where = tree.layers.where
        self.mapping: dict[str, Any]
        self.mapping, notices, self._unsettled = settled(tree.layers.data, self.where)
        self.notices: list[str] = [*tree.layers.notices, *notices]
        self.demands = stop_rules.parse_requirements(flags.get("asserts"))
        self.filled: Mapping[str, Any] = {}
        self._keys: ExperimentKeys | None = None
        self._row: Algorithm | None = None
        self._read: ReadConfig | None = None
        self._config: CommonKeys | None = None
        self._env: make.EnvName | None = None

    @property
    def parts(self) -> tuple[ExperimentKeys, Algorithm, CommonKeys, make.EnvName]:
        """The experiment's own keys, the algorithm's row, its config and the environment.

        Raises ConfigError unless ``problems`` has found none.
        """
        if self._keys is None or self._row is None or self._config is None or self._env is None:
            raise ConfigError(f"{self.name}: the experiment has problems.")
        return self._keys, self._row, self._config, self._env

    def problems(self) -> list[str]:
        """Check everything that can be checked without making an environment; return one line for each problem."""
        found = []
        if wrong := run_names.misfit(self.name):
            found.append(f"{wrong.rstrip('.')} ({self.where.place()}).")
        self._keys, misfits = read_section(ExperimentKeys, self.mapping, self.where, _refusal)
        found += self._unsettled + misfits
        for check in (self._read_algorithm, self._read_environment, self._check_rules, self._check_exports):
            found += check()
        if self.recorded:
            found += self.recorded.changes(self.mapping, self.where)
            missing = [name for name in self.recorded.imports if name not in (self.flags.get("imports") or ())]
            if found and missing:
                found[-1] += f" The run had {shlex.join(next_steps.needed(missing, ''))}"
        return found

    def _read_algorithm(self) -> list[str]:
        name = self.mapping.get("run")
        if name is None and not self._is_misnamed("run"):
            return [f"run is missing ({self.where.place()}): which algorithm? Type --run SAC."]
        if not isinstance(name, str):
            return []  # a problem of the experiment's keys already
        try:
            self._row = row = table.find(name)
        except InputError as error:
            return [_placed(error, self.where.place(("run",)))]
        self.mapping["run"] = row.name  # as the table spells it
        given, where = self.mapping.get("config", {}), self.where.inside("config")
        self._read = read_given(row, given, where, table.rows())
        self.notices += self._read.notices
        if self._read.config is None:
            return self._read.problems
        config = self._with_rllib_defaults(row, self._read.config)
        overrides, problems, notices = policy_overrides.read(row, config, where, table.rows())
        self.notices += notices
        section = config.multiagent.model_copy(update={"policies": overrides})
        self._config = config = config.model_copy(update={"multiagent": section})
        lines = [*callbacks.problems(config, row), *custom_evaluation.problems(config), *env_tasks.problems(config)]
        lines += env_wrappers.problems(config)
        return [_placed(line, where.place((line.partition(":")[0],))) for line in lines] or [
            *problems,
            *agent_checks.problems(row, config, where),
            *self._not_registered(config),
            *offline_checks.problems(row, config, self.mapping, self.where),
        ]

    def _with_rllib_defaults(self, row: Algorithm, config: CommonKeys) -> CommonKeys:
        """Return ``config`` with RLlib's defaults for the keys whose absence means them (``config.rllib.semantics``)."""
        if self.recorded or row.name not in table.ROWS:
            return config  # every key was recorded, those that were meant included; or RLlib has no such algorithm
        config, self.filled, notices = semantics.completed(config, self.is_from_file)
        self.notices += notices
        return config

    def _not_registered(self, config: CommonKeys) -> list[str]:
        """Return one line for each key of ``model`` that names something that is not registered."""
        model, found = own_network(config), []
        for name, registry in REGISTRIES.items():
            named = dict(model).get(name) if model is not None else None
            try:
                if named is not None:
                    registry.find(named)
            except InputError as error:
                place = self.where.inside("config").place(("model", name))
                found.append(_placed(f"model.{name}: {error}", place))
        return found

    def _is_misnamed(self, name: str) -> bool:
        """Whether the mapping has a field that is refused as another name of ``name``."""
        return any(FIELDS.get(field, "").startswith(f"{name}:") for field in self.mapping)

    def _read_environment(self) -> list[str]:
        name = self.mapping.get("env")
        if name is None and not self._is_misnamed("env"):
            return [f"env is missing ({self.where.place()}): which environment? Type --env LunarLanderContinuous-v3."]
        if not isinstance(name, str):
            return []  # a problem of the experiment's keys already
        try:
            typed = self.flags.get("env") == name
            self._env = make.resolve(name, strict=bool(self.flags.get("strict_env")), trusted=typed)
        except DrlError as error:
            return [_placed(error, self.where.place(("env",)))]
        return []

    def _check_rules(self) -> list[str]:
        found = []
        given: dict[str, Any] = {name: self.mapping.get(name) for name in ("stop", "pass_criteria")}
        given["assert"] = {one.field: one.threshold for one in self.demands}
        for name, rules in given.items():
            if not isinstance(rules, dict):
                continue
            where = Where("--assert") if name == "assert" else self.where.inside(name)
            found += stop_rules.problems(rules, where, name)
            needs = [field for field in rules if field.startswith("evaluation/") and is_number_field(field)]
            if needs and self._config is not None and self._config.evaluation_interval is None:
                place = where.place((needs[0],))
                found.append(
                    f"{name}: {needs[0]} needs evaluations ({place}). Set evaluation_interval, or drop the rule."
                )
        if self._keys is not None:
            place = self.where.place(("loggers",))
            found += [f"{text} ({place})" for text in custom_loggers.problems(self._keys.loggers)]
        score = self.mapping.get("checkpoint_score_attr")
        if isinstance(score, str) and not is_number_field(score.removeprefix("min-")):
            place = self.where.place(("checkpoint_score_attr",))
            hint = suggestion(score.removeprefix("min-"), NUMBER_FIELDS)
            found.append(f"checkpoint_score_attr: unknown result field {score[:100]!r} ({place}).{hint}")
        return found

    def _check_exports(self) -> list[str]:
        place = self.where.place(("export_formats",))
        return experiment_keys.missing_packages(self._keys.export_formats, place) if self._keys else []

    def origins(self) -> dict[str, str]:
        """Return {dotted key: place} of what was given; keys of the config begin with ``config.``."""
        mapping, where = self.mapping, self.where
        found = {name: where.place((name,)) for name in (*TOP_KEYS, "restore", "local_dir") if name in mapping}
        for section in ("stop", "pass_criteria"):
            found |= {f"{section}.{field}": where.place((section, field)) for field in mapping.get(section) or ()}
        read = self._read
        config = origins(type(read.config), read) if read and read.config is not None else {}
        for row in key_description.own_keys(mapping.get("config") or {}):
            config[row["key"]] = where.place(("config", *row["key"].split(".")))
        config |= dict.fromkeys(self.filled, semantics.SOURCE)
        return found | {f"config.{name}": place for name, place in config.items()}

    def note_keys_of_searches(self) -> None:
        """Add a notice for each key that has no effect because this is a single run."""
        keys = self.parts[0]
        if keys.max_failures:
            self.notices.append(
                "max_failures restarts the trials of a search; this is a single run. Continue a failed run with drl "
                "train --resume."
            )
        if keys.resources_per_trial is not None:
            self.notices.append("resources_per_trial is for the trials of a search; this is a single run.")


def _refusal(path: tuple[str, ...]) -> str | None:
    """Return why a field of an experiment is refused, or None; keys of a config are known to belong one level deeper."""
    rows = table.rows()
    return refusal(path, {*RLLIB_2, *(name for row in rows for name in fields_of(load(row.config)))})


def _placed(error: object, place: str) -> str:
    return f"{str(error).rstrip('.')} ({place})."
