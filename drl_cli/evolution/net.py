"""The policy of ES and ARS: one net that names one action, without a critic, and its weights as one vector.

Sources: Salimans et al. 2017 (arXiv 1703.03864), section 3; Mania et al. 2018 (arXiv 1803.07055), who begin with zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.errors import ConfigError
from drl_cli.evolution import noise_table
from drl_cli.policies import net_builders
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.randomness import generator

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.evolution.keys import EvolutionKeys
    from drl_cli.policies.nets import Shapes, Weights

__all__ = ["initial_weights", "policy_spec", "target_updates"]

DISTRIBUTIONS = {"Box": ("deterministic", "mean"), "Discrete": ("categorical", "logits")}


def policy_spec(config: EvolutionKeys, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``); ConfigError for a noise table that is too small.

    Also for a custom model that runs in a graph only.
    """
    action = net_builders.action(config, spaces)
    distribution, head = DISTRIBUTIONS[action.kind]
    about, seen = net_builders.observation(config, spaces)
    net = NetSpec(name="policy", layers=net_builders.layers(config.model), heads=((head, action.size),), **seen)
    if net.custom and not net.own.has_forward:
        raise ConfigError(
            f"model.custom_model {config.model.custom_model}: perturbed policies are evaluated in NumPy, and it has "
            f"no forward(weights, inputs). Add one next to its graph, see docs/examples/own_network.py."
        )
    weights = Flat(net.weight_shapes()).size
    if 0 < noise_table.table_size(weights, config.noise_size) < weights:
        raise ConfigError(
            f"noise_size: {config.noise_size:,} is less than the policy's {weights:,} weights. Leave it out."
        )
    return PolicySpec((net,), distribution, action=action, mask=net_builders.mask(spaces), **about)


def initial_weights(config: EvolutionKeys, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} drawn from ``seed`` alone; the output layer begins at zero, as does a linear policy."""
    return spec.nets[0].initial_weights(generator(seed, "init"), head_scale=0.0)


def target_updates(config: EvolutionKeys, updates: int) -> int:
    """Return how often targets have moved after ``updates`` updates: there are none."""
    return 0


class Flat:
    """The order in which weights of ``shapes`` {name: shape} lie in a vector of ``size`` numbers."""

    def __init__(self, shapes: Shapes) -> None:
        """``shapes``: as of ``NetSpec.weight_shapes``, with one copy."""
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()]).tolist()
        self.shapes, self.size = dict(shapes), ends[-1]
        self._parts = {name: slice(end - math.prod(shapes[name]), end) for name, end in zip(shapes, ends, strict=True)}

    def vector(self, weights: Weights) -> np.ndarray:
        """Return the weights {name: array} as one vector, float32 [size]."""
        return np.concatenate([np.asarray(weights[name], np.float32).ravel() for name in self.shapes])

    def weights(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Return {name: array of its shape} of one vector [size], or {name: [N, *shape]} of N of them [N, size]."""
        lead = vectors.shape[:-1]
        return {name: vectors[..., part].reshape(*lead, *self.shapes[name]) for name, part in self._parts.items()}
