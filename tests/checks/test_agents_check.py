"""``drl env check`` and ``drl envs`` for environments with several agents."""

import warnings

import gymnasium
import numpy as np
import pytest

import drl_cli
from drl_cli.checks import agents_check, env_catalogue, env_probe
from drl_cli.checks.agents_check import AgentsCheck

QUESTION = {"env_config": {}, "imports": [], "seed": 0, "episodes": 3, "seconds": 2.0}


def report(env_id, kind, **changes):
    """Return {what: (state, text)} of all findings, and what else was reported."""
    findings, rest = {}, {}

    def send(part):
        if "finding" in part:
            what, state, text, *_ = part["finding"]
            findings[what] = (state, text)
        rest.update(part)

    for _, method in AgentsCheck({**QUESTION, "id": env_id, **changes}, kind, send).stages():
        if method() is False:
            break
    return findings, rest


def test_turn_based_game_of_pettingzoo_passes_its_own_tests():
    findings, rest = report("classic/connect_four-v3", "aec")
    assert findings["interface"] == ("ok", "2 agents (player_0, player_1); one acts at a time")
    assert findings["same seed"][0] == findings["PettingZoo's seed test"][0] == "ok"
    assert findings["PettingZoo's API test"] == ("note", "passed, and warns: Observation numpy array is all zeros.")
    assert findings["other seeds"] == ("note", "every episode starts the same, whatever the seed")
    assert "PPO" in rest["fits"] and "ES" not in rest["fits"] and "QMIX" not in rest["fits"]
    assert len(rest["random_policy"]["rewards"]) == 3 and set(rest["random_policy"]["rewards"]) == {0.0}


def test_warnings_that_gymnasium_colours_are_plain_words(monkeypatch):
    def warns(env, cycles):
        warnings.warn("\x1b[33mWARN: no render mode\x1b[0m", stacklevel=1)

    monkeypatch.setattr(agents_check, "load", lambda name: warns)
    findings, _ = report("mpe2/simple-v3", "parallel")
    assert findings["PettingZoo's API test"] == ("note", "passed, and warns: no render mode")


def test_file_of_other_code_that_the_collector_closes_meanwhile_is_no_warning(monkeypatch):
    def warns(env, cycles):
        warnings.warn("unclosed file", ResourceWarning, stacklevel=1)

    monkeypatch.setattr(agents_check, "load", lambda name: warns)
    findings, _ = report("classic/connect_four-v3", "aec")
    assert findings["PettingZoo's API test"] == ("ok", "passed")


def test_agents_that_act_at_once_fit_algorithms_of_teams_too():
    findings, rest = report("mpe2/simple_speaker_listener-v4", "parallel")
    assert findings["state"] == ("ok", "14 numbers") and findings["PettingZoo's API test"] == ("ok", "passed")
    assert "QMIX" in rest["fits"] and rest["random_policy"]["lengths"] == [25, 25, 25]
    assert rest["text"]["action"] == "speaker_0: Discrete(3), listener_0: Discrete(5)"


class Unseeded:
    """Two agents; what they observe and whether one is dropped are in the config."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    possible_agents = ("a", "b")
    rng = np.random.default_rng()

    def reset(self, seed=None):
        return self._obs(), {}

    def _obs(self):
        return {agent: self.rng.uniform(-1, 1, 1).astype(np.float32) for agent in self.possible_agents}

    def step(self, actions):
        return self._obs(), {"a": 1.0}, {}, {"__all__": self.rng.random() < 0.1}, {}


def test_randomness_that_reset_does_not_seed_is_broken():
    drl_cli.register_env("UnseededAgents-v0", Unseeded)
    findings, _ = report("UnseededAgents-v0", "dictionary")
    assert findings["same seed"][0] == "fail" and "reset must seed all randomness" in findings["same seed"][1]
    assert "PettingZoo's API test" not in findings


def test_randomness_that_only_a_reset_without_a_seed_draws_anew_is_no_failure():
    class Seeded(Unseeded):
        def reset(self, seed=None):
            self.rng = np.random.default_rng(seed)  # every episode of a run has a seed
            return self._obs(), {}

    drl_cli.register_env("SeededAgents-v0", lambda env_config: Seeded())
    findings, _ = report("SeededAgents-v0", "dictionary")
    assert findings["same seed"][0] == "ok"


def test_environment_that_raises_is_the_last_finding():
    drl_cli.register_env("RaisingAgents-v0", type("Raising", (Unseeded,), {"step": lambda self, actions: 1 / 0}))
    findings, _ = report("RaisingAgents-v0", "dictionary")
    assert list(findings) == ["interface"] and findings["interface"][0] == "fail"
    assert "ZeroDivisionError" in findings["interface"][1]


def test_environments_with_several_agents_are_listed_with_what_fits():
    ids = env_catalogue.matching()[0]
    assert {"classic/connect_four-v3", "mpe2/simple_spread-v3", "drl/MultiAgentCartPole-v1"} <= set(ids)
    assert "drl/Team-v1" not in ids and not any(one.startswith("atari/") for one in ids)
    found = env_probe.looked_at("drl/TicTacToe-v1")
    assert list(found["agents"]) == ["player_1", "player_2"] and found["is_turn_based"] and found["state"] == 0
    assert "DQN" in found["fits"] and "VDN" not in found["fits"] and found["text"]["action"] == "Discrete(9)"


@pytest.mark.parametrize(
    ("pattern", "first"), [("connect_four", "classic/connect_four-v3"), ("sisl/*", "sisl/multiwalker-v9")]
)
def test_patterns_find_them(pattern, first):
    assert env_catalogue.matching(pattern)[0][0] == first
