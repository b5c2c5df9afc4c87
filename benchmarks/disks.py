"""Runs on disks and machines that are full, broken, slow or small: what each did, its exit code and what is left, as a table.

    python benchmarks/disks.py                  # all conditions: about five minutes
    python benchmarks/disks.py --only disk      # those whose name holds the word
    python benchmarks/disks.py --list

Each condition is a short ``drl train`` (DQN or PPO on CartPole-v1, inline; with Ray where shared memory or workers are the
subject) with a checkpoint every iteration. The trouble begins at the third iteration, unless it is there from the start. A run
passes when it ended with a documented exit code or the signal that the condition foresees, printed no traceback, left every
checkpoint that it had reported intact (checked as ``drl checkpoint verify`` does), left no process behind, and, once the
condition is over, can be resumed. Full disks are tmpfs mounts in a mount namespace of this script's own, which takes root;
errors, slowness and clocks come from the library of ``tests/troubled_machine.py``, which takes a C compiler. What cannot be
made is skipped, and said.
"""

import argparse
import contextlib
import dataclasses
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import process_family
import psutil
import troubled_machine as trouble

from drl_cli.checks import verify
from drl_cli.cli import endings

ITERATIONS = 8
BEGIN, END = 3, 6
LONGEST_S = 150.0  # of a run; one that takes longer hangs
SETTLED_S = 15.0
KEYS = ("timesteps_per_iteration=300", "evaluation_interval=null", "seed=1", "xla=false")
INLINE = ("--run", "DQN", "-s", "num_workers=0", "-s", "learning_starts=100")
SHARDS = ("--run", "APEX", "-s", "num_workers=1", "-s", "learning_starts=100", "-s", "num_replay_shards=1")
COMPILED = ("--run", "DQN", "-s", "num_workers=0", "-s", "xla=true")
PPO = ("--run", "PPO", "-s", "num_workers=0", "-s", "train_batch_size=400")
WITH_RAY = ("--run", "PPO", "-s", "num_workers=2", "-s", "train_batch_size=400")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the run of a condition goes: ``folder`` for results; ``switch``, ``preload`` and ``saved`` of ``trouble``."""

    folder: Path
    switch: Path
    preload: Path
    saved: Path


@dataclasses.dataclass(frozen=True)
class Condition:
    """``codes`` that a run may end with; the others say how it comes about.

    ``env``: variables of the run; ``mount``: options of a tmpfs that is mounted on the results; ``shm``: the size of /dev/shm;
    ``limits``: resource → value; ``memory``: bytes of a control group; ``words``: of the command; ``redirect``: of stdout.
    ``kept``: checkpoints that the run must at least have reported; ``resumes``: that it must be possible to go on afterwards.
    """

    name: str
    codes: tuple[int, ...]
    env: Callable[[Place], dict[str, str]] = lambda place: {}
    mount: str | None = None
    read_only: bool = False
    shm: str | None = None
    limits: tuple[tuple[int, int], ...] = ()
    memory: int | None = None
    words: tuple[str, ...] = INLINE
    redirect: str | None = None
    kept: int = 0
    resumes: bool = False


def calls(words: str, code: int | None, end: int | None = None, **more: int | str) -> Callable[[Place], dict[str, str]]:
    """Return the variables of a run in which the system calls ``words`` fail with ``code`` from iteration 3 (to ``end``)."""
    sent = {"signal": more.pop("signal")} if "signal" in more else {}

    def env(place: Place) -> dict[str, str]:
        error = {} if code is None else {"errno": code}
        made = trouble.calls_below(place.folder, place.switch, place.preload, words, **error, **more)
        return made | trouble.inside(place.saved, BEGIN, end, switch=place.switch, **sent)

    return env


def inside(end: int | None = None, **what: int | str) -> Callable[[Place], dict[str, str]]:
    """Return the variables of a run in which ``what`` of ``troubled_machine.inside`` begins at iteration 3; "": the results."""

    def env(place: Place) -> dict[str, str]:
        meant = {name: place.folder if value == "" else value for name, value in what.items()}
        return trouble.inside(place.saved, BEGIN, end, **meant)

    return env


def jump(seconds: int) -> Callable[[Place], dict[str, str]]:
    """Return the variables of a run whose wall clock jumps at iteration 3."""
    return lambda place: (
        trouble.clock_jump(place.switch, place.preload, seconds)
        | trouble.inside(place.saved, BEGIN, None, switch=place.switch)
    )


def quiet(place: Place) -> dict[str, str]:
    """Return the variables of a run without trouble inside."""
    return trouble.inside(place.saved)


GO_ON = {"kept": ITERATIONS, "resumes": True}
SOME = {"kept": BEGIN - 1, "resumes": True}
NOFILE, AS, FSIZE = resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE
MB = 2**20
CONDITIONS = (
    Condition("none, inline", (0,), quiet, **GO_ON),
    Condition("none, Ray", (0,), quiet, words=WITH_RAY, **GO_ON),
    Condition("disk full from the start", (5,), quiet, mount="size=16k"),
    Condition("disk full from iteration 3", (5,), inside(fill=""), mount="size=64m", **SOME),
    Condition("disk full, iterations 3 to 6", (0,), inside(END, fill=""), mount="size=64m", kept=3, resumes=True),
    Condition("disk full at the replay, from iteration 3", (5,), calls("write", errno.ENOSPC, name="replay-0"), **SOME),
    Condition(
        "disk full at the replay, Ray", (5,), calls("write", errno.ENOSPC, name="replay-0"), words=SHARDS, **SOME
    ),
    Condition("no inodes from the start", (5,), quiet, mount="size=64m,nr_inodes=3"),
    Condition("no inodes from iteration 3", (5,), inside(names=""), mount="size=64m,nr_inodes=200", **SOME),
    Condition("no inodes, iterations 3 to 6", (0,), inside(END, names=""), mount="size=64m,nr_inodes=200", **SOME),
    Condition("read-only from the start", (2,), quiet, mount="size=64m", read_only=True),
    Condition(
        "read-only (EROFS) from iteration 3", (5,), calls("create,open,mkdir,rename,unlink", errno.EROFS), **SOME
    ),
    Condition("EIO at every write from iteration 3", (5,), calls("write,fsync,truncate", errno.EIO), **SOME),
    Condition("EIO at fsync, iterations 3 to 6", (0,), calls("fsync", errno.EIO, END), **SOME),
    Condition("EIO at rename from iteration 3", (5,), calls("rename", errno.EIO), **SOME),
    Condition("quota (EDQUOT) from iteration 3", (5,), calls("create,write,mkdir", errno.EDQUOT), **SOME),
    Condition("stale NFS handle (ESTALE) from iteration 3", (5,), calls(trouble.ALL_WRITES, errno.ESTALE), **SOME),
    Condition("slow disk, 100 ms a call", (0,), calls("write,fsync,rename,create", None, wait_ms=100), **GO_ON),
    Condition("slow disk, 100 ms a call, SIGTERM", (143,), calls("fsync,write", None, wait_ms=100, signal=15), **SOME),
    Condition("disk hangs, SIGTERM", (143,), calls("fsync", None, wait_ms=10**8, signal=15), **SOME),
    Condition("file size limit (EFBIG) from iteration 3", (5,), inside(size=4096), **SOME),
    Condition("clock jumps a year ahead", (0,), jump(31_536_000), **GO_ON),
    Condition("clock jumps an hour back", (0,), jump(-3600), **GO_ON),
    Condition("clock jumps to before 1970", (0,), jump(-(2**31)), **GO_ON),
    Condition("/dev/shm of 64 MB, Ray", (0,), quiet, shm="64m", words=WITH_RAY, **GO_ON),
    Condition("/dev/shm of 1 MB, Ray", (0, 5, 75), quiet, shm="1m", words=WITH_RAY),
    Condition("200 open files, inline", (0,), quiet, limits=((NOFILE, 200),), **GO_ON),
    Condition("200 open files, Ray", (0, 5, 75), quiet, limits=((NOFILE, 200),), words=WITH_RAY),
    Condition("30 open files, inline", (0, 5), quiet, limits=((NOFILE, 30),)),
    Condition("no more files from iteration 3", (5,), inside(files=0), **SOME),
    Condition("no more files, iterations 3 to 6", (0,), inside(END, files=0), **SOME),
    Condition("memory limit 1 GB (RLIMIT_AS)", (5,), quiet, limits=((AS, 1024 * MB),)),
    Condition("no more memory (RLIMIT_AS) from iteration 3", (5,), inside(memory=MB), **SOME),
    Condition("killed as if out of memory (SIGKILL)", (-signal.SIGKILL,), inside(signal=9), **SOME),
    Condition(
        "killed as if out of memory (SIGKILL), Ray", (-signal.SIGKILL,), inside(signal=9), words=WITH_RAY, **SOME
    ),
    Condition("worker killed as if out of memory, Ray", (0,), inside(worker=9), words=WITH_RAY, **GO_ON),
    Condition("memory limit 300 MB (control group)", (0,), quiet, memory=300 * MB, **GO_ON),
    Condition("memory limit 200 MB (control group)", (5,), quiet, memory=200 * MB),
    Condition("memory limit 350 MB (control group), compiled", (5,), quiet, memory=350 * MB, words=COMPILED),
    Condition("memory limit 1 GB (control group), Ray", (0, 3, 5), quiet, memory=1024 * MB, words=WITH_RAY),
    Condition("memory limit 150 MB (control group), PPO", (5, -signal.SIGKILL), quiet, memory=150 * MB, words=PPO),
    Condition("stdout on a full device", (0,), quiet, redirect="/dev/full", **GO_ON),
)


@contextlib.contextmanager
def mounted(folder: Path, options: str, read_only: bool = False) -> Iterator[None]:
    """A tmpfs with ``options`` on ``folder``."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, capture_output=True)
    try:
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def memory_group(size: int) -> Iterator[Path]:
    """A control group of ``size`` bytes without swap; yields the file that takes process numbers."""
    top = Path("/sys/fs/cgroup")
    old = (top / "memory").is_dir()
    group = (top / "memory" if old else top) / f"drl-disks-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(size))
        yield group / "cgroup.procs"
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def missing(condition: Condition, has_mounts: bool) -> str | None:
    """Return why this machine cannot make the condition, or None."""
    if (condition.mount or condition.shm) and not has_mounts:
        return "no right to mount"
    if condition.memory and not os.access("/sys/fs/cgroup", os.W_OK):
        return "no right to make control groups"
    return None


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a run ended: ``code``, None where it was ended for taking too long; what it printed; ``seconds``."""

    code: int | None
    said: str
    seconds: float


def run(words: list[str], condition: Condition, env: dict[str, str], group: Path | None = None) -> Ending:
    """Run ``drl`` with ``words`` under the limits of the condition."""

    def limit() -> None:
        if group is not None:
            group.write_text(str(os.getpid()))
        for name, value in condition.limits:
            resource.setrlimit(name, (value, value))

    began = time.monotonic()
    with tempfile.TemporaryFile() as said, contextlib.ExitStack() as stack:
        out = stack.enter_context(open(condition.redirect, "wb")) if condition.redirect else said
        command = [sys.executable, "-m", "drl_cli", *words]
        child = subprocess.Popen(
            command, stdout=out, stderr=said, env={**os.environ, **env}, preexec_fn=limit, start_new_session=True
        )
        try:
            code = child.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said.seek(0)
        return Ending(code, said.read().decode("utf-8", "replace"), time.monotonic() - began)


def logs(run_folder: Path | None) -> str:
    """Return what the run's logs hold, "" where there are none."""
    found = sorted(run_folder.glob("*.log")) if run_folder else []
    return "".join(path.read_text(errors="replace") for path in found)


def judged(condition: Condition, place: Place, ending: Ending) -> tuple[list[str], str]:
    """Return (what is wrong, "n of m" checkpoints that are whole of those that the run had reported)."""
    wrong = []
    if ending.code is None:
        wrong.append(f"hangs: not over after {LONGEST_S:g} s")
    elif ending.code not in condition.codes:
        wrong.append(f"exit code {ending.code}, {' or '.join(map(str, condition.codes))} expected")
    run_folder = next(place.folder.glob("default/*"), None)
    if "Traceback" in ending.said or "a bug in drl" in ending.said:
        wrong.append("a traceback on the screen")
    elif "Traceback" in logs(run_folder):
        wrong.append("a traceback in a log")
    names = dict.fromkeys(place.saved.read_text().split() if place.saved.exists() else ())
    verified = [verify.verify(run_folder / name) for name in names] if run_folder else []
    whole = sum(one.damage is None for one in verified)
    if whole < len(names):
        wrong.append("lost " + ", ".join(n for n, one in zip(names, verified, strict=True) if one.damage))
    if len(names) < condition.kept:
        wrong.append(f"{len(names)} checkpoints, {condition.kept} expected")
    return wrong, f"{whole} of {len(names)}"


def left_over(place: Place) -> list[str]:
    """Return the names of processes of the run that are there ``SETTLED_S`` after it ended, and end them."""

    def belongs(process: psutil.Process) -> bool:
        try:
            return str(place.saved) in process.environ().get(trouble.SETTING, "")
        except psutil.AccessDenied:
            return False  # of another user

    until = time.monotonic() + SETTLED_S
    while True:
        found = [process for process, is_ours in process_family.asked(psutil.process_iter(), belongs) if is_ours]
        if not found or time.monotonic() > until:
            break
        time.sleep(0.2)
    names = [name for _, name in process_family.asked(found, lambda process: process.name())]
    process_family.asked(found, lambda process: process.kill())
    return sorted(names)


def last_line(said: str) -> str:
    """Return the last line that names an error or how the run ended."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("Error: ")] or [line for line in lines if "finished" in line]
    return (told or lines or [""])[-1]


def resumed(condition: Condition, place: Place) -> list[str]:
    """Go on with the run without its trouble; returns what is wrong."""
    run_folder = next(place.folder.glob("default/*"), None)
    words = ["train", "--resume", str(run_folder), "--stop", f"training_iteration={ITERATIONS + 1}"]
    plain = dataclasses.replace(condition, limits=(), redirect=None)
    ending = run(words, plain, {"PYTHONPATH": trouble.inside(place.saved)["PYTHONPATH"]})
    return [] if ending.code == 0 else [f"the resumed run ends with {ending.code}: {last_line(ending.said)}"]


def tried(condition: Condition, top: Path, library: Path) -> tuple[list[str], str, Ending]:
    """Make the condition and a run in it; returns (what is wrong, checkpoints, how the run ended)."""
    folder = top / "results"
    shutil.rmtree(top, ignore_errors=True)
    folder.mkdir(parents=True)
    place = Place(folder, top / "switch", library, top / "saved")
    with contextlib.ExitStack() as stack:
        if condition.mount:
            stack.enter_context(mounted(folder, condition.mount, condition.read_only))
        if condition.shm:
            stack.enter_context(mounted(Path("/dev/shm"), f"size={condition.shm}"))
        group = stack.enter_context(memory_group(condition.memory)) if condition.memory else None
        words = ["train", *condition.words, "--env", "CartPole-v1", "--import", "troubled_machine"]
        words += [word for key in KEYS if key.split("=")[0] not in " ".join(condition.words) for word in ("-s", key)]
        words += ["--local-dir", str(folder), "--checkpoint-freq", "1", "--stop", f"training_iteration={ITERATIONS}"]
        ending = run(words, condition, condition.env(place), group)
        place.switch.unlink(missing_ok=True)
        for path in (*folder.glob(".filler"), *folder.glob(".name-*")):
            path.unlink()
        wrong, checkpoints = judged(condition, place, ending)
        left = left_over(place)
        wrong += [f"processes are left: {', '.join(left)}"] if left else []
        if condition.resumes and not wrong:
            wrong += resumed(condition, place)
    return wrong, checkpoints, ending


def own_mounts() -> bool:
    """Give this process a mount namespace of its own; returns whether that and mounting works."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    if libc.unshare(0x00020000):  # CLONE_NEWNS
        return False
    if subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder), "size=16k"):
                return True
        except subprocess.CalledProcessError:
            return False


def main() -> int:
    """Try the conditions that the options ask for, print one table, and return whether any failed."""
    parser = argparse.ArgumentParser(description="Runs on disks and machines in trouble; see the head of this file.")
    parser.add_argument("--only", default="", help="conditions whose name holds this")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument(
        "--log", type=Path, default=Path("build/disks.jsonl"), help="where what the runs print is written"
    )
    options = parser.parse_args()
    wanted = [one for one in CONDITIONS if options.only in one.name]
    if options.list:
        print(*(one.name for one in wanted), sep="\n")
        return 0
    if not trouble.has_compiler():
        raise SystemExit("disks.py needs a C compiler named cc")
    options.log.parent.mkdir(parents=True, exist_ok=True)
    has_mounts, failed, codes = own_mounts(), 0, dict(endings.EXIT_CODES)
    print(f"{'condition':48}{'code':>6}  {'checkpoints':12}{'s':>5}  outcome", flush=True)
    with tempfile.TemporaryDirectory() as scratch, open(options.log, "w", encoding="utf-8") as log:
        os.environ["HOME"] = scratch
        library = trouble.compiled(Path(scratch))
        for condition in wanted:
            reason = missing(condition, has_mounts)
            if reason:
                print(f"{condition.name:48}{'':6}  skipped: {reason}", flush=True)
                continue
            wrong, checkpoints, ending = tried(condition, Path(scratch) / "run", library)
            failed += bool(wrong)
            outcome = "; ".join(wrong) if wrong else codes.get(ending.code or 0, "killed")
            row = f"{condition.name:48}{ending.code!s:>6}  {checkpoints:12}{ending.seconds:5.0f}  "
            print(row + ("WRONG: " if wrong else "") + outcome, flush=True)
            record = {"condition": condition.name, "code": ending.code, "wrong": wrong, "said": ending.said[-6000:]}
            log.write(json.dumps(record) + "\n")
            log.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
