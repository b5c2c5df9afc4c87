"""From config trees to experiments that can run: checked, complete, plain.

Everything that can be wrong with the input is refused here, all at once, before Ray or TensorFlow is imported. RLlib's flags
and files; deviations: flags beside a file override it, visibly; a run without stop rules gets some; a seed is drawn and
recorded.

Used by ``experiments.search_spec``, which tells runs from searches for ``drl train``, and by the Python Trainer.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drl_cli import process
from drl_cli.algorithms.row import Algorithm
from drl_cli.config import environment_variables, experiment_keys
from drl_cli.config.parse import refuse
from drl_cli.config.result_names import policy_problems
from drl_cli.config.sections import exploration_settings
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.multi_agent import config_of_policy
from drl_cli.config.sections.rollout import filter_misfits
from drl_cli.envs import remote_env, render
from drl_cli.envs.env_spec import AgentsSetup
from drl_cli.errors import ExperienceError
from drl_cli.events import report
from drl_cli.experiments import config_tree, env_facts, experiment_defaults, experiment_files, offline_checks
from drl_cli.experiments.config_tree import ConfigTree, Flags
from drl_cli.experiments.draft import Draft
from drl_cli.policies import custom_distributions, custom_models
from drl_cli.runs import run_download
from drl_cli.runs.run_folder import results_folder
from drl_cli.runs.stop_rules import Requirement
from drl_cli.runtime import assembly, footprint
from drl_cli.runtime.assembly import RunSetup


@dataclass(frozen=True)
class ExperimentSpec:
    """One experiment, ready to run.

    ``env_facts`` holds ``id``, ``asked``, ``env_config``, ``spaces`` (see ``envs.spaces``; with several agents those of the
    first policy), ``preprocessing`` (see ``envs.preprocessors``) and, with several agents, ``agents`` (an AgentsSetup).
    ``restore`` is a path or None, ``resume`` the folder of the run to go on with or None. ``pass_criteria``, and in ``demands``
    the Requirements of ``--assert``, are compared with the last result. ``trial`` is part of the name of the run's folder.
    ``origins``: {dotted key: where it was given}, see ``provenance``. ``loggers``: names, see
    ``runs.loggers.custom_loggers``; ``log_format``: of drl.log, "text" or "json". ``export_formats``: what the best
    checkpoint is exported as at the end. ``storage_path``: the URI below which the run is copied, or None.
    """

    name: str
    run: str
    env: str
    env_asked: str
    config: CommonKeys
    stop: dict[str, float]
    pass_criteria: dict[str, float]
    checkpoint_freq: int
    checkpoint_at_end: bool
    keep_checkpoints_num: int | None
    checkpoint_score_attr: str | None
    local_dir: Path
    restore: Path | None
    resume: Path | None
    ray: dict[str, Any]
    seed: int
    imports: list[str]
    command: list[str]
    env_facts: dict[str, Any]
    trial: str = "0"
    origins: dict[str, str] = field(default_factory=dict)
    demands: tuple[Requirement, ...] = ()
    export_formats: tuple[str, ...] = ()
    loggers: tuple[str, ...] = ()
    log_format: str = "text"
    storage_path: str | None = None


def from_flags(flags: Flags) -> ExperimentSpec:
    """Return the ExperimentSpec of a command without ``-f``; with ``resume``, of the run to go on with.

    Raises ConfigError, EnvError or another InputError with everything that is wrong.
    """
    (spec,) = from_trees(config_tree.read(None, flags), flags, "the command")
    return spec


def from_file(path_or_name: Path | str, flags: Flags) -> list[ExperimentSpec]:
    """Return the ExperimentSpecs of a file, with the flags laid over each of its experiments.

    ``path_or_name``: a path, or the name of a tuned file that comes with the program. Raises as ``from_flags``.
    """
    return from_trees(config_tree.read(path_or_name, flags), flags, path_or_name)


def from_trees(trees: list[ConfigTree], flags: Flags, source: Path | str) -> list[ExperimentSpec]:
    """Return the ExperimentSpecs of config trees, each a single run; ``source``: the file they are from, or "the command"."""
    drafts = [Draft(tree, flags) for tree in trees]
    problems = [line for draft in drafts for line in draft.problems()]
    refuse(list(dict.fromkeys(problems)), str(source))
    for draft in drafts:
        draft.note_keys_of_searches()
    try:
        return [finish(draft) for draft in drafts]
    except ExperienceError as error:
        command = experiment_files.recording_command(source) if trees[0].is_from_file else None
        if command is None:
            raise
        raise ExperienceError(f"{error} To record what this file reads: {command}") from error


def finish(draft: Draft) -> ExperimentSpec:
    """Make the environment of a draft without problems, hold the config against it, and fill in what was left open.

    Raises ConfigError, EnvError, ExperienceError or another InputError with the first thing that does not fit.
    """
    keys, row, given, env = draft.parts
    asked = (draft.recorded and draft.recorded.env_asked) or env.asked
    process.set_environs(environment_variables.as_strings(given.extra_python_environs_for_driver))
    found = env_facts.found(row, given, env.id)
    given, env_id = found.config, found.facts["id"]
    draft.notices += _hints(draft, env_id if "agents" not in found.facts else None) + found.notices
    facts = {**found.facts, "asked": asked}
    setup = _fitting_setup(row, given, facts)
    refuse(_misnamed(draft, facts), "the command")
    rules = experiment_defaults.stop_rules(keys, given, facts, draft.notices)
    footprint.check_replay(setup, rules)
    sees_images = any(spec.sees_images for spec in setup.specs.values())
    config, seed = experiment_defaults.complete(given, env_id, sees_images)
    offline_checks.check_files(config, facts)
    offline_checks.check_estimates(row, config, facts)
    ray = experiment_defaults.ray_settings(draft.flags)
    for text in dict.fromkeys(draft.notices):
        report("notice", text=text)
    flags = draft.flags
    return ExperimentSpec(
        name=draft.name,
        run=row.name,
        env=env_id,
        env_asked=asked,
        config=config,
        stop=rules,
        pass_criteria=keys.pass_criteria,
        demands=draft.demands,
        export_formats=experiment_keys.exported_formats(keys.export_formats),
        checkpoint_freq=keys.checkpoint_freq,
        checkpoint_at_end=keys.checkpoint_at_end,
        keep_checkpoints_num=keys.keep_checkpoints_num,
        checkpoint_score_attr=keys.checkpoint_score_attr,
        local_dir=results_folder(keys.local_dir),
        restore=_restored(keys.restore),
        resume=draft.recorded.folder if draft.recorded else None,
        ray=ray,
        seed=seed,
        imports=[*(flags.get("imports") or ()), *found.imports],
        command=list(flags.get("command") or ()),
        env_facts=facts,
        loggers=tuple(dict.fromkeys(keys.loggers)),
        log_format=flags.get("log_format") or "text",
        storage_path=keys.storage_path,
        origins=draft.origins(),
    )


def _restored(given: str | None) -> Path | None:
    """Return the absolute path of what a new run starts from; a URI's was fetched."""
    if not given:
        return None
    return Path(os.path.abspath(os.path.expanduser(run_download.placed(given))))


def _misnamed(draft: Draft, facts: Mapping[str, Any]) -> list[str]:
    """Return one line for each rule that is about a policy which is not there."""
    keys, policies = draft.parts[0], list((facts.get("agents") or {"policies": ()})["policies"])
    named = {
        "stop": keys.stop or (),
        "pass_criteria": keys.pass_criteria or (),
        "--assert": [one.field for one in draft.demands],
        "checkpoint_score_attr": [(keys.checkpoint_score_attr or "").removeprefix("min-")],
    }
    return [f"{place}: {line}" for place, names in named.items() for line in policy_problems(names, policies)]


def _fitting_setup(row: Algorithm, config: CommonKeys, facts: Mapping[str, Any]) -> RunSetup:
    """Return what the policies will be; refuses keys that do not fit the spaces, and custom models that fail."""
    agents: AgentsSetup | None = facts.get("agents")
    policies: dict[str, Any] = {"": (config, facts["spaces"])}
    if agents is not None:
        named = agents["policies"].items()
        policies = {name: (config_of_policy(config, name, own["config"]), own["spaces"]) for name, own in named}
    found: list[str] = []
    for name, (own, seen) in policies.items():
        shape = seen["obs"]["shape"]
        misfits = exploration_settings.misfits(own, seen["action"]["kind"]) + filter_misfits(own, shape)
        misfits += exploration_settings.novelty_misfits(own, shape, agents is not None)
        found += [f"policy {name}: {line}" if name else line for line in misfits]
    found += [*remote_env.misfits(config, facts), *render.misfits(config, facts["id"], lambda: env_facts.opened(facts))]
    refuse(found, "the command")
    setup = assembly.setup_of(row, config, facts)
    for spec in setup.specs.values():
        custom_models.try_out(spec)
        custom_distributions.try_out(spec)
    return setup


def _hints(draft: Draft, env_id: str | None) -> list[str]:
    """Return what is worth knowing about the environment that was named: what runs in its place, a tuned file.

    ``env_id``: of what runs, None for several agents, whose number and policies are no part of an id.
    """
    _, row, _, env = draft.parts
    found = [env.notice] if env.notice else []
    is_chosen = draft.is_from_file or draft.is_trial or draft.recorded or env_id is None
    tuned = None if is_chosen else experiment_defaults.tuned_file(row.name, env.id)
    return [*found, f"tuned file: -f {tuned}"] if tuned else found
