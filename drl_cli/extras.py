"""From a dotted name to the object: the one way in which heavy modules are reached from light ones.

What is no text is the object already: rows that others register hold classes and functions of their own. The table of
algorithms, the clusters and the commands name what they need as ``"package.module"`` or ``"package.module:attribute"``; nothing
is imported before it is used. Names come from the program's own tables and from the command line, never from a checkpoint or a
config file. ``tests/test_architecture.py`` follows these strings.
"""

import importlib
import threading

from drl_cli.errors import InputError

# One import at a time: two threads that import TensorFlow each from another end find half of it (seen: learner and worker).
_IMPORTING = threading.RLock()
EXTRA_OF_MODULE = {"ale_py": "atari", "mujoco": "mujoco", "h5py": "minari", "optuna": "optuna"}
EXTRA_OF_MODULE |= {"wandb": "wandb", "mlflow": "mlflow", "aim": "aim", "onnx": "onnx", "onnxruntime": "onnx"}


def load(name):
    """Import ``"package.module"`` or ``"package.module:attribute"`` and return the module or the attribute.

    Anything but a text is returned as it is. Raises InputError that names the missing package and the command that installs it.
    """
    if not isinstance(name, str):
        return name
    module_name, _, attribute = name.partition(":")
    try:
        with _IMPORTING:
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = (error.name or module_name).split(".")[0]
        if missing == "drl_cli":
            raise
        extra = EXTRA_OF_MODULE.get(missing)
        install = f"pip install 'drl-cli[{extra}]'" if extra else f"pip install {missing}"
        raise InputError(
            f"{module_name} needs the package {missing}, which is not installed. Run: {install}"
        ) from error
    if not attribute:
        return module
    return getattr(module, attribute)
