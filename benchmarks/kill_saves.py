"""SIGKILL at random moments of saving, pruning, packing and resuming: what is left must be whole, as a table.

    python benchmarks/kill_saves.py                      # 1,900 savers and 100 runs: about half an hour
    python benchmarks/kill_saves.py --savers 300 --runs 0
    python benchmarks/kill_saves.py --savers 0 --runs 20 --seed 1

A saver is a process that resumes a run folder as ``drl train --resume`` does and then saves, replaces, drops replays,
prunes, packs and unpacks without pause; it needs no TensorFlow. A run is ``drl train``, ARS and SAC in turn, which is resumed
after every kill. After each kill all checkpoints and archives that have their final names are read in full, the newest one must
be the one that was reported last or the one after it, and what was being made may leave one temporary folder. The first failure
ends the script.
``tests/checkpoints/test_checkpoint_kill.py`` kills a few savers.
"""

import argparse
import collections
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from checkpoint_maker import FACTS, read_everything, save

from drl_cli.checkpoints import Checkpoint
from drl_cli.runs import pack, retention, run_folder, unpack

KEEP = 2
PHASES = ("starting", "resuming", "saving", "replacing", "dropping a replay", "pruning", "packing", "unpacking")
LONGEST_S = 0.5  # until a saver is killed: a few rounds of it on a slow disk
RUNS = (
    ["--run", "ARS", "--env", "CartPole-v1", "-s", "timesteps_per_iteration=100"],
    ["--run", "SAC", "--env", "Pendulum-v1", "-s", "learning_starts=200", "-s", "timesteps_per_iteration=200"],
)
COMMON = [
    "-s",
    "num_workers=0",
    "-s",
    "xla=false",
    "-s",
    "evaluation_interval=null",
    "--stop",
    "training_iteration=100000",
]
MOST_SAVES = 8  # of a run before it is killed
STARTED_S = 300.0  # until a run has begun to save, on a machine that is busy with other things
KILLS_PER_RUN = 10


class Report:
    """What a saver says of itself in memory that outlives it: the phase it is in, and the number last saved."""

    def __init__(self) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 16)).cast("q")

    @property
    def phase(self) -> str:
        """One of ``PHASES``."""
        return PHASES[self._numbers[0]]

    @property
    def saved(self) -> int:
        """The number of the newest checkpoint whose save had returned, 0 before the first."""
        return self._numbers[1]

    def enter(self, phase: str) -> None:
        """Note that ``phase`` begins."""
        self._numbers[0] = PHASES.index(phase)

    def acknowledge(self, number: int) -> None:
        """Note that the save of ``number`` has returned."""
        self._numbers[1] = number


def save_without_end(run: Path, out: Path, report: Report) -> None:
    """Resume ``run`` and change it without pause; archives and what they unpack to go into ``out``."""
    report.enter("resuming")
    opened = run_folder.reopen(run)
    number = newest(run).number if retention.numbers(run) else 0
    while True:
        number += 1
        report.enter("saving")
        save(opened.path, number, replay=number % 2 == 0)
        report.acknowledge(number)
        if number % 2:
            report.enter("replacing")
            save(opened.path, number, {**FACTS, "reason": "final"})
        report.enter("dropping a replay")
        for _, path in retention.numbers(run)[:-1]:
            retention.drop_replay(path)
        report.enter("pruning")
        retention.prune(run, KEEP)
        report.enter("packing")
        discard(out)
        ending = ("tar.gz", "zip")[number % 2]
        archive = pack.pack(
            run / f"checkpoint_{number:06d}", out / f"newest.{ending}", with_replay=number % 3 == 0
        ).path
        report.enter("unpacking")
        unpack.unpack(archive, out / "unpacked")


def discard(out: Path) -> None:
    """Take what was packed and unpacked out of ``out`` in single steps: this script must leave nothing half itself."""
    trash = out.with_name("trash")
    for path in [*out.glob("newest.*"), *out.glob("unpacked/checkpoint_*")]:
        _remove(trash)  # a killed process may have left a folder or a file there
        os.rename(path, trash)
    _remove(trash)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def newest(run: Path) -> Checkpoint:
    """Return the newest whole checkpoint of ``run``; AssertionError where a newer one was skipped."""
    found, skipped = retention.newest_valid(run)
    assert not skipped, skipped
    return found


def hidden(folder: Path) -> list[Path]:
    """Return the temporary files and folders in ``folder``."""
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return [path for path in inside if path.name.startswith(".") and path.name != ".lock"]


def check_saver(run: Path, out: Path, report: Report, before: int) -> None:
    """Raise AssertionError unless all that the killed saver left is whole; ``before``: the newest number before it began."""
    acknowledged = max(before, report.saved)
    # A checkpoint that is being replaced stands aside for a moment; resuming puts it back. ``out`` holds archives of two names.
    for place, most in ((run, 1 + (report.phase == "replacing")), (out, 2), (out / "unpacked", 1)):
        assert len(hidden(place)) <= most, hidden(place)
    for number, path in retention.numbers(run):
        assert read_everything_left(path) == number, path
    for archive in out.glob("newest.*"):
        unpack.verify(archive)
    for path in out.glob("unpacked/checkpoint_*"):
        assert read_everything_left(path)
    run_folder.reopen(run).close()
    assert not hidden(run)
    if acknowledged:
        assert newest(run).number in (acknowledged, acknowledged + 1)


def read_everything_left(path: Path) -> int:
    """Read all parts of a checkpoint and return the iteration in its state."""
    return read_everything(path)["state"]["iteration"]


def kill_savers(folder: Path, count: int, seed: int) -> collections.Counter[str]:
    """Kill ``count`` savers of one run below ``folder`` and check what each leaves; returns how many died in each phase.

    Raises AssertionError at the first failure.
    """
    rng, died, last = random.Random(seed), collections.Counter(), 0
    run, out, report = folder / "run", folder / "out", Report()
    run.mkdir()
    out.mkdir()
    (run / "params.json").write_text("{}")
    for _ in range(count):
        report.enter("starting")
        child = os.fork()
        if child == 0:
            try:
                save_without_end(run, out, report)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        time.sleep(rng.uniform(0.0, LONGEST_S))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, f"failed while {report.phase}"
        died[report.phase] += 1
        check_saver(run, out, report, last)
        last = max(last, report.saved, newest(run).number if retention.numbers(run) else 0)
    return died


def kill_runs(folder: Path, count: int, seed: int) -> collections.Counter[str]:
    """Kill ``count`` times a run of ``drl train`` that is resumed each time; returns how many died with which state.

    Raises AssertionError at the first failure.
    """
    rng, died = random.Random(seed), collections.Counter()
    for kill in range(count):
        number = kill // KILLS_PER_RUN
        place = folder / f"runs_{number}"
        runs = [path.parent for path in place.glob("*/*/params.json")]
        before = last_row(runs[0]) if runs else 0
        words = [
            *RUNS[number % 2],
            *COMMON,
            "--checkpoint-freq",
            "1",
            "--keep-checkpoints-num",
            "2",
            "--local-dir",
            str(place),
        ]
        words = [f"--resume={runs[0]}"] if runs else words
        log = folder / "output.txt"
        with open(log, "wb") as output:
            child = subprocess.Popen([sys.executable, "-m", "drl_cli", "train", *words], stdout=output, stderr=output)
        wait_for_saves(place, before + rng.randrange(MOST_SAVES) if rng.random() < 0.8 else 0)
        time.sleep(rng.uniform(0.0, 0.5))
        child.kill()
        assert child.wait() == -signal.SIGKILL, log.read_text()
        died[check_run(place, before)] += 1
    return died


def wait_for_saves(place: Path, number: int) -> None:
    """Wait until the run below ``place`` has a checkpoint of ``number`` or later; not at all for 0."""
    until = time.monotonic() + STARTED_S
    while number and time.monotonic() < until:
        if any(retention.number_of(path) >= number for path in place.glob("*/*/checkpoint_*")):
            return
        time.sleep(0.02)
    assert not number, f"no checkpoint {number} in {STARTED_S:g} s"


def last_row(run: Path) -> int:
    """Return the iteration of the last whole line of result.json, 0 without one."""
    path = run / "result.json"
    rows = path.read_text().split("\n")[:-1] if path.exists() else []
    return json.loads(rows[-1])["training_iteration"] if rows else 0


def check_run(place: Path, before: int) -> str:
    """Check what a killed run left; returns in a word how far it was. ``before``: its last result before it was resumed."""
    runs = [path.parent for path in place.glob("*/*/params.json")]
    if not runs:
        return "before its folder"
    (run,) = runs
    assert len(hidden(run)) <= 2, hidden(run)  # a checkpoint in the making, one that gives way
    for _, path in retention.numbers(run):
        found = retention.load(path, optional=True)
        assert found.require_facts()["counters"]["training_iteration"] == found.number
    if not retention.numbers(run):
        return "before its first checkpoint"
    run_folder.reopen(run).close()
    assert not hidden(run), hidden(run)
    # A result is written before its checkpoint: at most one iteration is trained again.
    assert newest(run).number in (last_row(run), last_row(run) - 1, last_row(run) + 1), (newest(run), last_row(run))
    return "after its resume" if last_row(run) == before else "between checkpoints"


def main() -> int:
    """Kill what the options ask for and print one table."""
    parser = argparse.ArgumentParser(description="SIGKILL at random moments of saving; see the head of this file.")
    parser.add_argument("--savers", type=int, default=1900, help="processes to kill that only save")
    parser.add_argument("--runs", type=int, default=100, help="kills of whole runs")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    for what, count, kill in (("saver", options.savers, kill_savers), ("run", options.runs, kill_runs)):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            died = kill(Path(folder), count, options.seed) if count else {}
        for phase, times in sorted(died.items(), key=lambda pair: -pair[1]):
            print(f"{what}  killed {phase:28}{times:7,}")
        print(f"{what}  in all {count:,}, nothing half, nothing lost, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
