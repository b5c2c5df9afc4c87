"""Which environments have several agents, how they are opened, and what is found before a run."""

import subprocess
import sys

import gymnasium
import numpy as np
import pettingzoo
import pytest
from scripted_agents import Scripted
from test_tuples import Pair

import drl_cli
from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_smoke_test import sampled
from drl_cli.envs.multi_agent.dictionary import DictionaryEnv
from drl_cli.errors import EnvError


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [
        ("CartPole-v1", None),
        ("drl/StatelessCartPole-v1", None),
        ("drl/MultiAgentCartPole-v1", "dictionary"),
        ("drl/TicTacToe-v1", "dictionary"),
        ("classic/connect_four-v3", "aec"),
        ("classic/rps-v2", "parallel"),
        ("mpe2/simple_spread-v3", "parallel"),
    ],
)
def test_kind_of_an_environment_is_found_by_its_id(env_id, kind):
    assert open_envs.kind_of(env_id, {}) == kind


def test_level_based_foraging_is_a_tuple_and_is_registered_when_its_id_is_asked_for(monkeypatch):
    before = set(gymnasium.registry)
    meant = make.resolve("Foraging-8x8-2p-2f-coop-v3")
    assert open_envs.kind_of(meant.id, {}) == "tuple"
    found = open_envs.check(meant.id, {}, "tuple")
    assert list(found.spaces) == ["0", "1"] and found.spaces["0"]["obs"]["shape"] == [12]
    for env_id in set(gymnasium.registry) - before:  # 1,920, among which tests of typing errors would look
        del gymnasium.registry[env_id]


class OwnParallel:
    """Written as PettingZoo's tutorial says, derived from nothing, without metadata."""

    def __init__(self, size=1, render_mode=None):
        self.possible_agents, self.agents, self.size = ["l", "r"], [], size

    def observation_space(self, agent):
        return gymnasium.spaces.Box(-1, 1, (self.size,), np.float32)

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self._of_all(np.zeros(self.size, np.float32)), self._of_all({})

    def _of_all(self, value):
        return dict.fromkeys(self.agents, value)

    def step(self, actions):
        obs, no = self._of_all(np.zeros(self.size, np.float32)), self._of_all(False)
        return obs, self._of_all(1.0), no, no, self._of_all({})


def test_own_environment_is_opened_under_the_name_it_is_registered_with():
    drl_cli.register_env("OwnParallel-v0", OwnParallel, max_episode_steps=3)
    drl_cli.register_env("OwnByConfig", lambda config: OwnParallel(config["size"]))
    assert open_envs.kind_of("OwnParallel-v0", {}) == open_envs.kind_of("OwnByConfig", {"size": 2}) == "dictionary"
    found = open_envs.check("OwnByConfig", {"size": 2}, "dictionary")
    assert found.spaces["l"]["obs"]["shape"] == [2] and found.state == 0 and not found.is_turn_based
    env = open_envs.open_env("OwnParallel-v0", {}, "dictionary")
    step = env.reset(0)
    for _ in range(3):
        assert not step.is_over
        step = env.step(dict.fromkeys(step.acting(), np.int64(0)))
    assert step.is_over and step.truncated == {"l", "r"}


def test_own_pettingzoo_class_is_opened_in_either_form():
    class Derived(OwnParallel, pettingzoo.ParallelEnv):
        metadata = {"name": "derived"}
        render_mode = None

    drl_cli.register_env("Derived-v0", Derived)
    assert open_envs.kind_of("Derived-v0", {}) == "parallel"
    for kind, acting in [("parallel", ["l", "r"]), ("aec", ["l"])]:
        env = open_envs.open_env("Derived-v0", {}, kind)
        assert env.reset(0).acting() == acting and env.is_turn_based == (kind == "aec")


def test_gymnasium_environment_with_tuples_or_names_of_agents_has_several():
    class OwnDictionary(Scripted, gymnasium.Env):
        def __init__(self):
            super().__init__({"a": 0})

    drl_cli.register_env("OwnTuple-v0", Pair)
    drl_cli.register_env("OwnDictionary-v0", OwnDictionary)
    assert open_envs.kind_of("OwnTuple-v0", {}) == "tuple"
    assert open_envs.kind_of("OwnDictionary-v0", {}) == "dictionary"
    assert open_envs.open_env("OwnTuple-v0", {}, "tuple").reset(0).acting() == ["0", "1"]
    assert open_envs.open_env("OwnDictionary-v0", {}, "dictionary").reset(0).acting() == ["a"]


def test_spaces_that_the_algorithm_cannot_use_name_the_agent():
    with pytest.raises(EnvError) as caught:
        open_envs.check("mpe2/simple_spread-v3", {}, "parallel", 1, table.find("TD3"), None, {"Discrete": "PPO, DQN"})
    assert str(caught.value).startswith("mpe2/simple_spread-v3: agent 'agent_0': TD3 needs a continuous action space")
    found = open_envs.check(
        "mpe2/simple_spread-v3", {"continuous_actions": True, "N": 2}, "parallel", 1, table.find("TD3")
    )
    assert list(found.spaces) == ["agent_0", "agent_1"] and found.state == 24 and found.spaces["agent_0"]["frames"] == 1


@pytest.mark.parametrize(
    ("env_id", "env_config", "kind", "text"),
    [
        ("mpe2/simple_spread-v3", {"nn": 3}, "parallel", "env_config.nn: mpe2/simple_spread-v3 takes no such argument."),
        ("drl/MultiAgentCartPole-v1", {"num_agents": 0}, "dictionary", "num_agents 0 must be a whole number from 1 on"),
        ("atari/pong-v3", {}, "parallel", "multi_agent_ale_py, which is not installed. Run: pip install 'pettingzoo[atari]'"),
    ],
)  # fmt: skip
def test_environment_that_cannot_be_made_says_why(env_id, env_config, kind, text):
    with pytest.raises(EnvError) as caught:
        open_envs.check(env_id, env_config, kind)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ([({"a": 1}, {"a": float("nan")}, {}, {})], "step raised FloatingPointError: agent 'a': its reward is nan"),
        ([({"a": 1}, {"a": "much"}, {}, {})], "agent 'a': its reward is 'much'; one number is needed"),
        ([({"q": 1}, {}, {}, {})], "agent 'q' is not among the environment's agents"),
        ([({"a": [1, 2]}, {}, {}, {})], "agent 'a': an observation of shape (1, 2); its space says (1,)"),
    ],
)
def test_steps_that_cannot_be_learnt_from_name_the_agent(script, text):
    drl_cli.register_env("Broken-v0", lambda env_config: Scripted({"a": 0}, *script))
    with pytest.raises(EnvError) as caught:
        open_envs.check("Broken-v0", {}, "dictionary")
    assert str(caught.value).startswith("Broken-v0: ") and text in str(caught.value)


def test_what_was_filled_in_during_the_trial_is_noted():
    script = [({"a": 1}, {}, {"b": True}, {}), ({"a": 1, "b": 1}, {}, {}, {}), ({}, {}, {"__all__": True}, {})] * 2
    drl_cli.register_env("Returning-v0", lambda env_config: Scripted({"a": 0, "b": 0}, *script))
    (note,) = open_envs.check("Returning-v0", {}, "dictionary").notes
    assert note.startswith("agent 'b' came back after its end")


def test_sampled_actions_are_legal_and_any_where_nothing_is():
    spaces = {"obs": {}, "action": {"kind": "Discrete", "n": 3, "start": 2}, "mask": [1, 3]}
    rng = np.random.default_rng(0)
    assert {int(sampled(spaces, np.array([9, 0, 1, 0]), rng)) for _ in range(20)} == {3}
    assert {int(sampled(spaces, np.array([9, 0, 0, 0]), rng)) for _ in range(50)} == {2, 3, 4}


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(-2, 3, (2,), np.float32),
        gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32),
        gymnasium.spaces.MultiDiscrete([2, 3], start=[1, 5]),
        gymnasium.spaces.MultiBinary(4),
    ],
)
def test_sampled_actions_are_in_their_space(space):
    env = DictionaryEnv(type("Acting", (Scripted,), {"action_space": space})({"a": 0}))
    rng = np.random.default_rng(0)
    assert all(space.contains(sampled(env.spaces("a"), np.zeros(1), rng)) for _ in range(20))


@pytest.mark.parametrize("env_id", ["butterfly/cooperative_pong-v6"])
def test_images_are_prepared_as_the_plan_says(env_id):
    plan = {"frames": 4, "dim": 42, "grayscale": True, "atari": None, "scale_bytes": False, "fresh_after": 0}
    env = open_envs.open_env(env_id, {}, "parallel", preprocessing=plan)
    obs = env.reset(0).obs["paddle_0"]
    assert obs.shape == (42, 42, 1) and obs.dtype == np.uint8 and env.spaces("paddle_0")["obs"]["shape"] == [42, 42, 1]


@pytest.mark.parametrize(
    ("env_id", "kind"), [("Foraging-5x5-2p-1f-v3", "tuple"), ("scripted_module:Two-v0", "dictionary")]
)
def test_worker_that_resolved_no_id_opens_what_a_package_or_module_registers(env_id, kind, tmp_path):
    code = (
        "import drl_cli, numpy as np, gymnasium\nclass Two:\n    possible_agents = ['a', 'b']\n"
        "    observation_space = gymnasium.spaces.Box(0, 1, (1,))\n    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, seed=None):\n        return {'a': np.zeros(1), 'b': np.zeros(1)}, {}\n"
        "drl_cli.register_env('Two-v0', Two)\n"
    )
    (tmp_path / "scripted_module.py").write_text(code)
    opened = f"open_envs.open_env({env_id!r}, {{}}, {kind!r})"
    asked = f"from drl_cli.envs.multi_agent import open_envs; print(len({opened}.reset(0).obs))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2", done.stderr
