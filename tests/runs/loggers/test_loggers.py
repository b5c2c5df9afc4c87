import csv
import errno
import glob
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from drl_cli import events
from drl_cli.runs import loggers
from drl_cli.runs.loggers.tables import ProgressCsv


def result(iteration, **more):
    return {"training_iteration": iteration, "timesteps_total": 1000 * iteration, "info": {"replay_size": 5}, **more}


def write(folder, *rows, joined_at=None):
    writer = loggers.Loggers(folder, joined_at)
    for row in rows:
        writer.write(row)
    writer.close()


def lines(folder):
    return [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]


def table(folder):
    with open(folder / "progress.csv", newline="") as file:
        return list(csv.reader(file))


def board(folder):
    """Every event of the folder's event files, oldest file first."""
    found = []
    for path in sorted(glob.glob(f"{folder}/events.out.tfevents.*"), key=os.path.getmtime):
        with open(path, "rb") as file:
            while header := file.read(12):
                found.append(Event.FromString(file.read(int.from_bytes(header[:8], "little"))))
                file.read(4)
    return found


def test_write_makes_one_json_line_and_one_csv_row_an_iteration(tmp_path):
    write(tmp_path, result(1, episode_reward_mean=None), result(2, episode_reward_mean=-1.5))
    assert lines(tmp_path)[0]["episode_reward_mean"] is None
    assert lines(tmp_path)[1] == result(2, episode_reward_mean=-1.5)
    assert table(tmp_path) == [
        ["training_iteration", "timesteps_total", "info/replay_size", "episode_reward_mean"],
        ["1", "1000", "5", ""],
        ["2", "2000", "5", "-1.5"],
    ]


def test_write_nan_becomes_null_everywhere(tmp_path):
    write(tmp_path, result(1, x=float("nan"), y=np.float32("inf")))
    assert "NaN" not in (tmp_path / "result.json").read_text()
    assert lines(tmp_path)[0]["x"] is None
    assert table(tmp_path)[1][-2:] == ["", ""]


def test_late_columns_are_added_and_early_rows_get_empty_cells(tmp_path):
    write(tmp_path, result(1), result(2, evaluation={"episode_reward_mean": 9.0}), result(3))
    assert [row[-1] for row in table(tmp_path)] == ["evaluation/episode_reward_mean", "", "9.0", ""]
    assert [row[0] for row in table(tmp_path)] == ["training_iteration", "1", "2", "3"]


def test_rows_are_on_disk_before_close(tmp_path):
    writer = loggers.Loggers(tmp_path)
    writer.write(result(1))
    assert len(lines(tmp_path)) == 1 and len(table(tmp_path)) == 2
    writer.close()


def test_tensorboard_has_scalars_by_timesteps_and_histograms_of_hist_stats_only(tmp_path):
    row = result(3, hist_stats={"episode_reward": [1.0, 2.0, 2.0], "episode_lengths": []}, other=[1, 2], done=False)
    write(tmp_path, {**row, "time_total_s": 5.0, "date": "today"})
    found = [(event.step, value) for event in board(tmp_path) for value in event.summary.value]
    values = [(step, value) for step, value in found if value.tag != "custom_scalars__config__"]
    assert {(step, value.tag) for step, value in values} == {
        (3000, "ray/tune/timesteps_total"),
        (3000, "ray/tune/info/replay_size"),
        (3000, "ray/tune/hist_stats/episode_reward"),
    }
    histogram = next(value.histo for _, value in values if value.tag.endswith("episode_reward"))
    assert (histogram.num, histogram.sum, histogram.max) == (3, 5.0, 2.0)


def test_join_cuts_later_rows_and_the_torn_line_and_keeps_the_old_file(tmp_path):
    write(tmp_path, result(1), result(2), result(3))
    with open(tmp_path / "result.json", "a") as file:
        file.write('{"training_iteration": 4, "timest')
    with open(tmp_path / "progress.csv", "a") as file:
        file.write("4,40")
    before = (tmp_path / "result.json").read_bytes()
    assert loggers.join(tmp_path, 2)["timesteps_total"] == 2000
    assert [row["training_iteration"] for row in lines(tmp_path)] == [1, 2]
    assert [row[0] for row in table(tmp_path)] == ["training_iteration", "1", "2"]
    assert (tmp_path / "result.json.bak").read_bytes() == before
    write(tmp_path, result(3, late=1), joined_at=2000)
    assert [row["training_iteration"] for row in lines(tmp_path)] == [1, 2, 3]
    assert [row[-1] for row in table(tmp_path)] == ["late", "", "", "1"]
    assert [e.step for e in board(tmp_path) if e.session_log.status == SessionLog.START] == [2001]


def test_join_with_nothing_to_cut_leaves_no_backup(tmp_path):
    write(tmp_path, result(1), result(2))
    assert loggers.join(tmp_path, 2)["training_iteration"] == 2
    assert not (tmp_path / "result.json.bak").exists() and not (tmp_path / "progress.csv.bak").exists()


def test_join_before_the_first_row_or_without_files_leaves_none(tmp_path):
    assert loggers.join(tmp_path, 5) is None
    write(tmp_path, result(1))
    assert loggers.join(tmp_path, 0) is None
    assert lines(tmp_path) == [] and table(tmp_path) == []
    write(tmp_path, result(1))
    assert [row[0] for row in table(tmp_path)] == ["training_iteration", "1"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"timesteps_total": "many"},
        {"episode_reward_mean": [1.0]},
        {"info": [1]},
        {"info": {"num_updates": {}}},
        {"evaluation": {"training_iteration": "3"}},
        {"training_iteration": None},
    ],
)
def test_read_rows_leaves_out_rows_whose_numbers_are_none(tmp_path, wrong):
    sound = {"training_iteration": 1, "timesteps_total": 5, "episode_reward_mean": None, "evaluation": {}, "note": "x"}
    rows = [sound, {**sound, "training_iteration": 2, **wrong}]
    (tmp_path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert loggers.read_rows(tmp_path) == [sound]


def test_read_rows_leaves_out_malformed_lines(tmp_path):
    good = json.dumps(result(1)).encode()
    (tmp_path / "result.json").write_bytes(b"\n".join([good, b"\xff{", b"[]", b"{}", b'{"training_iteration": 2']))
    assert [row["training_iteration"] for row in loggers.read_rows(tmp_path)] == [1]


def test_failing_write_is_one_warning_and_its_rows_come_later(tmp_path, monkeypatch):
    heard = []
    unsubscribe = events.subscribe(lambda kind, fields: heard.append((kind, fields["text"])))
    writer = loggers.Loggers(tmp_path)
    real = os.write

    def full(fd, data):
        real(fd, data[:7])  # a part of the row arrives
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.write(result(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        writer.write(result(2))
        writer.write(result(3, late=1))
    writer.write(result(4))
    writer.close()
    unsubscribe()
    assert [row["training_iteration"] for row in lines(tmp_path)] == [1, 2, 3, 4]
    assert [row[0] for row in table(tmp_path)] == ["training_iteration", "1", "2", "3", "4"]
    assert [(kind, text.split(" ")[0]) for kind, text in heard] == [
        ("warning", "result.json"),
        ("warning", "progress.csv"),
    ]


def test_csv_rewrite_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    writer = ProgressCsv(tmp_path / "progress.csv")
    writer.write(result(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
        with pytest.raises(OSError, match="broken"):
            writer.write(result(2, late=1))
    assert [row[0] for row in table(tmp_path)] == ["training_iteration", "1"]
    assert os.listdir(tmp_path) == ["progress.csv"]


def test_loggers_in_an_unwritable_folder_only_warn(tmp_path):
    heard = []
    unsubscribe = events.subscribe(lambda kind, fields: heard.append(kind))
    write(tmp_path / "gone", result(1))
    unsubscribe()
    assert set(heard) == {"warning"} and len(heard) >= 2


def test_import_brings_no_heavy_library():
    code = "import sys, drl_cli.runs.loggers; print([n for n in ('torch','tensorflow','ray','pandas') if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
