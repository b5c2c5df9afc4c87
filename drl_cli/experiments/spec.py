"""From config trees to experiments that can run: checked, complete, plain.

Everything that can be wrong with the input is refused here, all at once, before Ray or TensorFlow is imported. RLlib's flags
and files; deviations: flags beside a file override it, visibly; a run without stop rules gets some; a seed is drawn and
recorded.

Used by ``experiments.search_spec``, which tells runs from searches for ``drl train``, and by the Python Trainer.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drl_cli import process
from drl_cli.algorithms import table
from drl_cli.config import environment_variables
from drl_cli.config.parse import refuse
from drl_cli.config.sections import exploration, export_formats
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.rollout import filter_misfits
from drl_cli.envs import make, preprocessors, remote_env, render
from drl_cli.errors import ExperienceError
from drl_cli.events import report
from drl_cli.experiments import config_tree, experiment_defaults, experiment_files, offline_checks
from drl_cli.experiments.config_tree import ConfigTree, Flags
from drl_cli.experiments.draft import Draft
from drl_cli.extras import load
from drl_cli.policies import custom_models
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.runs.demands import Demand
from drl_cli.runs.run_folder import results_folder
from drl_cli.runtime import footprint


@dataclass(frozen=True)
class ExperimentSpec:
    """One experiment, ready to run.

    ``env_facts`` holds ``id``, ``asked``, ``env_config``, ``spaces`` (see ``envs.spaces``) and ``preprocessing`` (see
    ``envs.preprocessors``). ``restore`` is a path or None, ``resume`` the folder of the run to go on with or None.
    ``pass_criteria``, and the Demands of ``--assert`` in ``demands``, are compared with the last result. ``trial`` is part of
    the name of the run's folder. ``origins``: {dotted key: where it was given}, see ``provenance``. ``loggers``: names, see
    ``runs.loggers.custom_loggers``; ``log_format``: of drl.log, "text" or "json". ``export_formats``: what the best
    checkpoint is exported as at the end.
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
    demands: tuple[Demand, ...] = ()
    export_formats: tuple[str, ...] = ()
    loggers: tuple[str, ...] = ()
    log_format: str = "text"


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
    facts = _environment(draft, asked)
    policy = _fitting_policy(draft, facts)
    draft.notices += _hints(draft)
    rules = experiment_defaults.stop_rules(keys, given, env.id, draft.notices)
    footprint.check_replay(row, given, facts["spaces"], rules)
    config, seed = experiment_defaults.complete(given, env.id, policy.sees_images)
    offline_checks.check_files(config, facts)
    offline_checks.check_estimates(row, config, facts)
    ray = experiment_defaults.ray_settings(draft.flags)
    for text in dict.fromkeys(draft.notices):
        report("notice", text=text)
    flags = draft.flags
    return ExperimentSpec(
        name=draft.name,
        run=row.name,
        env=env.id,
        env_asked=asked,
        config=config,
        stop=rules,
        pass_criteria=keys.pass_criteria,
        demands=draft.demands,
        export_formats=export_formats.asked(keys.export_formats),
        checkpoint_freq=keys.checkpoint_freq,
        checkpoint_at_end=keys.checkpoint_at_end,
        keep_checkpoints_num=keys.keep_checkpoints_num,
        checkpoint_score_attr=keys.checkpoint_score_attr,
        local_dir=results_folder(keys.local_dir),
        restore=Path(os.path.abspath(os.path.expanduser(keys.restore))) if keys.restore else None,
        resume=draft.recorded.folder if draft.recorded else None,
        ray=ray,
        seed=seed,
        imports=list(flags.get("imports") or ()),
        command=list(flags.get("command") or ()),
        env_facts=facts,
        loggers=tuple(dict.fromkeys(keys.loggers)),
        log_format=flags.get("log_format") or "text",
        origins=draft.origins(),
    )


def _environment(draft: Draft, asked: str) -> dict[str, Any]:
    """Make the environment once and return its facts, as ``ExperimentSpec.env_facts`` holds them."""
    _, row, config, env = draft.parts
    plan = preprocessors.plan(config, env.id)
    process.set_environs(environment_variables.texts(config.extra_python_environs_for_driver))
    spaces = make.check(env.id, config.env_config, row, plan, table.fitting())
    return {
        "id": env.id,
        "asked": asked,
        "env_config": config.env_config,
        "spaces": spaces,
        "preprocessing": plan,
    }


def _fitting_policy(draft: Draft, facts: dict[str, Any]) -> PolicySpec:
    """Return what the policy will be; refuses keys that do not fit the spaces, and custom models that fail."""
    _, row, config, env = draft.parts
    spaces = facts["spaces"]
    misfits = exploration.misfits(config, spaces["action"]["kind"])
    misfits += filter_misfits(config, spaces["obs"]["shape"])
    misfits += remote_env.misfits(config)
    refuse([*misfits, *render.misfits(config, env.id, facts["preprocessing"])], "the command")
    policy = load(row.nets).policy_spec(config, spaces)
    custom_models.try_out(policy)
    return policy


def _hints(draft: Draft) -> list[str]:
    """Return what is worth knowing about the environment that was named: what runs in its place, a tuned file."""
    _, row, _, env = draft.parts
    found = [env.notice] if env.notice else []
    is_chosen = draft.is_from_file or draft.is_trial or draft.recorded
    tuned = None if is_chosen else experiment_defaults.tuned_file(row.name, env.id)
    return [*found, f"tuned file: -f {tuned}"] if tuned else found
