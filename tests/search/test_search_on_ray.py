"""Whole searches on Ray Tune, with the smallest runs there are: ARS for a few iterations, without TensorFlow."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from drl_cli import cli, events
from drl_cli.experiments import search_spec
from drl_cli.runs import search_download
from drl_cli.search import run_search
from drl_cli.search.search_record import Record
from drl_cli.stop_request import StopCondition

pytestmark = pytest.mark.ray

TINY = "{num_rollouts: 2, rollouts_used: 2, num_envs_per_worker: 1, timesteps_per_iteration: 1, min_iter_time_s: 0}"
FLAGS = {"run": "ARS", "env": "CartPole-v1", "config": TINY, "set": ["evaluation_interval=null", "seed=3"]}


class Request(StopCondition):
    """Becomes true when a test sets ``exit_code``."""

    exit_code = 0

    def __bool__(self):
        return self.exit_code != 0


def rows(path):
    return [json.loads(line)["training_iteration"] for line in (path / "result.json").read_text().splitlines()]


def test_search_writes_a_file_that_reproduces_its_score(search_ray, tmp_path, capsys):
    typed = ["--run", "ARS", "--env", "CartPole-v1", "--config", TINY, "--local-dir", str(tmp_path), "--json", "-q"]
    typed += ["-s", "evaluation_interval=null", "--stop", "training_iteration=3"]
    typed += ["-s", "env_config={sutton_barto_reward: {grid_search: [false, true]}}"]
    best = tmp_path / "best.yaml"
    code = cli.main(
        ["train", *typed, "--num-samples", "1", "--write", str(best), "--write-top", "1", "--write-seeds", "1"]
    )
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    end = told[-1]["search"]
    assert (end["state"], len(end["ranking"]), end["written"]) == ("finished", 2, str(best))
    assert end["ranking"][0]["values"] == {"env_config.sutton_barto_reward": False}
    (score,) = end["rescored"][0]["scores"]
    assert yaml.safe_load(best.read_text())["default"]["config"]["env_config"] == {"sutton_barto_reward": False}
    assert cli.main(["train", "-f", str(best), "--local-dir", str(tmp_path / "again"), "--json", "-q"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-2]["episode_reward_mean"] == score


def test_search_that_was_stopped_goes_on_where_it_was(search_ray, tmp_path):
    flags = {**FLAGS, "stop": ["training_iteration=6"], "local_dir": str(tmp_path), "imports": []}
    wishes = {"scheduler": "ASHA", "scheduler_config": "{grace_period: 6}", "num_samples": 2}
    wishes["resources_per_trial"] = (
        "{cpu: 2}"  # as many as there are: the second has not begun when the search is stopped
    )
    found = search_spec.read(None, flags, wishes)
    record, request = Record.new(found.data), Request()

    def listen(kind, fields):
        if kind == "trial" and (fields.get("result") or {}).get("training_iteration") == 2:
            request.exit_code = 130

    unsubscribe = events.subscribe(listen)
    try:
        outcome = run_search.run(record, request, "drl train")
    finally:
        unsubscribe()
    assert (outcome.state, outcome.exit_code) == ("interrupted", 130)
    stopped = Record.read(record.path)
    assert stopped.state == "interrupted"
    begun = [trial for trial in stopped.trials.values() if trial.get("run_folder")]
    assert begun and all(trial["state"] in ("interrupted", "finished") for trial in begun)

    outcome = run_search.run(stopped, Request(), "drl train")
    assert (outcome.state, outcome.exit_code) == ("finished", 0)
    folders = [Path(trial["run_folder"]) for trial in stopped.trials.values()]
    assert [rows(folder) for folder in folders] == [[1, 2, 3, 4, 5, 6]] * 2
    # What had rows when the search was stopped went on in its folder.
    assert {trial["run_folder"] for trial in begun if trial.get("result")} <= {str(folder) for folder in folders}


@pytest.mark.slow
def test_search_goes_on_from_its_storage_where_its_folder_is_lost(search_ray, tmp_path):
    flags = {**FLAGS, "stop": ["training_iteration=4"], "local_dir": str(tmp_path / "lost"), "imports": []}
    flags |= {"storage_path": str(tmp_path / "store"), "checkpoint_freq": 1}
    record, request = Record.new(search_spec.read(None, flags, {"num_samples": 2}).data), Request()

    def listen(kind, fields):
        if kind == "trial" and (fields.get("result") or {}).get("training_iteration") == 2:
            request.exit_code = 130

    unsubscribe = events.subscribe(listen)
    try:
        assert run_search.run(record, request, "drl train").state == "interrupted"
    finally:
        unsubscribe()
    shutil.rmtree(tmp_path / "lost")
    here = search_download.resumable(f"file://{tmp_path}/store/default", tmp_path / "here")
    fetched = Record.read(here)
    begun = {
        number: rows(Path(trial["run_folder"])) for number, trial in fetched.trials.items() if "run_folder" in trial
    }
    assert run_search.run(fetched, Request(), "drl train") == run_search.SearchOutcome("finished", 0)
    for trial in fetched.trials.values():
        folder = Path(trial["run_folder"])
        assert folder.parent == tmp_path / "here" / "default" and rows(folder) == [1, 2, 3, 4]
        assert rows(tmp_path / "store" / "default" / folder.name) == [1, 2, 3, 4]
    assert begun and all(found[0] == 1 for found in begun.values())
    assert Record.read(tmp_path / "store" / "default" / here.name).state == "finished"
    assert not (tmp_path / "lost").exists()


def test_trial_whose_process_is_killed_goes_on_from_its_checkpoint_and_costs_no_other(search_ray, tmp_path):
    flags = {
        **FLAGS,
        "stop": ["training_iteration=8"],
        "local_dir": str(tmp_path),
        "imports": [],
        "checkpoint_freq": 1,
    }
    found = search_spec.read(None, flags, {"num_samples": 2, "max_failures": 1})
    record, killed = Record.new(found.data), []

    def listen(kind, fields):
        row = fields.get("result") or {}
        if kind == "trial" and fields["trial"] == 0 and row.get("training_iteration", 0) >= 3 and not killed:
            killed.append(int(row["pid"]))
            os.kill(killed[0], signal.SIGKILL)

    unsubscribe = events.subscribe(listen)
    try:
        outcome = run_search.run(record, Request(), "drl train")
    finally:
        unsubscribe()
    assert (outcome.state, outcome.exit_code, len(killed)) == ("finished", 0, 1)
    assert [(trial["state"], trial.get("failures")) for trial in record.trials.values()] == [
        ("finished", 1),
        ("finished", None),
    ]
    assert rows(Path(record.trials[0]["run_folder"])) == list(range(1, 9))
    assert len(list((tmp_path / "default").glob(f"ARS_*_{found.data['id']}_00000_*"))) == 1


def test_trial_that_asks_for_more_than_ray_has_is_refused_at_once(search_ray, tmp_path):
    flags = {**FLAGS, "local_dir": str(tmp_path), "imports": []}
    found = search_spec.read(None, flags, {"num_samples": 2, "resources_per_trial": "{cpu: 5}"})
    with pytest.raises(run_search.InputError) as caught:
        run_search.run(Record.new(found.data), Request(), "drl train")
    assert "trial 0 asks for 5 CPU, Ray has 2. Lower num_workers or --resources-per-trial" in str(caught.value)
