"""Where XLA keeps what it has compiled, so that a run with the same nets and batch sizes starts without compiling anew.

``prepare`` sets the variables that TensorFlow reads when it is loaded. XLA names a file after the fingerprint of the program;
code for one kind of processor may not run on another, so that each has a folder of its own, as has each version of TensorFlow.
Measured for ``--run SAC --env Pendulum-v1``: 4.3 s of CPU time until the first update instead of 6.5; a file has 1.4 MB.
"""

import hashlib
import os
import platform
import shutil
import time
from collections.abc import MutableMapping
from importlib import metadata
from pathlib import Path

FLAGS = "TF_XLA_FLAGS"
_OPTION = "--tf_xla_persistent_cache_directory"
_KEPT_S = 30 * 86400.0
_KEPT_FILES = 100  # about 150 MB
_FREE = 200 * 2**20  # bytes: on a full disk XLA fails, and the run with it


def prepare(environ: MutableMapping[str, str] = os.environ) -> None:
    """Make XLA read and write ``folder(environ)``, before TensorFlow is loaded.

    Does nothing where the user has set XLA's option for it, where no file can be written, or where the disk is nearly full.
    """
    given = environ.get(FLAGS, "")
    if _OPTION in given:
        return
    place = folder(environ)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(place)
        has_room = shutil.disk_usage(place).free >= _FREE
    except OSError:  # no room or no right to write: every run compiles anew
        return
    if has_room and os.access(place, os.W_OK):
        environ[FLAGS] = f"{given} {_OPTION}={place}".strip()


def folder(environ: MutableMapping[str, str]) -> Path:
    """Return the folder for this processor and this TensorFlow, below ``$XDG_CACHE_HOME/drl/xla`` (``~/.cache/drl/xla``)."""
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    about = [metadata.version("tensorflow"), environ.get("XLA_FLAGS", ""), environ.get(FLAGS, ""), _processor()]
    return home / "drl" / "xla" / hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _processor() -> str:
    """Model and features, as the kernel tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _tidy(place: Path) -> None:
    """Remove the files that are over a month old, the oldest ones of too many, and empty ones, which XLA fails on.

    XLA renames complete files into place, but a loss of power can leave one without content.
    """
    now = time.time()
    files = [(one.stat(), one.path) for one in os.scandir(place) if one.is_file()]
    for number, (stat, path) in enumerate(sorted(files, key=lambda file: file[0].st_mtime, reverse=True)):
        if number >= _KEPT_FILES or now - stat.st_mtime > _KEPT_S or not stat.st_size:
            os.unlink(path)
