"""The parts of the checkpoint policy: waiting after a failed save, the best checkpoint. Whole runs: tests/experiments."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli import checkpoints
from drl_cli.config.result_names import EVALUATION_REWARD
from drl_cli.errors import Overdue
from drl_cli.runs import run_folder
from drl_cli.runs.best_checkpoint import BestCheckpoint, MadeFor
from drl_cli.runs.checkpoint_policy import CheckpointPolicy, CheckpointSettings, Retry


def test_retry_doubles_its_delay_up_to_half_an_hour_and_begins_anew_after_a_success():
    now = {"s": 0.0}
    retry = Retry(lambda: now["s"])
    assert not retry.is_waiting
    assert [retry.failed() for _ in range(7)] == [60.0, 120.0, 240.0, 480.0, 960.0, 1800.0, 1800.0]
    now["s"] = 1799.0
    assert retry.is_waiting
    now["s"] = 1800.0
    assert not retry.is_waiting
    retry.succeeded()
    assert retry.failed() == 60.0


@pytest.fixture
def folder(tmp_path):
    made = run_folder.create(tmp_path, "default", "SAC", "Pendulum-v1")
    yield made
    made.close()


def save(folder, number):
    with checkpoints.Writer(folder.path, number) as writer:
        checkpoints.write_arrays(writer.folder / "weights.safetensors", {"w": np.zeros(1, np.float32)})
        return writer.commit({})


def evaluation(number, mean, confirmed=None):
    return {"training_iteration": number, "episode_reward_mean": mean, "confirmed_reward_mean": confirmed}


def best_of(folder, started_at=-1):
    return BestCheckpoint(folder, True, started_at, lambda tidy: tidy())


def test_evaluation_counts_once_and_by_its_confirmed_mean(folder):
    best = best_of(folder, started_at=2)
    assert not best.is_improved_by({"evaluation": evaluation(2, 9.0)})  # from before the start
    assert best.is_improved_by({"evaluation": evaluation(3, 9.0, 5.0)})
    assert not best.is_improved_by({"evaluation": evaluation(3, 9.0, 5.0)})
    best.compare_again()
    assert best.is_improved_by({"evaluation": evaluation(3, 9.0, 5.0)})
    best.record(save(folder, 3), evaluation(3, 9.0, 5.0), EVALUATION_REWARD, MadeFor.BEST_ONLY, [])
    assert (best.path.name, best.value) == ("checkpoint_000003", 5.0)
    assert not best.is_improved_by({"evaluation": evaluation(4, 4.9)})
    assert best.is_improved_by({"evaluation": evaluation(5, 5.0)})  # a tie goes to the newer


def test_checkpoint_made_only_for_being_the_best_goes_with_a_better_one_and_stays_once_kept(folder):
    best, first, second, third = best_of(folder), save(folder, 1), save(folder, 2), save(folder, 3)
    best.record(first, evaluation(1, 1.0), EVALUATION_REWARD, MadeFor.BEST_ONLY, [])
    best.record(second, evaluation(2, 2.0), EVALUATION_REWARD, MadeFor.BEST_ONLY, [])
    assert not first.exists()
    best.keep(second)
    assert json.loads((folder.path / "best.json").read_text())["only_best"] is False
    best.record(third, evaluation(3, 3.0), EVALUATION_REWARD, MadeFor.OWN_REASON, [])
    assert second.exists() and best.path == third


def test_resumed_run_knows_that_its_best_is_ahead(folder):
    best_of(folder).record(save(folder, 4), evaluation(4, 7.0), EVALUATION_REWARD, MadeFor.BEST_ONLY, [])
    resumed = best_of(folder, started_at=3)
    resumed.take_over(3)
    assert (resumed.path.name, resumed.value, resumed.ahead) == ("checkpoint_000004", 7.0, 4)
    resumed = best_of(folder, started_at=4)
    resumed.take_over(4)
    assert resumed.ahead is None


def test_stop_with_nothing_to_save_says_so_once(folder, heard):
    def save(run_folder, reason):
        raise Overdue("Nothing is saved: nothing was learnt yet.")

    opening = SimpleNamespace(folder=folder, rows=[], start=None, exact=False)
    policy = CheckpointPolicy(CheckpointSettings(1, None, EVALUATION_REWARD, True), opening, SimpleNamespace(save=save))
    result = {"training_iteration": 1, "episode_reward_mean": None, "evaluation": {}}
    policy.after(result)
    assert policy.final(result) is False and policy.is_overdue
    assert [fields["text"] for kind, fields in heard if kind == "warning"] == [
        "Nothing is saved: nothing was learnt yet."
    ]
