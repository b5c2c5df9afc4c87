"""TensorFlow as this program uses it: ``tf`` is ``tf.compat.v1``, ``function`` is ``tf.function``.

The one place that imports TensorFlow first. Its ``__init__`` loads Keras eagerly, inside a try/except ImportError, and
Keras loads pandas where that is installed: 1.5 to 3 s of start-up for something that is never used here. An entry of
None in ``sys.modules`` makes that import fail quietly; it is taken out again afterwards, so that other libraries can
import Keras. Measured on 2 cores with pandas installed: 7.9 s instead of 10.

The search for garbage is off while TensorFlow loads, and leaves out what it has loaded afterwards: 2.2 s of CPU time instead
of 2.6, and shorter searches from then on.

oneDNN is off unless a run with images, or the user, has switched it on: with one thread it is slower for dense layers, and
without it machines behave alike.
"""

import contextlib
import gc
import os
import sys
from typing import Any, TypeAlias

from drl_cli.process import ONEDNN, muted

os.environ.setdefault(ONEDNN, "0")
_missing = object()
_keras = sys.modules.get("keras", _missing)
if _keras is _missing:
    sys.modules["keras"] = None  # pyright: ignore[reportArgumentType]: None makes the import fail, as said above
# Where no GPU is asked for, TensorFlow's C++ still says, whatever the log level, that there is none: when it is imported,
# and at its first look for one ("failed call to cuInit"), which is taken here (0.5 ms). None of that is an error.
_without_gpu = os.environ.get("CUDA_VISIBLE_DEVICES") == "-1"
_collects = gc.isenabled()
gc.disable()
try:
    with muted() if _without_gpu else contextlib.nullcontext():
        import tensorflow as _tensorflow
        import tensorflow.compat.v1 as tf

        if _without_gpu:
            _tensorflow.config.list_physical_devices()
finally:
    if _keras is _missing:
        del sys.modules["keras"]
    if _collects:
        gc.freeze()
        gc.enable()

function = _tensorflow.function
version = _tensorflow.__version__

_tensorflow.get_logger().setLevel("ERROR")


def lite() -> Any:
    """Return ``tf.lite`` of TensorFlow 2, which TensorFlow loads at its first use: its converter keeps signatures."""
    return _tensorflow.lite


# TensorFlow ships no types for its v1 API: these names say what is meant, and are the one place to change once it does.
Tensor: TypeAlias = Any  # a symbolic tensor of a graph; shapes stand in docstrings and at the end of lines, # [B, A]
Variable: TypeAlias = Any  # a resource variable of a graph
Session: TypeAlias = Any
Graph: TypeAlias = Any

__all__ = ["Graph", "Session", "Tensor", "Variable", "function", "lite", "tf", "version"]
