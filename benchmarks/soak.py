"""What a long run holds on to: memory, files, threads and shared memory of its processes over time, and their slopes.

    python benchmarks/soak.py sac --minutes 10       # SAC with 2 workers
    python benchmarks/soak.py ppo impala             # PPO without workers, then IMPALA with 4, an hour each
    python benchmarks/soak.py sac --csv build/soak   # every sample too, one file a run

Sampled every five seconds from /proc, per role: driver (the process of the command: learner, replay), actors (workers,
parameter server, tester), Ray's daemons. Memory is the proportional set size of anonymous pages, shared that of pages of
/dev/shm, such as Ray's object store; a page that n processes share counts 1/n in each. Pages of files, such as libraries, are
left out, since their share grows when another program that uses them ends. The row of the machine is all of /dev/shm, which
other programs use as well. The slope is that of a least-squares line over the samples after the warm-up (a third of the run:
compilation, a replay that fills), with the standard error of independent samples; a slope that is not several of them is none.
Minutes cannot show a leak of a megabyte an hour; the last column says what it can show.
"""

import argparse
import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drl_cli.process import descendants

EVERY_S = 5.0
WARM_UP = 1 / 3  # of the run
ENDED_S = 300.0  # beside the minutes of training, for the start and the end of a run on a busy machine
DAEMONS = ("raylet", "gcs_server", "dashboard", "log_monitor", "runtime_env_agent")
RUNS = {
    "sac": ("--run", "SAC", "--env", "Pendulum-v1", "-s", "num_workers=2", "-s", "buffer_size=20000"),
    "ppo": ("--run", "PPO", "--env", "CartPole-v1", "-s", "num_workers=0"),
    "impala": ("--run", "IMPALA", "--env", "CartPole-v1", "-s", "num_workers=4"),
}
WHAT = {"memory": "MB", "shared": "MB", "files": "", "threads": "", "processes": "", "/dev/shm": "MB"}


class Sample(NamedTuple):
    """``seconds`` since the start; ``values``: {(role, what): number}."""

    seconds: float
    values: dict[tuple[str, str], float]


def role_of(pid: int, driver: int) -> str:
    """Return the role of a process of the run."""
    if pid == driver:
        return "driver"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return "daemons" if any(name in words.split("ray::")[0] for name in DAEMONS) else "actors"


def proportional_mb(pid: int) -> dict[str, float]:
    """Return the proportional set size of a process in MB: its anonymous and its shared pages."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    names = {"memory": "Pss_Anon", "shared": "Pss_Shmem"}
    return {what: int(text.partition(f"\n{name}:")[2].split()[0]) / 1024 for what, name in names.items()}


def sample(driver: int, began: float) -> Sample:
    """Look at all processes of the run once."""
    values: dict[tuple[str, str], float] = {}

    def add(role: str, what: str, value: float) -> None:
        values[role, what] = values.get((role, what), 0.0) + value

    for pid in (driver, *descendants(driver)):
        try:
            role = role_of(pid, driver)
            found = {
                **proportional_mb(pid),
                "files": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": len(os.listdir(f"/proc/{pid}/task")),
                "processes": 1,
            }
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        for what, value in found.items():
            add(role, what, value)
    if os.path.isdir("/dev/shm"):
        usage = shutil.disk_usage("/dev/shm")
        add("machine", "/dev/shm", usage.used / 2**20)
    return Sample(time.monotonic() - began, values)


def slope(seconds: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return (slope, its standard error) of the least-squares line, per hour."""
    hours = seconds / 3600
    centred = hours - hours.mean()
    spread = float((centred**2).sum())
    if len(values) < 3 or spread == 0:
        return math.nan, math.nan
    found = float((centred * values).sum() / spread)
    rest = values - values.mean() - found * centred
    return found, math.sqrt(float((rest**2).sum()) / (len(values) - 2) / spread)


def env_steps(folder: Path) -> int:
    """Return the env steps sampled in the run below ``folder``."""
    rows = [path.read_text().splitlines() for path in folder.glob("*/*/result.json")]
    return max((json.loads(lines[-1])["timesteps_total"] for lines in rows if lines), default=0)


def run(name: str, minutes: float, folder: Path) -> tuple[list[Sample], int | None]:
    """Run ``drl train`` for ``minutes`` and return (the samples, its exit code)."""
    words = [sys.executable, "-m", "drl_cli", "train", *RUNS[name], "--stop", f"time_total_s={60 * minutes:g}", "-q"]
    words += ["--local-dir", str(folder), "--checkpoint-freq", "10", "--keep-checkpoints-num", "2"]
    began, samples = time.monotonic(), []
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while child.poll() is None and time.monotonic() - began < 60 * minutes + ENDED_S:
            samples.append(sample(child.pid, began))
            time.sleep(EVERY_S)
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    _, said = child.communicate()
    if child.returncode:
        print(said[-2000:], file=sys.stderr)
    return [one for one in samples if one.seconds <= 60 * minutes], child.returncode


def report(samples: list[Sample]) -> None:
    """Print the table of a run."""
    kept = [one for one in samples if one.seconds >= WARM_UP * samples[-1].seconds]
    seconds = np.array([one.seconds for one in kept])
    print(
        f"  {'role':9}{'what':16}{'first':>10}{'last':>10}{'an hour':>12}{'± error':>10}   smallest leak that would show"
    )
    for role, what in dict.fromkeys(key for one in kept for key in one.values):
        values = np.array([one.values.get((role, what), 0.0) for one in kept])
        found, error = slope(seconds, values)
        shown = f"{what} {WHAT[what]}".strip()
        least = f"{3 * error:,.1f} an hour" if math.isfinite(error) else "-"
        print(f"  {role:9}{shown:16}{values[0]:10,.1f}{values[-1]:10,.1f}{found:12,.1f}{error:10,.1f}   {least}")


def write_csv(path: Path, samples: list[Sample]) -> None:
    """Write every sample."""
    columns = list(dict.fromkeys(key for one in samples for key in one.values))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["seconds", *(" ".join(key) for key in columns)])
        writer.writerows([[f"{one.seconds:.1f}", *(one.values.get(key, "") for key in columns)] for one in samples])


def main() -> int:
    """Make the runs that the options ask for and print a table for each."""
    parser = argparse.ArgumentParser(description="Memory, files and threads of long runs; see the head of this file.")
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}; all of them without any")
    parser.add_argument("--minutes", type=float, default=60.0, help="of each run")
    parser.add_argument("--csv", type=Path, help="a folder for the samples")
    options = parser.parse_args()
    unknown = [name for name in options.runs if name not in RUNS]
    if unknown or not options.minutes > 0:
        parser.error(f"no such run: {unknown[0]}" if unknown else "--minutes must be above 0")
    failed = False
    for name in options.runs or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            samples, code = run(name, options.minutes, Path(folder))
            steps = env_steps(Path(folder))
        print(f"{name}: {' '.join(RUNS[name])}, {options.minutes:g} min, exit code {code}, {len(samples)} samples")
        print(f"  {steps:,} env steps; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        failed = failed or bool(code) or len(samples) < 6
        if len(samples) >= 6:
            report(samples)
        if options.csv:
            options.csv.mkdir(parents=True, exist_ok=True)
            write_csv(options.csv / f"{name}.csv", samples)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
