"""The commands that continue from a run, as they can be pasted: with the modules and the environment that they need.

Used by ``experiments.run`` (the text of an outcome) and ``drl train`` (its last lines). A run's folder may not name a module to
import; the command names it.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


def needed(imports: Iterable[str], env: str) -> list[str]:
    """Return the words that a command about a run needs beside it: ``--import`` of its modules, ``--env`` of module:Id."""
    return [*(word for name in imports for word in ("--import", name)), *(["--env", env] if ":" in env else [])]


class Started(Protocol):
    """What a command needs of an ExperimentSpec."""

    @property
    def imports(self) -> list[str]: ...

    @property
    def env(self) -> str: ...


def resume(folder: Path | str, spec: Started, *words: str) -> str:
    """Return the command that resumes the run of ``spec`` in ``folder``."""
    return shlex.join(["drl", "train", "--resume", str(folder), *needed(spec.imports, spec.env), *words])


def modules_of_this_folder(imports: Iterable[str], env: str) -> list[str]:
    """Return the names of those modules that were found in the current folder only because it is the current one."""
    named = [*imports, *([env.partition(":")[0]] if ":" in env else [])]
    here = Path(os.getcwd()).resolve()
    listed = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [] if here in listed else [name for name in dict.fromkeys(named) if _folder_of(name) == here]


def _folder_of(name: str) -> Path | None:
    """Return the folder of the module or package at the root of ``name``, or None."""
    file = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return path.parents[1] if path.name == "__init__.py" else path.parent
