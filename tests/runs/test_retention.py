import fcntl
import json
import os
import shutil
import subprocess

import pytest
from checkpoint_maker import save

from drl_cli.errors import CheckpointError
from drl_cli.runs import retention, run_folder


def scored(folder, **scores):
    for name, value in scores.items():
        evaluated = None if value is None else -value
        save(folder, int(name[1:]), {"score": {"episode_reward_mean": value, "evaluation_reward_mean": evaluated}})


def left(folder):
    return [number for number, _ in retention.numbers(folder)]


def best(folder, name):
    (folder / "best.json").write_text(json.dumps({"checkpoint": name}))


def damage(path):
    os.truncate(path / "weights.safetensors", 5)


def test_numbers_come_from_names_and_leave_out_links_files_and_others(tmp_path):
    save(tmp_path, 2)
    save(tmp_path, 1_000_000)
    (tmp_path / "checkpoint_000003").write_text("a file")
    (tmp_path / "checkpoint_000004").symlink_to(tmp_path / "checkpoint_000002")
    (tmp_path / "checkpoint_0000005").mkdir()
    (tmp_path / "checkpoint_7").mkdir()
    (tmp_path / "checkpoint_000006").mkdir()
    assert left(tmp_path) == [2, 6, 1_000_000]


def test_prune_keeps_the_best_by_score_and_the_newest(tmp_path):
    scored(tmp_path, n1=5.0, n2=9.0, n3=7.0, n4=1.0)
    removed = retention.prune(tmp_path, keep=2, score="episode_reward_mean")
    assert [path.name for path in removed] == ["checkpoint_000001"]
    assert left(tmp_path) == [2, 3, 4]


def test_prune_with_min_prefix_keeps_the_smallest(tmp_path):
    scored(tmp_path, n1=5.0, n2=9.0, n3=7.0, n4=100.0)
    retention.prune(tmp_path, keep=1, score="min-episode_reward_mean")
    assert left(tmp_path) == [1, 4]


def test_prune_by_evaluation_mean(tmp_path):
    scored(tmp_path, n1=5.0, n2=9.0, n3=7.0, n4=100.0)
    retention.prune(tmp_path, keep=1, score="evaluation/episode_reward_mean")
    assert left(tmp_path) == [1, 4]


def test_prune_ties_go_to_the_newer_and_no_score_ranks_last(tmp_path):
    scored(tmp_path, n1=5.0, n2=5.0, n3=None, n4=None)
    retention.prune(tmp_path, keep=1, score="episode_reward_mean")
    assert left(tmp_path) == [2, 4]


def test_prune_with_values_ranks_by_them(tmp_path):
    scored(tmp_path, n1=1.0, n2=1.0, n3=1.0)
    retention.prune(tmp_path, keep=1, score="info/x", values={1: 3.0, 2: None})
    assert left(tmp_path) == [1, 3]


def test_prune_never_removes_best_protected_damaged_or_foreign(tmp_path):
    for number in range(1, 8):
        save(tmp_path, number)
    best(tmp_path, "checkpoint_000001")
    damage(tmp_path / "checkpoint_000003")
    (tmp_path / "checkpoint_000004" / "mine.txt").write_text("x")
    damage(tmp_path / "checkpoint_000007")
    retention.prune(tmp_path, keep=0, protected=[tmp_path / "checkpoint_000002"])
    assert left(tmp_path) == [1, 2, 3, 4, 6, 7]


def test_newest_valid_skips_damaged_ones_and_tells_why(tmp_path):
    for number in (1, 2, 3):
        save(tmp_path, number, replay=number < 2)
    damage(tmp_path / "checkpoint_000003")
    found, skipped = retention.newest_valid(tmp_path)
    assert found.number == 2
    assert [path.name for path, _ in skipped] == ["checkpoint_000003"]
    assert "weights.safetensors: has 5 bytes" in skipped[0][1]
    assert retention.newest_valid(tmp_path, parts=("replay",))[0].number == 1


def test_newest_valid_with_none_left_lists_each_with_its_reason(tmp_path):
    with pytest.raises(CheckpointError, match="holds no usable checkpoint$"):
        retention.newest_valid(tmp_path)
    for number in (1, 2):
        damage(save(tmp_path, number))
    with pytest.raises(CheckpointError) as caught:
        retention.newest_valid(tmp_path)
    assert "checkpoint_000001/weights" in str(caught.value) and "checkpoint_000002/weights" in str(caught.value)


def test_find_takes_a_checkpoint_a_file_in_it_or_a_run(tmp_path):
    first, second = save(tmp_path, 1), save(tmp_path, 2)
    assert retention.find(first) == first
    assert retention.find(first / "weights.safetensors") == first
    assert retention.find(tmp_path) == second
    best(tmp_path, "checkpoint_000001")
    assert retention.find(tmp_path) == first
    assert retention.find(tmp_path, latest=True) == second


@pytest.mark.parametrize("text", ['{"checkpoint": "../x"}', '{"checkpoint": 3}', "[]", "{", '{"checkpoint": "/etc"}'])
def test_find_with_a_damaged_best_file_is_refused(tmp_path, text):
    save(tmp_path, 1)
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"best\.json"):
        retention.find(tmp_path)


def test_find_of_a_run_whose_best_was_removed_names_the_newest_that_is_left(tmp_path):
    for number in (1, 2, 3):
        save(tmp_path, number)
    best(tmp_path, "checkpoint_000002")
    shutil.rmtree(tmp_path / "checkpoint_000002")
    with pytest.raises(CheckpointError) as caught:
        retention.find(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: its best checkpoint, checkpoint_000002, was removed. "
        f"The newest that is left: {tmp_path / 'checkpoint_000003'}"
    )
    for number in (1, 3):
        shutil.rmtree(tmp_path / f"checkpoint_00000{number}")
    with pytest.raises(CheckpointError, match="was removed. No other is left"):
        retention.find(tmp_path)


def test_find_of_what_is_not_there_names_the_nearest(tmp_path):
    save(tmp_path, 10)
    with pytest.raises(CheckpointError, match="Did you mean 'checkpoint_000010'"):
        retention.find(tmp_path / "checkpoint_00010")


@pytest.mark.parametrize(
    "spelt", ["checkpoint_10/checkpoint-10", "checkpoint_10", "checkpoint_000010/checkpoint-10", "checkpoint_000010"]
)
def test_find_reads_the_path_form_of_rllib(tmp_path, spelt):
    found = save(tmp_path, 10)
    assert retention.find(tmp_path / spelt) == found


def test_find_of_a_number_that_the_run_has_not_lists_those_it_has(tmp_path):
    save(tmp_path, 5)
    save(tmp_path, 10)
    with pytest.raises(CheckpointError, match="no such checkpoint; .* has checkpoint_000005, checkpoint_000010"):
        retention.find(tmp_path / "checkpoint_7" / "checkpoint-7")


def test_find_of_a_checkpoint_of_rllib_says_that_it_is_a_pickle(tmp_path):
    folder = tmp_path / "checkpoint_10"
    folder.mkdir()
    (folder / "checkpoint-10").write_bytes(b"\x80\x04.")
    for path in (folder, folder / "checkpoint-10"):
        with pytest.raises(CheckpointError, match="a checkpoint of RLlib's, a pickle"):
            retention.find(path)


def test_find_of_a_folder_with_one_run_takes_it(tmp_path):
    (tmp_path / "results" / "default" / "run_a").mkdir(parents=True)
    path = save(tmp_path / "results" / "default" / "run_a", 10)
    for folder in ("results/default", "results"):
        assert retention.find(tmp_path / folder) == path


def test_find_of_a_folder_with_several_runs_names_one(tmp_path):
    for name in ("run_a", "run_b"):
        (tmp_path / "default" / name).mkdir(parents=True)
        save(tmp_path / "default" / name, 10)
    with pytest.raises(CheckpointError, match=r"holds 2 runs; name one of them, for example .*default/run_b"):
        retention.find(tmp_path)


def test_find_of_a_run_without_checkpoints_says_what_to_do(tmp_path):
    (tmp_path / "params.json").write_text("{}")
    with pytest.raises(CheckpointError, match="ended before it wrote a checkpoint.*Train it again"):
        retention.find(tmp_path)
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match="no checkpoint yet. The first comes with its first evaluation"):
            retention.find(tmp_path)


def test_leftovers_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path):
    child = subprocess.Popen(["true"])
    child.wait()
    dead = tmp_path / f".tmp-000010-{child.pid}-00c0ffee"
    dead.mkdir()
    (dead / "weights.safetensors").write_bytes(b"half")
    (tmp_path / f".tmp-status.json-{child.pid}-00c0ffee").write_bytes(b"half")
    (tmp_path / f".tmp-000010-{os.getppid()}-00c0ffee").mkdir()
    (tmp_path / ".tmp-mine").mkdir()
    assert len(run_folder.remove_leftovers(tmp_path)) == 2
    assert sorted(os.listdir(tmp_path)) == sorted([".tmp-mine", f".tmp-000010-{os.getppid()}-00c0ffee"])


def test_leftover_of_an_interrupted_replacement_is_put_back(tmp_path):
    path = save(tmp_path, 10)
    path.rename(tmp_path / f".old-000010-{os.getpid()}-00c0ffee")
    run_folder.remove_leftovers(tmp_path)
    assert retention.newest_valid(tmp_path)[0].number == 10
