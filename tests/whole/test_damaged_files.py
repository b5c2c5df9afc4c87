"""Files that were damaged, or changed by somebody who made their hashes valid again: refused in one line, or harmless."""

import importlib.util
import json
import os
import struct
from pathlib import Path

import pytest
from fake_runs import row, write_run

from drl_cli import cli
from drl_cli.runs import pack, run_summary

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "damaged_files.py"


@pytest.fixture(scope="module")
def damaged_files():
    """benchmarks/damaged_files.py as a module."""
    spec = importlib.util.spec_from_file_location("damaged_files", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUBJECTS = (
    *("checkpoint", "checkpoint with a replay", "run", "resumed run", "archive .tar.gz", "archive .zip"),
    *("recorded steps", "Minari dataset", "tuned file", "tuned file as JSON"),
)


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 500), marks=pytest.mark.slow)], ids=["first", "more"]
)
def test_damage_is_refused_in_one_line_or_harmless(damaged_files, name, seeds, tmp_path):
    assert set(SUBJECTS) == set(damaged_files.SUBJECTS)
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        failed, said = damaged_files.run_case(name, seed, folder)
        assert failed is None, f"seed {seed} {failed}:\n{said}"


def refusal(capsys, *words):
    """Type ``words``, which must be refused; returns what was said."""
    code, said = cli.main([str(word) for word in words]), capsys.readouterr().err
    assert code == 2 and "a bug in drl" not in said, said
    return said


@pytest.fixture
def resumed(damaged_files, tmp_path):
    """A checkpoint of a run of ARS that can be resumed, and a function that changes its state.json and all hashes."""
    checkpoint = damaged_files.checkpoint_of("ars")(tmp_path)

    def change(name, replace):
        data = json.loads((checkpoint / name).read_text())
        replace(data)
        (checkpoint / name).write_text(json.dumps(data))
        damaged_files.seal(checkpoint)
        return checkpoint

    return change


@pytest.mark.parametrize(
    "replace, said",
    [
        (
            lambda state: state["counters"].update(timesteps_total="many"),
            "counters.timesteps_total is 'many', and no int",
        ),
        (lambda state: state["loop"].update(updates=420.0), "loop.updates is '420.0', and no int"),
        (lambda state: state["loop"].update(meters=[]), "loop.meters is '[]', and no dict"),
        (
            lambda state: state["loop"]["meters"].update(recent=[[1.0, {}]]),
            "holds no state that this run can go on from",
        ),
        (
            lambda state: state["loop"]["meters"].update(recent=[[1.0, 10**400]]),
            "holds no state that this run can go on from",
        ),
        (
            lambda state: state["loop"]["meters"].update(recent=[["nan", 1]]),
            "holds no state that this run can go on from",
        ),
        (
            lambda state: state["scoring"].update(newest="\0"),
            "holds no state that this run can go on from (TypeError: scoring.newest is '\\x00', and no dict)",
        ),
        (
            lambda state: state["scoring"].update(newest={"episode_reward_mean": "much"}),
            "scoring.newest.episode_reward_mean is 'much', and no number",
        ),
        (lambda state: state["scoring"].update(touched=[3]), "scoring.touched is '[3]', and no dict"),
        (lambda state: state.update(version=0), "its weights have the version 0"),
        (lambda state: state.pop("version"), "holds no state that this run can go on from"),
    ],
    ids=[
        "text for a number",
        "fraction for a count",
        "list for a mapping",
        "mapping in a list",
        "beyond all floats",
        "not finite",
        "text for scores",
        "text in scores",
        "list for when the goal was reached",
        "no version",
        "nothing",
    ],
)
def test_resume_from_a_state_of_other_types_was_a_traceback(resumed, capsys, replace, said):
    checkpoint = resumed("state.json", replace)
    words = refusal(capsys, "train", f"--resume={checkpoint.parent}", "--stop", "training_iteration=3")
    assert f"{checkpoint}: " in words and said in words


def test_preprocessing_that_cannot_be_read_was_refused_without_its_checkpoint(resumed, capsys):
    checkpoint = resumed("manifest.json", lambda manifest: manifest["facts"].update(preprocessing={"atari": 3}))
    assert f"{checkpoint}: The preprocessing" in refusal(
        capsys, "train", f"--resume={checkpoint.parent}", "--stop", "{}"
    )


@pytest.mark.parametrize("places", [7, ["a"], {"config.gamma": 0.5}])
@pytest.mark.parametrize("command", [["explain"], ["report", "-o", "out.html"]], ids=["explain", "report"])
def test_record_of_places_that_holds_others_was_a_traceback(tmp_path, capsys, places, command):
    path = write_run(tmp_path, 1, [row(1)])
    (path / "provenance.json").write_text(json.dumps({"from": places}))
    assert "provenance.json: does not say where settings came from" in refusal(capsys, command[0], path, *command[1:])


def test_pipe_in_the_place_of_a_file_of_a_run_was_waited_for(tmp_path, capsys):
    path = write_run(tmp_path, 1, [row(1)])
    (path / "events.jsonl").unlink()
    os.mkfifo(path / "events.jsonl")
    assert cli.main(["report", str(path), "-o", str(tmp_path / "out.html")]) == 0
    (path / "result.json").unlink()
    os.mkfifo(path / "result.json")
    assert run_summary.last_row(path) == {}
    assert "none of these runs has a result yet" in refusal(capsys, "report", path, "-o", tmp_path / "again.html")


def test_results_that_were_lengthened_without_end_filled_the_memory(tmp_path):
    path = write_run(tmp_path, 1, [row(1)])
    os.truncate(path / "result.json", 2**40)
    assert run_summary.last_row(path) == {}


@pytest.mark.parametrize("change", [{"stop": [1]}, {"stop": 0.5}, {"pass_criteria": "x"}, {"run": "many"}], ids=str)
def test_diff_of_a_file_that_no_run_can_be_made_of_names_the_file(tmp_path, capsys, change):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"first": {"run": "PPO", "env": "CartPole-v1", **change}}))
    assert str(path) in refusal(capsys, "diff", path, "cartpole-ppo").splitlines()[-1]


def test_zip_whose_directory_points_before_the_file_was_a_traceback(damaged_files, tmp_path, capsys):
    run = damaged_files.copied("ars")(tmp_path)
    path = pack.pack(run, tmp_path / "a.zip").path
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")  # the end record: at + 12 the size of the directory, at + 16 where it begins
    size, begin = struct.unpack("<II", data[end + 12 : end + 20])
    data[end + 16 : end + 20] = struct.pack("<I", begin + 10_000)  # so that the file seems to be cut at its front
    path.write_bytes(data)
    assert f"{path}: is damaged" in refusal(capsys, "checkpoint", "unpack", path, "-o", tmp_path / "out")


def test_file_without_a_name_in_a_zip_was_a_traceback(damaged_files, tmp_path, capsys):
    path = pack.pack(damaged_files.copied("ars")(tmp_path), tmp_path / "a.zip").path
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    length = struct.unpack("<H", data[at + 28 : at + 30])[0]
    data[at + 28 : at + 32] = struct.pack("<HH", 0, length)  # its name has become an extra field
    path.write_bytes(data)
    assert str(path) in refusal(capsys, "checkpoint", "unpack", path, "-o", tmp_path / "out")


def test_name_that_is_no_utf_8_in_a_zip_was_a_traceback(damaged_files, tmp_path, capsys):
    path = pack.pack(damaged_files.copied("ars")(tmp_path), tmp_path / "a.zip").path
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 9] |= 8  # the flag of a name in UTF-8
    data[at + 50] = 0x96
    path.write_bytes(data)
    assert f"{path}: is damaged" in refusal(capsys, "checkpoint", "unpack", path, "-o", tmp_path / "out")


@pytest.mark.parametrize("space", [{"n": "x"}, {"n": 2, "start": {}}, {"n": 10**12}, {"n": 2, "start": 1e400}], ids=str)
def test_minari_dataset_with_a_choice_that_is_none_was_a_traceback(damaged_files, tmp_path, capsys, monkeypatch, space):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(damaged_files.dataset(tmp_path)))
    (beside,) = tmp_path.rglob("metadata.json")
    described = {"type": "Dict", "subspaces": {"b": {"type": "Discrete", **space}}}
    beside.write_text(json.dumps({"observation_space": json.dumps(described)}))
    words = damaged_files.ESTIMATE[:2]
    assert "is no episode of a Minari dataset" in refusal(capsys, *words, "--data", "minari://toy/cartpole-v0", "-q")


def test_number_of_a_result_beyond_all_floats_was_a_traceback(tmp_path, capsys):
    path = write_run(tmp_path, 1, [row(1), row(2, episode_reward_mean=10**400)], best={"value": 10**400})
    assert cli.main(["report", str(path), "-o", str(tmp_path / "out.html")]) == 0
    assert cli.main(["runs", "--local-dir", str(tmp_path)]) == 0
    assert "a bug in drl" not in capsys.readouterr().err


@pytest.mark.parametrize("imports", [7, [1]])
def test_record_of_imports_that_are_none_was_a_traceback(tmp_path, capsys, imports):
    path = write_run(tmp_path, 1, [row(1)], imports=imports)
    assert cli.main(["watch", str(path)]) in (0, 2)
    assert "a bug in drl" not in capsys.readouterr().err


def test_long_text_among_numbers_of_recorded_steps_filled_the_memory(damaged_files, tmp_path, capsys):
    path = damaged_files.steps(tmp_path)
    first = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**first, "new_obs": [0.0] * 3000 + ["x" * 70_000]}) + "\n")
    assert "new_obs: is not a list of numbers" in refusal(capsys, *damaged_files.ESTIMATE[:2], "--data", path, "-q")


def test_config_of_evaluations_that_holds_others_was_a_traceback(resumed, capsys):
    checkpoint = resumed("manifest.json", lambda m: m["facts"]["config"].update(evaluation_config={"env_config": "x"}))
    assert cli.main(["evaluate", str(checkpoint), "--episodes", "1", "-q"]) == 0
    assert "a bug in drl" not in capsys.readouterr().err
