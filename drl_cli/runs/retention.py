"""Which checkpoints a run has, which one a path means, and which ones are removed.

Users: ``runs.checkpoint_policy`` (prune), ``experiments`` (resume) and the commands that take a path (``find``). The newest is
found by the number in its folder's name, never by a clock or a pointer file; the best by ``best.json``, which the run writes.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drl_cli.checkpoints.files as files
from drl_cli.checkpoints.archive_files import is_archive
from drl_cli.checkpoints.files import refuse
from drl_cli.checkpoints.reader import load
from drl_cli.checkpoints.writer import dropped_text
from drl_cli.config.result_names import EVALUATION_REWARD
from drl_cli.errors import CheckpointError, suggestion
from drl_cli.runs.run_folder import is_locked

if TYPE_CHECKING:
    from drl_cli.checkpoints import Checkpoint

_NO_CHECKPOINT = {
    "goes on": "this run has written no checkpoint yet. The first comes with its first evaluation, or with --checkpoint-freq",
    "is over": "this run ended before it wrote a checkpoint, so there is nothing to play or score. Train it again",
}
RLLIB_FOLDER = re.compile(r"checkpoint_([1-9][0-9]{0,11}|[0-9]{6})")  # 1.0 writes 10, later releases 000010
RLLIB_FILE = re.compile(r"checkpoint-([0-9]{1,12})")


def numbers(run_folder: Path | str) -> list[tuple[int, Path]]:
    """Return ``[(number, path), …]`` of the checkpoint folders of a run by number, valid or not; links are left out."""
    try:
        with os.scandir(run_folder) as entries:
            found = [(files.FOLDER.fullmatch(e.name), e) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise refuse(run_folder, f"cannot be read ({error.strerror})") from error
    listed = [(int(match[1]), entry.name) for match, entry in found if match]
    return sorted((number, Path(run_folder) / name) for number, name in listed if name == f"checkpoint_{number:06d}")


def number_of(path: Path | str) -> int:
    """Return the training iteration of a checkpoint folder, as its name has it."""
    return int(Path(path).name.rpartition("_")[2])


def newest_valid(run_folder: Path | str, parts: Iterable[str] = ()) -> tuple[Checkpoint, list[tuple[Path, str]]]:
    """Return ``(checkpoint, [(path, reason), …])``: the newest undamaged one with all ``parts``, and what was skipped.

    All files are verified, the replay too. When none is left, the CheckpointError lists each one with its reason.
    """
    skipped = []
    for _, path in reversed(numbers(run_folder)):
        try:
            found = load(path, optional=True)
        except CheckpointError as error:
            skipped.append((path, str(error)))
            continue
        missing = [part for part in parts if not found.has(part)]
        if not missing:
            return found, skipped
        skipped.append((path, f"{path}: has no {missing[0]}"))
    reasons = "".join(f"\n  {reason}" for _, reason in skipped)
    raise refuse(run_folder, f"holds no usable checkpoint{':' if reasons else ''}{reasons}")


def find(path: Path | str, latest: bool = False) -> Path:
    """Return the checkpoint folder that ``path`` means: a checkpoint, a file in it, or a run (best, else newest).

    ``latest`` takes a run's newest valid one. Raises CheckpointError when nothing fits; the result is not verified yet
    unless it was found as the newest.
    """
    path = Path(path).expanduser()
    try:
        return _find(path, latest)
    except OSError as error:
        raise refuse(path, f"cannot be read ({error.strerror})") from error


def _as_we_write_it(path: Path) -> Path:
    """Return RLlib's ``RUN/checkpoint_10/checkpoint-10``, or the folder alone, as the folder ``RUN/checkpoint_000010``.

    What is there stays as it is; a number that the run does not have (any more) is refused with those it has.
    """
    folder = path.parent if RLLIB_FILE.fullmatch(path.name) else path
    asked = RLLIB_FOLDER.fullmatch(folder.name)
    if path.exists() or not asked or not folder.parent.is_dir():
        return path
    kept = dict(numbers(folder.parent))
    if not kept:
        return path
    if int(asked[1]) not in kept:
        raise refuse(
            path, f"there is no such checkpoint; {folder.parent} has {', '.join(one.name for one in kept.values())}"
        )
    return kept[int(asked[1])]


def _find(path: Path, latest: bool) -> Path:
    path = _as_we_write_it(path)
    if _is_of_rllib(path):
        raise refuse(
            path, "is a checkpoint of RLlib's, a pickle: loading it can execute arbitrary code, so drl does not"
        )
    if path.is_file() and (files.FOLDER.fullmatch(path.parent.name) or (path.parent / files.MANIFEST).exists()):
        return path.parent
    if path.is_file() and is_archive(path):
        raise refuse(path, f"is an archive. Unpack it first: drl checkpoint unpack {shlex.quote(str(path))}")
    if not path.exists():
        nearby = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise refuse(path, f"there is no such checkpoint or run.{suggestion(path.name, nearby)}")
    if not path.is_dir() or (path / files.MANIFEST).exists() or (path / files.COMMIT).exists():
        return path  # load says what is wrong with it
    best = None if latest else best_name(path)
    if best and not (path / best).exists():
        left = [one.name for _, one in numbers(path)]
        instead = f"The newest that is left: {path / left[-1]}" if left else "No other is left"
        raise refuse(path, f"its best checkpoint, {best}, was removed. {instead}")
    if best:
        return path / best
    if numbers(path):
        return newest_valid(path)[0].path
    if (path / "params.json").is_file():
        raise refuse(path, _NO_CHECKPOINT["goes on" if is_locked(path) else "is over"])
    runs = _runs_below(path)
    if len(runs) == 1:
        return _find(runs[0], latest)
    if runs:
        raise refuse(path, f"holds {len(runs)} runs; name one of them, for example {runs[-1]}")
    return path


def _runs_below(folder: Path, depth: int = 3) -> list[Path]:
    """Return the folders below ``folder`` that hold checkpoints, by name: a search's, an experiment's, of all results."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    except OSError:
        return []
    below = [Path(folder) / name for name in names]
    if depth == 1:
        return [path for path in below if _has_checkpoints(path)]
    return [run for path in below for run in ([path] if _has_checkpoints(path) else _runs_below(path, depth - 1))]


def _has_checkpoints(path: Path) -> bool:
    try:
        return bool(numbers(path))
    except CheckpointError:
        return False


def _is_of_rllib(path: Path) -> bool:
    """Whether ``path`` is a checkpoint file of RLlib's, or a folder with one in it."""
    if path.is_file():
        return bool(RLLIB_FILE.fullmatch(path.name)) and not (path.parent / files.MANIFEST).exists()
    return path.is_dir() and any(map(RLLIB_FILE.fullmatch, os.listdir(path)))


def best_name(run_folder: Path | str) -> str | None:
    """Return the folder name in the run's ``best.json``, or None without such a file. Raises CheckpointError."""
    path = Path(run_folder) / "best.json"
    if not path.exists():
        return None
    data = files.parse_json(files.read_small(path, files.MAX_MANIFEST), path)
    name = data.get("checkpoint") if isinstance(data, dict) else None
    if not isinstance(name, str) or not files.FOLDER.fullmatch(name):
        raise refuse(path, "does not name a checkpoint; take the newest with --latest")
    return name


def prune(
    run_folder: Path | str,
    keep: int,
    protected: Iterable[Path | str] = (),
    score: str = "training_iteration",
    values: Mapping[int, Any] | None = None,
) -> list[Path]:
    """Remove all but the ``keep`` best checkpoints and return the removed paths.

    ``score`` names the value to rank by, larger is better, smaller with the prefix ``min-``; ties go to the newer, no
    value ranks last. ``values`` is ``{number: value}``; without it the manifest's counters and scores are read.
    Never removed: the newest valid one, the one in best.json, the ``protected`` paths, and whatever is damaged or not
    made by this program (it is not counted either). Raises OSError.
    """
    valid = []
    for number, path in numbers(run_folder):
        try:
            valid.append((number, load(path)))
        except CheckpointError:
            continue  # not ours, or damaged: never removed, and said by newest_valid when it matters
    spared = {Path(path).resolve() for path in protected}
    spared.add((Path(run_folder) / (_best_or_none(run_folder) or ".")).resolve())
    spared |= {found.path.resolve() for _, found in valid[-1:]}
    ranked = sorted(valid, key=lambda pair: _rank(pair, score, values), reverse=True)
    doomed = [found.path for _, found in ranked[max(0, keep) :] if found.path.resolve() not in spared]
    for path in sorted(doomed):
        remove(path)
    return sorted(doomed)


def _best_or_none(run_folder: Path | str) -> str | None:
    try:
        return best_name(run_folder)
    except CheckpointError:
        return None


def _rank(pair: tuple[int, Checkpoint], score: str, values: Mapping[int, Any] | None) -> tuple[bool, float, int]:
    number, found = pair
    name = score.removeprefix("min-")
    if values is None:
        facts = {**found.facts.get("counters", {}), **(found.facts.get("score") or {})}
        facts[EVALUATION_REWARD] = facts.get("evaluation_reward_mean")
        value = number if name == "training_iteration" else facts.get(name)
    else:
        value = values.get(number)
    if not isinstance(value, (int, float)):
        return (False, 0.0, number)
    return (True, -value if score.startswith("min-") else value, number)


def remove(path: Path | str) -> None:
    """Take a checkpoint out of sight in one step, then delete it; a crash leaves only a leftover.

    Raises CheckpointError when it is damaged or not ours (it then stays), OSError.
    """
    found = load(path)
    aside = found.path.with_name(f".del-{found.number:06d}-{os.getpid()}-{secrets.token_hex(4)}")
    os.rename(found.path, aside)
    shutil.rmtree(aside, ignore_errors=True)


def drop_replay(path: Path | str) -> bool:
    """Take the replay out of a checkpoint; a marker tells this from a missing file. Returns whether there was one.

    Raises CheckpointError when the checkpoint is damaged, OSError when it cannot be changed.
    """
    found = load(path)
    names = [name for name in os.listdir(found.path) if files.part_of(name) == "replay" and name != files.DROPPED]
    if not names:
        return False
    if found.has("replay"):  # otherwise the marker is there, and only the files outlived an interrupted call
        manifest = files.read_small(found.path / files.MANIFEST, files.MAX_MANIFEST)
        # Written beside the checkpoint and moved in: half a marker in it would be damage.
        marker = found.path.with_name(f".tmp-{files.DROPPED}-{os.getpid()}-{secrets.token_hex(4)}")
        files.write_new(marker, [dropped_text(manifest)])
        os.rename(marker, found.path / files.DROPPED)
        files.sync_folder(found.path)
    for name in names:
        os.unlink(found.path / name)
    files.sync_folder(found.path)
    return True
