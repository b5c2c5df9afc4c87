"""One result dict an iteration → ``result.json``, ``progress.csv`` and TensorBoard events.

Users: ``experiments.run`` (``Loggers``), ``experiments.resume`` (``join``). File names, field names and tags are
RLlib's; deviations: strict JSON (a missing value is null, never NaN), no ``config`` in every row, and columns that
appear late are added to progress.csv rather than dropped.
"""

from drl_cli.runs.loggers.run_logger import Loggers
from drl_cli.runs.loggers.tables import join, read_rows

__all__ = ["Loggers", "join", "read_rows"]
