"""Checks of multi-agent settings: keys of ``multiagent`` that the algorithm does not support, keys for one agent alone.

User: ``experiments.draft`` (before an environment is made) and ``experiments.spec``.
"""

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.algorithms.row import Algorithm
from drl_cli.config.origins import Where
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.estimates import methods
from drl_cli.config.sections.multi_agent import asked
from drl_cli.config.sections.replay import relabels_goals
from drl_cli.errors import InputError

_MAPPED = ("policies", "policy_mapping", "policy_mapping_fn", "policies_to_train")


def problems(row: Algorithm, config: CommonKeys, where: Where) -> list[str]:
    """Return one line for each key of ``multiagent`` that the algorithm of ``row`` does not support.

    ``where``: of the config's mapping.
    """
    section = config.multiagent
    found: list[tuple[str, str]] = []
    registries = {"policy_mapping_fn": plugins.POLICY_MAPPINGS, "observation_fn": plugins.OBSERVATION_FNS}
    for name, function in (
        ("policy_mapping_fn", section.policy_mapping_fn),
        ("observation_fn", section.observation_fn),
    ):
        try:
            if function is not None:
                registries[name].find(function)
        except InputError as error:
            found.append((name, str(error)))
    if asked(section) and not (row.several or row.team):
        found.append((asked(section)[0], one_agent_alone(row)))
    elif row.team:
        all_together = f"{row.name} trains all agents together, as one team; leave it out"
        found += [(name, all_together) for name in asked(section) if name in _MAPPED]
        if section.observation_fn is not None and not row.sees_team_state:
            others = ", ".join(one.name for one in table.rows() if one.sees_team_state)
            found.append(
                ("observation_fn", f"{row.name} learns without a state. Those that see what it returns: {others}")
            )
        if section.count_steps_by == "agent_steps":
            found.append(("count_steps_by", f"a step of {row.name} is one of all agents of its team: env_steps"))
    elif section.replay_mode == "lockstep":
        teams = ", ".join(one.name for one in table.rows() if one.team)
        instead = f" Those that learn in lockstep: {teams}." if teams else ""
        found.append(
            ("replay_mode", f"lockstep is for teams; each policy of {row.name} learns from steps of its own.{instead}")
        )
    return [f"multiagent.{name}: {text.rstrip('.')} ({where.place(('multiagent', name))})." for name, text in found]


def one_agent_alone(row: Algorithm) -> str:
    """Say that an algorithm trains one policy, and which ones train several."""
    others = [one.name for one in table.rows() if one.several or one.team]
    return f"{row.name} trains the policy of one agent. Those that train several: {', '.join(others)}"


def misfits(config: CommonKeys) -> list[str]:
    """Return one line for each key that needs an environment with one agent."""
    is_set = {
        "input_evaluation": bool(methods(config)),
        "hindsight_goals": relabels_goals(config),
        "multiagent.observation_fn": config.multiagent.observation_fn is not None,
    }
    return [f"{name}: with several agents {_SEVERAL[name]}." for name, is_given in is_set.items() if is_given]


_SEVERAL = {
    "input_evaluation": "nothing is estimated from recorded episodes. Leave it out",
    "hindsight_goals": "goals are not replaced. Leave it out",
    "multiagent.observation_fn": "each policy sees what its agents see; what it adds is for a central critic. Leave it out",
}
"""Key → what is so instead where there are several agents."""
