"""Custom models for the tests: one that sees vectors and images alike, with a NumPy forward and without, and broken ones.

They are known to the tests of a module that imports ``known`` and to nobody else: what is registered goes along to the
processes of a Ray, which may know nothing of this file.
"""

import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.policies.custom_models import register_model


class Tangent:
    """tanh(x·K + b), of an image's pixels in a row; its bias is named as a running statistic is, which it is not."""

    def __init__(self, shape, units=4, start=0.5):
        self.features, self._start = units, start
        self._size = int(np.prod(shape))
        self.variables = {"layer/kernel": (self._size, units), "mean": (units,)}

    def initial_weights(self, rng):
        return {"mean": np.full(self.features, self._start)}

    def graph(self, tf, weights, inputs):
        x = tf.reshape(inputs, [-1, self._size])
        return tf.tanh(tf.matmul(x, weights["layer/kernel"]) + weights["mean"])


class QuickTangent(Tangent):
    """The same, in NumPy too."""

    def forward(self, weights, inputs):
        return np.tanh(inputs.reshape(len(inputs), -1) @ weights["layer/kernel"] + weights["mean"])


SESSION, QUICK = "tests_tangent", "tests_quick_tangent"


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Both models, registered, and nothing else, for as long as a test runs."""
    monkeypatch.setattr(plugins.MODELS, "_things", {SESSION: Tangent, QUICK: QuickTangent})


def of(name, **arguments):
    """Return the keys of ``model`` that name a model."""
    return {"custom_model": name, "custom_model_config": arguments}


def broken(name, **parts):
    """Register a QuickTangent with other ``parts`` as ``name``, and return ``name``."""
    register_model(name, type(name, (QuickTangent,), parts))
    return name
