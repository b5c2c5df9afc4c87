"""By which id a run is known elsewhere, kept in its folder (``loggers.json``), so that a resumed run goes on there too.

Users: ``to_wandb``, ``to_mlflow``, ``to_aim``.
"""

import json

from drl_cli.checkpoints import replace_file
from drl_cli.runs.run_folder import read_record

RECORD = "loggers.json"


def known(folder, name):
    """Return the id under which the logger ``name`` knows the run in ``folder`` (a Path), None if it does not."""
    found = (read_record(folder / RECORD) or {}).get(name)
    return found if isinstance(found, str) and found else None


def keep(folder, name, identity):
    """Write down that the logger ``name`` knows the run in ``folder`` as ``identity`` (text). Raises OSError."""
    record = (read_record(folder / RECORD) or {}) | {name: str(identity)}
    replace_file(folder / RECORD, json.dumps(record, indent=1).encode("ascii") + b"\n")
