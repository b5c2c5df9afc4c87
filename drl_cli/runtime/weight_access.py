"""The weights of a running Driver, read and replaced from outside. User: the Python Trainer.

Weights of nets, their targets and filters are meant, by the names that the policy's spec gives them: neither what the optimiser
remembers nor counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.errors import InputError, suggestion

if TYPE_CHECKING:
    from drl_cli.runtime.driver import Driver

Weights = dict[str, dict[str, np.ndarray]]
"""{policy id: {name: array}}."""
FILTERS = "filter/"


def chosen(arrays: Mapping[str, np.ndarray], first: Mapping[str, Mapping[str, Any]]) -> Weights:
    """Return those of ``arrays`` (a learner's state) that are weights, by policy; ``first``: of ``assembly.first_weights``."""
    found: Weights = {policy: {} for policy in first}
    for full, array in arrays.items():
        policy, _, name = full.partition("/")
        if policy in first and (name in first[policy] or name.startswith(FILTERS)):
            found[policy][name] = array
    return found


def read(trainer: Driver, first: Mapping[str, Mapping[str, Any]]) -> Weights:
    """Return the present weights of a started Driver."""
    return chosen(trainer.parts.learner.call("state").result(), first)


def write(trainer: Driver, weights: Mapping[str, Mapping[str, Any]]) -> None:
    """Go on with ``weights`` ({policy id: {name: array}}; others stay as they are), and push them to all workers.

    What the optimiser remembers stays. Raises InputError, and changes nothing, for names and shapes that are not there.
    """
    trainer.loop.quiesce()
    learner = trainer.parts.learner
    arrays = learner.call("state").result()
    fit(weights, by_policy(arrays))
    new = {
        f"{policy}/{name}": np.asarray(value, arrays[f"{policy}/{name}"].dtype)
        for policy, own in weights.items()
        for name, value in own.items()
    }
    learner.call("load", arrays | new, trainer.loop.ledger.version).result()
    trainer.loop.ledger.pushed(learner.call("push").result())


def by_policy(arrays: Mapping[str, np.ndarray]) -> Weights:
    """Return the arrays of a learner's state by policy."""
    found: Weights = {}
    for full, array in arrays.items():
        policy, _, name = full.partition("/")
        found.setdefault(policy, {})[name] = array
    return found


def fit(weights: Mapping[str, Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise InputError where ``weights`` has a policy, a name or a shape that ``known`` has not, or no numbers."""
    for policy, own in weights.items():
        if policy not in known:
            hint = suggestion(str(policy), known) or f" They are {', '.join(known)}."
            raise InputError(f"There is no policy {str(policy)[:60]!r}.{hint}")
        _fit(own, known[policy])


def _fit(weights: Mapping[str, Any], known: Mapping[str, np.ndarray]) -> None:
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
