"""What an algorithm's graph module hands to the learner: variables, and an update as two functions of tensors.

Sources: the split into "compute gradients" and "apply them" follows ``tf.train.Optimizer``; asynchronous loops send
gradients between the two, the others run them one after the other inside one session call (``tf1.repeat``).
"""

from collections.abc import Callable
from typing import NamedTuple


class Gradients(NamedTuple):
    """The outcome of looking at one batch; nothing has been changed yet."""

    parts: dict  # part name -> list of gradients, tensors of the shapes of that part's variables
    stats: dict  # name -> float32 scalar; "min_…" and "max_…" are reduced so over several updates, others averaged
    finite: object  # bool scalar: every loss and gradient is a finite number
    rows: dict = {}  # name -> float32 [B]: one number for each row of the batch, new priorities for instance


class LearnerGraph(NamedTuple):
    """An algorithm as graph functions over variables that exist once.

    ``columns`` maps each column that a batch must have to (shape without batch axis, dtype name). ``gradients(batch,
    number)`` takes {column: tensor [B, …]} and the int64 update number (it keys the random draws); ``apply(parts,
    rates, number)`` changes the variables, ``rates`` mapping the names of ``rates`` (keys of the config, dotted) to float32
    scalars. ``variables`` holds all of them by exact name (nets, targets, optimiser slots, counters), ``published`` names
    those that workers get.
    """

    columns: dict
    rates: tuple
    variables: dict
    published: tuple
    gradients: Callable
    apply: Callable


class Learnt(NamedTuple):
    """The outcome of learning from one trajectory batch."""

    stats: dict  # name -> float32 scalar
    updates: object  # int32 scalar: gradient steps that were made
    finite: object  # bool scalar: every loss and gradient was a finite number


class BatchGraph(NamedTuple):
    """An algorithm that learns from trajectory batches, as a graph function over variables that exist once.

    ``columns`` maps each column that a batch must have (``data.trajectories``) to (trailing shape, dtype name, kind), kind
    "step" for [E, T, …], "end" for [M, …], "sequence" for [E, T/L, …]. ``learn(batch, rates, number)`` does everything that
    happens with one batch and assigns: it takes {column: tensor}, ``rates`` as ``LearnerGraph.apply``, and the int64
    number of gradient steps made so far, and returns Learnt. An update that is not finite is not applied and ends it.
    A batch whose mask is zero everywhere changes no variable.
    """

    columns: dict
    rates: tuple
    variables: dict
    published: tuple
    learn: Callable


def transition_columns(config, spec):
    """Return the ``columns`` of a batch of transitions for a PolicySpec, with weights where the replay has priorities."""
    columns = {
        "obs": (spec.stacked_shape, spec.obs_dtype),
        "action": (spec.action.shape, spec.action.dtype),
        "reward": ((), "float32"),
        "discount": ((), "float32"),
        "next_obs": (spec.stacked_shape, spec.obs_dtype),
    }
    if config.prioritized_replay:
        columns["weight"] = ((), "float32")
    return columns


def learner_graph(columns, rates, update, published):
    """Return the LearnerGraph of ``update``, which has ``variables()``, ``number``, ``gradients`` and ``apply``.

    ``number``: the variable that counts updates; ``published``: exact names.
    """
    variables = {variable.op.name: variable for variable in update.variables()} | {"num_updates": update.number}
    return LearnerGraph(columns, rates, variables, tuple(published), update.gradients, update.apply)
