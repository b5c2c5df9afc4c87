"""The weights of a running Driver, read and replaced from outside. User: the Python Trainer.

Weights of nets, their targets and filters are meant, by the names that the policy's spec gives them: neither what the optimiser
remembers nor counters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.algorithms.table import Algorithm
from drl_cli.config.sections.common import CommonKeys
from drl_cli.errors import InputError, suggestion
from drl_cli.extras import load
from drl_cli.policies import filters
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.policies.policy_spec import PolicySpec

if TYPE_CHECKING:
    from drl_cli.runtime.driver import Driver

SCOPE = DEFAULT_POLICY + "/"
FILTERS = "filter/"


def first(row: Algorithm, config: CommonKeys, spec: PolicySpec) -> dict[str, np.ndarray]:
    """Return {name: array} of the weights that a run with the seed of ``config`` begins with."""
    return load(row.nets).initial_weights(config, spec, config.seed) | filters.first_weights(spec)


def chosen(arrays: Mapping[str, np.ndarray], names: Collection[str]) -> dict[str, np.ndarray]:
    """Return those of ``arrays`` (a learner's state) that are weights, by bare name; ``names``: of ``first``."""
    bare = {name.removeprefix(SCOPE): array for name, array in arrays.items()}
    return {name: array for name, array in bare.items() if name in names or name.startswith(FILTERS)}


def read(trainer: Driver, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return the present weights of a started Driver, {name: array}."""
    return chosen(trainer.parts.learner.call("state").result(), names)


def write(trainer: Driver, weights: Mapping[str, Any]) -> None:
    """Go on with ``weights`` ({name: array}; others stay as they are), and push them to all workers.

    What the optimiser remembers stays. Raises InputError, and changes nothing, for names and shapes that are not there.
    """
    trainer.loop.quiesce()
    learner = trainer.parts.learner
    arrays = learner.call("state").result()
    fit(weights, {name.removeprefix(SCOPE): array for name, array in arrays.items()})
    new = {SCOPE + name: np.asarray(value, arrays[SCOPE + name].dtype) for name, value in weights.items()}
    learner.call("load", arrays | new, trainer.loop.ledger.version).result()
    trainer.loop.ledger.pushed(learner.call("push").result())


def fit(weights: Mapping[str, Any], known: Mapping[str, np.ndarray]) -> None:
    """Raise InputError where ``weights`` has a name or a shape that ``known`` ({name: array}) has not, or no numbers."""
    for name, value in weights.items():
        if name not in known:
            raise InputError(f"There are no weights named {str(name)[:100]!r}.{suggestion(name, known)}")
        try:
            array = np.asarray(value, np.asarray(known[name]).dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"The weights {name} are no array of numbers: {error}") from error
        if array.shape != np.shape(known[name]):
            raise InputError(f"The weights {name} have the shape {np.shape(known[name])}, not {array.shape}.")
        if not np.isfinite(array).all():
            raise InputError(f"The weights {name} hold a number that is not finite.")
