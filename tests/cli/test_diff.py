"""``drl diff`` as it is typed."""

import json

import pytest
from fake_runs import write_run

from drl_cli import cli

FILE = """
first:
  run: SAC
  env: Pendulum-v1
  config: {gamma: 0.9}
second:
  run: SAC
  env: Pendulum-v1
  stop: {timesteps_total: 1000}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of two experiments, and a folder of results with the runs 1 and 2."""
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    monkeypatch.setenv("COLUMNS", "80")
    for number, gamma in ((1, 0.99), (2, 0.95)):
        write_run(tmp_path / "results", number, config={"gamma": gamma, "seed": 5})
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    return path


def drl(capsys, *arguments, code=0):
    assert cli.main(["diff", *(str(word) for word in arguments)]) == code
    return capsys.readouterr()


def cells(text):
    return [line.split() for line in text.splitlines()]


def test_runs_show_only_what_differs_with_defaults_in_parentheses(mine, capsys):
    out, err = drl(capsys, "00000001", "00000002")
    assert cells(out) == [["key", "SAC", "00000001", "SAC", "00000002"], ["gamma", "(0.99)", "0.95"]]
    assert err == ""


def test_experiments_of_a_file_are_picked_by_name(mine, capsys):
    out, _ = drl(capsys, f"{mine}:first", f"{mine}:second")
    assert cells(out)[1:] == [["gamma", "0.9", "(0.99)"], ["stop.timesteps_total", "-", "1000"]]


def test_a_file_of_several_needs_a_name_and_a_wrong_one_is_refused(mine, capsys):
    err = drl(capsys, mine, "00000001", code=2).err
    assert f"pick one as {mine}:first. It has: first, second." in err
    assert "Did you mean 'second'? Experiments: first, second." in drl(capsys, f"{mine}:secnd", "00000001", code=2).err


def test_shipped_files_compare_by_name(mine, capsys):
    out, err = drl(capsys, "pendulum-sac", "pendulum-td3")
    assert ["run", "SAC", "TD3"] in cells(out) and "keys that only one of them has are at their defaults" in err
    everything = drl(capsys, "pendulum-sac", "pendulum-td3", "--all").out
    assert len(everything.splitlines()) > 60 and ["env", "Pendulum-v1", "Pendulum-v1"] in cells(everything)


def test_json_has_the_documented_keys(mine, capsys):
    document = json.loads(drl(capsys, "00000001", f"{mine}:first", "--json").out)
    assert list(document) == ["a", "b", "differences", "hidden"]
    assert document["b"] == {"name": f"{mine}:first", "kind": "file", "algorithm": "SAC", "env": "Pendulum-v1"}
    told = {entry["key"]: entry for entry in document["differences"]}
    wanted = {"a": 0.99, "b": 0.9, "a_has": True, "b_has": True, "a_default": True, "b_default": False}
    assert told["config.gamma"] == {"key": "config.gamma", **wanted}
    stop = told["stop.evaluation/episode_reward_mean"]
    assert (stop["a"], stop["b"], stop["b_has"]) == (-200.0, None, False)
    help_text = " ".join(drl(capsys, "-h").out.split())
    assert all(f'"{name}"' in help_text for name in (*document, *stop, *document["b"]))


def test_what_is_equal_is_said(mine, capsys):
    out, err = drl(capsys, "00000001", "00000001")
    assert out == "" and err == "00000001 and 00000001 do not differ in any key.\n"


def test_a_word_that_is_neither_is_refused_with_the_nearest(mine, capsys):
    assert "Or a tuned file? Did you mean 'pendulum-sac'" in drl(capsys, "pendulum-sak", "00000001", code=2).err


def test_long_values_are_folded_and_not_lost(mine, capsys, tmp_path):
    write_run(tmp_path / "results", 3, config={"gamma": 0.99, "seed": 5, "note": "x" * 70 + "END"})
    out, _ = drl(capsys, "00000001", "00000003")
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "".join(out.split()).count("x") == 70 and "END" in "".join(out.split())


def test_search_stands_by_its_id(mine, capsys, tmp_path):
    run = write_run(tmp_path / "results", 9)
    mapping = {"run": "SAC", "env": "Pendulum-v1", "config": {"gamma": {"grid_search": [0.9, 0.99]}}}
    told = {"format": 1, "state": "finished", "data": {"experiments": [{"name": "default", "mapping": mapping}]}}
    (run.parent / "search_2026-11-21_10-00-00_1a2b3.json").write_text(json.dumps(told))
    out, _ = drl(capsys, "1a2b3", "00000009")
    assert ["gamma", '{"grid_search":', "[0.9,", "0.99]}", "(0.99)"] in [line.split() for line in out.splitlines()]
