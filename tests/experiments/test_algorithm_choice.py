"""What a command without --run gets: which algorithm and keys, for which facts, and what it says of them."""

import gymnasium
import numpy as np
import odd_envs  # noqa: F401  registers environments
import pytest

from drl_cli import events
from drl_cli.errors import ConfigError, EnvError
from drl_cli.experiments import algorithm_choice, run_records, search_spec, spec
from drl_cli.experiments.algorithm_choice import EnvTraits, Episode

CUT, FELL, REACHED = Episode(-35.0, 999, False), Episode(-240.0, 90, True), Episode(90.0, 300, True)
HOLD = {"exploration_config.hold_steps": 8, "learning_starts": 8000, "gamma": 0.999}
FILTER = {"observation_filter": "MeanStdFilter"}


@pytest.fixture
def said():
    """The lines about choices and the notices that are reported during the test."""
    texts = []
    kinds = ("choice", "notice")
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind in kinds else None)
    yield texts
    unsubscribe()


@pytest.mark.parametrize(
    ("seen", "run", "keys"),
    [
        (EnvTraits(several=True, unlimited=True), "PPO", {}),
        (EnvTraits("MultiDiscrete"), "PPO", {}),
        (EnvTraits("MultiBinary"), "PPO", {}),
        (EnvTraits("Discrete"), "PPO", {}),
        (EnvTraits("Discrete", step_s=0.005), "DQN", {}),
        (EnvTraits("Discrete", step_s=0.005, cores=2), "DQN", {"remote_worker_envs": True}),
        (EnvTraits("Discrete", sees_images=True, limit=1000), "PPO", {}),
        (EnvTraits("Box", sees_images=True), "PPO", {}),
        (EnvTraits("Discrete", unlimited=True), "PPO", {"horizon": 1000}),
        (EnvTraits("Discrete", limit=1000), "PPO", {"gamma": 0.997}),
        (EnvTraits("Discrete", spread=(0.3, 1.5)), "PPO", {}),
        (EnvTraits("Discrete", spread=(0.1, 0.6)), "PPO", FILTER),
        (EnvTraits("Discrete", spread=(1.0, 300.0)), "PPO", FILTER),
        (EnvTraits("Discrete", episodes=[FELL] * 3), "PPO", {"reward_scaling": True}),
        (EnvTraits("Discrete", episodes=[Episode(0.01, 5, True)]), "PPO", {"reward_scaling": True}),
        (EnvTraits("Discrete", episodes=[Episode(0.0, 5, True)]), "PPO", {}),
        (EnvTraits("Discrete", one_hot=True), "PPO", {"lr": 0.002, "entropy_coeff": 0.03}),
        (EnvTraits("Discrete", limit=1000, at_end=True), "PPO", {"lambda": 1.0, "gamma": 0.999}),
        (EnvTraits("Box", at_end=True, one_hot=True), "SAC", {}),
        (EnvTraits("Box", spread=(0.1, 5.0), episodes=[FELL]), "SAC", {}),
        (EnvTraits("Box", spread=(1.0, 300.0)), "SAC", FILTER),
        (EnvTraits("Box", reward_size=5000.0), "SAC", {"reward_scaling": True}),
        (EnvTraits("Box", reward_size=1e-4), "SAC", {"reward_scaling": True}),
        (EnvTraits("Box", reward_size=0.0), "SAC", {}),
        (EnvTraits("Box", limit=1000, episodes=[FELL]), "PPO", {"reward_scaling": True, "gamma": 0.997}),
        (EnvTraits("Box", limit=1000, step_s=0.001, episodes=[FELL]), "SAC", {}),
        (EnvTraits("Box", limit=200, episodes=[FELL]), "SAC", {}),
        (EnvTraits("Box", step_s=0.05), "CROSSQ", {}),
        (EnvTraits("Box", episodes=[CUT] * 3, held=[CUT, REACHED]), "SAC", HOLD),
        (EnvTraits("Box", episodes=[CUT] * 3, held=[CUT, Episode(-90.0, 300, True)]), "SAC", {}),
        (EnvTraits("Box", episodes=[CUT, REACHED], held=[CUT, REACHED]), "SAC", {}),
        (EnvTraits("Box", episodes=[CUT] * 3, held=[CUT] * 3), "SAC", {}),
    ],
)
def test_choice_follows_from_what_is_seen(seen, run, keys):
    choice = algorithm_choice.choose(seen)
    assert (choice.run, {name: value for name, (value, _) in choice.keys.items()}) == (run, keys)
    assert choice.why and all(why for _, why in choice.keys.values())


def test_algorithm_that_lacks_the_typed_keys_gives_way_to_the_next():
    choice = algorithm_choice.choose(EnvTraits("Discrete"), lambda name: name == "DQN")
    assert (choice.run, choice.why) == ("DQN", "which has the keys that were given; PPO does not")
    assert algorithm_choice.choose(EnvTraits("Discrete"), lambda name: False).run == "PPO"


def test_command_without_run_says_what_was_chosen_and_runs_it(said):
    typed = ["drl", "train", "--env", "CliffWalking-v1", "--plan", "-s", "lr=0.001"]
    one = spec.from_flags({"env": "CliffWalking-v1", "set": ["lr=0.001"], "command": typed})
    first, second, third = said[:3]
    assert first.startswith("No --run given: PPO, for discrete actions and cheap steps (")
    assert second.startswith("Keys: horizon=1000 (no time limit), reward_scaling=true (random returns near -")
    assert third == (
        "The same: drl train --run PPO --env CliffWalking-v1 -s lr=0.001 -s horizon=1000 -s reward_scaling=true "
        "-s entropy_coeff=0.03"
    )
    params = run_records.params(one)
    assert (params["run"], params["config"]["horizon"], params["config"]["reward_scaling"]) == ("PPO", 1000, True)
    assert one.origins["run"] == one.origins["config.horizon"] == "chosen for the environment"
    assert one.origins["config.lr"] == "-s"


def test_failure_in_random_play_is_reported_beside_the_choice(said, monkeypatch):
    seen = EnvTraits("Discrete", failure="ended after 7 steps with ValueError: odd")
    monkeypatch.setattr(algorithm_choice, "look", lambda *_: seen)
    assert spec.from_flags({"env": "CliffWalking-v1"}).run == "PPO"
    assert said[0].startswith("Random play of CliffWalking-v1 ended after 7 steps with ValueError: odd; ")


def test_command_that_it_names_runs_the_same_without_choosing(said):
    words = {"env": "CliffWalking-v1", "set": ["seed=100"]}
    chosen = spec.from_flags(words)
    said.clear()
    keys = ["horizon=1000", "reward_scaling=true", "lr=0.002", "entropy_coeff=0.03"]
    pasted = spec.from_flags({**words, "run": "PPO", "set": ["seed=100", *keys]})
    assert (pasted.run, pasted.config) == (chosen.run, chosen.config)
    assert not any("No --run" in text for text in said)


@pytest.mark.parametrize(
    "words",
    [
        {"set": ["horizon=50"]},
        {"config": '{"horizon": 50}'},
        {"config": '{"env": "CliffWalking-v1", "horizon": 50}', "env": None},
    ],
)
def test_typed_keys_win_over_chosen_ones(words, said):
    one = spec.from_flags({"env": "CliffWalking-v1", **words})
    assert (one.run, one.config.horizon, one.config.reward_scaling) == ("PPO", 50, True)
    assert "horizon" not in said[1] and not any("replaces" in text for text in said)


def test_typed_key_in_a_spelling_of_rllib_wins_too():
    typed = ["num_steps_sampled_before_learning_starts=500"]
    one = spec.from_flags({"env": "MountainCarContinuous-v0", "set": typed})
    assert (one.run, one.config.learning_starts, one.config.exploration_config.hold_steps) == ("SAC", 500, 8)


def test_typed_keys_of_another_algorithm_choose_it(said):
    one = spec.from_flags({"env": "CliffWalking-v1", "set": ["buffer_size=5000"]})
    assert (one.run, one.config.buffer_size, one.config.horizon) == ("DQN", 5000, 1000)


def test_search_without_run_chooses_once_for_all_of_its_trials(said):
    found = search_spec.read(
        None, {"env": "CliffWalking-v1", "set": ["horizon={grid_search: [20, 30]}"]}, {"num_samples": 1}
    )
    assert [(one.run, one.config.horizon, one.config.reward_scaling) for one in found.specs] == [
        ("PPO", 20, True),
        ("PPO", 30, True),
    ]
    assert said[0].startswith("No --run given: PPO")


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        (
            {"env": "CliffWalkin-v1"},
            ConfigError,
            "There is no environment 'CliffWalkin-v1'. Did you mean 'CliffWalking-v1'",
        ),
        (
            {"env": "CliffWalking-v1", "set": ["horizn=5"]},
            ConfigError,
            "horizn: unknown key (-s). Did you mean 'horizon'?",
        ),
        ({"env": "CliffWalking-v1", "restore": "/nowhere"}, ConfigError, "run is missing (the command)"),
        ({"env": "CliffWalking-v1", "set": ["input=/nowhere"]}, ConfigError, "run is missing (the command)"),
        ({"env": "Odd-dictaction-v0"}, EnvError, "Odd-dictaction-v0: PPO needs a Box, Discrete, MultiDiscrete or"),
    ],
)
def test_command_for_which_nothing_can_be_chosen_is_refused(words, error, text):
    with pytest.raises(error) as caught:
        spec.from_flags(words)
    assert str(caught.value).startswith(text) and "\n" not in str(caught.value)


class Swing(gymnasium.Env):
    """Reached its goal once all of the last six actions pointed to one side; observations grow large."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.signs = 0, []
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.at += 1
        self.signs = [*self.signs, np.sign(action[0])][-7:]
        is_there = len(self.signs) == 7 and abs(sum(self.signs)) == 7 and len(set(np.round(self.signs))) == 1
        return np.full(2, 100.0 * self.at, np.float32), 50.0 if is_there else -1.0, is_there, False, {}


def test_play_sees_limits_scales_and_what_held_actions_reach():
    env = gymnasium.wrappers.TimeLimit(Swing(), 20)
    seen = algorithm_choice.played(env, 20)
    assert (seen.action, seen.sees_images, seen.unlimited, seen.limit) == ("Box", False, False, 20)
    assert len(seen.episodes) == len(seen.held) == 8
    assert all(one.terminated and one.length < 9 for one in seen.held)
    assert seen.spread is not None and seen.spread[1] > 100 and 0 < seen.step_s < 1


class Walk(gymnasium.Env):
    """Sixteen places in a row, shown one-hot; ``pays(place, ends)`` is the reward."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (16,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pays):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = 8, 0
        return np.eye(16, dtype=np.float32)[self.at], {}

    def step(self, action):
        self.at, self.steps = int(np.clip(self.at + 2 * action - 1, 0, 15)), self.steps + 1
        ends = self.steps == 20
        return np.eye(16, dtype=np.float32)[self.at], self.pays(self.at, ends), ends, False, {}


@pytest.mark.parametrize(
    ("pays", "at_end"),
    [
        (lambda place, ends: float(place) * ends, True),
        (lambda place, ends: 1.0 * ends, False),
        (lambda place, ends: float(place), False),
        (lambda place, ends: 0.0, False),
    ],
)
def test_play_sees_one_hot_observations_and_rewards_that_come_last(pays, at_end):
    seen = algorithm_choice.played(gymnasium.wrappers.TimeLimit(Walk(pays), 30), 30)
    assert (seen.one_hot, seen.at_end) == (True, at_end)
    assert not algorithm_choice.played(gymnasium.wrappers.TimeLimit(Swing(), 20), 20).one_hot


def test_environment_that_fails_in_random_play_still_gets_a_choice():
    class Failing(Swing):
        def step(self, action):
            raise RuntimeError("no")

    seen = algorithm_choice.played(Failing(), None)
    assert (seen.action, seen.unlimited, seen.episodes) == ("Box", True, [])
    assert seen.failure == "ended after 0 steps with RuntimeError: no"
    assert algorithm_choice.choose(seen).run == "SAC"
