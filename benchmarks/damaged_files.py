"""Damages every kind of file that drl reads, and reads it: each must be refused in one line, or be harmless.

    python benchmarks/damaged_files.py                        # 10,000 cases
    python benchmarks/damaged_files.py --cases 500 --only archive
    python benchmarks/damaged_files.py --only checkpoint --seed 1234 --cases 1   # one case again, with what it printed

A case copies a small sound thing (run folders and checkpoints of ``tests/written_before``, archives of them, recorded steps,
tuned files), changes it at random and gives it to a command in this process. Changes are bits, cuts, swaps, lengths, names,
links, words, and values of JSON whose hashes are made valid again. A failure is a traceback, another exit code than 0 and 2,
a refusal that does not name the file, more than 5 s, more than 500 MB above the idle process, or a crash.
``tests/whole/test_damaged_files.py`` runs the first seeds.
"""

import argparse
import base64
import collections
import contextlib
import copy
import functools
import gzip
import hashlib
import io
import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent.parent / "tests"
LIMIT_S, LIMIT_MB = 5.0, 500  # seconds of processor time; of a clock ten times as many, for machines that are busy
WRITTEN = TESTS / "written_before"
TUNED = TESTS.parent / "tuned_examples"
CODES = (0, 2)
STRANGE = (
    *(
        "many",
        "",
        "x" * 70_000,
        "../../etc/passwd",
        "\x00",
        "\ud800",
        "é\u202e",
        "nan",
        "drl_cli.cli:main",
        "os.system",
    ),
    *(-1, 0, 1, 1.5, -1e308, 1e-320, 2**31, 2**53 + 1, 2**63, 2**70, 10**400, True, False, None),
    *([], {}, [[]], [1, 2], ["a"], {"a": 1}, [[None]], [0] * 3000, {"__reduce__": ["os.system", "touch evil"]}),
    functools.reduce(lambda inner, _: [inner], range(90), 1),
)
NUMBERS = (b"\x00" * 8, b"\xff" * 8, b"\xff" * 4, b"\x00\x00\x00\x80", b"\xff" * 7 + b"\x7f", struct.pack("<Q", 2**40))
WORDS = (
    *(
        "!!python/object/apply:os.system [touch evil]",
        "&a [*a, *a]",
        "*a",
        "<<: {a: 1}",
        "!!binary aGk=",
        "? x",
        "{",
        "[" * 3000,
    ),
    *(
        "\t",
        "\x00",
        "\ufeff",
        "---",
        "...",
        "%YAML 9",
        "9" * 5000,
        "0x" + "f" * 500,
        "1e999",
        ".inf",
        "2001-01-01",
        "'",
        '"',
        "|",
    ),
    *(
        "null",
        "{grid_search: [1, 2]}",
        "{eval: 'open(1)'}",
        "- - - - x",
        "a: b: c",
        "-1",
        "é",
        "[]",
        "{}",
        "true",
        "x" * 20_000,
    ),
)


class Subject(NamedTuple):
    """``make(folder)`` returns the thing to damage; ``damages``: functions (rng, thing); ``commands``: what reads it."""

    make: Callable[[Path], Path]
    damages: tuple[Callable[[random.Random, Path], None], ...]
    commands: tuple[tuple[str, ...], ...]


def files_of(path: Path) -> list[Path]:
    """Return the plain files of a folder, or the file itself."""
    return [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())


def chosen(rng: random.Random, path: Path, *endings: str) -> Path:
    """Return one of the files of ``path``, of those with one of ``endings`` where there are any."""
    return rng.choice([each for each in files_of(path) if each.name.endswith(endings)] or files_of(path))


def change_bytes(rng: random.Random, path: Path) -> None:
    """Bits, blocks, lengths and the size of one file."""
    file = chosen(rng, path)
    file.write_bytes(changed(rng, file.read_bytes()))


def changed(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` with one to three changes."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, size = rng.randrange(len(made) + 1), rng.choice((1, 2, 4, 8, 64, 512))
        kind = rng.randrange(7)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[at:]
        elif kind == 2:
            made[at:at] = rng.randbytes(size)
        elif kind == 3:
            del made[at : at + size]
        elif kind == 4:
            made[at : at + size] = bytes(len(made[at : at + size]))
        elif kind == 5:
            number = rng.choice(NUMBERS)
            made[at : at + len(number)] = number
        else:
            other = rng.randrange(len(made) + 1)
            made[at : at + size], made[other : other + size] = made[other : other + size], made[at : at + size]
    return bytes(made)


def change_names(rng: random.Random, path: Path) -> None:
    """Remove, rename, swap, add, link, or put something else in the place of one file."""
    file, kind = chosen(rng, path), rng.randrange(8)
    other = rng.choice(files_of(path))
    if kind == 0 and other != file:
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    elif kind == 1:
        file.rename(
            file.with_name(rng.choice(("x", file.name + "_", ".hidden", "replay-7.safetensors", "a\nb", "é" * 60)))
        )
    elif kind == 2:
        file.with_name(rng.choice(("evil.pkl", "replay.dropped", "state.json.bak", "COMMIT", "x" * 200))).write_bytes(
            b"x"
        )
    elif kind == 3:
        file.unlink()
    elif kind == 4:
        file.unlink()
        file.symlink_to(rng.choice(("/etc/passwd", "/dev/zero", "/dev/stdin", file.name, str(other), "/nowhere")))
    elif kind == 5:
        file.unlink()
        os.mkfifo(file)
    elif kind == 6:
        file.unlink()
        file.mkdir()
    else:
        os.truncate(file, rng.choice((0, 1, 2**20, 2**40)))


def places(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in nested plain data."""
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*above, name)
        yield from places(value, (*above, name))


def change_data(rng: random.Random, data: Any) -> None:
    """Change one to three values or names in plain ``data``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(data))
        if not found:
            return
        *above, last = rng.choice([place for place in found if rng.random() < 0.4] or found)
        holder = functools.reduce(lambda node, name: node[name], above, data)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[last]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(("x", "", "a.b", "__class__", str(last) + "_", "é", "x" * 5000))] = holder.pop(last)
        elif kind == 2:
            donor = functools.reduce(lambda node, name: node[name], rng.choice(found), data)
            holder[last] = json.loads(json.dumps(donor))
        else:
            holder[last] = copy.deepcopy(rng.choice(STRANGE))


def change_json(rng: random.Random, path: Path) -> None:
    """Change values of one JSON file, or of one line of several, and make all hashes valid again."""
    file = chosen(rng, path, "manifest.json", "state.json", ".json", ".jsonl")
    with contextlib.suppress(ValueError):
        lines = [json.loads(line) for line in ([file.read_text()] if file.name != "result.json" else file.open())]
        change_data(rng, rng.choice(lines))
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    seal(path)


def change_arrays(rng: random.Random, path: Path) -> None:
    """Change the header or the numbers of one safetensors file and make all hashes valid again."""
    file = chosen(rng, path, ".safetensors")
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kind = rng.randrange(3)
    if kind == 0:
        change_data(rng, header)
    elif kind == 1 and "lz4" in header.get("__metadata__", {}):
        packed = json.loads(header["__metadata__"]["lz4"])
        change_data(rng, packed)
        header["__metadata__"]["lz4"] = json.dumps(packed)
    elif body:
        body = changed(rng, body)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + body)
    seal(path)


def seal(path: Path) -> None:
    """Make size and hash of every listed file, and COMMIT, fit what is in the checkpoints below ``path``."""
    for manifest in [path / "manifest.json", *path.glob("checkpoint_*/manifest.json")]:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            data = json.loads(manifest.read_text())
            for name, entry in data["files"].items():
                if (manifest.parent / name).is_file():
                    held = (manifest.parent / name).read_bytes()
                    entry.update(size=len(held), sha256=hashlib.sha256(held).hexdigest())
            manifest.write_text(json.dumps(data))
        if manifest.is_file():
            held = manifest.read_bytes()
            commit = f"{hashlib.sha256(held).hexdigest()} {len(held)} manifest.json\n"
            (manifest.parent / "COMMIT").write_text(commit)


def change_unpacked(rng: random.Random, path: Path) -> None:
    """Change what a .tar.gz holds beneath its compression, or the manifest and the names of a .zip."""
    if path.name.endswith(".gz"):
        data = gzip.decompress(path.read_bytes())
        end = 512 + int(data[124:135], 8)
        if rng.random() < 0.5:
            manifest = json.loads(data[512:end])
            change_data(rng, manifest)
            text = json.dumps(manifest).encode()[: end - 512].ljust(end - 512)
            data = data[:512] + text + data[end:]
        else:
            at = 512 * rng.randrange(len(data) // 512)
            data = data[:at] + changed(rng, data[at : at + 512]) + data[at + 512 :]
        path.write_bytes(gzip.compress(data, 1, mtime=0))
        return
    with zipfile.ZipFile(path) as archive:
        held = [(entry, archive.read(entry)) for entry in archive.infolist()]
    manifest = json.loads(held[0][1])
    if rng.random() < 0.6:
        change_data(rng, manifest)
    else:
        rng.choice(held)[0].filename = rng.choice(("../evil", "/evil", "x", "", "a\\..\\evil", held[-1][0].filename))
    with zipfile.ZipFile(path, "w", rng.choice((0, 8, 8, 12, 14))) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name that comes twice
        for number, (entry, data) in enumerate(held):
            archive.writestr(entry.filename or "x", json.dumps(manifest).encode() if number == 0 else data)


def change_lines(rng: random.Random, path: Path) -> None:
    """Change values in one line of recorded steps."""
    lines = path.read_text().split("\n")[:-1]
    at = rng.randrange(len(lines))
    data = json.loads(lines[at])
    packed = [name for name, value in data.items() if isinstance(value, str) and value.startswith("BCJNG")]
    if packed and rng.random() < 0.5:
        name = rng.choice(packed)
        data[name] = base64.b64encode(changed(rng, base64.b64decode(data[name]))).decode()
    else:
        change_data(rng, data)
    lines[at] = json.dumps(data)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def change_words(rng: random.Random, path: Path) -> None:
    """Put odd words in the place of words of a text, or between its lines."""
    text = path.read_text(encoding="utf-8")
    for _ in range(rng.choice((1, 1, 2, 3))):
        spans = [match.span() for match in re.finditer(r"[^\s:,{}\[\]]+", text)]
        start, end = rng.choice(spans) if rng.random() < 0.8 and spans else [rng.randrange(len(text) + 1)] * 2
        text = text[:start] + rng.choice(WORDS) + text[end:]
    path.write_text(text, encoding="utf-8", errors="replace")


def change_hdf5(rng: random.Random, path: Path) -> None:
    """Bits and lengths of an HDF5 file, or values of the description beside it."""
    file = next(path.rglob("*.hdf5"))
    beside = file.with_name("metadata.json")
    if rng.random() < 0.4:
        metadata = json.loads(beside.read_text())
        space = json.loads(metadata["observation_space"])
        change_data(rng, space)
        beside.write_text(json.dumps({**metadata, "observation_space": json.dumps(space)}))
    else:
        file.write_bytes(changed(rng, file.read_bytes()))


def copied(name: str) -> Callable[[Path], Path]:
    """Return a maker of a copy of the run ``name`` of ``WRITTEN``."""
    return lambda folder: Path(shutil.copytree(next((WRITTEN / name).glob("*_*")), folder / "run"))


def checkpoint_of(name: str) -> Callable[[Path], Path]:
    """Return a maker of a copy of a checkpoint of the run ``name``."""
    return lambda folder: next(copied(name)(folder).glob("checkpoint_*"))


def archive_of(name: str, ending: str) -> Callable[[Path], Path]:
    """Return a maker of an archive of the run ``name``."""

    def make(folder: Path) -> Path:
        from drl_cli.runs import pack

        return pack.pack(next((WRITTEN / name).glob("*_*")), folder / f"a{ending}", with_replay=True).path

    return make


def steps(folder: Path) -> Path:
    """Make recorded steps of CartPole-v1: plain lines, packed columns, an episode of ``drl rollout``."""
    import numpy as np

    from drl_cli.experience.recorded.write import line

    rng = np.random.default_rng(0)
    obs = rng.normal(size=(6, 4)).astype(np.float32)
    columns = {"obs": obs[:-1], "new_obs": obs[1:], "actions": np.arange(5) % 2, "rewards": np.ones(5, np.float32)}
    columns |= {"dones": np.arange(5) == 4, "eps_id": np.full(5, 7), "t": np.arange(5)}
    episode = {
        "format": "drl-episodes-1",
        "obs": obs.tolist(),
        "action": [0, 1, 0, 1, 0],
        "reward": [1.0] * 5,
        "episode": 1,
    }
    episode |= {"terminated": [False] * 4 + [True], "truncated": [False] * 5}
    path = folder / "steps.json"
    text = json.dumps(episode).encode() + b"\n"
    path.write_bytes(
        line(columns).rstrip(b"\n") + b"\n" + line(columns, ["obs", "new_obs"]).rstrip(b"\n") + b"\n" + text
    )
    return path


def dataset(folder: Path) -> Path:
    """Make a Minari dataset of CartPole-v1."""
    import h5py
    import numpy as np

    data = folder / "minari" / "toy" / "cartpole-v0" / "data"
    data.mkdir(parents=True)
    space = {
        "type": "Dict",
        "subspaces": {"a": {"type": "Box", "shape": [3]}, "b": {"type": "Discrete", "n": 1, "start": 0}},
    }
    (data / "metadata.json").write_text(json.dumps({"data_format": "hdf5", "observation_space": json.dumps(space)}))
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for number in range(2):
            group: Any = file.create_group(f"episode_{number}")
            group["actions"], group["rewards"] = np.arange(5) % 2, np.ones(5)
            group["terminations"], group["truncations"] = np.arange(5) == 4, np.zeros(5, bool)
            group.create_group("observations")["a"] = np.zeros((6, 3), np.float32)
            group["observations"]["b"] = np.zeros(6, np.int64)
    return folder / "minari"


def tuned(folder: Path) -> Path:
    """Copy a tuned file."""
    return Path(shutil.copy(TUNED / "cartpole-ppo.yaml", folder / "mine.yaml"))


def tuned_json(folder: Path) -> Path:
    """Write a tuned file as JSON."""
    data = {
        "first": {
            "run": "SAC",
            "env": "Pendulum-v1",
            "stop": {"training_iteration": 3},
            "config": {"gamma": 0.9, "lr": 1e-3},
        }
    }
    (folder / "mine.json").write_text(json.dumps(data, indent=1))
    return folder / "mine.json"


def one_json(rng: random.Random, path: Path) -> None:
    """Change values of a JSON file."""
    data = json.loads(path.read_text())
    change_data(rng, data)
    path.write_text(json.dumps(data), encoding="utf-8")


NEW = ("--run", "ARS", "--env", "CartPole-v1", "-s", "num_workers=0", "--stop", "training_iteration=1")
READ_CHECKPOINT = (
    ("checkpoint", "verify", "{}"),
    ("checkpoint", "info", "{}", "--arrays"),
    ("rollout", "{}", "--steps", "3", "--seed", "1"),
    ("evaluate", "{}", "--episodes", "1", "-q"),
    ("explain", "{}"),
)
READ_RUN = (
    *(
        ("runs", "--local-dir", "{up}"),
        ("compare", "{}", "{}"),
        ("plot", "{}", "--json"),
        ("explain", "{}"),
        ("diff", "{}", "{}"),
    ),
    *(
        ("watch", "{}"),
        ("report", "{}", "-o", "{up}/report.html"),
        ("rollout", "{}", "--steps", "2"),
        ("checkpoint", "verify", "{}"),
    ),
    *(("checkpoint", "pack", "{}", "-o", "{up}/made.tar.gz"), ("evaluate", "{}", "--episodes", "1", "-q")),
)
RESUME = (("train", "--resume={up}/run", "--stop", "training_iteration=3"), ("train", *NEW, "--restore", "{}"))
READ_ARCHIVE = (("checkpoint", "verify", "{}"), ("checkpoint", "unpack", "{}", "-o", "{up}/out"))
READ_FILE = (("explain", "{}"), ("diff", "{}", "cartpole-ppo"), ("train", "-f", "{}", "-s", "gamma=2"))
ESTIMATE = ("evaluate", str(next((WRITTEN / "ppo").glob("*_*"))), "--data", "{}", "-q")
CHECKPOINT = (change_bytes, change_names, change_json, change_json, change_arrays)
RUN = (change_bytes, change_names, change_json, change_json, change_json)
SUBJECTS = {
    "checkpoint": Subject(checkpoint_of("ppo"), CHECKPOINT, READ_CHECKPOINT),
    "checkpoint with a replay": Subject(checkpoint_of("sac"), CHECKPOINT, READ_CHECKPOINT),
    "run": Subject(copied("ppo"), RUN, READ_RUN),
    "resumed run": Subject(checkpoint_of("ars"), (change_json, change_json, change_arrays, change_names), RESUME),
    "archive .tar.gz": Subject(archive_of("sac", ".tar.gz"), (change_bytes, change_unpacked), READ_ARCHIVE),
    "archive .zip": Subject(archive_of("ppo", ".zip"), (change_bytes, change_unpacked), READ_ARCHIVE),
    "recorded steps": Subject(steps, (change_bytes, change_lines, change_lines), (ESTIMATE,)),
    "Minari dataset": Subject(
        dataset, (change_hdf5,), (("evaluate", ESTIMATE[1], "--data", "minari://toy/cartpole-v0", "-q"),)
    ),
    "tuned file": Subject(tuned, (change_bytes, change_words, change_words), READ_FILE),
    "tuned file as JSON": Subject(tuned_json, (one_json, change_words), READ_FILE),
}


class TooLong(BaseException):
    """A command took more than ``LIMIT_S``."""


def run_case(name: str, seed: int, folder: Path) -> tuple[str | None, str]:
    """Damage a new thing of ``SUBJECTS[name]`` in ``folder`` and read it; returns (what failed or None, what was printed)."""
    from drl_cli import cli

    rng, subject = random.Random(f"{name} {seed}"), SUBJECTS[name]
    thing = subject.make(folder)
    rng.choice(subject.damages)(rng, thing)
    words = [word.format(thing, up=folder) for word in rng.choice(subject.commands)]
    words += ["--local-dir", str(folder / "new")] if words[0] == "train" and "--resume" not in words[1] else []
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    out, err, began = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8"), time.monotonic()

    def stop(*_: object) -> None:
        raise TooLong

    timers = ((signal.SIGALRM, signal.ITIMER_REAL, 10 * LIMIT_S), (signal.SIGPROF, signal.ITIMER_PROF, LIMIT_S))
    before = [(number, signal.signal(number, stop)) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(words)
    except BaseException as error:
        code = f"{type(error).__name__}: {error}"
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)
    said = "".join(
        bytes(stream.buffer.getbuffer()).decode("utf-8", "replace") for stream in (out, err) if stream.flush() is None
    )
    said = f"drl {' '.join(words)}\n{said}"
    if "TooLong" in said or time.monotonic() - began > 10 * LIMIT_S:
        return f"took more than {LIMIT_S:g} s", said
    if "a bug in drl" in said or "Traceback" in said or code not in CODES:
        return f"ended with {code}", said
    names = (
        str(folder),
        "toy/cartpole-v0",
        "mine.",
        "written_before",
        "(-s)",
        "left out",
        "none of these runs",
        "for a .tar.gz",
    )
    if code == 2 and not any(part in said.partition("\n")[2] for part in names):
        return "was refused without the name of the file", said
    return None, said


def peak_mb() -> float:
    """Return the most memory that this process has held, in MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def run_cases(name: str, seeds: range, at: memoryview, log: Path) -> None:
    """Run the cases of ``seeds`` in this process; append failures to ``log``, and note the seed in ``at[0]`` before each."""
    idle = None
    for seed in seeds:
        at[0] = seed
        with tempfile.TemporaryDirectory() as folder:
            failed, said = run_case(name, seed, Path(folder))
        peak = peak_mb()
        if failed is None and idle is not None and peak > idle + LIMIT_MB:
            failed = f"took {peak - idle:.0f} MB"
        idle = peak if idle is None or peak > idle + LIMIT_MB else min(idle, peak)
        if failed:
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps({"subject": name, "seed": seed, "failed": failed, "said": said[-3000:]}) + "\n")


def in_children(name: str, seeds: range, log: Path) -> int:
    """Run the cases of ``seeds`` in children, so that a crash costs one case; returns how many crashed."""
    at, crashed = memoryview(mmap.mmap(-1, 8)).cast("q"), 0
    while seeds:
        child = os.fork()
        if child == 0:
            try:
                run_cases(name, seeds, at, log)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            return crashed
        crashed += 1
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps({"subject": name, "seed": at[0], "failed": f"the process ended with {code}"}) + "\n")
        seeds = range(at[0] + 1, seeds.stop)
    return crashed


def main() -> int:
    """Run the cases that the options ask for, print one table, and return whether any failed."""
    parser = argparse.ArgumentParser(description="Damages files and reads them; see the head of this file.")
    parser.add_argument("--cases", type=int, default=10_000, help="in all")
    parser.add_argument("--seed", type=int, default=0, help="the first one of each subject")
    parser.add_argument("--only", default="", help="subjects whose name begins so")
    parser.add_argument(
        "--log", type=Path, default=Path("build/damaged_files.jsonl"), help="where failures are written"
    )
    options = parser.parse_args()
    options.log.parent.mkdir(parents=True, exist_ok=True)
    options.log.unlink(missing_ok=True)
    wanted = [name for name in SUBJECTS if name.startswith(options.only)]
    each = max(1, options.cases // len(wanted))
    failures = collections.Counter()
    os.environ["HOME"] = tempfile.mkdtemp()
    if each == 1:
        with tempfile.TemporaryDirectory() as folder:
            print(*run_case(wanted[0], options.seed, Path(folder)), sep="\n")
        return 0
    for name in wanted:
        began = time.monotonic()
        in_children(name, range(options.seed, options.seed + each), options.log)
        rows = [json.loads(line) for line in options.log.open()] if options.log.exists() else []
        failures[name] = sum(row["subject"] == name for row in rows)
        print(f"{name:26}{each:7,} cases{failures[name]:6} failed{time.monotonic() - began:8.0f} s", flush=True)
    return int(bool(failures.total()))


if __name__ == "__main__":
    from drl_cli import process

    process.prepare()
    sys.exit(main())
