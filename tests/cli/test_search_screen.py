"""What is seen of a search: the table at two widths, plain lines, the end, JSON."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from drl_cli import checkpoints, cli, events
from drl_cli.cli import search, search_screen, search_table, terminal
from drl_cli.cli.search_view import SearchView, fitting, short
from drl_cli.errors import ConfigError

METRIC = "evaluation/episode_reward_mean"
DATA = {
    "id": "abc12",
    "experiments": [{"name": "cartpole", "mapping": {"run": "PPO", "env": "CartPole-v1", "config": {}}, "paths": {}}],
    "points": [],
    "metric": METRIC,
    "mode": "max",
    "goal": 475,
    "search": None,
    "scheduler": {"name": "AsyncHyperBand", "config": {}},
    "num_trials": 4,
    "seed": 3,
    "write": None,
}


def trial(number, state, score=None, steps=None, **more):
    point = {"trial": number, "experiment": 0, "values": {"lr": 0.001 * (number + 1), "model.dim": 8}, "seed": 7}
    result = {METRIC: score, "timesteps_total": steps, "training_iteration": 3, "time_total_s": 61.0} if steps else None
    return {"trial": number, "point": {**point, **more.pop("point", {})}, "state": state, "result": result, **more}


TRIALS = [
    trial(0, "finished", 480.0, 4096, text="stopped at the goal", run_folder="/r/0"),
    trial(1, "running", 120.5, 2048),
    trial(2, "failed", None, None, text="mean_q is not finite"),
    trial(3, "pending"),
]


@pytest.fixture
def view():
    made = SearchView(DATA, "PPO · CartPole-v1 · 4 trials", "/results/search_abc12.json")
    for fields in TRIALS:
        made.take("trial", fields, 10.0)
    return made


def drawn(view, width, height=24):
    console = Console(file=io.StringIO(), width=width, height=height, no_color=True, force_terminal=False)
    console.print(search_table.picture(view, 75.0, console))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_table_fits_the_terminal(view, width):
    assert max(len(line.rstrip()) for line in drawn(view, width)) <= width
    assert len(drawn(view, width)) <= 24


def test_table_shows_running_trials_first_then_by_score(view):
    lines = drawn(view, 100)
    rows = [line.split()[:2] for line in lines if line[:1].isdigit() and "running," not in line]
    assert rows == [["1", "running"], ["0", "finished"], ["2", "failed"], ["3", "waiting"]]
    assert "1 running, 1 waiting, 1 finished, 1 failed" in lines
    assert any("trial 2 failed: mean_q is not finite" in line for line in lines)


def test_narrow_table_drops_time_and_keeps_the_score(view):
    header = next(line for line in drawn(view, 60) if line.startswith("trial"))
    assert header.split()[-2:] == ["steps", "evaluation"]
    wide = next(line for line in drawn(view, 120) if line.startswith("trial"))
    assert wide.split() == ["trial", "state", "lr", "dim", "seed", "iter", "steps", "time", "evaluation"]


def test_more_trials_than_lines_are_counted(view):
    for number in range(4, 60):
        view.take("trial", trial(number, "pending"), 10.0)
    lines = drawn(view, 80)
    assert len(lines) <= 24
    assert any(line.endswith("more not shown") for line in lines)


def test_columns_that_do_not_fit_are_dropped_in_their_order():
    header = ["trial", "state", "lr", "seed", "iter", "steps", "time", "reward"]
    rows = [["1", "running", "0.001", "1234567890", "3", "4,096", "1:01", "480.0"]]
    assert [header[i] for i in fitting(header, rows, 200)] == header
    assert [header[i] for i in fitting(header, rows, 49)] == ["trial", "state", "lr", "steps", "reward"]
    assert [header[i] for i in fitting(header, rows, 10)] == ["trial", "state", "steps", "reward"]


def test_values_are_short():
    assert [short(value) for value in (0.00012345678, [64, 64], None, "x" * 40)] == [
        "0.0001235",
        "[64,64]",
        "-",
        "x" * 23 + "…",
    ]


def test_trial_that_is_trained_again_names_its_origin(view):
    view.take("trial", trial(5, "running", 3.0, 10, point={"rescore": 0}), 11.0)
    assert any(line.split()[:3] == ["5", "(0)", "running"] for line in drawn(view, 100))


def test_plain_lines_tell_each_change_once():
    stream = io.StringIO()
    lines = search_screen.SearchLines(stream, SearchView(DATA, "", ""), clock=lambda: 61.0)
    for fields in (TRIALS[3], trial(3, "running"), trial(3, "running", 5.0, 10), TRIALS[0], TRIALS[2]):
        lines("trial", fields)
    assert stream.getvalue().splitlines() == [
        "   1:01  trial 3 running: lr=0.004, model.dim=8",
        f"   1:01  trial 0 finished: {METRIC} 480.0 after 4,096 steps (stopped at the goal)",
        f"   1:01  trial 2 failed: {METRIC} - after - steps (mean_q is not finite)",
    ]


def test_quiet_lines_only_tell_failures():
    stream = io.StringIO()
    lines = search_screen.SearchLines(stream, SearchView(DATA, "", ""), quiet=True, clock=lambda: 61.0)
    for fields in TRIALS:
        lines("trial", fields)
    lines("phase", {"text": "starting Ray"})
    assert stream.getvalue().count("\n") == 1 and "trial 2 failed" in stream.getvalue()


class World:
    """A search that has nothing to run: its trials are told, its outcome is given."""

    def __init__(self, tmp_path):
        self.path, self.data = tmp_path / "search_2026-01-01_00-00-00_abc12.json", DATA
        self.trials = {}
        self.outcome = SimpleNamespace(state="finished", exit_code=0, written=None, text="")

    def run(self, record, request, command):
        for fields in TRIALS:
            told = {name: value for name, value in fields.items() if name != "trial"}
            record.trials[fields["trial"]] = told
            events.report("trial", **fields)
        print("Ray says something")
        self.command = command
        return self.outcome


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path)
    monkeypatch.setattr("drl_cli.search.search_record.Record", SimpleNamespace(new=lambda data: made))
    monkeypatch.setattr("drl_cli.search.run_search.run", made.run)
    return made


def start(world, as_json=False, quiet=False, arguments=()):
    session = terminal.Session(arguments=list(arguments))
    found = SimpleNamespace(data=DATA, notices=[])
    return search.SearchRun(session, as_json, quiet, False).start(found)


def test_end_names_the_best_where_it_is_and_what_comes_next(world, capsys):
    assert start(world) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1:] == [
        "PPO · CartPole-v1 · 4 trials · AsyncHyperBand: 1 running, 1 waiting, 1 finished, 1 failed",
        "",
        "  trial  state        lr  dim  seed  iter  steps  time  evaluation",
        "  0      finished  0.001    8     7     3  4,096  1:01       480.0",
        "  1      running   0.002    8     7     3  2,048  1:01       120.5",
        "",
        f"  Results   {world.path}",
        "  Best      trial 0: /r/0  (evaluation/episode_reward_mean 480.0)",
        "  Play it   drl rollout /r/0",
        "  Score it  drl evaluate /r/0",
    ]


def test_trials_stand_once_on_a_terminal_where_the_live_table_stays(world, capsys, monkeypatch):
    quiet = SimpleNamespace(interrupt=None, abandon=None, close=staticmethod(lambda: None))
    picture = type("Picture", (), vars(quiet) | {"__call__": lambda self, kind, fields: None})()
    monkeypatch.setattr(search.search_screen, "open_watcher", lambda *_: picture)
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    start(world)
    out = capsys.readouterr().out
    assert "trial  state" not in out and "  Best      trial 0: /r/0" in out


def test_written_file_is_the_next_command(world, capsys, tmp_path):
    world.outcome.written = tmp_path / "best.yaml"
    start(world)
    assert f"  Run it    drl train -f {tmp_path}/best.yaml\n" in capsys.readouterr().out


def test_interrupted_search_tells_how_to_go_on(world, capsys):
    world.outcome.state, world.outcome.exit_code = "interrupted", 130
    assert start(world) == 130
    assert capsys.readouterr().out.splitlines()[-1] == f"  Resume    drl train --resume {world.path}"


def test_failed_trials_and_missed_criteria_are_errors_on_stderr(world, capsys):
    world.outcome.exit_code, world.outcome.text = 4, "cartpole: reward is 3"
    assert start(world, quiet=True) == 4
    told = capsys.readouterr()
    assert "Error: trial 2 failed: mean_q is not finite\nError: cartpole: reward is 3\n" in told.err
    assert told.out == ""


def test_json_is_one_object_a_change_and_the_ranking_at_the_end(world, capsys):
    start(world, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["trial"] for line in lines[:-1]] == [0, 1, 2]
    assert set(lines[0]) == {"trial", "state", "run_folder", "text", "result", "values", "seed", "rescore"}
    end = lines[-1]["search"]
    assert set(end) == {
        "state", "exit_code", "record", "metric", "ranking", "rescored", "written", "failed",
    }  # fmt: skip
    assert [entry["trial"] for entry in end["ranking"]] == [0, 1]
    assert end["ranking"][0]["score"] == 480.0 and end["failed"] == {"2": "mean_q is not finite"}


def test_secrets_of_the_command_do_not_reach_the_file(world):
    start(world, arguments=["train", "--config", "{api_key: abc}"])
    assert "abc" not in world.command


def test_resumed_search_keeps_its_settings(tmp_path, capsys):
    record = tmp_path / "search_2026-01-01_00-00-00_abc12.json"
    record.write_text("{}")
    assert cli.main(["train", f"--resume={record}", "--run", "SAC"]) == 2
    assert "--run: a resumed search keeps its settings. Leave it out." in capsys.readouterr().err


def test_resume_without_a_name_finds_the_newest_search(tmp_path):
    folder = tmp_path / "default"
    folder.mkdir()
    content = {"format": 1, "state": "interrupted", "data": DATA, "trials": {}}
    path = folder / "search_2026-01-01_00-00-00_abc12.json"
    path.write_text(json.dumps(content))
    assert search.to_resume({"resume": True, "local_dir": str(tmp_path)}, {}) == path
    path.write_text(json.dumps({**content, "state": "finished"}))
    assert search.to_resume({"resume": True, "local_dir": str(tmp_path)}, {}) is None


def test_defaults_of_a_person_stand_beside_a_resumed_search_and_what_is_typed_does_not(tmp_path):
    record = str(tmp_path / "search_2026-01-01_00-00-00_abc12.json")
    flags = {"resume": record, "storage_path": "s3://bucket/runs"}
    assert str(search.to_resume({**flags, "defaults": ["storage_path"]}, {})) == record
    with pytest.raises(ConfigError, match="^--storage-path: a resumed search keeps its settings. Leave it out.$"):
        search.to_resume(flags, {})


def test_search_whose_cluster_is_gone_is_resumed_on_another_one(tmp_path, monkeypatch):
    path = tmp_path / "search_2026-01-01_00-00-00_abc12.json"
    lost = {"address": "10.0.0.1:6379", "num_cpus": None, "num_gpus": None, "object_store_memory": None}
    path.write_text(
        json.dumps({"format": 1, "state": "interrupted", "data": {**DATA, "ray": lost}, "trials": {}}), encoding="utf-8"
    )
    joined = []
    monkeypatch.setattr(search.SearchRun, "_run", lambda _, record, __: joined.append(record.data["ray"]) or 0)
    for words in ([], ["--ray-address", "10.0.0.2:6379"], ["--ray-num-cpus", "4"]):
        assert cli.main(["train", f"--resume={path}", *words]) == 0
    assert [(ray["address"], ray["num_cpus"]) for ray in joined] == [
        ("10.0.0.1:6379", None),
        ("10.0.0.2:6379", None),
        (None, 4),
    ]
    assert cli.main(["train", f"--resume={path}", "--ray-address", "10.0.0.2:6379", "--ray-num-cpus", "4"]) == 2


def test_run_that_was_started_after_the_search_is_resumed_instead(tmp_path):
    folder = tmp_path / "default"
    content = {"format": 1, "state": "interrupted", "data": DATA, "trials": {}}
    run = folder / "PPO_CartPole-v1_0_2026-02-01_00-00-00_0123abcd"
    run.mkdir(parents=True)
    (run / "params.json").write_text("{}")
    with checkpoints.Writer(run, 1) as writer:
        checkpoints.write_json(writer.folder / "state.json", {})
        writer.commit({})
    path = folder / "search_2026-01-01_00-00-00_abc12.json"
    path.write_text(json.dumps(content))
    flags = {"resume": True, "local_dir": str(tmp_path)}
    assert search.to_resume(flags, {}) is None
    run.rename(folder / "PPO_CartPole-v1_abc12_00000_2026-02-01_00-00-00_0123abcd")
    assert search.to_resume(flags, {}) == path
