"""One trial without Ray: real run folders around a Trainer that trains nothing."""

import json
import math

import pytest
import searches
from searches import METRIC

from drl_cli.errors import Diverged, RunFailed
from drl_cli.runs import loggers, retention
from drl_cli.search.trial import POINTER, TrialRun


@pytest.fixture(autouse=True)
def plan(tmp_path):
    searches.plan.clear()
    searches.plan |= {"local_dir": tmp_path, "script": {n: {"evaluation": 10.0 * n} for n in range(1, 20)}}
    return searches.plan


@pytest.fixture
def make(tmp_path):
    made = []

    def trial(number=0, lr=0.5):
        made.append(
            TrialRun(searches.data(), searches.point(number, lr), tmp_path / "stop", searches.spec_of, searches.steps)
        )
        return made[-1]

    yield trial
    for one in made:
        one.end()


def folders(tmp_path, number=0):
    return sorted((tmp_path / "cartpole").glob(f"*_abc12_{number:05d}_*"))


def state(folder):
    return json.loads((folder / "status.json").read_text())["state"]


def iterations(folder):
    return [row["training_iteration"] for row in loggers.read_rows(folder)]


def test_steps_are_iterations_and_the_last_says_how_it_ended(make, tmp_path):
    run = make()
    rows = [run.step() for _ in range(3)]
    assert [row["training_iteration"] for row in rows] == [1, 2, 3]
    assert [row.get("done", False) for row in rows] == [False, False, True]
    assert [row[METRIC] for row in rows] == [10.0, 20.0, 30.0]
    assert (rows[2]["state"], rows[2]["text"]) == ("finished", "training_iteration 3 reached 3")
    assert rows[2]["run_folder"] == str(folders(tmp_path)[0])


def test_trial_leaves_the_files_of_a_single_run(make, tmp_path):
    run = make()
    while not run.step().get("done"):
        pass
    names = {path.name for path in folders(tmp_path)[0].iterdir()}
    assert {"params.json", "result.json", "progress.csv", "status.json", "best.json", "checkpoint_000003"} <= names


def test_metric_is_nan_before_it_is_known(make, plan):
    plan["script"] = {3: {"evaluation": 5.0}}
    row = make().step()
    assert math.isnan(row[METRIC])


def test_trial_that_is_ended_from_outside_saves_and_closes(make, tmp_path):
    run = make()
    run.step()
    run.end()
    folder = folders(tmp_path)[0]
    assert state(folder) == "finished"
    assert retention.newest_valid(folder)[0].number == 1


def test_stop_file_ends_the_trial_before_another_iteration(make, tmp_path):
    run = make()
    run.step()
    run._request._looked = 0.0
    (tmp_path / "stop").touch()
    row = run.step()
    assert (row["done"], row["state"], row["training_iteration"]) == (True, "interrupted", 1)
    assert state(folders(tmp_path)[0]) == "interrupted"


def test_trial_that_has_not_begun_when_the_search_stops_opens_nothing(make, tmp_path):
    (tmp_path / "stop").touch()
    row = make().step()
    assert (row["done"], row["state"], row["text"]) == (True, "interrupted", "not started")
    assert folders(tmp_path) == []


def test_second_attempt_goes_on_in_the_same_folder(make, tmp_path):
    first = make()
    first.step()
    (tmp_path / "stop").touch()
    first._request._looked = 0.0
    first.step()
    (tmp_path / "stop").unlink()
    second = make()
    row = second.step()
    assert row["training_iteration"] == 2
    assert len(folders(tmp_path)) == 1 and iterations(folders(tmp_path)[0]) == [1, 2]


def test_second_attempt_at_a_finished_run_only_reports_it(make, tmp_path, plan):
    run = make()
    while not run.step().get("done"):
        pass
    row = make().step()
    assert (row["done"], row["state"], row["training_iteration"]) == (True, "finished", 3)
    assert len(plan["made"]) == 1 and len(folders(tmp_path)) == 1


def test_attempt_without_a_checkpoint_starts_anew(make, tmp_path, plan):
    plan["start_error"] = Diverged("mean_q is not finite")
    with pytest.raises(RunFailed):
        make().step()
    plan["start_error"] = None
    assert make().step()["training_iteration"] == 1
    assert len(folders(tmp_path)) == 2


def test_failure_is_raised_in_the_words_of_the_run_without_advice(make, plan):
    plan["start_error"] = Diverged("mean_q is not finite")
    with pytest.raises(RunFailed) as caught:
        make().step()
    assert str(caught.value) == "mean_q is not finite"


def test_saved_trial_is_closed_and_goes_on_where_it_was(make, tmp_path):
    run = make()
    run.step()
    run.save(tmp_path)
    pointer = json.loads((tmp_path / POINTER).read_text())
    assert pointer == {"trial": 0, "path": str(folders(tmp_path)[0] / "checkpoint_000001")}
    assert state(folders(tmp_path)[0]) == "interrupted"
    other = make()  # in another process
    other.copy_from(tmp_path)
    assert other.step()["training_iteration"] == 2
    assert iterations(folders(tmp_path)[0]) == [1, 2]


def test_copy_of_another_trial_is_a_new_run_from_its_checkpoint(make, tmp_path, plan):
    first = make(0, lr=0.5)
    first.step()
    first.step()
    first.save(tmp_path)
    second = make(1, lr=0.6)
    second.copy_from(tmp_path)
    row = second.step()
    assert row["training_iteration"] == 3
    params = json.loads((folders(tmp_path, 1)[0] / "params.json").read_text())
    assert params["config"]["lr"] == 0.6
    assert params["restore"] == str(folders(tmp_path, 0)[0] / "checkpoint_000002")


def test_attempt_with_changed_values_starts_a_new_run_from_the_old_checkpoint(make, tmp_path):
    first = make(0, lr=0.5)
    first.step()
    first.save(tmp_path)
    again = make(0, lr=0.6)
    assert again.step()["training_iteration"] == 2
    assert len(folders(tmp_path)) == 2


def test_save_that_the_disk_refuses_is_a_failure(make, tmp_path, monkeypatch):
    run = make()
    run.step()
    monkeypatch.setattr(run, "_moment", type("Moment", (), {"save": staticmethod(lambda: None)})())
    with pytest.raises(RunFailed) as caught:
        run.save(tmp_path)
    assert str(caught.value) == "trial 0: no checkpoint could be written"
