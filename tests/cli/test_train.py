"""``drl train`` against fakes of the spec and of the run: what it hands on, what it prints, how it ends."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import watched

from drl_cli import cli, errors, events
from drl_cli.cli import train


class SearchSpec:
    """What a run is not."""


class World:
    """The fakes: records what ``train`` hands on, and plays the part of a run."""

    def __init__(self):
        self.flags = None
        self.file = None
        self.specs = [
            SimpleNamespace(
                run="SAC",
                env="Pendulum-v1",
                config=SimpleNamespace(env_config={}),
                stop={},
                checkpoint_freq=0,
                log_format="text",
                export_formats=(),
                storage_path=None,
            )
        ]
        self.reports = []
        self.outcomes = []
        self.runs = 0
        self.meanwhile = None

    def read(self, name, flags, options):
        self.file, self.flags = name, flags
        return self.specs[0]

    def run(self, spec, stop_request):
        self.runs += 1
        self.stop_request = stop_request
        for kind, fields in self.reports:
            events.report(kind, **fields)
        if self.meanwhile:
            self.meanwhile()
        outcome = self.outcomes.pop(0) if self.outcomes else ended()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def ended(state="finished", exit_code=0, text="timesteps_total reached 5000", **changes):
    """An Outcome as ``experiments.run`` returns it."""
    fields = {"run_folder": "/r/my run", "final": "/r/my run/checkpoint_000030", "best": "/r/my run/checkpoint_000020"}
    return SimpleNamespace(state=state, exit_code=exit_code, text=text, **{**fields, **changes})


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr("drl_cli.experiments.search_spec.read", made.read)
    monkeypatch.setattr("drl_cli.experiments.search_spec.SearchSpec", SearchSpec)
    monkeypatch.setattr("drl_cli.experiments.run.run", made.run)
    monkeypatch.setattr(train.search, "resume", lambda *given: None)
    return made


def test_flags_are_handed_on_unread(world, capsys):
    typed = [
        "--run",
        "SAC",
        "--env",
        "X-v0",
        "--config",
        "<a>",
        "--stop",
        "a=1",
        "--stop",
        "{b: 2}",
        "-s",
        "gamma=.9",
        "--seed",
        "0",
    ]
    assert cli.main(["train", *typed, "--resume", "--checkpoint-freq", "0", "-vv"]) == 0
    assert world.flags == {
        "run": "SAC",
        "env": "X-v0",
        "config": "<a>",
        "stop": ["a=1", "{b: 2}"],
        "set": ["gamma=.9", "seed=0"],
        "imports": [],
        "command": ["drl", "train", *typed, "--resume", "--checkpoint-freq", "0", "-vv"],
        "strict_env": None,
        "experiment_name": None,
        "local_dir": None,
        "storage_path": None,
        "checkpoint_freq": 0,
        "checkpoint_at_end": None,
        "keep_checkpoints_num": None,
        "checkpoint_score_attr": None,
        "export_formats": None,
        "log_format": None,
        "loggers": None,
        "restore": None,
        "resume": True,
        "ray_address": None,
        "ray_num_cpus": None,
        "ray_num_gpus": None,
        "ray_object_store_memory": None,
        "asserts": None,
        "local_mode": None,
        "queue_trials": None,
        "verbose": 2,
    }


def test_file_is_handed_on_with_the_flags_beside_it(world, capsys):
    assert cli.main(["train", "-f", "tuned", "--resume=/r/x", "--strict-env"]) == 0
    assert (world.file, world.flags["resume"], world.flags["strict_env"]) == ("tuned", "/r/x", True)


def test_end_names_results_and_the_next_commands(world, capsys):
    assert cli.main(["train"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "",
        "SAC on Pendulum-v1 finished: timesteps_total reached 5000",
        "  Results   /r/my run",
        "  Best      checkpoint_000020",
        "  Final     checkpoint_000030",
        "",
        "  Play it   drl rollout '/r/my run'",
        "  Score it  drl evaluate '/r/my run'",
    ]


def test_next_commands_carry_what_the_environment_needs(world, capsys):
    world.specs[0].env = "mine:My-v0"
    cli.main(["train", "--import", "mine"])
    assert "drl rollout '/r/my run' --import mine --env mine:My-v0\n" in capsys.readouterr().out


def test_command_without_run_shows_the_choice_before_it_starts(monkeypatch, capsys):
    specs = []
    monkeypatch.setattr("drl_cli.experiments.run.run", lambda spec, request: specs.append(spec) or ended())
    monkeypatch.setattr(train.search, "resume", lambda *given: None)
    assert cli.main(["train", "--env", "CartPole-v1", "-s", "gamma=0.98"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("No --run given: PPO, for discrete actions and cheap steps (")
    assert said[1].startswith("Keys: observation_filter=MeanStdFilter (deviations from 0.0")
    pasted = "drl train --run PPO --env CartPole-v1 -s gamma=0.98 -s observation_filter=MeanStdFilter"
    assert said[2] == f"The same: {pasted}"
    assert (specs[0].run, specs[0].config.gamma, specs[0].config.observation_filter) == ("PPO", 0.98, "MeanStdFilter")


def test_command_without_run_for_an_unknown_environment_is_refused_in_one_line(capsys):
    assert cli.main(["train", "--env", "CartPol-v1"]) == 2
    said = "Error: There is no environment 'CartPol-v1'. Did you mean 'CartPole-v1' or 'CartPole-v0'? (--env).\n"
    assert capsys.readouterr().err == said


def test_interruption_tells_how_to_go_on(world, capsys):
    world.outcomes = [ended("interrupted", 130, "interrupted at iteration 30")]
    assert cli.main(["train"]) == 130
    assert capsys.readouterr().out.splitlines()[-1] == "  Resume    drl train --resume '/r/my run'"


def test_failed_outcome_is_an_error_on_stderr(world, capsys):
    world.outcomes = [ended("failed", 3, "mean_q is not finite")]
    assert cli.main(["train"]) == 3
    assert "Error: mean_q is not finite\n" in capsys.readouterr().err


def test_error_after_a_checkpoint_names_it_and_how_to_go_on(world, capsys):
    world.reports = [("run", {"run": "/r/a"}), ("checkpoint", watched.CHECKPOINT)]
    world.outcomes = [errors.WorkersFailed("no worker delivers")]
    assert cli.main(["train"]) == 3
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "Last checkpoint: checkpoint_000020",
        "Resume with:     drl train --resume /r/a",
        "Error: no worker delivers",
    ]


def test_json_prints_results_and_how_it_ended(world, capsys):
    world.reports = [("phase", {"text": "starting"}), ("result", watched.result(1, episode_reward_mean=float("nan")))]
    assert cli.main(["train", "--json"]) == 0
    first, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["training_iteration"], first["episode_reward_mean"]) == (1, None)
    assert last == {
        "finished": {
            "state": "finished",
            "exit_code": 0,
            "text": "timesteps_total reached 5000",
            "run": "/r/my run",
            "final": "/r/my run/checkpoint_000030",
            "best": "/r/my run/checkpoint_000020",
        }
    }


def test_exports_of_a_finished_run_end_its_summary_and_its_json(world, capsys, pendulum_run):
    world.specs[0].export_formats = ("onnx",)
    found = {"run_folder": str(pendulum_run), "best": str(pendulum_run / "checkpoint_000010")}
    world.outcomes = [ended(**found), ended(**found)]
    assert cli.main(["train"]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("  Exported  model.onnx (onnx; largest difference of an action ")
    )
    assert cli.main(["train", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["finished"]
    assert told["exported"] == [f"{pendulum_run}/model.onnx"] and (pendulum_run / "model.onnx").exists()


def test_export_that_fails_is_an_error_after_the_summary(world, capsys, pendulum_run):
    world.specs[0].export_formats = ("onnx",)
    (pendulum_run / "checkpoint_000010" / "state.json").write_text("[]")
    world.outcomes = [ended(run_folder=str(pendulum_run), best=str(pendulum_run / "checkpoint_000010"))]
    assert cli.main(["train"]) == 2
    out, err = capsys.readouterr()
    assert "  Score it  " in out and "state.json: has 2 bytes" in err.splitlines()[-1]


def test_progress_goes_to_stderr(world, capfd):
    world.reports = [("phase", {"text": "starting Ray, 2 workers"})]
    cli.main(["train", "--json"])
    out, err = capfd.readouterr()
    assert "starting Ray, 2 workers\n" in err
    assert "starting" not in out


def test_quiet_says_nothing_when_all_is_well(world, capfd):
    world.reports = [("phase", {"text": "starting"}), ("result", watched.result(1))]
    assert cli.main(["train", "-q"]) == 0
    assert capfd.readouterr() == ("", "")


def test_first_signal_only_asks_the_run_to_stop(world, capfd):
    world.meanwhile = lambda: signal.raise_signal(signal.SIGTERM)
    world.outcomes = [ended("interrupted", 143)]
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["train"]) == 143
    assert world.stop_request.signal == signal.SIGTERM
    assert "Stopping: saving a checkpoint (Ctrl-C again to quit without saving)." in capfd.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_listeners_are_gone_afterwards(world, capsys):
    cli.main(["train", "--json"])
    capsys.readouterr()
    events.report("result", **watched.result(1))
    assert capsys.readouterr().out == ""


def test_negative_count_is_refused(world, capsys):
    assert cli.main(["train", "--checkpoint-freq", "-1"]) == 2
    assert "'--checkpoint-freq': '-1' is not a whole number of at least 0." in capsys.readouterr().err


def test_what_the_specs_reported_is_shown_when_the_run_starts(world, capfd, monkeypatch):
    def read(*given):
        events.report("notice", text="X-v2 runs as X-v3")
        return world.specs[0]

    monkeypatch.setattr("drl_cli.experiments.search_spec.read", read)
    cli.main(["train"])
    assert capfd.readouterr().err.count("X-v2 runs as X-v3\n") == 1


def test_goal_among_the_stops_is_on_the_screen():
    spec = SimpleNamespace(
        run="SAC",
        env="X-v0",
        config=SimpleNamespace(env_config={}),
        stop={"timesteps_total": 5, "evaluation/episode_reward_mean": 200},
        checkpoint_freq=None,
    )
    view = train._view_of(spec)
    assert (view.algorithm, view.env, view.goal, view.checkpoint_freq) == ("SAC", "X-v0", 200, 0)


def test_end_pairs_the_best_checkpoint_with_the_score_that_best_json_has(world, capsys):
    lucky = {**watched.EVALUATION, "training_iteration": 15, "episode_reward_mean": 248.3, "confirmed": None}
    world.reports = [("evaluation", lucky), ("evaluation", watched.EVALUATION), ("best", watched.BEST)]
    cli.main(["train"])
    assert "  Best      checkpoint_000020  (evaluation 205.6)\n" in capsys.readouterr().out


def test_end_calls_a_best_that_no_evaluation_scored_one_of_training(world, capsys):
    world.reports = [("best", {**watched.BEST, "metric": "episode_reward_mean"})]
    cli.main(["train"])
    assert "  Best      checkpoint_000020  (training reward 205.6)\n" in capsys.readouterr().out


def test_reader_that_left_does_not_stop_the_training():
    code = """
import sys
from types import SimpleNamespace
from drl_cli import cli, events
def run(spec, stop):
    for i in range(3):
        events.report("result", result={"training_iteration": i})
    print("trained to the end", file=sys.stderr)
    return SimpleNamespace(state="finished", exit_code=0, text="", run_folder="/r", final=None, best=None)
config = SimpleNamespace(env_config={})
spec = SimpleNamespace(run="SAC", env="X-v0", config=config, stop={}, checkpoint_freq=0, log_format="text", export_formats=())
sys.modules["drl_cli.experiments.search_spec"] = SimpleNamespace(read=lambda *given: spec, SearchSpec=bytes)
sys.modules["drl_cli.experiments.run"] = SimpleNamespace(run=run)
sys.modules["drl_cli.cli.search"] = SimpleNamespace(resume=lambda *given: None)
sys.exit(cli.main(["train", "--json", "-q"]))
"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "trained to the end\n")
