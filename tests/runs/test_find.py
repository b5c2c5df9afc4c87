"""From words to run folders."""

import json
import os

import pytest
from fake_runs import set_status, write_run

from drl_cli.errors import RunFolderError
from drl_cli.runs import find


@pytest.fixture
def results(tmp_path):
    """Three runs: 0000abcd and 0000abce in "sac", 0000f00d in "td3"."""
    root = tmp_path / "results"
    for number, experiment in ((0xABCD, "sac"), (0xABCE, "sac"), (0xF00D, "td3")):
        write_run(root, number, experiment=experiment)
    return root


def ids(paths):
    return [path.name[-8:] for path in paths]


def test_read_all_finds_runs_of_all_experiments(results):
    runs, left_out = find.read_all([results])
    assert sorted(run.id for run in runs) == ["0000abcd", "0000abce", "0000f00d"]
    assert left_out == []


def test_read_all_takes_a_run_in_two_roots_once(results):
    runs, _ = find.read_all([results, results / "sac"])
    assert len(runs) == 3


def test_read_all_tells_of_other_programs_folders_and_damaged_ones(results):
    for name in ("a", "b"):
        (results / "theirs" / name).mkdir(parents=True)
        (results / "theirs" / name / "params.json").write_text(json.dumps({"lr": 1}))
    (results / "sac" / "broken").mkdir()
    (results / "sac" / "broken" / "params.json").write_text("{")
    runs, left_out = find.read_all([results])
    assert len(runs) == 3
    assert left_out[0].startswith(f"{results}/sac/broken/params.json: is not strict JSON")
    assert left_out[1:] == ["2 folders of other programs skipped"]


def test_read_all_of_a_root_that_is_missing_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="there is no such folder of results. Choose one with --local-dir"):
        find.read_all([tmp_path / "nowhere"])


def test_read_all_of_the_default_root_before_the_first_run_finds_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "nowhere"))
    assert find.read_all([tmp_path / "nowhere"]) == ([], [])
    (tmp_path / "nowhere").write_text("")
    with pytest.raises(RunFolderError, match="no such folder of results"):
        find.read_all([tmp_path / "nowhere"])


def test_run_folders_leaves_links_and_hidden_folders_out(results):
    (results / ".hidden").symlink_to(results / "sac")
    (results / "link").symlink_to(results / "sac")
    os.rename(results / "td3", results / ".del-td3")
    assert ids(find.run_folders(results)) == ["0000abcd", "0000abce"]


@pytest.mark.parametrize("word", ["0000f00d", "0000f", "td3"])
def test_find_run_by_id_its_start_or_an_experiment_of_one_run(results, word):
    assert find.find_run(word, [results]).name.endswith("0000f00d")


def test_find_run_by_path_and_by_something_in_it(results):
    path = find.find_run("0000f00d", [results])
    (path / "checkpoint_000001").mkdir()
    (path / "checkpoint_000001" / "state.json").write_text("{}")
    for word in (path, path / "status.json", path / "checkpoint_000001", path / "checkpoint_000001" / "state.json"):
        assert find.find_run(str(word), []) == path


def test_find_run_that_means_several_is_refused(results):
    with pytest.raises(RunFolderError, match="2 runs under .* are called that:\n"):
        find.find_run("0000abc", [results])
    with pytest.raises(RunFolderError, match="sac: holds 2 runs; name one of them"):
        find.find_run("sac", [results])


def test_find_run_names_what_comes_close(results):
    with pytest.raises(RunFolderError, match="tdd3: no run of that name.*Did you mean 'td3'"):
        find.find_run("tdd3", [results])
    with pytest.raises(RunFolderError, match="Did you mean '0000f00d'"):
        find.find_run("0000f0d", [results])


@pytest.mark.parametrize("word", ["", "..", "../results", "abc"])
def test_find_run_never_leaves_the_roots_for_a_name(results, word, tmp_path, monkeypatch):
    (tmp_path / "empty" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "empty" / "here")  # what lies above is looked at: not the checkout's surroundings
    with pytest.raises(RunFolderError):
        find.find_run(word, [results / "sac"])


def test_an_empty_word_never_means_the_current_folder(results, monkeypatch):
    monkeypatch.chdir(results)
    with pytest.raises(RunFolderError, match="'' names no run"):
        find.find_runs([""], [results])


def test_a_name_is_looked_up_although_a_folder_without_runs_is_called_that(results, tmp_path, monkeypatch):
    (tmp_path / "td3").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ids(find.find_runs(["td3"], [results])) == ["0000f00d"]
    with pytest.raises(RunFolderError, match="holds no run"):
        find.find_runs(["./td3"], [results])


def test_find_runs_expands_folders_and_takes_each_run_once(results):
    assert ids(find.find_runs(["td3", "sac", "0000f00d", str(results)], [results])) == [
        "0000f00d",
        "0000abcd",
        "0000abce",
    ]


def test_newest_prefers_one_that_is_running(results, monkeypatch):
    assert find.newest([results]).name.endswith("0000f00d")
    old = find.find_run("0000abcd", [results])
    set_status(old, state="running", host="elsewhere")
    monkeypatch.setattr("drl_cli.runs.run_summary.FRESH_SECONDS", float("inf"))
    assert find.newest([results]) == old


def test_newest_of_nothing_says_how_to_start(tmp_path):
    with pytest.raises(RunFolderError, match="there is no run yet. Start one: drl train"):
        find.newest([tmp_path])


def test_folder_that_cannot_be_read_is_named_and_not_taken_for_an_empty_one(results, monkeypatch):
    real = os.scandir

    def scandir(path):
        if path.name == "sac":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    runs, left_out = find.read_all([results])
    assert [run.id for run in runs] == ["0000f00d"]
    assert left_out == [f"{results}/sac: cannot be read (Permission denied)"]
