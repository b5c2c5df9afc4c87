"""Receipts of tuned files: benchmarks/fidelity.py runs what is missing and writes what came out."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from drl_cli.experiments import tuned_files

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def fidelity():
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("fidelity", ROOT / "benchmarks" / "fidelity.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


def rows(*touches, held=480.0, load=0.2):
    facts = {"bar": 475.0, "held": held, "load": load, "machine": "2 cores of a CPU", "day": "2026-01-02"}
    return [
        {"seed": seed, "touch s": touch, "env steps": 1000 * (seed + 1)} | facts
        if touch is not None
        else {"seed": seed, "load": load, "machine": "2 cores of a CPU", "day": "2026-01-02"}
        for seed, touch in enumerate(touches)
    ]


def test_a_receipt_reads_back_as_what_was_measured(fidelity, tmp_path):
    measured = rows(9.0, 12.0, 10.0)
    path = tmp_path / "cartpole-ppo.yaml"
    text = fidelity.with_receipt(
        tuned_files.shipped()["cartpole-ppo"].read_text("utf-8"),
        fidelity.receipt(measured, []),
        measured,
        fidelity.machine(measured),
    )
    path.write_text(text, "utf-8")
    read = tuned_files.read(path)
    assert (read.median_s, read.worst_s, read.env_steps, read.seeds) == (10.0, 12.0, 2000, "0 to 2")
    assert read.took[0].endswith("held 3 of 3")
    assert read.machine == "2 cores of a CPU, 2026-01-02"
    assert read.took[1].startswith("with num_workers 0: ")  # the other condition keeps what was measured for it


def test_a_receipt_of_other_settings_leaves_the_files_own_alone(fidelity):
    before = tuned_files.shipped()["cartpole-ppo"].read_text("utf-8")
    after = fidelity.with_receipt(
        before, fidelity.receipt(rows(1.0, 2.0), ["num_workers=0"]), rows(1.0, 2.0), "elsewhere"
    )
    changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert changed[0][1] == (
        "#          with num_workers 0: median 1.5 s, worst 2.0 s from the start of the process, 1,500 env steps; held 2 of 2"
    )


def test_the_first_receipt_of_a_file_needs_no_lines_prepared_for_it(fidelity, tmp_path):
    path = tmp_path / "cartpole-ppo.yaml"
    new = "# PPO balances.\n#\n# goal     475\ncartpole-ppo:\n  run: PPO\n  env: CartPole-v1\n  config: {num_workers: 2}\n"
    path.write_text(
        fidelity.with_receipt(new, fidelity.receipt(rows(1.0, 3.0), []), rows(1.0, 3.0), "a machine"), "utf-8"
    )
    read = tuned_files.read(path)
    assert (read.median_s, read.seeds, read.machine) == (2.0, "0, 1", "a machine")
    assert path.read_text("utf-8").index("# goal") < path.read_text("utf-8").index("# seeds")


def test_a_sentence_of_the_header_that_begins_with_seeds_or_machine_stays(fidelity):
    prose = "# What was tried held with 3\n# seeds of 5 on one\n# machine of two.\n"
    text = prose + "# seeds    7\n# took     nothing\n# machine  none\n"
    after = fidelity.with_receipt(text, "median", rows(1.0, 2.0, 3.0), "here")
    assert after == prose + "# seeds    0 to 2\n# took     median\n# machine  here\n"


def test_a_receipt_of_new_settings_is_added(fidelity):
    before = tuned_files.shipped()["cartpole-ppo"].read_text("utf-8")
    after = fidelity.with_receipt(before, fidelity.receipt(rows(1.0), ["num_workers=4"]), rows(1.0), "elsewhere")
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    assert "#          with num_workers 4: median 1.0 s" in after


def test_receipt_of_further_seeds_stands_below_the_files_own_and_counts_with_it(fidelity, tmp_path):
    path = tmp_path / "a-b.yaml"
    text = (
        "# A.\n#\n# goal     5\n# seeds    0 to 2\n# took     median 1.0 s; held 3 of 3\n#          9 s of processor time\n"
        "#          with num_workers 2: median 2.0 s; held 1 of 3\n# machine  x\na-b:\n  run: B\n"
    )
    for held in (1, 2):
        text = fidelity.with_receipt(text, f"seeds 5 to 7: median 3.0 s; held {held} of 3 (y)", rows(3.0), "y")
    path.write_text(text, "utf-8")
    read = tuned_files.read(path)
    assert read.took[2:] == [
        "seeds 5 to 7: median 3.0 s; held 2 of 3 (y)",
        "with num_workers 2: median 2.0 s; held 1 of 3",
    ]
    assert (read.held, read.seeds, read.machine, read.median_s) == ((5, 6), "0 to 2", "x", 1.0)


def test_seeds_that_did_not_reach_the_goal_are_in_the_receipt(fidelity):
    assert fidelity.receipt(rows(9.0, None), []).startswith("reached by 1 of 2, these in median 9.0 s")
    assert fidelity.receipt(rows(None, None), []) == "reached by 0 of 2"


def test_a_receipt_says_where_a_margin_was_held(fidelity):
    measured = [row | {"target": 495.0} for row in rows(9.0, 12.0)]
    assert fidelity.receipt(measured, []).endswith("held 2 of 2 (at 475)")


def test_load_beside_the_runs_is_in_the_receipt(fidelity):
    assert fidelity.machine(rows(1.0, load=6.2)).endswith("2026-01-02, beside other work (load 6)")


@pytest.mark.parametrize(
    ("settings", "first"),
    [([], "cartpole-ppo "), (["num_workers=0"], "cartpole-ppo, ``num_workers: 0``"), (["num_workers=4"], None)],
)
def test_the_row_of_the_page_takes_the_figures(fidelity, settings, first):
    page = (ROOT / "docs" / "measured.rst").read_text("utf-8")
    after, is_there = fidelity.with_table_row(page, "cartpole-ppo", settings, rows(1.0, 2.0, 3.0))
    changed = [b for a, b in zip(page.splitlines(), after.splitlines(), strict=True) if a != b]
    assert is_there == (first is not None)
    if first:
        assert changed[0].startswith(first)
        assert changed[0].split()[-7:] == ["490", "2.0", "3.0", "3", "of", "3", "2,000"]
    assert len(changed) == is_there


def test_the_row_of_a_table_with_processor_time_takes_it_and_the_goal_of_the_file(fidelity):
    page = (ROOT / "docs" / "measured.rst").read_text("utf-8")
    measured = [row | {"CPU s": 10.0 * row["touch s"], "target": 3333.0} for row in rows(1.0, 2.0, 3.0)]
    after, is_there = fidelity.with_table_row(page, "walker2d-crossq", [], measured)
    changed = [b for a, b in zip(page.splitlines(), after.splitlines(), strict=True) if a != b]
    assert is_there and len(changed) == 1
    assert changed[0].split() == ["walker2d-crossq", "3333", "2.0", "3.0", "3", "of", "3", "2,000", "20"]


def test_a_figure_wider_than_its_column_leaves_the_page_as_it_was(fidelity):
    page = (ROOT / "docs" / "measured.rst").read_text("utf-8")
    measured = [row | {"target": 1234567.0} for row in rows(1.0, 2.0, 3.0)]
    assert fidelity.with_table_row(page, "walker2d-crossq", [], measured) == (page, False)


def test_a_receipt_has_the_processor_time_in_a_line_of_its_own(fidelity):
    measured = [row | {"CPU s": 10.0 * row["touch s"]} for row in rows(1.0, 2.0, 3.0)]
    text = "# seeds    7\n# took     nothing\n#          9 s of processor time\n# machine  none\n    num_workers: 0\n"
    after = fidelity.with_receipt(text, "median", measured, "here")
    assert after.splitlines()[1:3] == [
        "# took     median",
        "#          20 s of processor time, the evaluations after the goal included",
    ]
    assert "9 s of" not in after


def test_a_receipt_of_a_file_with_workers_leaves_out_processor_time_in_which_they_are_not(fidelity):
    measured = [row | {"CPU s": 10.0 * row["touch s"]} for row in rows(1.0, 2.0, 3.0)]
    text = "# took     nothing\n# machine  none\n    num_workers: 2\n"
    assert "processor time" not in fidelity.with_receipt(text, "median", measured, "here")


def test_receipts_of_further_seeds_go_with_the_receipt_that_they_belong_to_and_stay_with_that_of_other_settings(
    fidelity,
):
    text = (
        "# seeds    7\n# took     nothing\n#          with a 1: this\n#          seeds 5 to 9: that\n# machine  none\n"
    )
    after = fidelity.with_receipt(text, "median", rows(1.0), "here")
    assert "seeds 5 to 9" not in after and "#          with a 1: this\n" in after
    after = fidelity.with_receipt(text, "with a 1: median", rows(1.0), "here")
    assert "#          with a 1: median\n#          seeds 5 to 9: that\n" in after


def test_an_interrupted_measurement_goes_on_where_it_was(fidelity, tmp_path):
    record = tmp_path / "build" / "fidelity.jsonl"
    ran = []

    def run(seed):
        if seed == 2 and len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(seed)
        return {"seed": seed, "touch s": 1.0 + seed}

    def measure(key):
        return fidelity.measure(
            [0, 1, 2], fidelity.finished(record, key), run, lambda row: fidelity._keep(record, {"key": key} | row)
        )

    with pytest.raises(KeyboardInterrupt):
        measure("a")
    record.write_text(record.read_text("utf-8") + '{"key": "a", "se', "utf-8")  # and the last line was cut short
    ran.append("again")
    assert [row["touch s"] for row in measure("a")] == [1.0, 2.0, 3.0]
    assert ran == [0, 1, "again", 2]
    measure("b")
    assert ran[4:] == [0, 1, 2]  # other settings: nothing is taken over
    assert all(json.loads(line)["machine"] for line in record.read_text("utf-8").splitlines() if line.endswith("}"))


def test_recorded_runs_belong_to_the_settings_of_the_file_and_not_to_its_comments(fidelity, tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text("# took     1 s\none:\n  run: PPO\n", "utf-8")
    before = fidelity.identity(path, [])
    path.write_text("# took     2 s\none:\n  run: PPO  # it learns\n", "utf-8")
    assert fidelity.identity(path, []) == before
    assert fidelity.identity(path, ["lr=1"]) != before
    path.write_text("one:\n  run: A2C\n", "utf-8")
    assert fidelity.identity(path, []) != before
