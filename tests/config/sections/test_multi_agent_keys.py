"""The section ``multiagent``: its forms, RLlib's spellings, what contradicts itself, and the config of one policy."""

import json

import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.config.parse import read
from drl_cli.config.sections.multi_agent import MultiAgentConfig, asked, config_of_policy, matching
from drl_cli.errors import ConfigError


def section(block, name="PPO", **others):
    """Return (the section or None, problems, notices) of a block of ``multiagent`` as it is read."""
    config, problems, notices = read(table.find(name), {**others, "multiagent": block}, "--config", table.rows())
    return config and config.multiagent, problems, notices


@pytest.mark.parametrize(
    ("policies", "read_as"),
    [
        ({"a": {"lr": 0.1}, "b": None}, {"a": {"lr": 0.1}, "b": {}}),
        (["a", "b"], {"a": {}, "b": {}}),
        ({"a": [None, None, None, {"lr": 0.1}]}, {"a": {"lr": 0.1}}),
        ({"a": (None, None, None, None)}, {"a": {}}),
    ],
)
def test_policies_are_read_in_each_form(policies, read_as):
    found, problems, notices = section({"policies": policies})
    assert (found.policies, problems, notices) == (read_as, [], [])


def test_class_and_spaces_of_a_policy_are_said_to_be_unread():
    found, _, notices = section({"policies": {"a": ["PPOTFPolicy", None, None, {"lr": 0.1}]}})
    assert found.policies == {"a": {"lr": 0.1}}
    assert notices == [
        "multiagent.policies.a is read for its config: the class is the algorithm's, the spaces are those of its agents."
    ]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"policies": ["a", "a"]}, "an id is listed twice"),
        ({"policies": {"a/b": {}}}, "'a/b' is not a valid policy id"),
        ({"policies": {"_a": {}}}, "'_a' is not a valid policy id"),
        ({"policies": {"a": 3}}, 'multiagent.policies: {"a": 3} is not allowed'),
        (
            {"policies": ["good"], "policy_mapping": {"*": "goood"}},
            "multiagent.policy_mapping: *: there is no policy 'goood'. Did you mean 'good'? They are good (--config).",
        ),
        (
            {"policies": ["a"], "policy_mapping": {"*": "a"}, "policies_to_train": ["b"]},
            "multiagent.policies_to_train: there is no policy 'b'. They are a (--config).",
        ),
        ({"policies_to_train": [], "policies": ["a"]}, "the list is empty, so no policy would be trained"),
        (
            {"policies": ["a"], "policy_mapping": {"*": "a"}, "policy_mapping_fn": "draw"},
            "multiagent.policy_mapping_fn: policy_mapping already assigns the agents; give only one of the two (--config).",
        ),
        ({"policy_mapping_fn": "draw"}, "policy_mapping_fn needs the policies that it chooses from; list them"),
        ({"copies": 2, "mode": "aec"}, "multiagent.mode: copies are made of a single-agent environment"),
        ({"copies": 0}, "multiagent.copies: 0 is not allowed; it takes"),
        ({"polices": {}}, "multiagent.polices: unknown key (--config). Did you mean 'multiagent.policies'?"),
    ],
)
def test_block_that_contradicts_itself_is_refused_in_one_line(block, text):
    _, problems, _ = section(block)
    assert len(problems) == 1 and text in problems[0]


def test_empty_block_still_means_what_is_done_anyway():
    block = {"policies": {}, "policy_mapping_fn": None, "policies_to_train": None, "replay_mode": "independent"}
    found, problems, notices = section(block)
    assert (found, problems) == (MultiAgentConfig(), [])
    assert notices == ["multiagent without policies is what drl does anyway."]


def test_other_places_of_replay_mode_are_read_and_two_that_differ_refused():
    found, _, notices = section({}, replay_mode="lockstep")
    assert found.replay_mode == "lockstep" and notices == ["replay_mode (--config) is read as multiagent.replay_mode."]
    _, problems, _ = section({"replay_mode": "independent", "copies": 2}, replay_mode="lockstep")
    assert problems == [
        "replay_mode (--config): another name of multiagent.replay_mode, which is given as well (--config)."
    ]


def test_capacity_of_rllibs_map_of_policies_changes_nothing():
    _, problems, notices = section({"policies": ["a"], "policy_map_capacity": 10})
    assert problems == [] and notices[0].startswith("multiagent.policy_map_capacity 10 has no effect: ")


def test_first_pattern_that_matches_decides_and_brackets_are_part_of_names():
    one = MultiAgentConfig(policy_mapping={"adversary_*": "bad", "a[0]": "own", "*": "good"})
    assert [matching(one, name) for name in ("adversary_1", "a[0]", "a0", "x/y")] == ["bad", "own", "good", "good"]


def test_mapping_that_is_recorded_with_sorted_keys_keeps_its_order():
    one = MultiAgentConfig(policy_mapping={"0": "a", "*": "b"})
    recorded = json.loads(json.dumps(one.model_dump(mode="json"), sort_keys=True))
    again = MultiAgentConfig.model_validate(recorded)
    assert list(again.policy_mapping) == ["0", "*"] and again == one
    assert MultiAgentConfig(policy_mapping={"a": "x", "b": "y"}).model_dump(mode="json")["policy_mapping"] == {
        "a": "x",
        "b": "y",
    }


def test_keys_that_ask_for_several_agents_are_those_that_are_given():
    assert asked(MultiAgentConfig(count_steps_by="agent_steps")) == []
    assert asked(MultiAgentConfig(policies=["a"], copies=2)) == ["policies", "copies"]


def test_config_of_a_policy_differs_in_its_keys_alone():
    run = DQNConfig(exploration_config={"type": "EpsilonGreedy", "initial_epsilon": 0.7}, lr=0.01)
    own = config_of_policy(
        run, "a", {"lr": 0.5, "model": {"fcnet_hiddens": [8]}, "exploration_config": {"final_epsilon": 0.2}}
    )
    assert (own.lr, own.model.fcnet_hiddens, own.model.layer_norm) == (0.5, (8,), run.model.layer_norm)
    assert (own.exploration_config.initial_epsilon, own.exploration_config.final_epsilon) == (0.7, 0.2)
    assert config_of_policy(run, "a", {}) is run and config_of_policy(run, "a", {"lr": 0.01}) == run


def test_section_of_another_type_replaces_that_of_the_run():
    run = DQNConfig(exploration_config={"type": "EpsilonGreedy", "initial_epsilon": 0.7})
    own = config_of_policy(run, "a", {"exploration_config": {"type": "SoftQ", "temperature": 0.5}})
    assert (own.exploration_config.type, own.exploration_config.initial_epsilon) == ("SoftQ", None)


def test_value_that_a_policy_cannot_have_names_the_policy():
    with pytest.raises(ConfigError, match=r"^multiagent\.policies\.a\.gamma: "):
        config_of_policy(DQNConfig(), "a", {"gamma": 7})
