"""One result dict an iteration → ``result.json``, ``progress.csv`` and TensorBoard events.

Users: ``experiment.driving`` (``Loggers``), ``experiment.resuming`` (``join``). File names, field names and tags are
RLlib's; deviations: strict JSON (a missing value is null, never NaN), no ``config`` in every row, and columns that
appear late are added to progress.csv rather than dropped.
"""

from drl_cli.loggers.joining import join, read_rows
from drl_cli.loggers.rows import flatten, plain
from drl_cli.loggers.writing import Loggers

__all__ = ["Loggers", "flatten", "join", "plain", "read_rows"]
