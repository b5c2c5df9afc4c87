"""Callbacks in whole runs without workers: metrics in results, shaping that is learnt from, exact resumes, evaluations."""

import pytest
import watched_callbacks
from runtime_runs import SINCE_RESTORE, small_config, timeless
from watched_callbacks import Failing, Noting, Shaping

from drl_cli import checkpoints
from drl_cli.actors.custom_evaluation import register_evaluation
from drl_cli.config.result_names import EVALUATION_REWARD, Goal
from drl_cli.errors import PluginFailed
from drl_cli.runtime.driver import Driver

pytestmark = [pytest.mark.usefixtures("plug_ins", "quick_learner"), pytest.mark.process]
SHORT = {"horizon": 50, "evaluation_config": {"horizon": 20}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(Noting, "heard", [])
    monkeypatch.setattr(Shaping, "parts", [])


def results(trainer, count):
    return [timeless(trainer.train(), SINCE_RESTORE) for _ in range(count)]


def test_metrics_stand_in_results_and_in_evaluations(run):
    trainer = run("Pendulum-v1", small_config(**SHORT, callbacks="noting"))
    first, second = results(trainer, 2)
    lengths = first["hist_stats"]["lengths"]
    assert lengths[::2] == [50.0] * 4 and max(lengths[1::2]) == 200.0  # four episodes side by side: 200 steps in all
    assert sorted(first["custom_metrics"]) == ["last_max", "last_mean", "last_min"]
    assert -17 < first["custom_metrics"]["last_min"] <= first["custom_metrics"]["last_mean"] <= 0
    assert sorted(second["evaluation"]["custom_metrics"]) == ["last_max", "last_mean", "last_min"]
    assert second["evaluation"]["hist_stats"]["lengths"][::2] == [20.0, 20.0]


def test_callbacks_that_only_look_change_nothing_that_is_learnt(run):
    with_hooks = results(run("Pendulum-v1", small_config(**SHORT, callbacks="noting")), 2)
    without = results(run("Pendulum-v1", small_config(**SHORT)), 2)
    assert [row["info"] for row in with_hooks] == [row["info"] for row in without]
    assert [row["episode_reward_mean"] for row in with_hooks] == [row["episode_reward_mean"] for row in without]


def test_shaped_rewards_are_what_is_learnt_from_and_what_the_replay_holds(graph_learner, run):
    shaped = run("Pendulum-v1", small_config(**SHORT, callbacks="shaping", evaluation_interval=None))
    row = results(shaped, 3)[-1]
    stored, _ = shaped.parts.replay.handles[0].part._ring.state()
    rewards = stored["reward"][stored["reward"] != 0.0]  # rows behind ends have none
    assert 980 < rewards.min() <= rewards.max() <= 1000 and len(rewards) == 600
    assert row["info"]["learner"]["default_policy"]["mean_td_error"] > 500  # Pendulum itself pays -17 to 0 a step
    assert row["episode_reward_mean"] < 0
    assert sum(len(kept["reward"]) for kept, *_ in Shaping.parts) == 600  # every step once, drawn how often it may be


def test_a_run_that_goes_on_exactly_has_the_results_of_one_that_never_stopped(run, tmp_path):
    config = small_config(**SHORT, callbacks="noting", evaluation_interval=None)
    whole = run("Pendulum-v1", config)
    before = results(whole, 2)
    path = whole.save(tmp_path)
    after = results(whole, 2)
    resumed = run("Pendulum-v1", config, restore=(checkpoints.load(path), True))
    assert results(resumed, 2) == after
    assert (
        before[-1]["hist_stats"]["lengths"]
        == after[-1]["hist_stats"]["lengths"][: len(before[-1]["hist_stats"]["lengths"])]
    )


def test_the_drivers_object_adds_to_results_and_goes_on_with_its_state(run, tmp_path):
    config = small_config(callbacks="results", evaluation_interval=None)
    trainer = run("Pendulum-v1", config)
    first = trainer.train()
    assert (first["own"], first["done"]) == ({"results": 1}, False)
    path = trainer.save(tmp_path)
    resumed = run("Pendulum-v1", config, restore=(checkpoints.load(path), True))
    second = resumed.train()
    assert (second["own"], second["done"]) == ({"results": 2}, True)
    anew = run("Pendulum-v1", config, restore=(checkpoints.load(path), False))
    assert anew.train()["own"] == {"results": 1}


def test_a_hook_that_raises_ends_the_run(run, monkeypatch):
    monkeypatch.setattr(Failing, "after", 30)
    trainer = run("Pendulum-v1", small_config(callbacks="failing"))
    with pytest.raises(PluginFailed, match=f"on_episode_step failed: KeyError: 'motor' .{watched_callbacks.__file__}"):
        trainer.train()


def test_a_function_scores_in_the_testers_place_and_confirms_the_goal(run):
    seeds = []

    def function(evaluation):
        seeds.append(evaluation.seeds)
        return evaluation.summary(evaluation.play(evaluation.seeds[:1])) | {"height": 7.5}

    register_evaluation("height", function)
    config = small_config(**SHORT, custom_eval_function="height", evaluation_confirm_episodes=5)
    trainer = run("Pendulum-v1", config, options={"goal": Goal(EVALUATION_REWARD, -1e6)})
    evaluation = results(trainer, 2)[-1]["evaluation"]
    assert (evaluation["height"], evaluation["episodes_this_iter"], evaluation["training_iteration"]) == (7.5, 1, 2)
    assert [len(each) for each in seeds] == [2, 5] and len(set(seeds[0] + seeds[1])) == 7
    assert evaluation["confirmed_reward_mean"] < 0 and trainer.touched["target"] == -1e6


def test_without_callbacks_there_is_nothing_to_be_called(run):
    trainer = run("Pendulum-v1", small_config())
    assert isinstance(trainer, Driver) and trainer.hooks is None
    assert trainer.parts.pool.handles()[0].part._watch is None
