"""What ``export_formats`` of an experiment may name, and what is needed to make it.

Used by ``config.experiment_keys`` and ``experiments.spec``. RLlib's names are checkpoint and model (and h5, which is Keras's).
"""

from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

FORMATS = {"model": "savedmodel", "savedmodel": "savedmodel", "onnx": "onnx", "tflite": "tflite"}
"""Name → the format of ``drl checkpoint export``; "checkpoint" is what a run keeps anyway."""
PACKAGES = {"onnx": ("onnx", "onnxruntime")}
"""Format → the packages of the extra of its name, without which it cannot be made."""


def listed(value):
    """Return ``model`` and ``model,onnx``, as typed, as lists; anything else as it is."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Formats = Annotated[
    tuple[Literal["checkpoint", "model", "savedmodel", "onnx", "tflite"], ...],
    BeforeValidator(listed),
    Field(strict=False),
]


def asked(names):
    """Return the formats of ``drl checkpoint export`` among ``names``, each once."""
    return tuple(dict.fromkeys(FORMATS[name] for name in names if name in FORMATS))


def problems(names, place):
    """Return a line for each format whose packages are missing; ``place``: where it was asked for.

    Better said now than when the run has learnt.
    """
    missing = {form: [name for name in PACKAGES.get(form, ()) if find_spec(name) is None] for form in asked(names)}
    return [
        f"export_formats: {form} needs the package {lacking[0]}, which is not installed ({place}). Run: pip install "
        f"'drl-cli[{form}]'"
        for form, lacking in missing.items()
        if lacking
    ]
