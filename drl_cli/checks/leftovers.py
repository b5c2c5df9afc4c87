"""Leftover processes and folders of Ray. Used by ``drl doctor``; ends and removes nothing itself.

A run's own Ray dies with its run. What is left after a ``kill -9`` has lost its parent, as has a cluster that was started on
purpose with ``ray start``, which is reported as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from drl_cli.checks.findings import NOTE, OK, WARN, Finding

DAEMONS = ("raylet", "gcs_server")
MANY_BYTES = 2**30
MOST_FILES = 20_000  # that are counted for the size of old sessions


def processes(proc: Path = Path("/proc"), own: int | None = None) -> Finding:
    """Return a Finding about daemons of Ray of this user."""
    mine = os.getuid() if own is None else own
    orphans, living = [], []
    for folder in proc.iterdir() if proc.is_dir() else ():
        if not folder.name.isdigit():
            continue
        try:
            if folder.stat().st_uid != mine:
                continue
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        if os.path.basename(words[0].decode("utf-8", "replace")) in DAEMONS:
            (orphans if parent == 1 else living).append(int(folder.name))
    if orphans:
        pids = " ".join(map(str, sorted(orphans)))
        text = f"{len(orphans)} Ray daemons whose program is gone (processes {pids}). A cluster started with "
        text += "ray start looks the same: end them only if you did not start one"
        return Finding("Ray's processes", WARN, text, f"kill {pids}")
    text = f"{len(living)} running, of active runs" if living else "none left over"
    return Finding("Ray's processes", OK, text)


def sessions(tops: Sequence[Path] | None = None) -> Finding:
    """Return a Finding about the folders of Ray's sessions; ``tops``: where they are, by default ours and Ray's own."""
    tops = tops or [Path(f"/tmp/drl-{os.getuid()}"), Path("/tmp/ray")]
    found = []
    for top in tops:
        try:
            found += [path for path in top.iterdir() if path.is_dir() and not path.is_symlink()]
        except OSError:
            continue
    size, is_whole = _size(found)
    where = " and ".join(map(str, tops))
    text = f"{len(found)} sessions in {where}, {'' if is_whole else 'more than '}{size / 2**20:,.0f} MB"
    if size >= MANY_BYTES:
        mend = "rm -r " + " ".join(f"{top}/*" for top in tops if top.is_dir())
        return Finding("Ray's folders", NOTE, f"{text}; they can be removed while no Ray is running", mend)
    return Finding("Ray's folders", OK, text)


def _size(folders: Sequence[Path]) -> tuple[int, bool]:
    """Return (bytes, whether all files were counted)."""
    total = seen = 0
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                seen += 1
                if seen > MOST_FILES:
                    return total, False
                try:
                    total += os.lstat(os.path.join(path, name)).st_size
                except OSError:
                    continue
    return total, True
