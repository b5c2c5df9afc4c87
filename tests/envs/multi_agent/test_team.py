"""A team seen as one agent: where its observation holds what, who is alive, rewards, ends, and what cannot be a team."""

import inspect

import gymnasium
import numpy as np
import pytest
from team_envs import Odd, TwoStep, box, discrete

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.envs.multi_agent.agent_functions import register_observation_fn
from drl_cli.envs.multi_agent.team import KEYWORDS, TeamEnv, laid_over
from drl_cli.errors import EnvError, PluginFailed


def parts_of(env, obs):
    """Return {part: numbers} of an observation; "obs" by agent."""
    layout = env.team_layout
    found = {name: obs[layout[name][0] : sum(layout[name])] for name in ("mask", "alive", "rewards", "state")}
    count = len(layout["agents"])
    return found | {"obs": obs[: count * layout["obs"]].reshape(count, layout["obs"])}


def test_layout_says_where_what_is():
    env = TeamEnv(Odd())
    layout = env.team_layout
    # 3 agents, 3 numbers of the longest and an id of 3; 3 masks of 4; 3 alive; 3 rewards; no state of its own.
    assert layout == {
        "agents": ["a", "b", "c"],
        "obs": 6,
        "actions": [2, 4, 3],
        "mask": [18, 12],
        "alive": [30, 3],
        "rewards": [33, 3],
        "state": [0, 18],
    }
    assert env.observation_space.shape == (36,)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([2, 4, 3])


def test_observation_holds_padded_agents_ids_and_masks_of_what_each_has():
    env = TeamEnv(Odd())
    found = parts_of(env, env.reset(seed=0)[0])
    assert found["obs"].tolist() == [
        [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        [1.0, 1.0, 0.5, 0.0, 1.0, 0.0],
        [1.0, 2.0, 0.0, 0.0, 0.0, 1.0],
    ]
    assert found["mask"].reshape(3, 4).tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]
    assert found["alive"].tolist() == [1, 1, 1]
    assert found["rewards"].tolist() == [0, 0, 0]


def test_environments_own_masks_and_state_are_passed_on():
    env = TeamEnv(Odd(mask=2), agent_ids=False)
    found = parts_of(env, env.reset(seed=0)[0])
    assert found["mask"].reshape(3, 4)[1].tolist() == [0, 0, 1, 0]
    env = TeamEnv(TwoStep(), agent_ids=False)
    assert env.team_layout["state"] == [14, 3]
    assert parts_of(env, env.reset()[0])["state"].tolist() == [1, 0, 0]
    assert parts_of(env, env.step(np.array([1, 0]))[0])["state"].tolist() == [0, 0, 1]


def test_agent_that_ended_is_zeros_but_for_its_id_and_takes_no_action():
    inner = Odd()
    env = TeamEnv(inner)
    env.reset(seed=0)
    obs, reward, terminated, truncated, _ = env.step(np.array([0, 0, 0]))
    assert (reward, terminated, truncated) == (111.0, False, False)
    obs, *_ = env.step(np.array([1, 3, 2]))
    found = parts_of(env, obs)
    assert found["obs"][0].tolist() == [0, 0, 0, 1, 0, 0]
    assert found["alive"].tolist() == [0, 1, 1]
    assert found["mask"][:4].tolist() == [0, 0, 0, 0]
    assert found["rewards"].tolist() == [1, 10, 100]  # that of its last step too
    assert inner.taken[1] == {"a": 1, "b": 4, "c": 4}  # each counted from its own start
    obs, reward, *_ = env.step(np.array([1, 3, 2]))
    assert reward == 110.0
    assert list(inner.taken[2]) == ["b", "c"]


@pytest.mark.parametrize(
    ("cut", "ends", "alive"), [(False, (True, False), [0, 0, 0]), (True, (False, True), [0, 1, 1])]
)
def test_episode_ends_with_the_last_agent_who_is_still_seen_where_it_was_cut(cut, ends, alive):
    env = TeamEnv(Odd(length=3, cut=cut), reward="mean")
    env.reset(seed=0)
    for _ in range(3):
        obs, reward, terminated, truncated, _ = env.step(np.array([0, 0, 0]))
    assert (terminated, truncated) == ends
    assert parts_of(env, obs)["alive"].tolist() == alive
    assert reward == pytest.approx(110 / 3)


def test_boxes_stand_side_by_side_as_wide_as_the_widest():
    inner = Odd(box_actions=True)
    env = TeamEnv(inner)
    assert env.team_layout["actions"] == [2, 4, 3]
    assert env.team_layout["mask"] == [0, 0]
    assert env.action_space.low.tolist() == [-2, -2, -1, -1, -2, -2, -2, -2, -2, -2, -2, -1]
    assert env.action_space.high.tolist() == [4, 4, 1, 1, 4, 4, 4, 4, 4, 4, 4, 1]
    env.reset(seed=0)
    env.step(np.arange(12, dtype=np.float32))
    assert {agent: action.tolist() for agent, action in inner.taken[0].items()} == {
        "a": [0, 1],
        "b": [4, 5, 6, 7],
        "c": [8, 9, 10],
    }


def test_spaces_of_a_registered_team_are_described_with_its_layout():
    spaces = make.check("OddTeam-v0", {}, table.find("QMIX"))
    assert spaces["team"]["agents"] == ["a", "b", "c"]
    assert spaces["action"]["nvec"] == [2, 4, 3]


def test_one_agent_is_no_team():
    with pytest.raises(
        EnvError, match="QMIX trains a team of several agents that act at once; this environment has one agent"
    ):
        make.check("CartPole-v1", {}, table.find("QMIX"))


class Turns(Odd):
    is_turn_based = True


class Images(Odd):
    def spaces(self, agent):
        return {"obs": discrete(3) | {"kind": "Box", "shape": [8, 8, 1]}, "action": discrete(2)}


class Kinds(Odd):
    def spaces(self, agent):
        return super().spaces(agent) | {"action": discrete(2) if agent == "a" else box(0.0, 1.0, 2)}


class Boundless(Odd):
    def spaces(self, agent):
        return super().spaces(agent) | {"action": box(0.0, None, 2)}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Turns(), "Turns: its agents act in turn; a team acts at once"),
        (Images(), "Images: the observations of 'a' are no vector"),
        (Kinds(), "Kinds: its agents have Box and Discrete actions; those of a team are all Discrete, or all a Box"),
        (Boundless(), "Boundless: the actions of 'a' have no upper bound"),
    ],
)
def test_what_cannot_be_a_team_is_refused_in_one_line(env, message):
    with pytest.raises(EnvError, match=message):
        TeamEnv(env)


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({}, "env_config.env: drl/Team-v1 needs the id of an environment with several agents."),
        ({"env": "CartPole-v1"}, "env_config.env: CartPole-v1 has one agent; a team has several."),
        ({"env": "drl/TwoStepGame-v1", "reward": "most"}, "env_config.reward: 'most' is neither 'sum' nor 'mean'."),
        (
            {"env": "drl/TwoStepGame-v1", "size": 3},
            "env_config.size: drl/Team-v1 has no such argument. Omit it.",
        ),
        (
            {"env": "drl/TwoStepGam-v1"},
            "There is no environment 'drl/TwoStepGam-v1'. Did you mean 'drl/TwoStepGame-v1' or",
        ),
    ],
)
def test_team_of_what_is_none_is_refused_in_one_line(env_config, message):
    with pytest.raises(EnvError) as caught:
        make.check("drl/Team-v1", env_config, table.find("QMIX"))
    assert str(caught.value).startswith(message)


def test_reward_of_a_team_is_a_sum_or_a_mean():
    with pytest.raises(EnvError, match=r"env_config.reward: 'most' is neither 'sum' nor 'mean'"):
        TeamEnv(TwoStep(), reward="most")


def test_keywords_of_a_team_are_its_constructors():
    parameters = inspect.signature(TeamEnv).parameters
    assert set(KEYWORDS) | {"render_mode"} == set(parameters)


def test_env_config_laid_over_that_of_a_team_reaches_the_environment_of_its_agents():
    team = {"env": "mpe2/simple_spread-v3", "env_config": {"N": 3, "max_cycles": 25}}
    over = {"N": 5, "reward": "mean"}
    found = laid_over("drl/Team-v1", team, over)
    assert found == {"env": team["env"], "env_config": {"N": 5, "max_cycles": 25}, "reward": "mean"}
    assert laid_over("drl/Team-v1", {"env": "x"}, {"reward": "sum"}) == {"env": "x", "reward": "sum"}
    assert laid_over("CartPole-v1", team, over) == team | over


def test_gymnasium_s_checker_finds_nothing():
    from gymnasium.utils.env_checker import check_env

    check_env(TeamEnv(Odd()), skip_render_check=True)


@pytest.fixture
def registered():
    """Function (name, function) that registers an observation function for the test."""
    yield register_observation_fn
    plugins.OBSERVATION_FNS._things = {}


def test_state_is_what_the_observation_function_returns(registered):
    seen = []

    def total(observations):
        seen.append(sorted(observations))
        return [sum(float(obs.sum()) for obs in observations.values()), len(observations)]

    registered("total", total)
    env = TeamEnv(TwoStep(), agent_ids=False, observation_fn="total")
    assert env.team_layout["state"] == [14, 2]
    assert parts_of(env, env.reset()[0])["state"].tolist() == [2, 2]
    assert parts_of(env, env.step(np.array([1, 0]))[0])["state"].tolist() == [2, 2]
    assert all(names == ["one", "two"] for names in seen)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (
            [["one"]],
            r"""observation_fn 'odd' returned "\['one'\]"; a vector of numbers is needed \(.*test_team.py:\d+\)""",
        ),
        ([[1.0], [np.nan]], r"returned a number that is not finite"),
        ([[1.0], [2.0, 3.0]], r"returned 2 numbers, and 1 before"),
    ],
    ids=["word", "nan", "length"],
)
def test_observation_function_that_returns_no_state_fails_in_one_line(registered, returned, text):
    answers = iter(returned)
    registered("odd", lambda observations: next(answers))
    with pytest.raises(PluginFailed, match=text):
        TeamEnv(TwoStep(), observation_fn="odd").reset()
