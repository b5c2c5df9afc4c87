"""TensorFlow as this program uses it: ``tf`` is ``tf.compat.v1``, ``function`` is ``tf.function``.

The one place that imports TensorFlow first. Its ``__init__`` loads Keras eagerly, inside a try/except ImportError, and
Keras loads pandas where that is installed: 1.5 to 3 s of start-up for something that is never used here. An entry of
None in ``sys.modules`` makes that import fail quietly; it is taken out again afterwards, so that other libraries can
import Keras. Measured on 2 cores with pandas installed: 7.9 s instead of 10.

oneDNN is off unless a run with images, or the user, has switched it on: with one thread it is slower for dense layers, and
without it machines behave alike.
"""

import os
import sys

from drl_cli.process import ONEDNN

os.environ.setdefault(ONEDNN, "0")
_missing = object()
_keras = sys.modules.get("keras", _missing)
if _keras is _missing:
    sys.modules["keras"] = None
try:
    import tensorflow as _tensorflow
    import tensorflow.compat.v1 as tf
finally:
    if _keras is _missing:
        del sys.modules["keras"]

function = _tensorflow.function
version = _tensorflow.__version__

_tensorflow.get_logger().setLevel("ERROR")


def lite():
    """Return ``tf.lite`` of TensorFlow 2, which TensorFlow loads when it is asked for: its converter keeps signatures."""
    return _tensorflow.lite


__all__ = ["function", "lite", "tf", "version"]
