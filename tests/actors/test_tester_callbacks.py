"""Callbacks while the tester plays, evaluations of one's own in it, and callbacks of evolution workers."""

import math
import re

import pytest
from evolved import ENV as CARTPOLE_ENV
from evolved import IDENTITY
from evolved import config as evolution_config
from evolved import parts as evolution_parts
from parts import server, spec, weights
from scripted_envs import HIGH, LOW, Scripted
from watched_callbacks import Noting

from drl_cli.actors import tester as testers
from drl_cli.actors.custom_evaluation import problems, register_evaluation
from drl_cli.actors.evolution_worker import EvolutionWorker
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.algorithms.sac import SACConfig
from drl_cli.errors import ConfigError, InputError, PluginFailed
from drl_cli.evolution.directions import Block

pytestmark = [pytest.mark.usefixtures("plug_ins"), pytest.mark.process]
SPEC = spec(2, (LOW,), (HIGH,))
ENV = {"id": "Scripted-v0", "env_config": {}, "imports": (), "horizon": None, "explore": False}
PLAN = [{"ends": (2, "terminated")}, {"ends": (1, "truncated")}]


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    monkeypatch.setattr(Noting, "heard", [])
    return Noting.heard


def playing(*plan, **env):
    Scripted.begin(*plan)
    handle = server()
    handle.call("push", {"default_policy": weights(SPEC)}, True)
    return testers.Tester(ENV | env, SPEC, handle)


def evaluated(function, *plan, seeds=(4, 5)):
    register_evaluation("tried", function)
    return playing(*plan, custom_eval_function="tried").evaluate_otherwise(1, list(seeds))


def test_hooks_see_the_testers_episodes_and_their_metrics_come_with_them(monkeypatch):
    seen = []
    monkeypatch.setattr(Noting, "on_episode_start", lambda self, *, episode, **more: seen.append(episode.in_evaluation))
    monkeypatch.setattr(
        Noting, "on_episode_step", lambda self, *, episode, **more: seen.append(episode.last_obs.tolist())
    )
    assert playing(*PLAN, callbacks="noting").evaluate(1, [8, 9]) == [
        ScoredEpisode(1.0, 2, 8, True, {"last": 1.0}, {"lengths": [2.0, 0.0]}),
        ScoredEpisode(100.0, 1, 9, False, {"last": 100.0}, {"lengths": [1.0, 0.0]}),
    ]
    assert seen == [True, True, [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]]


def test_hooks_change_no_score():
    assert [one[:4] for one in playing(*PLAN, callbacks="noting").evaluate(1, [8, 9])] == [
        one[:4] for one in playing(*PLAN).evaluate(1, [8, 9])
    ]


def test_a_function_gets_policy_environments_and_seeds_and_its_metrics_are_taken():
    def function(evaluation):
        env = evaluation.make_env()
        env.reset(seed=1)
        first = evaluation.play(evaluation.seeds[:1])
        assert (evaluation.episodes, evaluation.env_id, evaluation.horizon) == (2, "Scripted-v0", None)
        assert evaluation.policy.spec is SPEC and env.observation_space.shape == (2,)
        return evaluation.summary(first) | {"of": {"made": Scripted.made, "odd": math.nan}, "flat": True}

    assert evaluated(function, {}, {"ends": (2, "terminated")}) == {
        "episode_reward_mean": 201.0,
        "episode_reward_max": 201.0,
        "episode_reward_min": 201.0,
        "episode_len_mean": 2.0,
        "episodes_this_iter": 1,
        "episodes_cut": 0,
        "of": {"made": 2, "odd": None},
        "flat": True,
    }


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda evaluation: {"mine": 1.0},
            r"returned no episode_reward_mean: stop rules.*test_tester_callbacks.py:\d+\)",
        ),
        (lambda evaluation: [1.0], "returned list; it must return a dict of metrics"),
        (lambda evaluation: {"episode_reward_mean": math.nan}, "returned no episode_reward_mean"),
        (
            lambda evaluation: {"episode_reward_mean": 1, "timesteps_total": 3},
            "'timesteps_total', which the tester sets itself",
        ),
        (lambda evaluation: {"episode_reward_mean": 1, "how": "well"}, "'how' is 'well'; it must be a number"),
        (lambda evaluation: 1 / 0, r"failed: ZeroDivisionError: division by zero \(.*test_tester_callbacks.py:\d+\)"),
    ],
)
def test_what_a_function_may_not_say_ends_the_run_in_one_line(function, text):
    with pytest.raises(PluginFailed, match=f"custom_eval_function 'tried'.* ?{text}") as caught:
        evaluated(function)
    assert "\n" not in str(caught.value)


def test_an_unknown_evaluation_is_refused_before_the_run_with_the_nearest():
    register_evaluation("by_angle", len)
    (line,) = problems(SACConfig(custom_eval_function="by_angel"))
    assert re.match("custom_eval_function: No evaluation is registered as 'by_angel'. Did you mean 'by_angle'?", line)
    with pytest.raises(ConfigError, match="No evaluation is registered as 'by_angel'"):
        playing(custom_eval_function="by_angel").evaluate_otherwise(1, [1])
    with pytest.raises(InputError, match="register_evaluation: '3' cannot be called"):
        register_evaluation("three", 3)


def test_a_length_in_timesteps_and_a_function_exclude_one_another():
    register_evaluation("by_angle", len)
    config = SACConfig(custom_eval_function="by_angle", evaluation_duration_unit="timesteps")
    assert problems(config)[0].startswith(
        "evaluation_duration_unit: timesteps counts the steps of the tester's own episodes"
    )
    assert problems(SACConfig(custom_eval_function="by_angle")) == problems(SACConfig()) == []


def test_evolution_workers_tell_hooks_of_every_episode(heard):
    made = evolution_config(callbacks="noting")
    of, _, handle = evolution_parts(made)
    worker = EvolutionWorker(made, CARTPOLE_ENV, of, IDENTITY, handle)
    told, token = (), None
    while token is None or not token.whole:
        token, results = worker.collect(1, None, Block(0, 0, 2))
        told += token.told
    lengths = sorted(results["length"].ravel().tolist())
    assert sorted(int(hist["lengths"][0]) for _, hist in told) == lengths and len(told) == 4
    assert [one[0] for one in heard].count("step") == sum(lengths) and worker.state()[1] == {
        "callbacks": {"steps": sum(lengths)}
    }
    assert sorted(length for what, _, length, _ in heard if what == "end") == lengths
    worker.close()
