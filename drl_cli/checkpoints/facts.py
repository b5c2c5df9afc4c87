"""The facts in a manifest, checked like the keys of a config: which there may be, of which type.

Hashes show that a manifest is what was written, not that it was written by this program: a change of both is not
noticed. ``check`` looks at the facts that are there (every reader does, through ``load``); ``require`` also refuses those that
are missing, which acting and resuming need. Config, policies and preprocessing are read by schemas of their own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drl_cli.checkpoints.files import refuse
from drl_cli.config.result_names import POLICY_ID
from drl_cli.errors import CheckpointError

MANY = 2**63  # more than any counter


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < MANY


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _string(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _bool(value: Any) -> bool:
    return isinstance(value, bool)


def _or_null(form: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or form(value)


def _all(form: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: isinstance(values, list) and all(form(value) for value in values)


Forms = Mapping[str, tuple[Callable[[Any], bool], str]]

TOP: Forms = {  # name → (form, in words)
    "drl_version": (_string, "a string"),
    "algorithm": (_string, "a string"),
    "env": (_string, "a string"),
    "env_asked": (_or_null(_string), "a string or null"),
    "env_config": (_or_null(_object), "an object or null"),
    "horizon": (_or_null(lambda value: _whole(value) and value > 0), "a whole number of 1 or more, or null"),
    "spaces": (_object, "an object"),
    "preprocessing": (_or_null(_object), "an object or null"),
    "config": (_or_null(_object), "an object or null"),
    "counters": (_object, "an object"),
    "score": (_or_null(_object), "an object or null"),
    "seed": (_or_null(lambda value: type(value) is int), "a whole number or null"),
    "agents": (_or_null(_object), "an object or null"),
}
AGENTS: Forms = {  # as ``envs.env_spec.AgentsSetup`` has them
    "kind": (_string, "a string"),
    "count": (lambda value: _whole(value) and value > 0, "a whole number of 1 or more"),
    "is_turn_based": (_bool, "true or false"),
    "spaces": (_object, "an object"),
    "policies": (lambda value: _object(value) and bool(value), "an object of policies"),
    "mapping": (_or_null(_object), "an object or null"),
    "mapping_fn": (_or_null(_string), "a string or null"),
    "observation_fn": (_or_null(_string), "a string or null"),
}
SELF_PLAY: Forms = {  # as ``envs.env_spec.SelfPlaySetup`` has them
    "learner": (_string, "a string"),
    "slots": (_all(_string), "a list of strings"),
    "scripted": (_all(_string), "a list of strings"),
    "own_share": (_number, "a number"),
    "evaluate_against": (_all(_string), "a list of strings"),
}
POLICY: Forms = {  # as ``envs.env_spec.PolicyAgents`` has them
    "agents": (_all(_string), "a list of strings"),
    "spaces": (_object, "an object"),
    "config": (_object, "an object"),
    "is_trained": (_bool, "true or false"),
}
SPACE: Forms = {
    "kind": (_string, "a string"),
    "shape": (_all(_whole), "a list of whole numbers"),
    "dtype": (_string, "a string"),
    "n": (_whole, "a whole number"),
    "nvec": (_all(_whole), "a list of whole numbers"),
}
NEEDED = ("algorithm", "env", "spaces", "policies", "counters")
SPACES = ("obs", "action")
COUNTERS = ("training_iteration", "timesteps_total")


def check(facts: Mapping[str, Any], where: object) -> None:
    """Raise CheckpointError, which names the fact and what it takes, unless all facts that are there have their types."""
    _check(facts, TOP, "", where)
    for name, value in (facts.get("counters") or {}).items():
        if not (_whole(value) if name in COUNTERS else _number(value)):
            raise _wrong(f"counters.{name}", value, "a whole number" if name in COUNTERS else "a number", where)
    for name, value in (facts.get("score") or {}).items():
        if not _or_null(_number)(value):
            raise _wrong(f"score.{name}", value, "a number or null", where)
    _check_spaces(facts.get("spaces") or {}, "spaces", where)
    if facts.get("agents"):
        _check_agents(facts["agents"], where)


def _check_spaces(spaces: Mapping[str, Any], place: str, where: object) -> None:
    for name, space in ((name, spaces[name]) for name in SPACES if name in spaces):
        if not _object(space):
            raise _wrong(f"{place}.{name}", space, "an object", where)
        _check(space, SPACE, f"{place}.{name}.", where)


def _check_agents(agents: Mapping[str, Any], where: object) -> None:
    """Refuse what is no AgentsSetup: an agent without spaces, a policy without a proper id, a mapping to a policy unknown."""
    _require(agents, AGENTS, "agents.", where)
    for agent, spaces in agents["spaces"].items():
        _require(spaces if _object(spaces) else {}, dict.fromkeys(SPACES), f"agents.spaces.{agent}.", where)
        _check_spaces(spaces, f"agents.spaces.{agent}", where)
    for name, policy in agents["policies"].items():
        if not POLICY_ID.fullmatch(name):
            raise _wrong("agents.policies", name, "ids of policies", where)
        place = f"agents.policies.{name}."
        _require(policy if _object(policy) else {}, POLICY, place, where)
        _require(policy["spaces"], dict.fromkeys(SPACES), f"{place}spaces.", where)
        _check_spaces(policy["spaces"], f"{place}spaces", where)
        for agent in policy["agents"]:
            if agent not in agents["spaces"]:
                raise _wrong(f"{place}agents", agent, "agents of agents.spaces", where)
    mapping = agents["mapping"] or {}
    for agent in () if agents["mapping"] is None else agents["spaces"]:
        policy = mapping.get(agent)
        if not _string(policy) or agent not in agents["policies"].get(policy, {"agents": ()})["agents"]:
            raise _wrong(f"agents.mapping.{agent}", policy, "a policy that may act for the agent", where)
    playing = agents.get("self_play")
    if playing is not None:
        _require(playing if _object(playing) else {}, SELF_PLAY, "agents.self_play.", where)
        for name in (playing["learner"], *playing["slots"]):
            if name not in agents["policies"]:
                raise _wrong("agents.self_play", name, "ids of agents.policies", where)
    elif agents["mapping"] is None and agents["mapping_fn"] is None:
        raise _wrong("agents.mapping", None, "an object where mapping_fn is null", where)


def _require(facts: Mapping[str, Any], forms: Mapping[str, Any], prefix: str, where: object) -> None:
    """Raise CheckpointError unless all of ``forms`` are there, each as its form says, None for any."""
    for name, form in forms.items():
        if name not in facts:
            raise refuse(where, f"facts: {prefix}{name} is missing")
        if form is not None and not form[0](facts[name]):
            raise _wrong(prefix + name, facts[name], form[1], where)


def require(facts: Mapping[str, Any], where: object) -> None:
    """Raise CheckpointError for the first fact that is missing that acting or resuming needs."""
    needed = [(facts, "", NEEDED), (facts.get("counters"), "counters.", COUNTERS)]
    needed += [(facts.get("spaces"), "spaces.", SPACES)]
    for holder, prefix, names in needed:
        for name in names:
            if name not in (holder or {}):
                raise refuse(where, f"facts: {prefix}{name} is missing")


def _check(facts: Mapping[str, Any], forms: Forms, prefix: str, where: object) -> None:
    for name, (form, takes) in forms.items():
        if name in facts and not form(facts[name]):
            raise _wrong(prefix + name, facts[name], takes, where)


def _wrong(name: str, value: Any, takes: str, where: object) -> CheckpointError:
    return refuse(where, f"facts: {name} is {str(value)[:60]!r}; it takes {takes}")
