"""What of a config does not go with several agents, or asks for them where there is one.

User: ``experiments.draft`` (before an environment is made) and ``experiments.spec``.
"""

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.algorithms.row import Algorithm
from drl_cli.config.origins import Where
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.multi_agent import asked
from drl_cli.config.sections.offline import reads
from drl_cli.config.sections.on_policy import OnPolicyKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.errors import InputError

_MAPPED = ("policies", "policy_mapping", "policy_mapping_fn", "policies_to_train")
_FILM = "Film the learnt policies: drl rollout CHECKPOINT --video-dir DIR"


def problems(row: Algorithm, config: CommonKeys, where: Where) -> list[str]:
    """Return one line for each key of ``multiagent`` that the algorithm of ``row`` cannot follow.

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
        "input": reads(config),
        "output": config.output is not None,
        "callbacks": config.callbacks is not None,
        "custom_eval_function": config.custom_eval_function is not None,
        "multiagent.observation_fn": config.multiagent.observation_fn is not None,
    }
    if isinstance(config, RolloutKeys):
        is_set["remote_worker_envs"] = config.remote_worker_envs and config.num_envs_per_worker > 1
        is_set |= {
            "soft_horizon": config.soft_horizon,
            "record_env": bool(config.record_env),
            "render_env": config.render_env,
        }
    if isinstance(config, OnPolicyKeys):
        is_set["batch_mode"] = config.batch_mode == "complete_episodes"
    return [f"{name}: with several agents {_SEVERAL[name]}." for name, is_given in is_set.items() if is_given]


_SEVERAL = {
    "input": "nothing is read from files, whose steps are one agent's. Leave it out",
    "output": "nothing is recorded: a file holds one agent's steps. Leave it out",
    "callbacks": "no callbacks are called. Leave them out",
    "custom_eval_function": "evaluations are drl's own. Leave it out",
    "multiagent.observation_fn": "each policy sees what its agents see; what it adds is for a central critic. Leave it out",
    "remote_worker_envs": "a worker steps its environments itself. Leave it out; with num_workers environments step at once",
    "soft_horizon": "an episode ends at the horizon for all of them. Leave it out",
    "record_env": f"training is not filmed. {_FILM}",
    "render_env": f"training is not drawn. {_FILM}",
    "batch_mode": "fragments end where they are full, and episodes go on in the next. Leave it out",
}
"""Key → what is so instead where there are several agents."""
