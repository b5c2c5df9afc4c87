"""Which policies several agents have: by patterns, by names, by kinds of spaces, or chosen by a function; what is refused."""

import pytest

from drl_cli import plugins
from drl_cli.config.sections.multi_agent import MultiAgentConfig
from drl_cli.envs.multi_agent.agent_functions import register_observation_fn, register_policy_mapping
from drl_cli.errors import ConfigError, InputError, PluginFailed
from drl_cli.experiments.agent_policies import resolve

MOVES = {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"}


def spec(size=4, action=MOVES, **others):
    return {
        "obs": {"kind": "Box", "shape": [size], "dtype": "float32", "low": -1.0, "high": 1.0},
        "action": action,
        **others,
    }


TWO = {"0": spec(), "1": spec()}
MIXED = {"adversary_0": spec(3), "agent_0": spec(), "agent_1": spec()}
SLASHED = {"red/1": spec(3), "red/2": spec(3), "blue/1": spec(5)}
FIFTY = {f"a{index}": spec() for index in range(50)}


def agents(spaces, **block):
    """Return {policy: agents}."""
    return {name: own["agents"] for name, own in resolve(MultiAgentConfig(**block), spaces).policies.items()}


@pytest.fixture
def mapping():
    """Register a mapping as ``draw`` for the time of a test."""
    yield lambda function: register_policy_mapping("draw", function)
    plugins.POLICY_MAPPINGS._things = {}


@pytest.mark.parametrize(
    ("spaces", "block", "found"),
    [
        (TWO, {}, {"default_policy": ["0", "1"]}),
        (MIXED, {}, {"adversary": ["adversary_0"], "agent": ["agent_0", "agent_1"]}),
        ({"a1": spec(), "a2": spec(3)}, {}, {"policy_0": ["a1"], "policy_1": ["a2"]}),
        ({"x/1": spec(), "/2": spec(3)}, {}, {"policy_0": ["x/1"], "policy_1": ["/2"]}),
        (SLASHED, {}, {"red": ["red/1", "red/2"], "blue": ["blue/1"]}),
        ({"a": spec(), "b": spec(mask=[0, 2])}, {}, {"a": ["a"], "b": ["b"]}),
        (TWO, {"policies": ["x"]}, {"x": ["0", "1"]}),
        (TWO, {"policies": ["1", "0"]}, {"1": ["1"], "0": ["0"]}),
        (MIXED, {"policies": {"agent": {"lr": 0.1}}}, {"agent": ["agent_0", "agent_1"], "adversary": ["adversary_0"]}),
        (
            MIXED,
            {"policy_mapping": {"adversary_*": "bad", "*": "good"}},
            {"bad": ["adversary_0"], "good": ["agent_0", "agent_1"]},
        ),
        (TWO, {"policies": ["x", "y"], "policy_mapping": {"0": "y", "*": "x"}}, {"x": ["1"], "y": ["0"]}),
    ],
)
def test_policies_act_for_their_agents(spaces, block, found):
    assert agents(spaces, **block) == found


def test_what_follows_without_a_block_is_said_in_one_line():
    assert resolve(MultiAgentConfig(), TWO).notices == [
        "One policy, default_policy, acts for all agents, whose spaces are equal: 0, 1."
    ]
    assert resolve(MultiAgentConfig(), MIXED).notices == [
        "2 policies, one for each kind of spaces: adversary acts for adversary_0; agent acts for agent_0, agent_1."
    ]
    assert resolve(MultiAgentConfig(), FIFTY).notices[0].endswith("a6, a7 and 42 more.")


def test_policies_hold_spaces_their_keys_and_whether_they_learn():
    block = MultiAgentConfig(policies={"agent": {"lr": 0.1}}, policies_to_train=["agent"])
    found = resolve(block, MIXED)
    assert found.policies["agent"] == {
        "agents": ["agent_0", "agent_1"],
        "spaces": MIXED["agent_0"],
        "config": {"lr": 0.1},
        "is_trained": True,
    }
    assert (found.policies["adversary"]["config"], found.policies["adversary"]["is_trained"]) == ({}, False)
    assert found.mapping == {"adversary_0": "adversary", "agent_0": "agent", "agent_1": "agent"}


def test_bounds_of_observations_are_no_other_spaces_and_those_of_actions_are():
    wide = spec()
    wide["obs"] = {**wide["obs"], "high": 9.0}
    assert agents({"a": spec(), "b": wide}) == {"default_policy": ["a", "b"]}
    other = {**MOVES, "start": 1}
    assert agents({"a": spec(), "b": spec(action=other)}) == {"a": ["a"], "b": ["b"]}


def test_pattern_that_matches_no_agent_is_said():
    notices = resolve(MultiAgentConfig(policy_mapping={"b*": "x", "*": "x"}), TWO).notices
    assert notices == ["multiagent.policy_mapping: b* matches no agent; they are 0, 1."]


@pytest.mark.parametrize(
    ("spaces", "block", "text"),
    [
        (
            MIXED,
            {"policy_mapping": {"adversary_*": "bad"}},
            "no policy for agent_0, agent_1: nothing in it matches. Add 'agent_0': ",
        ),
        (FIFTY, {"policy_mapping": {"b": "x"}}, "no policy for a0, a1, a2, a3, a4, a5, a6, a7 and 42 more: nothing"),
        (
            TWO,
            {"policies": ["x", "y"]},
            "multiagent.policy_mapping is missing: which of x, y acts for whom? The agents are 0, 1. Write policy_mapping: "
            "{'0': x, …}.",
        ),
        (
            MIXED,
            {"policies": ["bad", "good", "none"], "policy_mapping": {"adversary_*": "bad", "*": "good"}},
            "multiagent.policies.none: it acts for no agent. The agents are adversary_0, agent_0, agent_1: map an agent to it, "
            "or leave it out.",
        ),
        (
            MIXED,
            {"policies": ["x"]},
            "multiagent: the policy x acts for adversary_0 and agent_0, whose observations differ. Give each kind of spaces a "
            "policy of its own in policy_mapping, or leave out policies for one of each kind.",
        ),
        ({"a": spec(), "b": spec(action={**MOVES, "n": 3})}, {"policies": ["x"]}, "for a and b, whose actions differ."),
        (
            MIXED,
            {"policies_to_train": ["agnt"]},
            "multiagent.policies_to_train: there is no policy 'agnt'. Did you mean 'agent'? They are adversary, agent.",
        ),
    ],
)
def test_block_that_does_not_fit_the_agents_is_refused_in_one_line(spaces, block, text):
    with pytest.raises(ConfigError) as caught:
        resolve(MultiAgentConfig(**block), spaces)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_function_may_choose_each_policy_for_all_agents_with_its_spaces(mapping):
    mapping(lambda agent, episode: "x" if episode.rng.random() < 0.5 else "y")
    found = resolve(MultiAgentConfig(policies=["x", "y"], policy_mapping_fn="draw"), TWO)
    assert found.mapping is None
    assert {name: own["agents"] for name, own in found.policies.items()} == {"x": ["0", "1"], "y": ["0", "1"]}


def test_function_divides_policies_by_the_spaces_of_those_it_chose_them_for(mapping):
    mapping(lambda agent, episode: "bad" if agent.startswith("adversary") else "good")
    found = resolve(MultiAgentConfig(policies=["good", "bad"], policy_mapping_fn="draw"), MIXED)
    assert {name: own["agents"] for name, own in found.policies.items()} == {
        "good": ["agent_0", "agent_1"],
        "bad": ["adversary_0"],
    }


def test_policy_that_a_function_never_chose_may_act_for_all_where_spaces_are_equal(mapping):
    mapping(lambda agent, episode: "x")
    assert agents(TWO, policies=["x", "rare"], policy_mapping_fn="draw")["rare"] == ["0", "1"]
    with pytest.raises(
        ConfigError, match="multiagent.policies.rare: policy_mapping_fn chose it for no agent in 20 episodes"
    ):
        mapping(lambda agent, episode: agent.partition("_")[0])
        agents(MIXED, policies=["adversary", "agent", "rare"], policy_mapping_fn="draw")


def test_function_that_names_no_policy_or_fails_is_one_line(mapping):
    mapping(lambda agent, episode: "z")
    with pytest.raises(
        PluginFailed, match="policy_mapping_fn draw chose 'z' for the agent 0, which is no policy of this run"
    ):
        agents(TWO, policies=["x"], policy_mapping_fn="draw")
    mapping(lambda agent, episode: 1 / 0)
    with pytest.raises(PluginFailed, match="policy_mapping_fn draw failed: ZeroDivisionError"):
        agents(TWO, policies=["x"], policy_mapping_fn="draw")


@pytest.mark.parametrize("register", [register_policy_mapping, register_observation_fn])
def test_only_what_can_be_called_is_registered(register):
    with pytest.raises(InputError, match="'x' cannot be called; give a function"):
        register("draw", "x")
