"""The environment of an experiment, tried once: one agent, several agents with their policies, or a team seen as one.

User: ``experiments.spec``.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from drl_cli.actors import policy_server
from drl_cli.algorithms import table
from drl_cli.algorithms.row import Algorithm
from drl_cli.config.env_names import TEAM_ID
from drl_cli.config.parse import refuse
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.multi_agent import asked, config_of_policy
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.config.sections.replay import ReplayKeys, relabels_goals
from drl_cli.config.sections.served_input import is_served
from drl_cli.envs import env_tasks, goals, make, preprocessors
from drl_cli.envs.env_spec import AgentsSetup, PolicyAgents
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.spaces import misfit
from drl_cli.errors import ConfigError, EnvError
from drl_cli.experiments import agent_checks, agent_policies
from drl_cli.runtime.curriculum import NEEDED, can_set_tasks

_FORMS = ("parallel", "aec")


class Found(NamedTuple):
    """What an environment is: its ``facts`` as of ``ExperimentSpec.env_facts``, and the ``config`` that runs there.

    ``imports``: modules that workers import for it; ``notices``: lines for the user.
    """

    facts: dict[str, Any]
    config: CommonKeys
    imports: list[str]
    notices: list[str]


def found(row: Algorithm, config: CommonKeys, env_id: str) -> Found:
    """Make the environment once and return what is known of it.

    ``env_id``: a resolved one. Raises EnvError, and ConfigError for a ``multiagent`` block that does not fit its agents.
    """
    found = _found(row, config, env_id)
    if config.env_task_fn is not None:
        _check_tasks(row, config, found.facts)
    return found


def _check_tasks(row: Algorithm, config: CommonKeys, facts: Mapping[str, Any]) -> None:
    """Raise ConfigError where ``env_task_fn`` could not set the task of the environments."""
    if not can_set_tasks(row, config, "agents" in facts):
        raise ConfigError(f"env_task_fn: {NEEDED}. Leave it out.")
    with contextlib.closing(opened(facts)) as env:
        if not env_tasks.is_settable(env):
            raise ConfigError(f"env_task_fn: {facts['id']} has neither set_task nor set_phase. Leave it out.")


def _found(row: Algorithm, config: CommonKeys, env_id: str) -> Found:
    if config.env_wrappers and (is_served(config) or _kind(config, env_id) is not None):
        whose = "external simulators have" if is_served(config) else f"{env_id} has several agents, with"
        raise ConfigError(
            f"env_wrappers are for environments of one agent, and {whose} wrappers of their own. Leave it out."
        )
    if config.model.custom_preprocessor is not None and (is_served(config) or row.team):
        why = "external simulators send" if is_served(config) else "the observations of a team are"
        raise ConfigError(f"model.custom_preprocessor: {why} what {row.name} sees, unchanged. Leave it out.")
    if is_served(config):
        if relabels_goals(config):
            raise ConfigError(
                "hindsight_goals: no environment says what other goals of an external simulator bring. Leave it out."
            )
        return _of_clients(row, config, env_id)
    kind = _kind(config, env_id)
    if kind is None:
        _refuse_several(config, env_id)
        if isinstance(config, TrajectoryKeys):
            config.check_agents(1)
        return _of_one(row, config, env_id)
    if row.team:
        return _of_team(row, config, env_id, kind)
    if not row.several:
        raise ConfigError(f"{env_id} has several agents, and {agent_checks.one_agent_alone(row)}.")
    return _of_several(row, config, env_id, kind)


def opened(facts: Mapping[str, Any]) -> Any:
    """Return a new environment with these facts: a gymnasium.Env, with several agents a MultiAgentEnv. Raises EnvError."""
    if "agents" in facts:
        return open_envs.open_setup(facts)
    return make.make(facts["id"], facts["env_config"], preprocessing=facts["preprocessing"])


def _kind(config: CommonKeys, env_id: str) -> str | None:
    """Return the kind of an environment with several agents, see ``open_envs.KINDS``; None for one agent."""
    section = config.multiagent
    kind = open_envs.kind_of(env_id, config.env_config)
    if section.copies is not None:
        if kind is not None:
            raise ConfigError(f"multiagent.copies: {env_id} has several agents itself. Leave it out.")
        return "copies"
    if section.mode is None or kind is None:
        return kind
    if kind not in _FORMS:
        raise ConfigError(
            f"multiagent.mode: {env_id} is no environment of PettingZoo, which has such forms. Leave it out."
        )
    return section.mode


def _refuse_several(config: CommonKeys, env_id: str) -> None:
    """Raise ConfigError where a config speaks of several agents."""
    names = asked(config.multiagent)
    if not names:
        return
    hint = "Write what differs beside multiagent"
    raise ConfigError(
        f"multiagent.{names[0]}: {env_id} has one agent. {hint}, or play several of it side by side: multiagent: {{copies: 2}}."
    )


def _of_one(row: Algorithm, config: CommonKeys, env_id: str) -> Found:
    plan = preprocessors.plan(config, env_id)
    spaces = make.check(env_id, config.env_config, row, plan, table.fitting(row.team))
    facts = {"id": env_id, "env_config": config.env_config, "spaces": spaces, "preprocessing": plan}
    if relabels_goals(config):
        _check_goals(facts, config.model.custom_preprocessor)
    return Found(facts, config, [], [])


def _check_goals(facts: Mapping[str, Any], preprocessor: str | None) -> None:
    """Raise ConfigError where ``hindsight_goals`` could not replace the goals of the environment.

    ``preprocessor``: that of ``model.custom_preprocessor``, or None.
    """
    if preprocessor is not None:
        raise ConfigError(
            f"hindsight_goals: model.custom_preprocessor {preprocessor} makes one vector of the observations of {facts['id']}, "
            "in which their goals cannot be found and replaced. Leave one of the two out, or change observations in a wrapper "
            "(env_wrappers) that returns a Dict with achieved_goal and desired_goal."
        )
    if "goal" not in facts["spaces"]:
        raise ConfigError(
            f"hindsight_goals: {facts['id']} has no goals: its observations are no Dict with achieved_goal and desired_goal, "
            "Boxes of one dimension and equal size. Leave it out."
        )
    with contextlib.closing(opened(facts)) as env:
        try:
            goals.check(env, facts["spaces"]["goal"])
        except EnvError as error:
            raise ConfigError(f"hindsight_goals: {facts['id']}: {error}.") from error


def _of_clients(row: Algorithm, config: CommonKeys, env_id: str) -> Found:
    """Return the facts of an environment of which external simulators take the place: it is made for its spaces."""
    plan = preprocessors.plan(config, env_id)
    with contextlib.closing(make.make(env_id, config.env_config, preprocessing=plan)) as env:
        spaces = make.describe(env)
    spaces["frames"] = preprocessors.frames_of(plan)
    problem = misfit(spaces, row, table.fitting(row.team))
    if problem:
        raise EnvError(f"{env_id}: {problem}")
    if isinstance(config, TrajectoryKeys) and spaces["frames"] > 1:
        raise ConfigError(
            f"model.framestack: with input policy_server {row.name} sees one image at a time. Set it to false."
        )
    notices = []
    if isinstance(config, ReplayKeys) and config.worker_side_prioritization:
        config = config.model_copy(update={"worker_side_prioritization": False})
        notices.append("worker_side_prioritization is off: clients' steps enter with the highest priority.")
    policy_server.token_of(config.policy_server)  # type: ignore[attr-defined]  # a misfit is shown before anything is loaded
    facts = {"id": env_id, "env_config": config.env_config, "spaces": spaces, "preprocessing": plan}
    return Found(facts, config, [], notices)


def _of_team(row: Algorithm, config: CommonKeys, env_id: str, kind: str) -> Found:
    if kind in ("copies", "aec"):
        name, why = ("copies", "have nothing in common") if kind == "copies" else ("mode", "act in turn")
        if config.multiagent.copies is not None or config.multiagent.mode is not None:
            raise ConfigError(f"multiagent.{name}: {row.name} trains a team, and such agents {why}. Leave it out.")
    module, _, bare = env_id.rpartition(":")
    inside: dict[str, Any] = {"env": bare, "env_config": config.env_config}
    if config.multiagent.observation_fn is not None:
        inside["observation_fn"] = config.multiagent.observation_fn
    one = _of_one(row, config.model_copy(update={"env_config": inside}), TEAM_ID)
    if isinstance(config, TrajectoryKeys):
        config.check_agents(len(one.facts["spaces"]["team"]["agents"]))
    text = f"{row.name} trains a team: {env_id} runs as {TEAM_ID} with env_config.env {bare}, all of its agents seen as one."
    return one._replace(imports=[module] if module else [], notices=[text])


def _check_policies(config: TrajectoryKeys, policies: Mapping[str, PolicyAgents], is_turn_based: bool) -> None:
    """Raise ConfigError for values that do not fit the agents of a policy. With turns a step is one agent's."""
    for name, own in policies.items():
        try:
            config_of_policy(config, name, own["config"]).check_agents(1 if is_turn_based else len(own["agents"]))
        except ConfigError as error:
            raise ConfigError(f"multiagent.policies.{name}: {error}" if own["config"] else str(error)) from None


def _of_several(row: Algorithm, config: CommonKeys, env_id: str, kind: str) -> Found:
    refuse(agent_checks.misfits(config), "the command")
    section, plan, notices = config.multiagent, preprocessors.plan(config, env_id), []
    if isinstance(config, ReplayKeys) and config.worker_side_prioritization:
        config = config.model_copy(update={"worker_side_prioritization": False})
        notices.append(
            "worker_side_prioritization is off: with several agents new steps enter with the highest priority."
        )
    count = section.copies or 1
    seen = open_envs.check(env_id, config.env_config, kind, count, row, plan, table.fitting())
    resolved = agent_policies.resolve(section, seen.spaces, config.seed or 0)
    if isinstance(config, TrajectoryKeys):
        _check_policies(config, resolved.policies, seen.is_turn_based)
    agents: AgentsSetup = {
        "kind": kind,
        "count": count,
        "is_turn_based": seen.is_turn_based,
        "spaces": seen.spaces,
        "policies": resolved.policies,
        "mapping": resolved.mapping,
        "mapping_fn": section.policy_mapping_fn,
        "observation_fn": None,
    }
    setup = agent_policies.self_play(section)
    if setup is not None:
        agents["self_play"] = setup
    first = next(iter(resolved.policies.values()))
    facts: Mapping[str, Any] = {
        "id": env_id,
        "env_config": config.env_config,
        "spaces": first["spaces"],
        "preprocessing": plan,
        "agents": agents,
    }
    form = [f"{env_id} is played in its form {kind}."] if kind in _FORMS else []
    return Found(dict(facts), config, [], [*form, *seen.notes, *notices, *resolved.notices])
