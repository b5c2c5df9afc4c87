"""What ``Driver.train`` returns: the fields that the schema knows, plain data, no NaN."""

import json
import math

import pytest
from runtime_runs import small_config

from drl_cli.config.result_names import RESULT_FIELDS, flatten
from drl_cli.runtime import driver as trainer_module

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]


def test_result_has_only_known_fields_and_only_plain_finite_data(graph_learner, run):
    trainer = run("Pendulum-v1", small_config())
    results = [trainer.train() for _ in range(3)]
    for result in results:
        json.dumps(result, allow_nan=False)
    unknown = {name for result in results for name in flatten(result)} - set(RESULT_FIELDS)
    assert unknown == set()
    assert all(math.isfinite(value) for value in flatten(results[2]).values() if isinstance(value, float))


def test_counters_of_a_result_count_up_over_iterations(run):
    trainer = run("Pendulum-v1", small_config())
    results = [trainer.train() for _ in range(3)]
    assert [r["training_iteration"] for r in results] == [1, 2, 3]
    assert [r["timesteps_total"] for r in results] == [200, 400, 600]
    assert [r["timesteps_this_iter"] for r in results] == [200] * 3
    assert [r["info"]["num_steps_trained"] for r in results] == [32 * r["info"]["num_updates"] for r in results]
    assert results[2]["info"]["training_intensity_asked"] == 0.4 * 32
    assert results[0]["episodes_total"] == 0
    assert (results[0]["episode_reward_mean"], results[0]["hist_stats"]["episode_reward"]) == (None, [])


def test_stop_does_not_wait_for_a_long_iteration_to_end(run, reports, monkeypatch):
    monkeypatch.setattr(trainer_module, "PATIENCE_S", 0.0)
    asked = []
    trainer = run("Pendulum-v1", small_config(timesteps_per_iteration=10_000_000), stop_requested=lambda: any(asked))
    trainer.loop.step = lambda step=trainer.loop.step: (step(), asked.append(trainer.loop.ledger.updates > 0))
    assert 0 < trainer.train()["timesteps_total"] < 5000
    assert "not bit for bit" in [fields["text"] for kind, fields in reports if kind == "warning"][-1]


def test_stop_lets_a_short_iteration_end_so_that_a_resume_is_exact(run, reports):
    asked = []
    trainer = run("Pendulum-v1", small_config(), stop_requested=lambda: bool(asked))
    while trainer.train()["info"]["num_updates"] == 0:  # the learner is loading: nobody waits for that after a stop
        continue
    before = trainer.loop.sampled
    asked.append(True)
    assert trainer.train()["timesteps_total"] == before + 200
    assert [kind for kind, _ in reports if kind == "warning"] == []


def test_iteration_without_a_least_number_of_steps_is_one_round_of_the_loop(run):
    trainer = run("Pendulum-v1", small_config(timesteps_per_iteration=0, min_iter_time_s=0))
    results = [trainer.train() for _ in range(3)]
    assert all(result["timesteps_this_iter"] > 0 for result in results)
