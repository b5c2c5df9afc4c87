"""Keys of environments with several agents: their policies by id, which agents each of them controls, how steps are counted.

The section ``multiagent`` of every algorithm's config. Names and meanings are RLlib's (COMMON_CONFIG, 1.0.1);
``policy_mapping``, ``copies`` and ``mode`` are additions, since a config holds plain data. ``config.policy_overrides`` reads
the keys in which a policy differs, ``experiments.agent_policies`` finds the agents of each policy.

Deviations: policies have no class and no spaces of their own (RLlib's 4-tuples are read for their config); functions are
given by their registered names.
"""

import fnmatch
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_serializer, model_validator
from typing_extensions import Self

from drl_cli.config.result_names import POLICY_ID
from drl_cli.config.schema import MisfitError, PlainMapping, Section, Whole, key
from drl_cli.config.sections.self_play import SelfPlayConfig
from drl_cli.errors import ConfigError, suggestion

S = TypeVar("S", bound=Section)

ID_ALLOWED = "letters, digits, '_', '.' and '-', a letter or digit first, at most 100"
MAPPED = ("policies", "policy_mapping", "policy_mapping_fn", "policies_to_train")
TUPLE = 4  # places of RLlib's: class, observation space, action space, config


def _is_id(name: str) -> str:
    if not POLICY_ID.fullmatch(name):
        raise ValueError(f"{name[:60]!r} is not a valid policy id")
    return name


def _by_id(value: Any) -> Any:
    """Accept a list of ids as a mapping, null as a policy without overrides, and RLlib's tuple as its config."""
    if value is None:
        return {}
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        if len(set(value)) < len(value):
            raise ValueError("an id is listed twice")
        return {name: {} for name in value}
    if isinstance(value, dict):
        return {name: _overrides(own) for name, own in value.items()}
    return value


def _overrides(own: Any) -> Any:
    if own is None:
        return {}
    if isinstance(own, (list, tuple)) and len(own) == TUPLE:
        return own[-1] or {}
    return own


def _in_order(value: Any) -> Any:
    """Accept [agent, policy] pairs, the recorded form, as a mapping."""
    if isinstance(value, (list, tuple)) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value):
        return {str(agent): policy for agent, policy in value}
    return value


PolicyId = Annotated[str, AfterValidator(_is_id)]
Policies = Annotated[dict[PolicyId, PlainMapping], BeforeValidator(_by_id)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class MultiAgentConfig(Section):
    """Policies by id, and the agents that each of them controls."""

    policies: Policies = key(
        {},
        "Policy id → the config keys in which it differs from the run, or null; or a list of ids. Empty: one policy for all "
        "agents with equal spaces.",
        allowed=f"a mapping of ids to mappings of keys (or null), or a list of ids; an id has {ID_ALLOWED}",
    )
    policy_mapping: Annotated[dict[_Name, PolicyId], BeforeValidator(_in_order)] = key(
        {},
        "Agent → policy id; the first match wins, and * and ? are wildcards. Empty: each policy controls the agent of the same "
        "name, and a single policy controls all agents.",
        allowed="a mapping of agents (or patterns such as adversary_*) to policy ids",
    )
    policy_mapping_fn: _Name | None = key(
        None,
        "The name of a function, registered with drl_cli.register_policy_mapping, that maps agents to policies at the start "
        "of every episode, in place of policy_mapping.",
        allowed="the name of a registered function, or null",
    )
    policies_to_train: Annotated[tuple[PolicyId, ...], Field(strict=False)] | None = key(
        None,
        "The policies that are trained; the others keep their initial weights. null: all.",
        allowed="a list of policy ids, or null",
    )
    observation_fn: _Name | None = key(
        None,
        "The name of a function of the agents' observations, registered with drl_cli.register_observation_fn, whose result is "
        "the state that MAPPO and QMIX see, in place of the environment's own.",
        allowed="the name of a registered function, or null",
    )
    count_steps_by: Literal["env_steps", "agent_steps"] = key(
        "env_steps",
        "The unit of timesteps_total, schedules and learning_starts: steps of the environment, or steps of the agents whose "
        "policy is trained.",
    )
    replay_mode: Literal["independent", "lockstep"] = key(
        "independent",
        "independent: each policy samples steps of its own agents; lockstep: all policies sample the same env steps. VDN "
        "and QMIX always do so, and no other algorithm accepts it.",
    )
    copies: Annotated[Whole, Field(ge=1, le=1000)] | None = key(
        None,
        "Number of independent copies of a single-agent environment, played as agents '0', '1', … of one environment; null: "
        "the environment's own agents.",
        "agents",
    )
    mode: Literal["parallel", "aec"] | None = key(
        None,
        "Which of PettingZoo's forms of the environment is used: parallel (all agents act at once) or aec (in turn). null: "
        "parallel where it is offered and agents do not act in turn.",
    )

    self_play: SelfPlayConfig = key(
        SelfPlayConfig(),
        "Self-play: one policy, main, is trained against itself, frozen copies of itself and scripted opponents.",
    )

    @field_serializer("policy_mapping", when_used="json")
    def _recorded_in_order(self, mapping: dict[str, str]) -> Any:
        """Return pairs where the sorted keys of a record would change which pattern matches first."""
        return mapping if list(mapping) == sorted(mapping) else [list(pair) for pair in mapping.items()]

    @model_validator(mode="after")
    def _maps_in_one_way(self) -> Self:
        if self.policy_mapping and self.policy_mapping_fn is not None:
            raise MisfitError(
                "policy_mapping_fn", "policy_mapping already assigns the agents; give only one of the two"
            )
        if self.policy_mapping_fn is not None and not self.policies:
            raise MisfitError("policies", "policy_mapping_fn needs the policies that it chooses from; list them")
        mapped = [name for name in MAPPED if getattr(self, name)]
        if self.self_play.is_on and mapped:
            raise MisfitError(mapped[0], "self_play defines its own policies (main and its copies); leave it out")
        if self.copies is not None and self.mode is not None:
            raise MisfitError(
                "mode", "copies are made of a single-agent environment, which has neither form; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _names_policies_that_are_there(self) -> Self:
        named = known_policies(self)
        for pattern, policy in self.policy_mapping.items():
            if policy not in named:
                raise MisfitError("policy_mapping", f"{pattern}: {unknown_policy(policy, named)}")
        if self.policies_to_train is None:
            return self
        if not self.policies_to_train:
            raise MisfitError("policies_to_train", "the list is empty, so no policy would be trained; null trains all")
        is_mapped = self.policy_mapping or self.policy_mapping_fn is not None  # otherwise more policies may be added
        for policy in self.policies_to_train if is_mapped else ():
            if policy not in named:
                raise MisfitError("policies_to_train", unknown_policy(policy, named))
        return self


def known_policies(section: MultiAgentConfig) -> list[str]:
    """Return the ids of the policies that a section names; where nothing is mapped there may be more."""
    return list(section.policies or dict.fromkeys(section.policy_mapping.values()))


def unknown_policy(policy: str, known: list[str]) -> str:
    """Say that ``policy`` is none of ``known``."""
    return f"there is no policy {policy[:60]!r}.{suggestion(policy, known)} They are {', '.join(known[:8])}"


def asked(section: MultiAgentConfig) -> list[str]:
    """Return the keys of a section that only apply to several agents."""
    found = {name: value for name, value in section if name not in ("count_steps_by", "replay_mode", "self_play")}
    return [name for name, value in found.items() if value is not None and value != {}] + (
        ["self_play"] if section.self_play.is_on else []
    )


def matching(section: MultiAgentConfig, agent: str) -> str | None:
    """Return the policy that ``policy_mapping`` gives to ``agent``, or None."""
    found = (policy for pattern, policy in section.policy_mapping.items() if matches(pattern, agent))
    return next(found, None)


def matches(pattern: str, agent: str) -> bool:
    """Whether a key of ``policy_mapping`` matches ``agent``; brackets are literal, unlike in a shell."""
    return fnmatch.fnmatchcase(agent, pattern.replace("[", "[[]"))


def config_of_policy(config: S, name: str, overrides: Mapping[str, Any]) -> S:
    """Return the config of the policy ``name``: that of the run with ``overrides`` applied.

    ``overrides``: nested keys in this program's spelling, as ``config.policy_overrides`` returns them. A section whose ``type``
    differs replaces that of the run, since other types have other keys. Raises ConfigError for values that do not fit.
    """
    if not overrides:
        return config
    try:
        return type(config).model_validate(laid_over(config.model_dump(mode="json", by_alias=True), overrides))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"multiagent.policies.{name}.{where}: {first['msg']}.") from error


def laid_over(mapping: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``mapping`` with ``overrides`` merged in, section by section; see ``config_of_policy``."""
    merged = dict(mapping)
    for name, value in overrides.items():
        under = merged.get(name)
        if (
            isinstance(value, dict)
            and isinstance(under, dict)
            and value.get("type", under.get("type")) == under.get("type")
        ):
            merged[name] = laid_over(under, value)
        else:
            merged[name] = value
    return merged
