"""Coverage-guided fuzzing of all that reads bytes of files, with atheris (libFuzzer): a refusal of its own kind, or nothing.

    pip install atheris
    python benchmarks/fuzz_readers.py                              # one minute for each reader
    python benchmarks/fuzz_readers.py --only pickle --seconds 600
    python benchmarks/fuzz_readers.py --only pickle --again crash-3f9a...   # one input again, with its traceback

``damaged_files.py`` changes sound files at random and types commands; this calls the readers themselves, tens of thousands of
times a second, and keeps what reaches code that nothing had reached. Corpora begin with sound inputs. A failure is another
exception than the reader's own, more than 5 s, or more than 500 MB above the idle process; its input is left in the current
folder. HDF5 is left out: it is read by a library in C, whose crashes are its own.
"""

import argparse
import base64
import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_S, LIMIT_MB = 5, 500


class Target(NamedTuple):
    """``read(data)`` reads bytes, and may raise ``refusals``; ``seeds``: sound inputs."""

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]
    seeds: list[bytes]


def targets(folder: Path) -> dict[str, Target]:
    """Return the readers by name; files are written to ``folder``."""
    import damaged_files
    import numpy as np

    from drl_cli.checkpoints import arrays, files, reader, writer
    from drl_cli.errors import CheckpointError, ConfigError, DrlError, ExperienceError
    from drl_cli.experience.recorded import packed_columns, pickled_arrays, read
    from drl_cli.experience.recorded.pieces import layout_of
    from drl_cli.experiments import experiment_files
    from drl_cli.runs import run_summary, unpack

    def written(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    box: Any = {"kind": "Discrete", "n": 2, "shape": [], "start": 0}
    cartpole = layout_of({"obs": {"shape": [4], "dtype": "float32"}, "action": box})  # type: ignore[typeddict-item]
    checkpoint, run = damaged_files.checkpoint_of("ppo")(folder / "one"), damaged_files.copied("ppo")(folder / "two")
    archives = [damaged_files.archive_of("ppo", ending)(folder).read_bytes() for ending in (".tar.gz", ".zip")]
    column = packed_columns.packed(np.arange(6, dtype=np.float32).reshape(2, 3))

    def read_arrays(data: bytes) -> None:
        path = written("x.safetensors", data)
        with files.open_regular(path) as file:
            sha256 = files.hash_of(file)
        arrays.read_arrays(path, len(data), sha256)

    def read_manifest(data: bytes) -> None:
        (checkpoint / files.MANIFEST).write_bytes(data)
        (checkpoint / files.COMMIT).write_bytes(writer.commit_text(data))
        reader.load(checkpoint)

    def read_run(data: bytes) -> None:
        name, _, text = data.partition(b"\n")
        (run / ("result.json" if name == b"r" else "status.json" if name == b"s" else "params.json")).write_bytes(text)
        run_summary.read(run)

    steps = damaged_files.steps(folder).read_bytes()
    manifest = (checkpoint / files.MANIFEST).read_bytes()
    array = next(checkpoint.glob("*.safetensors")).read_bytes()
    records = [
        mark + b"\n" + (run / name).read_bytes()
        for mark, name in ((b"r", "result.json"), (b"s", "status.json"), (b"p", "params.json"))
    ]
    return {
        "pickle": Target(
            pickled_arrays.array_in, (ValueError,), [packed_columns._decompressed(base64.b64decode(column), 9999)]
        ),
        "packed column": Target(
            lambda data: packed_columns.unpacked(data.decode("latin-1"), 10_000), (ValueError,), [column.encode()]
        ),
        "json": Target(lambda data: files.parse_json(data, "x"), (CheckpointError,), [manifest]),
        "arrays": Target(read_arrays, (CheckpointError,), [array]),
        "manifest": Target(read_manifest, (CheckpointError,), [manifest]),
        "run": Target(read_run, (DrlError,), records),
        "tar": Target(
            lambda data: unpack.verify(written("a.tar.gz", gzip.compress(data, 1))),
            (DrlError,),
            [gzip.decompress(archives[0])],
        ),
        "gzip": Target(lambda data: unpack.verify(written("b.tar.gz", data)), (DrlError,), archives[:1]),
        "zip": Target(lambda data: unpack.verify(written("c.zip", data)), (DrlError,), archives[1:]),
        "tuned file": Target(
            lambda data: experiment_files.load(written("mine.yaml", data)),
            (ConfigError,),
            [damaged_files.tuned(folder).read_bytes()],
        ),
        "recorded steps": Target(
            lambda data: read.check([str(written("steps.json", data))], cartpole),
            (ExperienceError,),
            [steps, *(line + b"\n" for line in steps.split(b"\n")[:-1])],
        ),
    }


def fuzz(name: str, folder: Path, seconds: int, again: Path | None) -> None:
    """Fuzz the reader ``name`` for so long, or have it read the file ``again`` once; libFuzzer ends this process."""
    import atheris

    with atheris.instrument_imports(include=["drl_cli"]):
        target = targets(folder)[name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)

    def once(data: bytes) -> None:
        try:
            target.read(data)
        except target.refusals:
            pass

    limits = [f"-timeout={LIMIT_S}", f"-rss_limit_mb={_resident_mb() + LIMIT_MB}"]
    words = [str(again.resolve())] if again else [f"-max_total_time={seconds}", str(corpus)]
    atheris.Setup([sys.argv[0], *limits, *words], once)
    atheris.Fuzz()


def _resident_mb() -> int:
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) // 1024


def main() -> int:
    """Fuzz each reader in a process of its own and print a table; returns whether any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the reader of this name")
    parser.add_argument("--seconds", type=int, default=60, help="of each reader")
    parser.add_argument("--again", type=Path, help="read this input once, with the reader of --only")
    parser.add_argument("--within", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        fuzz(options.only, options.within, options.seconds, options.again)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "names").mkdir()
        names = list(targets(Path(folder) / "names"))
    if options.only not in (None, *names):
        parser.error(f"--only {options.only}: there are {', '.join(names)}")
    failed = 0
    for name in [options.only] if options.only else names:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, __file__, "--only", name, "--within", folder, "--seconds", str(options.seconds)]
            words += ["--again", str(options.again)] if options.again else []
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        runs = re.findall(r"^#(\d+)\s", done.stdout, re.MULTILINE)
        covered = re.findall(r"cov: (\d+)", done.stdout)
        failed += done.returncode != 0
        print(
            f"{name:16}{int(runs[-1]) if runs else 0:12,} inputs{covered[-1] if covered else 0:>8} edges  "
            + ("ok" if done.returncode == 0 else f"failed:\n{done.stdout[-3000:]}"),
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    from drl_cli import process

    process.prepare()
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
