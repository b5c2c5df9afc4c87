"""Loggers by name: those of one's own, and wandb, mlflow and aim, whose packages are extras.

A logger is a class: ``Logger(folder, facts, resumed)``, with the run's folder (a Path), what its params.json holds
(``run``, ``env``, ``seed``, ``experiment``, ``config`` …, secrets hidden) and whether the run goes on; ``write(result)`` with
the nested plain dict of every iteration; ``close()`` at the end. Users: ``runs.loggers.run_logger``, and
``experiments.spec`` for ``problems``.
"""

from importlib.util import find_spec

from drl_cli import plugins
from drl_cli.errors import InputError, suggestion
from drl_cli.extras import installation, load

BUILT_IN = {
    "wandb": "drl_cli.runs.loggers.to_wandb:ToWandb",
    "mlflow": "drl_cli.runs.loggers.to_mlflow:ToMlflow",
    "aim": "drl_cli.runs.loggers.to_aim:ToAim",
}
"""Loggers that come along; each is named as the package that it needs."""


def register_logger(name, logger):
    """Make the class ``logger`` known as ``name``, for ``--logger`` and ``loggers`` in files; returns the class."""
    lacking = [method for method in ("write", "close") if not callable(getattr(logger, method, None))]
    if not callable(logger) or lacking:
        raise InputError(
            f"register_logger: {str(logger)[:80]!r} is no logger: a class with write(result) and close() is, made as "
            "Logger(folder, facts, resumed)."
        )
    if name in BUILT_IN:
        raise InputError(f"register_logger: {name!r} is the name of a logger that comes with drl. Choose another one.")
    plugins.LOGGERS.add(name, logger)
    return logger


def problems(names):
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


def make(name, folder, facts, resumed):
    """Return the logger ``name`` of a run; raises whatever making it raises."""
    kind = load(BUILT_IN[name]) if name in BUILT_IN else plugins.LOGGERS.find(name)
    return kind(folder, facts, resumed)
