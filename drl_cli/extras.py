"""Modules and objects by name, and packages that not every installation has.

``require`` imports a package that an extra of ``setup.cfg`` installs. ``load`` resolves a dotted name: rows of algorithms, the
command table, parts that a cluster spawns, files that load TensorFlow, and names that users bring. What is not a string is the
object already: rows that others register hold classes and functions of their own. Names come from the program's own tables
and from the command line, never from a checkpoint or a config file. ``tests/test_architecture.py`` follows these strings.
"""

import importlib
import threading
from types import ModuleType
from typing import Any

from drl_cli.errors import InputError

# One import at a time: two threads that import TensorFlow, each from another end, have found half of it (learner and worker).
_IMPORTING = threading.RLock()

EXTRA_OF_MODULE = {
    "aim": "aim",
    "ale_py": "atari",
    "h5py": "minari",
    "lbforaging": "multiagent",
    "mlflow": "mlflow",
    "mpe2": "multiagent",
    "mujoco": "mujoco",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "optuna": "optuna",
    "pettingzoo": "multiagent",
    "wandb": "wandb",
}
"""Package as it is imported → the extra of drl-cli that installs it."""


def require(module: str) -> ModuleType:
    """Import ``module`` and return it.

    Raises InputError with the package that is missing and the command that installs it.
    """
    try:
        with _IMPORTING:
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        if missing == "drl_cli":
            raise
        lacking = missing if missing == module else f"{module} needs the package {missing}, which"
        raise InputError(f"{lacking} is not installed. Run: {installation(missing)}") from error


def load(name: object) -> Any:
    """Return the module ``"package.module"`` or the attribute ``"package.module:attribute"``.

    Anything but a string is returned as it is. Raises InputError as ``require`` does.
    """
    if not isinstance(name, str):
        return name
    module, _, attribute = name.partition(":")
    found = require(module)
    return getattr(found, attribute) if attribute else found


def installation(package: str) -> str:
    """Return the command that installs ``package``: an extra of drl-cli where one has it."""
    extra = EXTRA_OF_MODULE.get(package)
    return f"pip install 'drl-cli[{extra}]'" if extra else f"pip install {package}"
