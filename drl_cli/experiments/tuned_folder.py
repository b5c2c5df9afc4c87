"""Where the tuned files are that come with the program.

Used by ``experiments.experiment_files`` and, for completions, by the command line: imports nothing heavy.
"""

from pathlib import Path

import drl_cli


def shipped_folder():
    """Return the folder of the tuned files: inside the installed package, or beside it in a checkout."""
    package = Path(drl_cli.__file__).resolve().parent
    inside = package / "tuned_examples"
    return inside if inside.is_dir() else package.parent / "tuned_examples"


def shipped():
    """Return {name: path} of the tuned files that come with the program."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.yaml"))}
