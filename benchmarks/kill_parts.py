"""SIGKILL of the driver, the raylet or the GCS of a run of ``drl train``: exit code, message, and whether it is resumed.

    python benchmarks/kill_parts.py                                # each once with PPO, IMPALA, SAC, APEX and ES
    python benchmarks/kill_parts.py --only sac --parts gcs
    python benchmarks/kill_parts.py --joined                       # of a Ray that the run joins with --ray-address

A run with two workers and a checkpoint after each iteration is left alone until it has saved twice; then the part is killed. It
must end with the code of ``docs/what_happens_when.rst`` within ``--limit`` seconds, without a traceback, and leave no process;
``drl train --resume`` must then go on from a whole checkpoint and end with 0. With ``--joined`` the run joins a Ray of one node
that was started before, and that one loses the daemon; the resumed run joins a new one. The exit code is 1 where any of that
fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from cluster_nodes import Head

SETTINGS = {
    "ppo": ["--run", "PPO", "--env", "CartPole-v1", "-s", "train_batch_size=400", "-s", "sgd_minibatch_size=100"],
    "impala": ["--run", "IMPALA", "--env", "CartPole-v1"],
    "sac": ["--run", "SAC", "--env", "Pendulum-v1", "-s", "learning_starts=200"],
    "apex": ["--run", "APEX", "--env", "CartPole-v1", "-s", "learning_starts=200", "-s", "num_replay_shards=1"],
    "es": ["--run", "ES", "--env", "CartPole-v1", "-s", "episodes_per_batch=8"],
}
KEYS = ("num_workers=2", "timesteps_per_iteration=400", "evaluation_interval=null", "min_iter_time_s=0", "seed=100")
COMMON = [word for key in KEYS for word in ("-s", key)]
PARTS = {"driver": "", "raylet": "raylet", "gcs": "gcs_server"}
CODES = {"driver": -signal.SIGKILL, "raylet": 75, "gcs": 75}
STARTED_S = 300.0  # until a run has saved, on a machine that is busy with other things
ENDED_S = 180.0  # for Ray's agents to end, which first report the raylet's end to a GCS that is gone too
CPUS = 4  # of a Ray that is joined
SAVES, MORE = 2, 2  # iterations before the kill, and of the resumed run


class Outcome(NamedTuple):
    """What came of a kill."""

    code: int | None  # None: it had not ended after the limit
    seconds: float
    message: str  # the last lines of stderr, and where it was not resumed those of that run
    left: list[str]  # processes
    resumed: int  # exit code
    iterations: tuple[int, int]  # that the run had saved, and at the end of the resumed run


def main() -> None:
    """Kill each part of each run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--joined", action="store_true", help="the runs join a Ray that is there")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds in which the run must end")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    failed = 0
    for name in options.only:
        for part in options.parts:
            with tempfile.TemporaryDirectory() as folder:
                found = _outcome(name, part, options, Path(folder))
            wrong = _wrong(found, part)
            failed += bool(wrong)
            print(
                f"{name:>7} {part:>7}: code {found.code} after {found.seconds:.0f} s, {len(found.left)} processes left; saved "
                f"{found.iterations[0]}, resumed to {found.iterations[1]} with code {found.resumed}: {wrong or 'as documented'}"
            )
            print(f"        {found.message}\n", flush=True)
    sys.exit(bool(failed))


def _wrong(found: Outcome, part: str) -> str:
    """Return what is not as documented, an empty string for nothing."""
    problems = {
        f"code {CODES[part]} was expected": found.code != CODES[part],
        "a traceback": "Traceback" in found.message,
        f"left {', '.join(found.left)}": bool(found.left),
        "not resumed": found.resumed != 0 or found.iterations[1] != found.iterations[0] + MORE,
    }
    return ", ".join(text for text, is_so in problems.items() if is_so)


def _outcome(name: str, part: str, options: argparse.Namespace, folder: Path) -> Outcome:
    head = Head(CPUS) if options.joined else None
    words = [*SETTINGS[name], *COMMON, "--checkpoint-freq", "1", "--stop", "training_iteration=100000"]
    run = _begin(words, folder, head)
    errors = folder / "stderr"
    family: list[psutil.Process] = []
    try:
        results = _until_saved(run, folder)
        family = psutil.Process(run.pid).children(recursive=True)
        daemons = psutil.Process(head.node.pid).children(recursive=True) if head else family
        victim = psutil.Process(run.pid) if part == "driver" else _daemon(daemons, part, head)
        began = time.monotonic()
        victim.kill()
        try:
            code = run.wait(options.limit)
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - began
        message = errors.read_text().strip()
    finally:
        left = _ended(run, family)
        if head:
            head.close()
    saved = max(
        int(path.name.rpartition("_")[2]) for path in results.glob("checkpoint_*") if (path / "COMMIT").exists()
    )
    head = Head(CPUS) if options.joined else None
    again = _begin(["--resume", str(results), "--stop", f"training_iteration={saved + MORE}"], folder, head)
    try:
        resumed = again.wait(STARTED_S)
    finally:
        _ended(again, [])
        if head:
            head.close()
    if resumed:
        message += "\n" + errors.read_text().strip()
    last = json.loads((results / "result.json").read_text().splitlines()[-1])["training_iteration"]
    return Outcome(code, seconds, _last(message), left, resumed, (saved, last))


def _daemon(daemons: list[psutil.Process], part: str, head: Head | None) -> psutil.Process:
    """Return the raylet, or the GCS, which is the one that listens at the address of a Ray that was joined."""
    named = [one for one in daemons if one.name() == PARTS[part]]
    if head is None or part != "gcs":
        return named[0]
    port = int(head.address.rpartition(":")[2])
    return next(one for one in named if port in {at.laddr.port for at in one.net_connections() if at.laddr})


def _begin(words: list[str], folder: Path, head: Head | None) -> subprocess.Popen:
    command = [sys.executable, "-m", "drl_cli", "train", *words, *(["--ray-address", head.address] if head else [])]
    if words[0] != "--resume":
        command += ["--local-dir", str(folder / "results")]
    with open(folder / "stderr", "w") as errors:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)


def _until_saved(run: subprocess.Popen, folder: Path) -> Path:
    """Return the run's folder once it has saved."""
    until = time.monotonic() + STARTED_S
    while time.monotonic() < until and run.poll() is None:
        found = [path.parent for path in (folder / "results").rglob("COMMIT")]
        if len(found) >= SAVES:
            return found[0].parent
        time.sleep(0.1)
    raise SystemExit(f"the run has not saved:\n{(folder / 'stderr').read_text()}")


def _ended(run: subprocess.Popen, family: list[psutil.Process]) -> list[str]:
    """Wait for the processes of a run, kill those that stay; returns their names."""
    _, alive = psutil.wait_procs(family, timeout=ENDED_S)
    names = [one.name() for one in alive]
    if run.poll() is None:
        family = psutil.Process(run.pid).children(recursive=True)
        run.kill()
        run.wait()
        alive += family
    for one in alive:
        if one.is_running():
            one.kill()
    return names


def _last(text: str) -> str:
    return "\n        ".join(text.splitlines()[-8:])


if __name__ == "__main__":
    main()
