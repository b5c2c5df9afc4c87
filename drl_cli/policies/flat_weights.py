"""All weights of a net as one vector and back. Users: the parts of evolution strategies."""

import math

import numpy as np


class Flat:
    """The order in which weights of ``shapes`` {name: shape} lie in a vector of ``size`` numbers."""

    def __init__(self, shapes):
        """``shapes``: as of ``NetSpec.weight_shapes``, with one copy."""
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()]).tolist()
        self.shapes, self.size = dict(shapes), ends[-1]
        self._parts = {name: slice(end - math.prod(shapes[name]), end) for name, end in zip(shapes, ends, strict=True)}

    def vector(self, weights):
        """Return the weights {name: array} as one vector, float32 [size]."""
        return np.concatenate([np.asarray(weights[name], np.float32).ravel() for name in self.shapes])

    def weights(self, vectors):
        """Return {name: array of its shape} of one vector [size], or {name: [N, *shape]} of N of them [N, size]."""
        lead = vectors.shape[:-1]
        return {name: vectors[..., part].reshape(*lead, *self.shapes[name]) for name, part in self._parts.items()}
