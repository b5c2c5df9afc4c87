"""Seconds from a signal to the end of a run and of all its processes, at each moment of a run, as a table.

    python benchmarks/stop_times.py                      # all moments, SIGINT and SIGTERM: about ten minutes
    python benchmarks/stop_times.py --only saving -n 0   # moments whose name holds the word, without workers

A moment is recognised by what the run itself writes: drl.log, an unfinished checkpoint. The save is one of
a replay of 1.1 GB, so that a signal comes in the middle of it. ``interrupted`` is what the run's record must say afterwards.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil

WIDE = 8192  # numbers of an observation; 34,000 of them are 1.1 GB
STARTED_S, ENDED_S = 240.0, 120.0
LARGE_NETS = "model={fcnet_hiddens: [" + "32, " * 31 + "32]}"  # takes XLA some ten seconds
KEYS = {
    "sampling": ("PPO", "CartPole-v1", ["train_batch_size=10000000", "xla=false"]),
    "scoring": (
        "DQN",
        "CliffWalking-v1",
        ["learning_starts=500", "evaluation_interval=1", "evaluation_max_steps=100000000"],
    ),
    "compiling": ("PPO", "CartPole-v1", [LARGE_NETS, "xla=true", "train_batch_size=4000"]),
    "search": ("PPO", "CartPole-v1", ["lr={grid_search: [0.001, 0.002]}", "xla=false"]),
    "saving": ("SAC", "StopTimesWide-v0", ["learning_starts=33000", "timesteps_per_iteration=34000", "xla=false"]),
}
MORE = {
    "scoring": ["xla=false", "timesteps_per_iteration=1000"],
    "saving": ["buffer_size=100000", "training_intensity=0.01", "evaluation_interval=null"],
}


class Wide(gymnasium.Env):
    """Observations of many random numbers that are expensive to save and cheap to make."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (WIDE,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self._seen = np.random.default_rng(0).uniform(-1, 1, (64, WIDE)).astype(np.float32)
        self._at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; returns (observation float32 [WIDE], {})."""
        super().reset(seed=seed)
        return self._seen[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make a step; episodes have 200."""
        self._at += 1
        return self._seen[self._at % 64], 0.0, False, self._at % 200 == 0, {}


if __name__ != "__main__":
    gymnasium.register("StopTimesWide-v0", entry_point=f"{__name__}:Wide")


def run_folder(folder: Path) -> Path | None:
    """The run's folder, None before there is one."""
    return next((path.parent for path in folder.glob("*/*/status.json")), None)


def log_has(folder: Path, words: str) -> bool:
    """Whether drl.log of the run has ``words``."""
    run = run_folder(folder)
    return run is not None and (run / "drl.log").exists() and words in (run / "drl.log").read_text()


def is_saving(folder: Path) -> bool:
    """Whether 50 MB of a checkpoint that is not complete have been written."""
    run = run_folder(folder)
    sizes = []
    for path in run.glob(".tmp*/*") if run else ():
        with contextlib.suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return sum(sizes) > 50e6


MOMENTS: dict[str, tuple[Callable[[Path], bool], float]] = {  # what shows that it has come, and seconds to wait then
    "sampling": (lambda folder: log_has(folder, "first_sample"), 1.0),
    "scoring": (lambda folder: log_has(folder, "first_update"), 4.0),
    "compiling": (lambda folder: log_has(folder, "compiling the update"), 1.0),
    "search": (lambda folder: log_has(folder, "first_update"), 1.0),
    "saving": (is_saving, 0.0),
}


def typed(moment: str, workers: int, folder: Path) -> list[str]:
    """The command of the run for ``moment``."""
    name, env, keys = KEYS[moment]
    keys = [*keys, *MORE.get(moment, []), f"num_workers={workers}", "seed=1"]
    words = ["train", "--run", name, "--env", env, "--stop", "{}", "--local-dir", str(folder), "--import", "stop_times"]
    words += ["--checkpoint-freq", "1"] if moment == "saving" else []
    return [sys.executable, "-m", "drl_cli", *words, *(word for key in keys for word in ("-s", key))]


def living(pid: int) -> list[psutil.Process]:
    """The processes of the session that ``pid`` leads."""
    found = []
    for one in psutil.process_iter():
        try:
            if os.getsid(one.pid) == pid and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def measure(moment: str, workers: int, numbers: list[signal.Signals]) -> str:
    """Start a run, send the signals at its moment, 0.3 s apart; returns a row of the table."""
    with tempfile.TemporaryDirectory(prefix="drl-stop-") as name:
        folder = Path(name)
        environ = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        }
        with (folder / "output.txt").open("w") as output:
            command = typed(moment, workers, folder)
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environ, start_new_session=True)
        begun = time.monotonic()
        has_come, pause = MOMENTS[moment]
        while not has_come(folder):
            if process.poll() is not None or time.monotonic() - begun > STARTED_S:
                process.kill()
                return f"{moment:10} never came:\n{(folder / 'output.txt').read_text()[-800:]}"
            time.sleep(0.05)
        time.sleep(pause)
        signalled = time.monotonic()
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.3 if len(numbers) > 1 else 0.0)
        code = process.wait(ENDED_S)
        seconds = time.monotonic() - signalled
        while living(process.pid) and time.monotonic() - signalled < ENDED_S:
            time.sleep(0.05)
        whole = time.monotonic() - signalled
        return row(moment, workers, numbers, (seconds, whole, code), run_folder(folder))


def row(
    moment: str,
    workers: int,
    numbers: list[signal.Signals],
    ended: tuple[float, float, int],
    run: Path | None,
) -> str:
    """A line of the table; ``ended``: seconds until the command and until all its processes were gone, exit code."""
    record = json.loads((run / "status.json").read_text()) if run else {}
    names = sorted(path.name for path in run.glob("checkpoint_*")) if run else []
    replay = [name for name in names if run and list((run / name).glob("replay-*"))]
    words = "+".join(number.name for number in numbers)
    told = f"{record.get('state')}, {', '.join(names) or 'no checkpoint'}{', with a replay' if replay else ''}"
    seconds, whole, code = ended
    return f"{moment:10} {workers:7}  {words:13} {seconds:5.1f} s {whole:5.1f} s {code:5}  {os.getloadavg()[0]:4.1f}  {told}"


def main() -> None:
    """Print a row for each moment, number of workers and signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="moments whose name holds this")
    parser.add_argument("-n", "--num-workers", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--signals", nargs="*", default=["SIGINT", "SIGTERM"], help="SIGINT+SIGINT sends two")
    given = parser.parse_args()
    print("moment     workers  signal         command     all   code  load  record")
    for moment in (name for name in MOMENTS if given.only in name):
        for workers in given.num_workers:
            for word in given.signals:
                print(measure(moment, workers, [signal.Signals[one] for one in word.split("+")]), flush=True)


if __name__ == "__main__":
    main()
