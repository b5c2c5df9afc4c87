"""Where things are: the folder of all results, and the tuned files that come with the program.

Used by ``experiment.files``, ``experiment.defaults`` and, for completions, by the command line: imports nothing heavy.
"""

import os
from pathlib import Path

import drl_cli


def results_folder(given):
    """Return the folder of all results as an absolute path: ``given``, else TUNE_RESULT_DIR, else ~/ray_results."""
    chosen = given or os.environ.get("TUNE_RESULT_DIR") or "~/ray_results"
    return Path(os.path.abspath(os.path.expanduser(chosen)))


def shipped_folder():
    """Return the folder of the tuned files: inside the installed package, or beside it in a checkout."""
    package = Path(drl_cli.__file__).resolve().parent
    inside = package / "tuned_examples"
    return inside if inside.is_dir() else package.parent / "tuned_examples"


def shipped():
    """Return {name: path} of the tuned files that come with the program."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.yaml"))}
