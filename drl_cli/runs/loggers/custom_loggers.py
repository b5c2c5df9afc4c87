"""Loggers by name: those of one's own, and wandb, mlflow and aim, whose packages are extras.

A logger is a class: ``Logger(folder, facts, resumed)``, with the run's folder (a Path), what its params.json holds
(``run``, ``env``, ``seed``, ``experiment``, ``config`` …, secrets hidden) and whether the run is resumed; ``write(result)``
with the nested plain dict of every iteration; ``close()`` at the end. Users: ``runs.loggers.run_logger``, and
``experiments.spec`` for ``problems``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from drl_cli import plugins
from drl_cli.errors import InputError, suggestion
from drl_cli.extras import installation


class Logger(Protocol):
    """Writes the results of one run somewhere."""

    def write(self, result: dict[str, Any]) -> None:
        """Take in the nested result of one iteration."""
        ...

    def close(self) -> None:
        """Finish, at the end of the run."""
        ...


class LoggerClass(Protocol):
    """What makes the Logger of a run."""

    def __call__(self, folder: Path, facts: Mapping[str, Any], resumed: bool, /) -> Logger:
        """Open what is written to."""
        ...


BUILT_IN = ("wandb", "mlflow", "aim")
"""Loggers that come with drl; each has the name of the package that it needs."""


def register_logger(name: str, logger: LoggerClass) -> LoggerClass:
    """Make the class ``logger`` known as ``name``, for ``--logger`` and ``loggers`` in files; returns the class."""
    if not callable(logger) or plugins.lacking(logger, "write", "close"):
        raise InputError(
            f"register_logger: {str(logger)[:80]!r} is no logger: a class with write(result) and close() is, made as "
            "Logger(folder, facts, resumed)."
        )
    if name in BUILT_IN:
        raise InputError(f"register_logger: {name!r} is the name of a logger that comes with drl. Choose another one.")
    plugins.LOGGERS.add(name, logger)
    return logger


def problems(names: Iterable[str]) -> list[str]:
    """Return one line for each of ``names`` that could not be used: unknown, or its package is not installed."""
    found = []
    for name in names:
        if name in BUILT_IN:
            if find_spec(name) is None:
                found.append(f"logger {name}: the package {name} is not installed. Run: {installation(name)}")
        elif name not in plugins.LOGGERS.all():
            known = sorted({*BUILT_IN, *plugins.LOGGERS.known()})
            hint = suggestion(name, known)
            found.append(
                f"logger: {str(name)[:60]!r} is neither {', '.join(known)} nor registered.{hint} Register it with "
                "drl_cli.register_logger in a module, and name that module: --import MODULE."
            )
    return found


def make(name: str, folder: Path, facts: Mapping[str, Any], resumed: bool) -> Logger:
    """Return the logger ``name`` of a run; raises whatever making it raises."""
    kind = _built_in(name) if name in BUILT_IN else plugins.LOGGERS.find(name)
    return kind(folder, facts, resumed)


def _built_in(name: str) -> LoggerClass:
    """Return the class of a logger of ``BUILT_IN``, whose package is loaded only here."""
    if name == "wandb":
        from drl_cli.runs.loggers.to_wandb import ToWandb

        return ToWandb
    if name == "mlflow":
        from drl_cli.runs.loggers.to_mlflow import ToMlflow

        return ToMlflow
    from drl_cli.runs.loggers.to_aim import ToAim

    return ToAim
