"""Environments keyed by agent: who acts, who ends, and what is filled in."""

import gymnasium
import numpy as np
import pytest
from scripted_agents import BOX, TWO, Scripted, acts, opened, plain, seen

from drl_cli.envs.multi_agent.dictionary import DictionaryEnv
from drl_cli.errors import EnvError


def test_only_agents_that_are_observed_act():
    env, step = opened({"b": 1}, ({"a": 2}, {"a": 0.5, "b": 1}, {"__all__": False}, {}), agents=("a", "b", "c"))
    assert env.agents == ["a", "b", "c"] and step.acting() == ["b"]
    step = env.step(acts(step))
    # "a" was never observed before: what it earned belongs to no action.
    assert plain(step) == ({"a": 2.0}, {"a": 0.5, "b": 1.0}, [], [], False)
    assert env._env.given == [{"b": 1}] and type(env._env.given[0]["b"]) is int


def test_agents_that_end_at_different_times_each_end_once():
    steps = (
        ({"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": True, "__all__": False}, {}),
        ({"a": 0, "b": 2}, {"a": 7, "b": 3}, {"a": True, "b": False}, {"b": True, "__all__": True}),
    )
    env, step = opened({"a": 0, "b": 0}, *steps)
    step = env.step(acts(step))
    assert plain(step) == ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, ["a"], [], False)
    assert step.acting() == ["b"]
    step = env.step(acts(step))
    # What is said of "a" after its end is left out, without a note: it says no more than that it has ended.
    assert plain(step) == ({"b": 2.0}, {"b": 3.0}, [], ["b"], True)
    assert env.notes == []


@pytest.mark.parametrize(
    ("ends", "expected"), [(({"__all__": True}, {}), (["a", "b"], [])), (({}, {"__all__": True}), ([], ["a", "b"]))]
)
def test_all_ends_those_who_are_left_at_their_last_observation(ends, expected):
    env, step = opened({"a": 1, "b": 2}, ({"a": 3}, {"a": 1, "b": 1}, *ends))
    step = env.step(acts(step))
    assert plain(step) == ({"a": 3.0, "b": 2.0}, {"a": 1.0, "b": 1.0}, *expected, True)


def test_agent_that_is_dropped_without_an_end_is_truncated_at_its_last_observation_and_noted():
    script = ({"b": 5}, {"b": 1}, {"b": False}, {"b": False}, ["b"])
    env, step = opened({"a": 1, "b": 2}, script, lists_present=True)
    step = env.step(acts(step))
    assert plain(step) == ({"a": 1.0, "b": 5.0}, {"b": 1.0}, [], ["a"], False)
    assert env.notes == ["agent 'a' is gone without an end: it counts as truncated at its last observation."]


def test_empty_list_of_agents_without_ends_is_the_end_of_all():
    env, step = opened({"a": 1, "b": 2}, ({}, {}, {}, {}, []), lists_present=True)
    assert plain(env.step(acts(step))) == ({"a": 1.0, "b": 2.0}, {}, [], ["a", "b"], True)


def test_agent_that_comes_back_after_its_end_is_left_out_and_noted_once():
    steps = (
        ({"a": 1, "b": 1}, {}, {"a": True}, {}),
        ({"a": 2, "b": 2}, {"a": 9, "b": 1}, {}, {}),
        ({"a": 3, "b": 3}, {"a": 9, "b": 1}, {}, {}),
    )
    env, step = opened({"a": 0, "b": 0}, *steps)
    for _ in range(3):
        step = env.step(acts(step))
    assert plain(step) == ({"b": 3.0}, {"b": 1.0}, [], [], False)
    assert env.notes == ["agent 'a' came back after its end; it is left out for the rest of the episode."]
    assert plain(env.reset(1))[0] == {"a": 0.0, "b": 0.0}


def test_episode_is_over_when_all_have_ended_whatever_all_says():
    env, step = opened({"a": 0, "b": 0}, ({"a": 1, "b": 1}, {}, {"a": True, "b": True, "__all__": False}, {}))
    assert env.step(acts(step)).is_over


def test_steps_in_which_nobody_is_observed_are_taken_without_actions_and_their_rewards_summed():
    steps = (
        ({"a": 1}, {"a": 1, "b": 1}, {"a": True}, {}),
        ({}, {"b": 2}, {}, {}),
        ({"b": 4}, {"b": 3}, {}, {}),
    )
    env, step = opened({"a": 0, "b": 0}, *steps)
    step = env.step(acts(step))
    assert plain(step) == ({"a": 1.0, "b": 4.0}, {"a": 1.0, "b": 6.0}, ["a"], [], False)
    assert env._env.given[1:] == [{}, {}]


def test_environment_that_observes_nobody_for_ever_is_an_error():
    env, step = opened({"a": 0}, *[({}, {}, {}, {})] * 1100)
    with pytest.raises(
        EnvError, match="no agent was observed in 1,000 steps; one at least must be, or __all__ be true"
    ):
        env.step(acts(step))


def test_none_for_dead_agents_stands_for_nothing():
    env, step = opened({"a": 4, "b": 0}, ({"a": None, "b": 1}, {"a": None, "b": 1}, {"a": True, "b": False}, {}))
    assert plain(env.step(acts(step))) == ({"a": 4.0, "b": 1.0}, {"b": 1.0}, ["a"], [], False)


@pytest.mark.parametrize(
    ("obs", "rewards", "text"),
    [
        ({"a": 1, "b": 1}, {"a": 1, "b": float("nan")}, "agent 'b': its reward is nan"),
        ({"a": float("inf"), "b": 1}, {}, "agent 'a': element 0 of its observation is inf"),
    ],
)
def test_numbers_of_one_agent_that_are_not_finite_name_it(obs, rewards, text):
    env, step = opened({"a": 0, "b": 0}, (obs, rewards, {}, {}))
    with pytest.raises(FloatingPointError, match=text):
        env.step(acts(step))


def test_time_limit_truncates_all_who_are_left():
    env, step = opened({"a": 0, "b": 0}, ({"a": 1, "b": 1}, {}, {"a": True}, {}), ({"b": 2}, {}, {}, {}), limit=2)
    step = env.step(acts(env.step(acts(step))))
    assert plain(step) == ({"b": 2.0}, {}, [], ["b"], True)


def test_dones_of_older_environments_are_terminations_and_reset_may_return_observations_alone():
    class Old(Scripted):
        def reset(self):
            return super().reset()[0]

        def step(self, actions):
            obs, rewards, dones, _, infos = super().step(actions)
            return obs, rewards, dones, infos

    env = DictionaryEnv(Old({"a": 0, "b": 0}, ({"a": 1, "b": 1}, {"a": 1}, {"a": True, "__all__": False}, {})))
    step = env.step(acts(env.reset(3)))
    assert plain(step) == ({"a": 1.0, "b": 1.0}, {"a": 1.0}, ["a"], [], False)


def test_agents_are_known_by_any_of_the_names_in_use_and_by_reset():
    class Bare:
        observation_space, action_space = BOX, TWO

        def reset(self, seed=None):
            return seen({7: 0, "y/z": 0}), {}

    assert DictionaryEnv(Bare()).agents == ["7", "y/z"]
    for name, value in [("possible_agents", [1]), ("_agent_ids", {1}), ("observation_spaces", {1: BOX})]:
        assert DictionaryEnv(type("Named", (Bare,), {name: value})()).agents == ["1"]
    assert DictionaryEnv(type("Named", (Bare,), {"get_agent_ids": lambda self: {2, 1}})()).agents == ["1", "2"]


def test_spaces_may_differ_by_agent_and_come_by_method_dict_or_dict_space():
    spaces = {"a": BOX, "b": gymnasium.spaces.Box(0, 1, (2,), np.float32)}
    forms = [
        {"observation_space": lambda self, agent: spaces[agent]},
        {"observation_spaces": spaces, "observation_space": None},
        {"observation_space": gymnasium.spaces.Dict(spaces)},
    ]
    for form in forms:
        env = DictionaryEnv(type("Formed", (Scripted,), form)({"a": 0}))
        assert [env.spaces(agent)["obs"]["shape"] for agent in env.agents] == [[1], [2]]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"action_space": None}, "agent 'a': it has no action space. Give the environment action_space(agent), or"),
        ({"observation_space": "Box"}, "agent 'a': its observation space is 'Box'; a space of gymnasium is needed."),
    ],
)
def test_spaces_that_cannot_be_found_are_named(changes, text):
    with pytest.raises(EnvError) as caught:
        DictionaryEnv(type("Changed", (Scripted,), changes)({"a": 0}))
    assert str(caught.value).startswith(text)


def test_agent_that_was_never_named_is_an_error_with_what_to_do():
    env, step = opened({"a": 0, "b": 0}, ({"aa": 1}, {}, {}, {}))
    with pytest.raises(
        EnvError, match=r"agent 'aa' is not among the environment's agents \(a, b\)\..* possible_agents"
    ):
        env.step(acts(step))


def test_two_agents_that_are_written_alike_are_an_error():
    with pytest.raises(EnvError, match=r"its agents are \[1, '1'\], of which two are written alike"):
        DictionaryEnv(Scripted({}, agents=(1, "1")))


@pytest.mark.parametrize("answer", [None, ({}, {}, True, {}), (1, 2)])
def test_step_of_another_form_is_an_error_that_says_the_form(answer):
    env, step = opened({"a": 0, "b": 0})
    env._env.step = lambda actions: answer
    with pytest.raises(EnvError, match="the interface is reset"):
        env.step(acts(step))


def test_fifty_agents_of_mixed_ids_play():
    agents = [f"team/{index}" for index in range(50)]
    numbers = dict.fromkeys(agents, 1)
    env, step = opened(numbers, (numbers, numbers, {}, {}), agents=agents)
    step = env.step(acts(step))
    assert step.acting() == agents and sum(step.rewards.values()) == 50


def test_dict_observations_are_flattened_with_their_mask():
    parts = {"observation": gymnasium.spaces.Box(0, 1, (2, 3), np.int8), "action_mask": gymnasium.spaces.MultiBinary(2)}

    class Masked(Scripted):
        observation_space = gymnasium.spaces.Dict(parts)

        def reset(self, seed=None):
            return {"a": {"observation": np.ones((2, 3), np.int8), "action_mask": np.array([0, 1], np.int8)}}, {}

    env = DictionaryEnv(Masked({}))
    assert env.spaces("a")["mask"] == [0, 2] and env.spaces("a")["obs"]["shape"] == [8]
    obs = env.reset(0).obs["a"]
    assert obs.dtype == np.float32 and obs.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


def test_state_is_what_the_environment_says_or_none():
    env, _ = opened({"a": 0})
    assert env.state() is None
    env._env.state = lambda: np.arange(4).reshape(2, 2)
    assert env.state().tolist() == [0, 1, 2, 3] and env.state().dtype == np.float32


def test_closing_twice_is_safe():
    env, _ = opened({"a": 0})
    closed = []
    env._env.close = lambda: closed.append(True)
    env.close()
    env.close()
    assert closed == [True]
