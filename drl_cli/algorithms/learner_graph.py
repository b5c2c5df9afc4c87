"""What the graphs that learn from transitions of a replay buffer share: the LearnerGraph, the counter of updates, row weights.

Used by the graphs of DQN, R2D2, DDPG, MADDPG, QMIX, IQL, MARWIL and of the algorithms with maximum-entropy objectives.
"""

from typing import Protocol

import numpy as np

from drl_cli.policies import filters_tf
from drl_cli.policies.policy_spec import ActionSpec, PolicySpec
from drl_cli.tf1.graph import Batch, Columns, Gradients, LearnerGraph, Parts, Rates
from drl_cli.tf1.tensorflow import Tensor, Variable, tf


class ReplayUpdate(Protocol):
    """An update in two halves over variables that exist once; see LearnerGraph for what they take and return."""

    number: Variable  # counts updates

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        ...

    def gradients(self, batch: Batch, number: Tensor, /) -> Gradients:
        """Return the gradients for ``batch`` at update ``number``."""
        ...

    def apply(self, parts: Parts, rates: Rates, number: Tensor, /) -> None:
        """Change the weights with ``parts``, then what follows them."""
        ...


def learner_graph(
    columns: Columns, rates: tuple[str, ...], update: ReplayUpdate, spec: PolicySpec, scope: str
) -> LearnerGraph:
    """Return the LearnerGraph of ``update``, with the filters of the policy ``spec`` applied.

    What ``spec`` names is published, under ``scope``. Filters are applied here: a replay buffer holds raw observations and
    rewards, ``gradients`` sees them as the policy does.
    """
    filters = filters_tf.variables(spec, scope)
    made = [*update.variables(), *filters.values()]
    variables = {variable.op.name: variable for variable in made} | {"num_updates": update.number}
    published = tuple(scope + name for name in spec.weight_names())

    def gradients(batch: Batch, number: Tensor) -> Gradients:
        return update.gradients(filters_tf.filtered(batch, filters), number)

    return LearnerGraph(columns, rates, variables, published, gradients if filters else update.gradients, update.apply)


def counter(scope: str) -> Variable:
    """Create the variable that counts updates, int64; ``scope`` (ending in "/") goes before its name."""
    return tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)


def action_bounds(spec: PolicySpec) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high), float32 [A] each, of a policy over Box actions; TypeError for another one."""
    if not isinstance(spec.action, ActionSpec):
        raise TypeError(f"a policy over Box actions is needed, not over {spec.action.kind} ones")
    return spec.action.policy_bounds()


def row_mean(values: Tensor, batch: Batch) -> Tensor:
    """Return the mean over the batch, the last axis of ``values`` […, B], each row times its importance weight, if any."""
    return tf.reduce_mean(values * batch["weight"] if "weight" in batch else values, axis=-1)  # […]
