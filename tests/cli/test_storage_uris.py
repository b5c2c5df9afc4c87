"""URIs of storages where commands take a run or a checkpoint, and runs that go on from one."""

import json
import shutil

import pytest

from drl_cli import cli


def said(capsys, *words, code=0):
    assert cli.main([str(word) for word in words]) == code
    return capsys.readouterr()


@pytest.mark.parametrize("inside", ["", "/checkpoint_000010", "/checkpoint_000010/manifest.json"])
def test_rollout_plays_a_checkpoint_of_a_storage(pendulum_run, capsys, inside):
    uri = f"file://{pendulum_run}"
    found = said(capsys, "rollout", uri + inside, "--episodes", 1, "--config", "{horizon: 5}")
    assert f"fetched {uri}/checkpoint_000010\n" in found.err and found.out.startswith("Episode #0: reward: ")
    assert "fetched" not in said(capsys, "evaluate", uri + inside, "--episodes", 1, "--max-steps", 5).err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("rollout", "ftp://host/x"), "ftp:// is not a storage that drl can use. There are s3://"),
        (("evaluate", "file:///nowhere/RUN"), "file:///nowhere/RUN: there is no run or checkpoint"),
        (("train", "--resume=file:///nowhere/RUN"), "file:///nowhere/RUN: there is no run or checkpoint"),
        (("explain", "file:///nowhere/RUN"), "file:///nowhere/RUN: there is no run or checkpoint"),
        (("explain", "s4://bucket/RUN"), "s4:// is not a storage that drl can use. There are s3://"),
        (
            ("train", "--resume=file:///nowhere/default/search_2026-01-02_03-04-05_abc12.json"),
            "file:///nowhere/default/search_2026-01-02_03-04-05_abc12.json: there is no record of a search",
        ),
        (
            ("rollout", "s3://key:hunter2@bucket/x"),
            "a URI is recorded with the run, so none with a password is accepted.",
        ),
    ],
)
def test_uri_typed_wrong_is_one_line(capsys, words, error):
    found = said(capsys, *words, code=2)
    assert found.err.startswith(f"Error: {error}") and found.err.count("\n") == 1


@pytest.mark.learning
def test_run_goes_on_from_its_copy_where_its_folder_is_lost(tmp_path, capsys):
    common = ["--local-dir", tmp_path / "results", "--json", "-q"]
    new = [
        "--run",
        "ARS",
        "--env",
        "CartPole-v1",
        "-s",
        "num_workers=0",
        "-s",
        "num_rollouts=2",
        "-s",
        "rollouts_used=2",
    ]
    stored = ["--storage-path", tmp_path / "store"]
    lines = said(capsys, "train", *new, *stored, "--stop", "training_iteration=2", *common).out.splitlines()
    name = json.loads(lines[-1])["finished"]["run"].rpartition("/")[2]
    shutil.rmtree(tmp_path / "results")
    uri = f"file://{tmp_path}/store/default/{name}"
    found = json.loads(said(capsys, "explain", uri, "--key", "num_rollouts", "--json").out)["experiments"][0]
    assert (found["run"], found["rows"][0]["value"], found["rows"][0]["from"]) == ("ARS", 2, "-s")
    assert (
        json.loads(said(capsys, "explain", f"{uri}/checkpoint_000002", "--json").out)["experiments"][0]["run"] == "ARS"
    )
    lines = said(capsys, "train", f"--resume={uri}", "--stop", "training_iteration=4", *common).out.splitlines()
    assert json.loads(lines[-1])["finished"]["run"] == str(tmp_path / "results" / "default" / name)
    rows = (tmp_path / "store" / "default" / name / "result.json").read_text().splitlines()
    assert [json.loads(row)["training_iteration"] for row in rows] == [1, 2, 3, 4]
    assert (tmp_path / "store" / "default" / name / "checkpoint_000004" / "COMMIT").is_file()
