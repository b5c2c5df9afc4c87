"""PettingZoo's turn-based form, beside its own loop."""

import numpy as np
import pettingzoo
import pytest

from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.turns import Cycles, TurnBased, in_cycles
from drl_cli.errors import EnvError


def own_loop(seed, choose):
    """Return [(agent, obs, reward, ended)] of a game in PettingZoo's own loop."""
    env, seen = pettingzoo.make("aec", "classic/connect_four-v3"), []
    env.reset(seed=seed)
    for agent in env.agent_iter():
        obs, reward, terminated, truncated, _ = env.last()
        flat = np.concatenate([obs["action_mask"], obs["observation"].ravel()]).tolist()
        seen.append((agent, flat, reward, terminated or truncated))
        env.step(None if terminated or truncated else choose(obs["action_mask"]))
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_game_in_turns_is_that_of_pettingzoos_own_loop(seed):
    def chooser():
        rng = np.random.default_rng(seed)
        return lambda mask: int(rng.choice(np.flatnonzero(mask)))

    choose, seen = chooser(), []
    env = open_envs.open_env("classic/connect_four-v3", {}, "aec")
    step = env.reset(seed)
    while True:
        for agent, obs in step.obs.items():
            seen.append((agent, obs.tolist(), step.rewards.get(agent, 0), agent in step.ended))
        if step.is_over:
            break
        (agent,) = step.acting()
        step = env.step({agent: np.int64(choose(step.obs[agent][:7]))})
    expected = own_loop(seed, chooser())
    assert seen[:-2] == expected[:-2] and sorted(seen[-2:]) == sorted(expected[-2:])
    assert env.is_turn_based and env.agents == ["player_0", "player_1"]


class Turns:
    """Three agents in turn, one of which ends early; rewards arrive while their agent waits."""

    possible_agents = ["x", "y", "z"]

    def __init__(self, order, dead=()):
        self._order, self._dead = order, dead

    def observation_space(self, agent): ...
    def action_space(self, agent): ...
    def state(self): ...
    def render(self): ...
    def close(self): ...

    def reset(self, seed=None):
        self.agents, self._at = list(self.possible_agents), 0
        self.agent_selection = self._order[0]

    def last(self):
        return 0, 1.5, self.agent_selection in self._dead, False, {}

    def step(self, action):
        if action is None and "stays" not in self._dead:
            self.agents.remove(self.agent_selection)
        self._at += 1
        self.agent_selection = self._order[min(self._at, len(self._order) - 1)]


def test_agents_that_have_ended_are_stepped_with_none_until_one_acts():
    env = TurnBased(Turns("xyz", dead=("y",)))
    obs, _ = env.reset()
    assert list(obs) == ["x"]
    obs, rewards, terminated, *_ = env.step({"x": 1})
    assert list(obs) == ["y", "z"] and rewards == {"y": 1.5, "z": 1.5} and terminated == {"y": True, "z": False}
    assert env.agents == ["x", "z"]


@pytest.mark.parametrize(
    ("order", "dead", "action", "text"),
    [
        ("xyz", (), "y", r"it is the turn of 'x'; actions came of \['y'\]"),
        ("xw", (), "x", r"it is the turn of 'w', which is not in the episode: \['x', 'y', 'z'\]"),
        ("xyyyy", ("y", "stays"), "x", "agents that have ended stay in the episode"),
    ],
)
def test_turns_out_of_order_are_errors(order, dead, action, text):
    env = TurnBased(Turns(order, dead))
    env.reset()
    with pytest.raises(EnvError, match=text):
        env.step({action: 1})


def test_illegal_move_ends_the_game_for_both():
    env = open_envs.open_env("classic/tictactoe-v3", {}, "aec")
    step = env.step({"player_1": np.int64(0)} if env.reset(0) else {})
    step = env.step({"player_2": np.int64(0)})
    assert step.is_over and step.rewards["player_2"] == -1 and step.ended == {"player_1", "player_2"}


@pytest.mark.parametrize(
    ("env_id", "env_config"),
    [
        ("mpe2/simple_spread-v3", {"max_cycles": 3}),
        ("mpe2/simple_speaker_listener-v4", {"max_cycles": 3, "continuous_actions": True}),
        ("sisl/multiwalker-v9", {"max_cycles": 3}),
    ],
)
def test_cycles_are_those_of_pettingzoos_own_conversion(env_id, env_config):
    theirs = open_envs.raw(env_id, env_config, "parallel")
    ours = in_cycles(open_envs.raw(env_id, env_config, "parallel"))
    assert isinstance(ours, Cycles) and ours.possible_agents == theirs.possible_agents
    for seed in range(2):
        played = []
        for env in (theirs, ours):
            np.random.seed(seed)  # multiwalker's obstacles and mpe2's noise draw from it
            obs, infos = env.reset(seed=seed)
            played.append([(obs, infos, env.agents)])
            for agent in env.possible_agents:
                env.action_space(agent).seed(seed)
            while env.agents:
                step = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
                played[-1].append((*(dict(part) for part in step), list(env.agents)))
        np.testing.assert_equal(played[1], played[0])
        assert len(played[0]) == 4
    ours.close()
    theirs.close()


def test_an_environment_without_pettingzoos_conversion_stays_as_it_is():
    env = object()
    assert in_cycles(env) is env


def test_agent_that_ends_within_a_cycle_is_an_error():
    env = Turns("xz")
    env.metadata, env.infos, env.rewards, env.observe = {}, {}, {}, lambda agent: 0
    cycles = Cycles(env)
    cycles.reset()
    with pytest.raises(EnvError, match=r"it is the turn of 'z', not of 'y'; agents may only end with a cycle"):
        cycles.step({"x": 0, "y": 0, "z": 0})
