"""The policies of a multi-agent environment, and the mapping from agents to policies.

User: ``experiments.spec``. Spaces are equal for a policy where its nets and its actions are the same: kind, shape and type of
observations, action masks, and the whole description of the actions.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from drl_cli.config.parse import refuse
from drl_cli.config.sections.multi_agent import MultiAgentConfig, known_policies, matches, matching, unknown_policy
from drl_cli.config.sections.self_play import LEARNER
from drl_cli.envs.env_spec import AgentsSetup, EnvSpec, PolicyAgents, SelfPlaySetup
from drl_cli.envs.multi_agent import scripted
from drl_cli.envs.multi_agent.policy_choice import EpisodeMapping
from drl_cli.errors import ConfigError, InputError
from drl_cli.policies.numpy_policy import DEFAULT_POLICY

SHOWN = 8  # agents that a message lists
TRIED = 20  # episodes for which policy_mapping_fn is called before the run
_NO_ID = re.compile(r"[^A-Za-z0-9_.-]")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*?(?=[_.-]*\d*\Z)")


class AgentPolicies(NamedTuple):
    """``policies`` by id, ``mapping`` of agents to them (None where a function chooses), and lines for the user."""

    policies: dict[str, PolicyAgents]
    mapping: dict[str, str] | None
    notices: list[str]


def resolve(section: MultiAgentConfig, spaces: Mapping[str, EnvSpec], seed: int = 0) -> AgentPolicies:
    """Return the policies of the agents of ``spaces``, which hold what each of them sees and does.

    Without policies in ``section`` there is one for each kind of spaces. ``seed``: of the episodes for which a registered
    function is tried. Raises ConfigError with everything that does not fit, PluginFailed for what that function raises.
    """
    notices: list[str] = []
    setup = self_play(section)
    if setup is not None:
        return AgentPolicies(_against_itself(section, setup, spaces), None, notices)
    if section.policy_mapping_fn is not None:
        return AgentPolicies(_chosen(section, spaces, seed), None, notices)
    if section.policy_mapping:
        mapping = _by_pattern(section, spaces, notices)
    else:
        mapping = _by_name(section, spaces, notices)
    # In the order of their agents, whatever the order in a config: seeds of policies follow it, and records are sorted.
    policies = list(dict.fromkeys([*(mapping[agent] for agent in spaces), *known_policies(section)]))
    agents = {policy: [agent for agent in spaces if mapping[agent] == policy] for policy in policies}
    found = [_without_agents(policy, section, spaces) for policy in policies if not agents[policy]]
    found += [
        line for policy in policies if (line := _unequal(policy, {agent: spaces[agent] for agent in agents[policy]}))
    ]
    refuse([*found, *_unknown_trained(section, policies)], "multiagent")
    return AgentPolicies(described(section, agents, spaces), mapping, notices)


def self_play(section: MultiAgentConfig) -> SelfPlaySetup | None:
    """Return the learner and its opponents in self-play, or None without self-play."""
    keys = section.self_play
    if not keys.is_on:
        return None
    return {
        "learner": LEARNER,
        "slots": [f"{LEARNER}_{index}" for index in range(keys.opponents)],
        "scripted": list(keys.scripted),
        "own_share": keys.own_share,
        "evaluate_against": list(keys.evaluate_against),
    }


def _against_itself(
    section: MultiAgentConfig, setup: SelfPlaySetup, spaces: Mapping[str, EnvSpec]
) -> dict[str, PolicyAgents]:
    """Return the learner and the places of its copies, which may act for all agents. Raises ConfigError."""
    first, found = next(iter(spaces.values())), []
    if len(spaces) < 2 or len({kind_of_spaces(own) for own in spaces.values()}) > 1:
        found.append(
            f"multiagent.self_play: it needs two agents or more with equal spaces, which can change sides; "
            f"here are {listed(spaces)}."
        )
    if first["action"]["kind"] != "Discrete":
        found.append(
            f"multiagent.self_play: it is for numbered actions (Discrete); these agents have {first['action']['kind']}."
        )
    for key, names in (("scripted", setup["scripted"]), ("evaluate_against", setup["evaluate_against"])):
        for name in names:
            try:
                scripted.check(name, first)
            except InputError as error:
                found.append(f"multiagent.self_play.{key}: {error}")
    refuse(found, "multiagent")
    mine = section.model_copy(update={"policies_to_train": (LEARNER,)})
    return described(mine, {name: list(spaces) for name in (LEARNER, *setup["slots"])}, spaces)


def described(
    section: MultiAgentConfig, agents: Mapping[str, Sequence[str]], spaces: Mapping[str, EnvSpec]
) -> dict[str, PolicyAgents]:
    """Return the PolicyAgents of policies, each of which may act for its ``agents`` (one at least, with equal spaces)."""
    trained = section.policies_to_train
    return {
        policy: {
            "agents": list(own),
            "spaces": spaces[own[0]],
            "config": section.policies.get(policy, {}),
            "is_trained": trained is None or policy in trained,
        }
        for policy, own in agents.items()
    }


def kind_of_spaces(spaces: EnvSpec) -> tuple[Any, ...]:
    """Return what two agents have in common that one policy can act for."""
    obs, parts = spaces["obs"], [tuple(spaces.get("mask", ())), tuple(spaces.get("board", ()))]
    return obs["kind"], tuple(obs["shape"]), obs["dtype"], *parts, repr(sorted(spaces["action"].items()))


def listed(names: Iterable[str]) -> str:
    """Return names as ``a, b and 3 more``."""
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _chosen(section: MultiAgentConfig, spaces: Mapping[str, EnvSpec], seed: int) -> dict[str, PolicyAgents]:
    """Return the policies among which a function chooses: each may act for all agents with the spaces of those it acted for."""
    anyone = described(section, dict.fromkeys(sorted(section.policies), list(spaces)), spaces)
    setup: AgentsSetup = {
        "kind": "",
        "count": 1,
        "is_turn_based": False,
        "spaces": spaces,
        "policies": anyone,
        "mapping": None,
        "mapping_fn": section.policy_mapping_fn,
        "observation_fn": None,
    }
    mapping = EpisodeMapping(setup, (seed, 0))
    agents: dict[str, list[str]] = {policy: [] for policy in anyone}
    for _ in range(TRIED):
        for agent, policy in mapping.of_episode(0).items():
            agents[policy] += [agent] if agent not in agents[policy] else []
    found = [
        line for policy, own in agents.items() if (line := _unequal(policy, {agent: spaces[agent] for agent in own}))
    ]
    are_equal = len({kind_of_spaces(own) for own in spaces.values()}) == 1
    never = [] if are_equal else [policy for policy, own in agents.items() if not own]
    found += [
        f"multiagent.policies.{policy}: policy_mapping_fn chose it for no agent in {TRIED} episodes, so that its spaces are "
        "unknown. Leave it out, or let the function choose it more often."
        for policy in never
    ]
    refuse([*found, *_unknown_trained(section, list(agents))], "multiagent")
    kinds = {policy: kind_of_spaces(spaces[(own or list(spaces))[0]]) for policy, own in agents.items()}
    fitting = {
        policy: [agent for agent in spaces if kind_of_spaces(spaces[agent]) == kind] for policy, kind in kinds.items()
    }
    return described(section, fitting, spaces)


def _by_pattern(section: MultiAgentConfig, spaces: Mapping[str, EnvSpec], notices: list[str]) -> dict[str, str]:
    mapping = {agent: matching(section, agent) for agent in spaces}
    without = [agent for agent, policy in mapping.items() if policy is None]
    if without:
        raise ConfigError(
            f"multiagent.policy_mapping: no policy for {listed(without)}: nothing in it matches. Add '{without[0]}': POLICY, "
            "or '*': POLICY at its end for all others."
        )
    for pattern in section.policy_mapping:
        if not any(matches(pattern, agent) for agent in spaces):
            notices.append(f"multiagent.policy_mapping: {pattern} matches no agent; they are {listed(spaces)}.")
    return {agent: policy for agent, policy in mapping.items() if policy is not None}


def _by_name(section: MultiAgentConfig, spaces: Mapping[str, EnvSpec], notices: list[str]) -> dict[str, str]:
    """Return the mapping where the config gives none: by agents' names, to a single policy, or by kinds of spaces."""
    policies = list(section.policies)
    if policies and set(policies) == set(spaces):
        return {agent: agent for agent in spaces}
    groups = _groups(spaces)
    if len(policies) == 1 and policies[0] not in groups:
        return dict.fromkeys(spaces, policies[0])
    mapping = {agent: policy for policy, agents in groups.items() for agent in agents}
    if not set(policies) <= set(groups):
        raise ConfigError(
            f"multiagent.policy_mapping is missing: which of {listed(policies)} acts for whom? The agents are "
            f"{listed(spaces)}. Write policy_mapping: {{'{next(iter(spaces))}': {policies[0]}, …}}."
        )
    if not policies and len(groups) == 1:
        notices.append(f"One policy, {DEFAULT_POLICY}, acts for all agents, whose spaces are equal: {listed(spaces)}.")
    elif len(policies) < len(groups):
        each = "; ".join(f"{policy} acts for {listed(agents)}" for policy, agents in groups.items())
        notices.append(f"{len(groups)} policies, one for each kind of spaces: {each}.")
    return {agent: mapping[agent] for agent in spaces}


def _groups(spaces: Mapping[str, EnvSpec]) -> dict[str, list[str]]:
    """Return {policy id: agents} with one policy for each kind of spaces, named by what the names of its agents begin with."""
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for agent, own in spaces.items():
        kinds.setdefault(kind_of_spaces(own), []).append(agent)
    if len(kinds) == 1:
        return {DEFAULT_POLICY: list(spaces)}
    # An id of a policy has no slash and the like, which agents may have: red for red/1 and red/2.
    starts = [_PREFIX.match(_NO_ID.sub("_", os.path.commonprefix(agents))) for agents in kinds.values()]
    names = [start[0] for start in starts if start]
    if len(set(names)) < len(kinds):
        names = [f"policy_{index}" for index in range(len(kinds))]
    return dict(zip(names, kinds.values(), strict=True))


def _without_agents(policy: str, section: MultiAgentConfig, spaces: Mapping[str, EnvSpec]) -> str:
    mend = "give it some in policy_mapping" if policy in section.policy_mapping.values() else "map an agent to it"
    return (
        f"multiagent.policies.{policy}: it acts for no agent. The agents are {listed(spaces)}: {mend}, or leave it out."
    )


def _unequal(policy: str, spaces: Mapping[str, EnvSpec]) -> str | None:
    """Return what is wrong with agents of one policy whose spaces differ, or None."""
    if not spaces:
        return None
    first, *others = spaces
    other = next((agent for agent in others if kind_of_spaces(spaces[agent]) != kind_of_spaces(spaces[first])), None)
    if other is None:
        return None
    what = "actions" if _alike(spaces, first, other, "obs") else "observations"
    return (
        f"multiagent: the policy {policy} acts for {first} and {other}, whose {what} differ. Give each kind of spaces a policy "
        "of its own in policy_mapping, or leave out policies for one of each kind."
    )


def _alike(spaces: Mapping[str, EnvSpec], first: str, other: str, side: str) -> bool:
    places = slice(0, 4) if side == "obs" else slice(4, None)
    return kind_of_spaces(spaces[first])[places] == kind_of_spaces(spaces[other])[places]


def _unknown_trained(section: MultiAgentConfig, policies: list[str]) -> list[str]:
    unknown = [policy for policy in section.policies_to_train or () if policy not in policies]
    return [f"multiagent.policies_to_train: {unknown_policy(policy, policies)}." for policy in unknown]
