"""What the loggers of tracking services share: the numbers of a result, and the id under which a service knows the run.

Users: ``to_wandb``, ``to_mlflow``, ``to_aim``. The ids are kept in the run's folder (``loggers.json``), so that a resumed run
continues there too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drl_cli.checkpoints import replace_file
from drl_cli.config.result_names import flatten
from drl_cli.runs.run_folder import read_record

RECORD = "loggers.json"


def known(folder: Path, name: str) -> str | None:
    """Return the id under which the logger ``name`` knows the run in ``folder`` (a Path), None if it does not."""
    found = (read_record(folder / RECORD) or {}).get(name)
    return found if isinstance(found, str) and found else None


def keep(folder: Path, name: str, identity: str) -> None:
    """Record that the logger ``name`` knows the run in ``folder`` as ``identity``. Raises OSError."""
    record = (read_record(folder / RECORD) or {}) | {name: str(identity)}
    replace_file(folder / RECORD, json.dumps(record, indent=1).encode("ascii") + b"\n")


def numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return ``{"a/b": number}`` of the numbers in a nested plain dict, bools left out."""
    flat = flatten(result).items()
    return {name: value for name, value in flat if isinstance(value, (int, float)) and not isinstance(value, bool)}
