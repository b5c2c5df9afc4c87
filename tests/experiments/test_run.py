import contextlib
import dataclasses
import errno
import json
import os
import shlex

import pytest
from experiment_fakes import SPACES, Config, Spec, StopRequest, left, trainer

from drl_cli import checkpoints, plugins
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.result_names import Goal
from drl_cli.errors import (
    CheckpointError,
    ConfigError,
    Diverged,
    EnvError,
    Overdue,
    ResourcesExhausted,
    RunFolderError,
)
from drl_cli.experiments import run as driving
from drl_cli.runs import find, loggers, retention, run_folder
from drl_cli.runs.loggers.custom_loggers import register_logger
from drl_cli.runs.stop_rules import parse_requirements


def drive(spec, made=None, request=None, clock=lambda: 0.0):
    request = StopRequest() if request is None else request
    return driving.run(spec, request, made or trainer(), clock)


def unfinished(local_dir):
    """The folder that --resume without a name means."""
    return find.find_unfinished(local_dir, "default")


def status(outcome):
    return json.loads((outcome.run_folder / "status.json").read_text())


def best(outcome):
    return json.loads((outcome.run_folder / "best.json").read_text())


def iterations(outcome):
    return [row["training_iteration"] for row in loggers.read_rows(outcome.run_folder)]


def fields(heard, kind):
    return [fields for name, fields in heard if name == kind]


def evaluations(*values, reward=None):
    return {i: {"evaluation": value, "reward": reward} for i, value in enumerate(values, 1)}


def test_run_without_any_checkpoint_setting_leaves_a_final_and_a_best(tmp_path):
    made = trainer(evaluations(5.0, 9.0, 7.0))
    outcome = drive(Spec(tmp_path), made)
    assert (outcome.state, outcome.exit_code, outcome.text) == ("finished", 0, "training_iteration 3 reached 3")
    assert left(outcome.run_folder) == {2: False, 3: True}
    assert (outcome.best.name, outcome.final.name) == ("checkpoint_000002", "checkpoint_000003")
    assert (best(outcome)["checkpoint"], best(outcome)["value"]) == ("checkpoint_000002", 9.0)
    assert retention.find(outcome.run_folder) == outcome.best
    assert made.made[0].calls == ["start", ("best", 1), ("best", 2), ("final", 3), "close"]


def test_run_writes_every_file_a_user_is_promised(tmp_path, heard):
    outcome = drive(Spec(tmp_path), trainer(evaluations(1.0, 2.0, 3.0)))
    names = {path.name for path in outcome.run_folder.iterdir()}
    expected = {"params.json", "result.json", "progress.csv", "versions.json", "drl.log", "events.jsonl"}
    assert expected | {"status.json", "best.json", "checkpoint_000003", ".lock"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert outcome.run_folder.parent == tmp_path / "default"
    assert outcome.run_folder.name.startswith("SAC_Pendulum-v1_0_")
    assert iterations(outcome) == [1, 2, 3]
    assert [row["done"] for row in loggers.read_rows(outcome.run_folder)] == [False, False, True]
    assert status(outcome)["state"] == "finished" and status(outcome)["checkpoint"] == "checkpoint_000003"
    (ended,) = fields(heard, "finished")
    assert ended["final"].endswith("checkpoint_000003") and ended["best"].endswith("checkpoint_000003")
    recorded = [json.loads(line)["kind"] for line in (outcome.run_folder / "events.jsonl").read_text().splitlines()]
    assert recorded[0] == "run" and recorded[-1] == "finished" and "result" not in recorded
    assert not run_folder.is_locked(outcome.run_folder)


def test_run_records_where_its_values_came_from(tmp_path):
    outcome = drive(Spec(tmp_path))
    recorded = json.loads((outcome.run_folder / "provenance.json").read_text())
    assert recorded == {"from": {"run": "--run", "config.gamma": "-s"}}


def test_run_that_looks_stuck_says_so_and_the_journal_keeps_it(tmp_path, heard):
    spec = Spec(tmp_path, stop={"training_iteration": 3}, config=Config(horizon=100))
    outcome = drive(spec, trainer())  # its results tell of no episode
    assert [f["name"] for f in fields(heard, "diagnosis")] == ["no episode"]
    recorded = [json.loads(line) for line in (outcome.run_folder / "events.jsonl").read_text().splitlines()]
    assert [line["name"] for line in recorded if line["kind"] == "diagnosis"] == ["no episode"]


def test_trainer_gets_the_goal(tmp_path):
    made = trainer()
    spec = Spec(tmp_path, stop={"evaluation/episode_reward_mean": 200, "training_iteration": 1})
    drive(spec, made)
    (run,) = (tmp_path / "default").iterdir()
    env = {**spec.env_facts, "imports": (), "plugins": plugins.registered(), "videos": str(run / "videos")}
    assert made.made[0].given == ("SAC", spec.config, env, Goal("evaluation/episode_reward_mean", 200))


def test_demand_that_is_missed_ends_a_finished_run_with_4(tmp_path):
    asked = parse_requirements(["episode_reward_mean>=200", "training_iteration>=2"])
    script = {3: {"reward": 150.0}}
    outcome = drive(Spec(tmp_path, demands=asked), trainer(script))
    assert (outcome.state, outcome.exit_code) == ("finished", 4)
    assert outcome.text.endswith(", but episode_reward_mean is 150; required >= 200")
    assert drive(Spec(tmp_path, demands=asked), trainer({3: {"reward": 200.0}})).exit_code == 0


def test_periodic_checkpoints_keep_only_the_newest_replay(tmp_path):
    outcome = drive(Spec(tmp_path, checkpoint_freq=2, stop={"training_iteration": 5}))
    assert left(outcome.run_folder) == {2: False, 4: False, 5: True}


def test_last_checkpoint_without_a_replay_leaves_the_one_before_its_own(tmp_path):
    made = trainer({3: {"replay": False}})  # a stop gave it no time
    outcome = drive(Spec(tmp_path, checkpoint_freq=2, stop={"training_iteration": 3}), made)
    assert left(outcome.run_folder) == {2: True, 3: False}


def test_final_that_was_just_saved_is_not_saved_again(tmp_path, heard):
    made = trainer()
    drive(Spec(tmp_path, checkpoint_freq=1, stop={"training_iteration": 2}), made)
    assert made.made[0].calls == ["start", ("periodic", 1), ("periodic", 2), "close"]
    assert [(f["training_iteration"], f["reason"], f["replay"]) for f in fields(heard, "checkpoint")] == [
        (1, "periodic", True),
        (2, "periodic", True),
    ]


def test_best_ties_go_to_the_newer_and_a_superseded_best_goes(tmp_path):
    outcome = drive(Spec(tmp_path, stop={"training_iteration": 4}), trainer(evaluations(5.0, 5.0, 4.0)))
    assert outcome.best.name == "checkpoint_000002"
    assert left(outcome.run_folder) == {2: False, 4: True}


def test_best_of_an_iteration_with_a_periodic_checkpoint_is_that_one(tmp_path):
    made = trainer(evaluations(1.0, 9.0, 2.0))
    outcome = drive(Spec(tmp_path, checkpoint_freq=2), made)
    assert ("best", 2) not in made.made[0].calls
    assert best(outcome)["checkpoint"] == "checkpoint_000002" and best(outcome)["only_best"] is False


def test_best_prefers_the_confirmed_mean(tmp_path):
    script = {1: {"evaluation": 300.0, "confirmed": 150.0}, 2: {"evaluation": 160.0}}
    outcome = drive(Spec(tmp_path), trainer(script))
    assert (outcome.best.name, best(outcome)["value"]) == ("checkpoint_000002", 160.0)


def test_each_best_is_reported_as_best_json_has_it(tmp_path, heard):
    script = {1: {"evaluation": 300.0, "confirmed": 150.0}, 2: {"evaluation": 160.0}}
    outcome = drive(Spec(tmp_path), trainer(script))
    told = fields(heard, "best")
    assert [(f["checkpoint"], f["value"]) for f in told] == [("checkpoint_000001", 150.0), ("checkpoint_000002", 160.0)]
    assert told[-1] == {name: best(outcome)[name] for name in told[-1]}


def test_best_without_evaluation_is_the_training_mean_every_tenth_iteration_and_at_the_end(tmp_path):
    script = {i: {"reward": float(i)} for i in range(1, 26)}
    made = trainer(script)
    spec = Spec(tmp_path, config=Config(evaluation_interval=None), stop={"training_iteration": 25})
    outcome = drive(spec, made)
    assert [call for call in made.made[0].calls if call[0] == "best"] == [("best", 1), ("best", 11), ("best", 21)]
    assert best(outcome)["checkpoint"] == "checkpoint_000025" and best(outcome)["metric"] == "episode_reward_mean"
    assert left(outcome.run_folder) == {25: True}


def test_run_that_ends_before_any_evaluation_names_its_final_the_best(tmp_path):
    outcome = drive(Spec(tmp_path), trainer({3: {"reward": 4.0}}))
    assert (best(outcome)["checkpoint"], best(outcome)["value"]) == ("checkpoint_000003", 4.0)


def test_keep_checkpoints_num_keeps_the_best_by_score_and_the_newest(tmp_path):
    script = {i: {"reward": value} for i, value in enumerate([5.0, 9.0, 1.0, 8.0, 2.0], 1)}
    spec = Spec(tmp_path, checkpoint_freq=1, keep_checkpoints_num=2, stop={"training_iteration": 5})
    spec = dataclasses.replace(spec, checkpoint_score_attr="episode_reward_mean")
    outcome = drive(spec, trainer(script))
    assert left(outcome.run_folder) == {2: False, 4: False, 5: True}


def test_goal_ends_the_run_at_the_touch_or_after_it_was_held(tmp_path, heard):
    goal = {"evaluation/episode_reward_mean": 200, "training_iteration": 50}
    script = evaluations(100.0, 210.0, 205.0, 195.0, 300.0)
    assert drive(Spec(tmp_path, stop=goal), trainer(script)).result["training_iteration"] == 2
    assert fields(heard, "held") == []
    outcome = drive(Spec(tmp_path, stop=goal, config=Config(evaluation_hold=2)), trainer(script))
    assert outcome.result["training_iteration"] == 4
    assert fields(heard, "goal")[1]["metric"] == "evaluation/episode_reward_mean"
    assert fields(heard, "goal")[1]["value"] == 210.0
    assert fields(heard, "held") == [{"target": 200, "value": 200.0, "evaluations": 2}]
    assert outcome.text.endswith("210 reached 200, and held 200 over 2 more evaluations")


def test_other_stops_count_while_the_goal_is_held(tmp_path, heard):
    goal = {"evaluation/episode_reward_mean": 200, "training_iteration": 3}
    spec = Spec(tmp_path, stop=goal, config=Config(evaluation_hold=5))
    outcome = drive(spec, trainer(evaluations(210.0, 211.0, 213.0)))
    assert outcome.text == "training_iteration 3 reached 3"
    assert fields(heard, "held")[0]["value"] == 212.0


def test_evaluation_is_reported_once_though_every_result_repeats_it(tmp_path, heard):
    drive(Spec(tmp_path, stop={"training_iteration": 4}), trainer({2: {"evaluation": 3.0}}))
    assert [f["training_iteration"] for f in fields(heard, "evaluation")] == [2]


def test_missed_pass_criteria_end_with_exit_code_4(tmp_path):
    outcome = drive(Spec(tmp_path, pass_criteria={"episode_reward_mean": 10.0}), trainer({3: {"reward": 9.5}}))
    assert outcome.exit_code == 4 and "is 9.5; required >= 10.0" in outcome.text


@pytest.mark.parametrize(("code", "name"), [(130, "SIGINT"), (143, "SIGTERM"), (129, "SIGHUP")])
def test_signal_saves_and_tells_the_resume_command(tmp_path, code, name):
    request = StopRequest()
    made = trainer({2: {"do": lambda: setattr(request, "exit_code", code), "evaluation": 1.0}})
    outcome = drive(Spec(tmp_path / "with blank"), made, request)
    assert (outcome.state, outcome.exit_code) == ("interrupted", code)
    assert outcome.final.name == "checkpoint_000002" and left(outcome.run_folder) == {2: True}
    assert name in outcome.text and f"drl train --resume '{outcome.run_folder}'" in outcome.text
    assert status(outcome)["state"] == "interrupted"
    assert made.made[0].calls[-1] == "close"


def test_stop_that_cannot_wait_for_a_save_is_no_failure_and_keeps_what_there_is(tmp_path, heard):
    request = StopRequest()
    made = trainer({3: {"do": lambda: setattr(request, "exit_code", 143)}}, fail={2: Overdue("the learner is busy")})
    outcome = drive(Spec(tmp_path, checkpoint_freq=2, stop={"training_iteration": 9}), made, request)
    assert (outcome.state, outcome.exit_code, outcome.final.name) == ("interrupted", 143, "checkpoint_000002")
    assert "the learner is busy" in [f["text"] for f in fields(heard, "warning")]


class EndsProcesses(StopRequest):
    """Keeps what is to be called before it would end the process."""

    REST_S = 4.0

    def before_exit(self, act):
        self.act = act
        return lambda: None

    @contextlib.contextmanager
    def starting(self):
        self.is_starting = True
        yield
        self.is_starting = False


def test_run_whose_process_is_ended_at_once_is_interrupted_and_says_what_was_not_saved(tmp_path, heard):
    request = EndsProcesses()
    codes = []
    made = trainer({4: {"do": lambda: codes.append(request.act(2, False))}})
    drive(Spec(tmp_path, checkpoint_freq=2, stop={"training_iteration": 4}), made, request)
    assert codes == [130] and request.is_starting is False
    told = fields(heard, "finished")[0]
    assert (told["state"], told["exit_code"]) == ("interrupted", 130)
    assert told["text"].startswith(
        "ended at once by SIGINT: what was learnt since iteration 2 was not saved. Last good"
    )
    assert told["final"].endswith("checkpoint_000002")


def test_run_that_ends_while_its_process_is_ended_is_reported_once_and_leaves_no_half_record(tmp_path, heard):
    request, made = EndsProcesses(), trainer({3: {"do": lambda: request.act(2, False)}})
    outcome = drive(Spec(tmp_path), made, request)
    assert [told["text"].split(":")[0] for told in fields(heard, "finished")] == ["ended at once by SIGINT"]
    assert status(outcome)["state"] == "interrupted"


def test_run_whose_last_save_never_ends_is_recorded_as_interrupted_before_it(tmp_path):
    request, recorded = EndsProcesses(), []

    def seen_by_the_disk(folder):
        recorded.append(json.loads((folder / "status.json").read_text())["state"])
        raise OSError("the process ends here")

    def ends_late():
        made.made[0].save_at_hand = seen_by_the_disk
        request.act(15, True)

    made = trainer({2: {"do": ends_late}})
    drive(Spec(tmp_path), made, request)
    assert recorded == ["interrupted"]


def test_signal_before_training_saves_nothing(tmp_path):
    request = StopRequest()
    request.exit_code = 130
    made = trainer()
    outcome = drive(Spec(tmp_path), made, request)
    assert (outcome.exit_code, outcome.final, outcome.best) == (130, None, None)
    assert left(outcome.run_folder) == {} and made.made[0].calls == ["start", "close"]


def raises(error):
    def do():
        raise error

    return {"do": do}


def test_failed_run_names_the_last_good_checkpoint_and_saves_no_other(tmp_path, heard):
    script = {**evaluations(1.0, 2.0), 3: raises(Diverged("critic_loss is not finite"))}
    made = trainer(script)
    outcome = drive(Spec(tmp_path, checkpoint_freq=2), made)
    assert (outcome.state, outcome.exit_code) == ("failed", 3)
    assert outcome.text.startswith("critic_loss is not finite\nLast good checkpoint: ")
    assert f"drl train --resume {outcome.run_folder}" in outcome.text
    assert left(outcome.run_folder) == {2: True} and made.made[0].calls[-1] == "close"
    assert fields(heard, "finished")[0]["state"] == "failed" and status(outcome)["exit_code"] == 3


def test_start_that_fails_is_an_outcome_with_the_code_of_its_error(tmp_path):
    made = trainer(start_error=EnvError("reset raised ValueError"))
    outcome = drive(Spec(tmp_path), made)
    assert (outcome.state, outcome.exit_code) == ("failed", 2) and made.made[0].calls == ["start", "close"]
    assert "Nothing was saved" in outcome.text


def test_bug_is_logged_with_its_traceback_and_raised(tmp_path, heard):
    with pytest.raises(ZeroDivisionError):
        drive(Spec(tmp_path), trainer({2: raises(ZeroDivisionError("oops"))}))
    (run,) = (tmp_path / "default").iterdir()
    assert "ZeroDivisionError: oops" in (run / "drl.log").read_text()
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    assert not run_folder.is_locked(run)


def test_machine_out_of_files_or_memory_is_exit_code_5(tmp_path):
    for error in (OSError(errno.EMFILE, "Too many open files"), MemoryError()):
        assert drive(Spec(tmp_path), trainer({2: raises(error)})).exit_code == 5


@pytest.mark.parametrize("code", ["EIO", "EROFS", "ESTALE", "EFBIG"])
def test_disk_that_fails_in_the_middle_of_a_run_is_exit_code_5_and_named(tmp_path, code):
    error = OSError(getattr(errno, code), os.strerror(getattr(errno, code)), "/a/file")
    outcome = drive(Spec(tmp_path), trainer({2: raises(error)}))
    assert outcome.exit_code == 5 and "/a/file" in outcome.text


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, ResourcesExhausted), (errno.EIO, RunFolderError)])
def test_record_that_cannot_be_written_at_the_start_is_5_where_the_disk_is_full(
    tmp_path, monkeypatch, number, expected
):
    def write(folder, name, data):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_folder.RunFolder, "write", write)
    with pytest.raises(expected, match="params.json: cannot be written") as caught:
        drive(Spec(tmp_path), trainer())
    assert type(caught.value) is expected


FULL = OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_keeps_training_and_tries_again_after_1_2_4_minutes(tmp_path, heard):
    minutes = iter(range(10_000))
    clock = {"now": 0.0}
    script = {i: {"do": lambda: clock.update(now=60.0 * next(minutes))} for i in range(1, 13)}
    made = trainer(script, fail={1: FULL, 2: FULL, 3: FULL})
    spec = Spec(tmp_path, checkpoint_freq=1, stop={"training_iteration": 12})
    outcome = driving.run(spec, StopRequest(), made, lambda: clock["now"])
    saves = [number for reason, number in made.made[0].calls[1:-1]]
    assert saves == [1, 2, 4, 8, 9, 10, 11, 12]
    assert outcome.exit_code == 0
    assert [f["text"].split("; ")[1] for f in fields(heard, "checkpoint_failed")] == [
        "trying again in 1 min",
        "trying again in 2 min",
        "trying again in 4 min",
    ]


def test_disk_that_is_full_for_a_part_in_another_process_keeps_training_too(tmp_path, heard):
    made = trainer(fail={1: ResourcesExhausted("replay: this machine ran out of disk space: No space left on device")})
    outcome = drive(Spec(tmp_path, checkpoint_freq=1, stop={"training_iteration": 3}), made)
    assert (outcome.exit_code, left(outcome.run_folder)) == (0, {3: True})
    assert "ran out of disk space" in fields(heard, "checkpoint_failed")[0]["text"]


def test_final_that_cannot_be_written_is_exit_code_5_and_earlier_ones_stay(tmp_path, heard):
    made = trainer(fail={2: FULL})
    outcome = drive(Spec(tmp_path, checkpoint_freq=2), made)
    assert outcome.exit_code == 5 and outcome.text.startswith("the final checkpoint could not be written")
    assert left(outcome.run_folder) == {2: True}
    assert outcome.final.name == "checkpoint_000002"
    assert "earlier ones are untouched" in fields(heard, "checkpoint_failed")[0]["text"]


def test_final_that_cannot_be_written_names_the_one_before_though_it_cannot_be_read_either(tmp_path, monkeypatch):
    def unreadable(*_):
        raise CheckpointError("Too many open files")

    class NoFiles(trainer(fail={2: FULL})):
        def save(self, run_folder, reason="periodic"):
            if self.saves == 1:
                monkeypatch.setattr(retention, "newest_valid", unreadable)
            return super().save(run_folder, reason)

    outcome = drive(Spec(tmp_path, checkpoint_freq=2), NoFiles)
    assert "Last good checkpoint" in outcome.text and "checkpoint_000002" in outcome.text


def test_best_that_could_not_be_written_is_tried_again(tmp_path):
    made = trainer({1: {"evaluation": 5.0}}, fail={1: FULL})
    times = iter(range(0, 100_000, 100))
    outcome = drive(Spec(tmp_path), made, clock=lambda: next(times))
    assert outcome.best.name == "checkpoint_000001" and left(outcome.run_folder) == {1: False, 3: True}


def test_best_that_comes_while_a_failed_save_waits_is_saved_afterwards(tmp_path):
    seconds = {"now": 0.0}
    script = {i: {"do": lambda i=i: seconds.update(now=25.0 * i)} for i in range(1, 7)}
    script[2]["evaluation"] = 5.0
    spec = Spec(tmp_path, checkpoint_freq=1, stop={"training_iteration": 6})
    outcome = driving.run(spec, StopRequest(), trainer(script, fail={1: FULL}), lambda: seconds["now"])
    assert (best(outcome)["checkpoint"], best(outcome)["value"]) == ("checkpoint_000002", 5.0)


def test_full_disk_never_lets_the_best_point_to_nothing(tmp_path):
    made = trainer(evaluations(5.0, 6.0, 1.0), fail={2: FULL})
    outcome = drive(Spec(tmp_path), made)
    assert best(outcome)["checkpoint"] == "checkpoint_000001" and outcome.best.name == "checkpoint_000001"


def interrupted(spec, script, at=3):
    request = StopRequest()
    script = {**script, at: {**script.get(at, {}), "do": lambda: setattr(request, "exit_code", 130)}}
    return drive(spec, trainer(script), request)


def test_resume_goes_on_in_the_folder_with_joined_logs(tmp_path, heard):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    first = interrupted(spec, evaluations(5.0, 9.0, 1.0))
    made = trainer({5: {"evaluation": 7.0}, 6: {"evaluation": 20.0}})
    second = drive(dataclasses.replace(spec, resume=unfinished(tmp_path)), made)
    assert second.run_folder == first.run_folder
    assert made.made[0].calls[:2] == [("restore", 3, True), "start"]
    assert iterations(second) == [1, 2, 3, 4, 5, 6]
    assert (second.best.name, second.exit_code) == ("checkpoint_000006", 0)
    assert left(second.run_folder) == {3: False, 6: True}
    assert "resuming" in fields(heard, "notice")[0]["text"]
    versions = json.loads((second.run_folder / "versions.json").read_text())
    assert [entry["iteration"] for entry in versions["resumed"]] == [3]
    with pytest.raises(RunFolderError, match="no unfinished run"):
        drive(dataclasses.replace(spec, resume=unfinished(tmp_path)))


def test_resume_of_a_finished_run_trains_nothing_and_says_what_to_raise(tmp_path, heard):
    spec = Spec(tmp_path, stop={"training_iteration": 3})
    first = drive(spec, trainer(evaluations(5.0, 9.0, 1.0)))
    before = {path.name: path.read_bytes() for path in first.run_folder.iterdir() if path.is_file()}
    made = trainer()
    second = drive(dataclasses.replace(spec, resume=first.run_folder), made)
    assert made.made == [] and (second.state, second.exit_code) == ("finished", 0)
    assert second.text.startswith(
        "training_iteration 3 reached 3 already, so nothing was trained. To train on, raise it: "
    )
    assert shlex.split(second.text)[-6:] == [
        "drl", "train", "--resume", str(first.run_folder), "--stop", "training_iteration=N",
    ]  # fmt: skip
    assert (second.final, second.best) == (first.final, first.best)
    after = {path.name: path.read_bytes() for path in first.run_folder.iterdir() if path.is_file()}
    assert {name for name in before if before[name] != after[name]} <= {".lock"}
    assert not run_folder.is_locked(first.run_folder)


def test_resume_of_a_finished_run_with_a_higher_stop_goes_on(tmp_path):
    first = drive(Spec(tmp_path, stop={"training_iteration": 3}))
    second = drive(Spec(tmp_path, stop={"training_iteration": 5}, resume=first.run_folder))
    assert iterations(second) == [1, 2, 3, 4, 5]


def test_resume_of_a_run_whose_goal_was_held_is_over_though_its_last_evaluation_is_lower(tmp_path):
    spec = Spec(tmp_path, config=Config(evaluation_hold=1), stop={"evaluation/episode_reward_mean": 8.0})
    first = drive(spec, trainer(evaluations(5.0, 9.0, 1.0)))
    second = drive(dataclasses.replace(spec, resume=first.run_folder), trainer())
    assert second.text.startswith("evaluation/episode_reward_mean 9 reached 8")
    assert "--stop evaluation/episode_reward_mean=N" in second.text


def test_resume_of_a_finished_run_holds_its_last_result_against_the_demands(tmp_path):
    first = drive(Spec(tmp_path, stop={"training_iteration": 3}))
    asked = Spec(tmp_path, demands=parse_requirements(["training_iteration>=9"]), resume=first.run_folder)
    second = drive(asked)
    assert second.exit_code == 4 and "training_iteration is 3; required >= 9" in second.text


def test_resume_without_a_name_takes_the_newest_run_that_can_go_on(tmp_path):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    older = interrupted(spec, {})
    drive(spec, trainer(start_error=Diverged("x")))  # newer, failed before its first checkpoint
    assert drive(dataclasses.replace(spec, resume=unfinished(tmp_path))).run_folder == older.run_folder
    with pytest.raises(RunFolderError, match="failed, without a checkpoint to continue from") as caught:
        drive(dataclasses.replace(spec, resume=unfinished(tmp_path)))
    assert "drl train --resume ID --stop FIELD=N" in str(caught.value)


def test_resume_reports_the_curve_the_evaluation_the_checkpoint_and_the_best_that_the_run_has(tmp_path, heard):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    first = interrupted(spec, evaluations(5.0, 9.0, 1.0))
    heard.clear()
    drive(dataclasses.replace(spec, resume=unfinished(tmp_path)), trainer({}))
    history = fields(heard, "history")[0]
    assert len(history["rewards"]) == 3 and history["result"]["training_iteration"] == 3
    assert history["result"]["evaluation"]["episode_reward_mean"] == 1.0
    assert history["checkpoint"]["path"] == str(first.run_folder / "checkpoint_000003")
    assert min(history["seconds_ago"].values()) >= 0 and history["best"]["value"] == 9.0
    assert (fields(heard, "best")[0]["checkpoint"], fields(heard, "best")[0]["value"]) == ("checkpoint_000002", 9.0)
    assert "history" not in (first.run_folder / "drl.log").read_text()
    assert "history" not in (first.run_folder / "events.jsonl").read_text()


def test_resume_keeps_the_earlier_best_when_nothing_better_comes(tmp_path):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    interrupted(spec, evaluations(5.0, 9.0, 1.0))
    second = drive(dataclasses.replace(spec, resume=unfinished(tmp_path)), trainer({5: {"evaluation": 7.0}}))
    assert (second.best.name, best(second)["value"]) == ("checkpoint_000002", 9.0)
    assert left(second.run_folder) == {2: False, 3: False, 6: True}


@pytest.mark.parametrize("text", ["{", '{"checkpoint": "../../elsewhere", "value": 1.0, "only_best": true}', "[]"])
def test_resume_with_a_damaged_best_file_warns_and_makes_a_new_one(tmp_path, heard, text):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    first = interrupted(spec, evaluations(5.0, 9.0, 1.0))
    (first.run_folder / "best.json").write_text(text)
    second = drive(dataclasses.replace(spec, resume=unfinished(tmp_path)), trainer({5: {"evaluation": 7.0}}))
    assert any("the best checkpoint so far cannot be used" in f["text"] for f in fields(heard, "warning"))
    assert (second.exit_code, second.best.name) == (0, "checkpoint_000005")


def test_resume_skips_a_damaged_checkpoint_and_tells_what_is_lost(tmp_path, heard):
    spec = Spec(tmp_path, checkpoint_freq=1, stop={"training_iteration": 6})
    spec = dataclasses.replace(spec, config=Config(evaluation_interval=None, store_buffer_in_checkpoints=False))
    first = interrupted(spec, {})
    (first.run_folder / "checkpoint_000003" / "state.json").write_text("{}")
    made = trainer()
    second = drive(dataclasses.replace(spec, resume=first.run_folder), made)
    assert made.made[0].calls[0] == ("restore", 2, True)
    assert iterations(second) == [1, 2, 3, 4, 5, 6]
    told = [f["text"] for f in fields(heard, "notice")]
    assert "checkpoint_000003/state.json: has 2 bytes" in told[0]
    assert told[1].endswith("from checkpoint_000002; 1 iterations after it are lost")


def test_resume_beyond_which_lies_the_best_never_overwrites_it_with_a_worse_one(tmp_path):
    config = SACConfig(evaluation_interval=1, num_workers=0, store_buffer_in_checkpoints=True)
    spec = Spec(tmp_path, config, checkpoint_freq=2, stop={"training_iteration": 8})
    first = interrupted(spec, {2: {"evaluation": 1.0}}, at=2)
    assert first.best.name == "checkpoint_000002"
    with checkpoints.Writer(first.run_folder, 4) as writer:  # the best of iteration 4, whose whole twin was never saved
        checkpoints.write_json(writer.folder / "state.json", {})
        writer.commit({})
    data = {**best(first), "checkpoint": "checkpoint_000004", "value": 50.0, "training_iteration": 4}
    (first.run_folder / "best.json").write_text(json.dumps(data))
    made = trainer({4: {"evaluation": 7.0}})
    second = drive(dataclasses.replace(spec, resume=first.run_folder), made)
    assert made.made[0].calls[:2] == [("restore", 2, True), "start"]
    assert made.made[0].calls[2:-1] == [("periodic", 5), ("periodic", 6), ("periodic", 8)]
    assert (second.best.name, best(second)["value"]) == ("checkpoint_000004", 50.0)


def test_resume_with_other_settings_is_refused_with_both_values(tmp_path):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    first = interrupted(spec, {})
    other = dataclasses.replace(spec, config=Config(gamma=0.5, num_workers=4), resume=unfinished(tmp_path))
    with pytest.raises(ConfigError, match=r"config.gamma: 0.99 → 0.5") as caught:
        drive(other)
    assert "num_workers" not in str(caught.value)
    assert not run_folder.is_locked(first.run_folder)
    changed = dataclasses.replace(
        spec, config=Config(num_workers=4), stop={"training_iteration": 4}, resume=unfinished(tmp_path)
    )
    assert drive(changed).result["training_iteration"] == 4


def test_resume_without_any_checkpoint_is_refused(tmp_path):
    first = drive(Spec(tmp_path), trainer(start_error=Diverged("x")))
    with pytest.raises(CheckpointError, match="holds no usable checkpoint"):
        drive(Spec(tmp_path, resume=first.run_folder))


def test_restore_starts_a_new_run_whose_counters_go_on(tmp_path):
    first = drive(Spec(tmp_path), trainer(evaluations(1.0, 9.0, 2.0)))
    made = trainer()
    spec = Spec(tmp_path, restore=first.run_folder, stop={"training_iteration": 5})
    second = drive(spec, made)
    assert second.run_folder != first.run_folder
    assert made.made[0].calls[0] == ("restore", 2, False)
    assert iterations(second) == [3, 4, 5] and second.final.name == "checkpoint_000005"
    assert left(first.run_folder) == {2: False, 3: True}


def test_restore_of_a_damaged_checkpoint_leaves_no_run_behind(tmp_path):
    first = drive(Spec(tmp_path))
    (first.final / "weights.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="weights.safetensors"):
        drive(Spec(tmp_path, restore=first.final))
    assert list((tmp_path / "default").iterdir()) == [first.run_folder]


def test_restore_from_another_environment_leaves_no_run_behind(tmp_path):
    first = drive(Spec(tmp_path))
    other = Spec(tmp_path, restore=first.final, env_facts={"id": "Reacher-v5", "spaces": SPACES})
    with pytest.raises(CheckpointError, match="its environment is 'Pendulum-v1', this run's is 'Reacher-v5'"):
        drive(other)
    assert list((tmp_path / "default").iterdir()) == [first.run_folder]


def test_second_run_on_the_same_folder_is_refused_and_names_the_holder(tmp_path):
    spec = Spec(tmp_path, stop={"training_iteration": 6})
    first = interrupted(spec, {})
    caught = []

    def resume_twice():
        with pytest.raises(RunFolderError, match=r"another run is using this folder \(process \d+ on ") as error:
            drive(Spec(tmp_path, resume=first.run_folder))
        caught.append(error)

    drive(dataclasses.replace(spec, resume=unfinished(tmp_path)), trainer({4: {"do": resume_twice}}))
    assert len(caught) == 1


def test_done_in_a_result_ends_the_run(tmp_path):
    made = trainer(evaluations(1.0, 2.0, 3.0))

    class Ending(made):
        def train(self):
            return super().train() | {"done": self.iteration == 2}

    outcome = drive(Spec(tmp_path, config=Config(callbacks="mine")), Ending)
    assert (outcome.state, outcome.text) == ("finished", "on_train_result of the callbacks 'mine' set done")
    assert iterations(outcome) == [1, 2]


def test_loggers_by_name_get_the_results_of_a_run(tmp_path, plug_ins):
    rows = []

    class Rows:
        def __init__(self, folder, facts, resumed):
            rows.append((folder.parent, facts["run"], facts["config"]["gamma"], resumed))

        def write(self, result):
            rows.append(result["training_iteration"])

        def close(self):
            rows.append("over")

    register_logger("rows", Rows)
    outcome = drive(Spec(tmp_path, loggers=("rows",)))
    assert rows == [(tmp_path / "default", "SAC", 0.99, False), 1, 2, 3, "over"]
    assert json.loads((outcome.run_folder / "params.json").read_text())["loggers"] == ["rows"]
