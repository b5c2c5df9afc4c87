"""Names of folders that the program creates: readable, safe on every file system, unique by construction.

Users: ``runs.run_folder``, ``experiments.spec`` and completion. Rules: letters and digits of any script, then also ``. _ -``
and blanks; no separators, no ``..``, at most 100 characters.
"""

from __future__ import annotations

import datetime
import re
import secrets

from drl_cli.errors import RunFolderError

MAX_CHARACTERS = 100
RUN_FOLDER = re.compile(r".*_([0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2})_[0-9a-f]{8}", re.DOTALL)


def check_experiment(name: str) -> str:
    """Return ``name`` if it can be a folder's name; RunFolderError that says what is wrong otherwise."""
    wrong = misfit(name)
    if wrong:
        raise RunFolderError(wrong)
    return name


def misfit(name: str) -> str | None:
    """Return why ``name`` cannot name an experiment, and so its folder; None if it can."""
    fit = name and name[0].isalnum() and all(c.isalnum() or c in "._ -" for c in name) and ".." not in name
    if fit and len(name) <= MAX_CHARACTERS and len(name.encode("utf-8", "replace")) <= 200:
        return None
    rule = "it starts with a letter or digit, goes on with letters, digits, '.', '_', '-' or blanks, has no '..'"
    return (
        f"{name[:100]!r} is no name for an experiment: {rule} and at most {MAX_CHARACTERS} characters. "
        "Folders above it are chosen with --local-dir."
    )


def clean(text: str) -> str:
    """Return ``text`` with every character that a folder's name may not have (``/`` and ``:`` too) as ``_``."""
    text = "".join(c if c.isalnum() or c in "._-" else "_" for c in text).replace("..", "__")
    return text.encode("utf-8", "replace")[:80].decode("utf-8", "ignore") or "_"


def run_name(run: str, env: str, trial: int | str) -> str:
    """Return ``<RUN>_<Env>_<trial>_<Y-m-d_H-M-S>_<8 hex>``; the time is UTC, so that names sort in order."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{clean(run)}_{clean(env)}_{clean(str(trial))}_{now:%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(4)}"
