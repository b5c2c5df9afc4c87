"""What an algorithm's graph module hands to the learner: variables, and what is done with a batch as functions of tensors.

A LearnerGraph has an update as two functions, which are repeated over batches of a replay; a BatchGraph does everything
that is to be done with one batch of trajectories; a GradientGraph applies gradients that workers compute.

Sources: the split into "compute gradients" and "apply them" follows ``tf.train.Optimizer``; asynchronous loops send
gradients between the two, the others run them one after the other inside one session call (``tf1.repeat``).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.replay import SequenceReplay, is_prioritized, learnt_steps
from drl_cli.tf1.tensorflow import Tensor, Variable
from drl_cli.tf1.towers import DataParallel, Sums

Batch: TypeAlias = dict[str, Tensor]  # column -> tensor [B, …], or of a batch of trajectories [E, T, …]
Parts: TypeAlias = Mapping[str, list[Tensor]]  # part name -> gradients, of the shapes of that part's variables
Rates: TypeAlias = Mapping[str, Tensor]  # key of the config, dotted -> float32 scalar
Shape: TypeAlias = tuple[int, ...]
Columns: TypeAlias = Mapping[str, tuple[Shape, str]]  # column -> (shape without batch axis, dtype name)
TrajectoryColumns: TypeAlias = Mapping[str, tuple[Shape, str, str]]  # column -> (trailing shape, dtype name, kind)


class ActsOn(Protocol):
    """What a PolicySpec says of the columns that a batch for it has."""

    @property
    def stacked_shape(self) -> Shape: ...
    @property
    def obs_dtype(self) -> str: ...
    @property
    def action(self) -> Any: ...
    @property
    def state(self) -> tuple[Shape, ...]: ...
    @property
    def stepwise(self) -> Collection[str]: ...


class Gradients(NamedTuple):
    """The outcome of looking at one batch; nothing has been changed yet."""

    parts: Parts
    # name -> float32 scalar; over updates "min_…" and "max_…" are reduced so, others averaged. At most 64 of each kind.
    stats: Mapping[str, Tensor]
    finite: Tensor  # bool scalar: every loss and gradient is a finite number
    # name -> float32 [B]: one number for each row of the batch, new priorities for instance. At most one.
    rows: Mapping[str, Tensor] = {}


class LearnerGraph(NamedTuple):
    """An algorithm as graph functions over variables that exist once.

    ``columns`` maps each column that a batch must have to (shape without batch axis, dtype name). ``gradients(batch,
    number)`` takes {column: tensor [B, …]} and the int64 update number (it keys the random draws); ``apply(parts,
    rates, number)`` changes the variables, ``rates`` mapping the names of ``rates`` (keys of the config, dotted) to float32
    scalars. ``variables`` holds all of them by exact name (nets, targets, optimiser slots, counters), ``published`` names
    those that workers get.
    """

    columns: Columns
    rates: tuple[str, ...]
    variables: Mapping[str, Variable]
    published: tuple[str, ...]
    gradients: Callable[[Batch, Tensor], Gradients]
    apply: Callable[[Parts, Rates, Tensor], None]


class Learnt(NamedTuple):
    """The outcome of learning from one batch of trajectories; the variables have been changed."""

    stats: Mapping[str, Tensor]  # name -> float32 scalar
    updates: Tensor  # int32 scalar: the gradient steps taken
    finite: Tensor  # bool scalar; false: a loss or gradient was not finite, that step was not taken, and none after it


class MinibatchSteps(NamedTuple):
    """What ``BatchGraph.learn`` does with a batch, step by step, for learners that share every gradient.

    Advantages are as estimated: the caller, which knows those of all learners, standardizes them.
    """

    estimate: Callable[[Batch], tuple[Batch, Mapping[str, Tensor]]]  # of a batch: its rows {column: [S, …]}, statistics
    gradients: Callable[
        [Batch, Rates], tuple[list[Tensor], Sums]
    ]  # of a minibatch {column: [B, …]}: see Towers.gradients
    # (gradients and Sums of all learners, rates) -> ({name: scalar}, whether it was finite: only then a step is taken)
    apply: Callable[[list[Tensor], Sums, Rates], tuple[dict[str, Tensor], Tensor]]
    adapt: Callable[[Tensor], Tensor]  # after the last step, with the mean KL divergence of the last pass


class BatchGraph(NamedTuple):
    """An algorithm that learns from whole batches of trajectories (``experience.trajectories``), over variables that
    exist once.

    ``columns`` maps each column that a batch must have to (trailing shape, dtype name, kind): kind "step" [E, T, …], "end"
    [M, …] and "sequence" [E, T/L, …]. ``learn(batch, rates, number)`` takes {column: tensor of static shape}, {name: float32
    scalar} for the names of ``rates`` (keys of the config, dotted) and the present int64 value of ``num_updates``, which it
    moves on by the gradient steps it takes; it returns a Learnt. A batch whose mask is 0 everywhere changes no variable.
    ``variables`` and ``published`` as in LearnerGraph.
    """

    columns: TrajectoryColumns
    rates: tuple[str, ...]
    variables: Mapping[str, Variable]
    published: tuple[str, ...]
    learn: Callable[[Batch, Rates, Tensor], Learnt]
    in_one_place: bool = True  # whether XLA can compile ``learn`` as a whole: false where it runs on several devices
    # name in ``published`` -> name in ``variables`` of the weights that workers sample with instead; {}: the published ones
    sampled: Mapping[str, str] = {}
    parallel: DataParallel | None = None  # what several learners share, where they can
    steps: MinibatchSteps | None = None  # ``learn`` in steps, where learners without a centre can make them


class GradientGraph(NamedTuple):
    """An algorithm whose gradients are computed by workers and applied by the learner, over variables that exist once.

    ``trained`` maps the names of the weights that gradients change, as the spec has them, to their shapes.
    ``apply(gradients, rates)`` takes {name: tensor} of these and {name: float32 scalar} for the names of ``rates`` (keys of
    the config, dotted), changes the variables unless the gradients' global norm is not a finite number, and returns
    dict(norm: float32 scalar before clipping, finite: bool scalar). ``variables`` and ``published`` as in LearnerGraph.
    """

    rates: tuple[str, ...]
    variables: Mapping[str, Variable]
    published: tuple[str, ...]
    trained: Mapping[str, tuple[int, ...]]
    apply: Callable[[dict[str, Tensor], Rates], dict[str, Tensor]]


def trajectory_columns(config: object, spec: ActsOn) -> dict[str, tuple[Shape, str, str]]:
    """Return the ``columns`` of a batch of trajectories for a PolicySpec, recurrent or not.

    ``config``: of an on-policy algorithm.
    """
    obs = (spec.stacked_shape, spec.obs_dtype)
    columns = {
        "obs": (*obs, "step"),
        "action": (spec.action.shape, spec.action.dtype, "step"),
        **dict.fromkeys(("reward", "discount", "trace", "logp", "mask"), ((), "float32", "step")),
        "end_obs": (*obs, "end"),
        "end_at": ((), "int32", "end"),
    }
    if spec.state:
        columns["begins"] = ((), "float32", "step")
    for index, shape in enumerate(spec.state):
        name = f"state_{index}"
        columns[name] = (shape, "float32", "step" if name in spec.stepwise else "sequence")
        columns[f"end_state_{index}"] = (shape, "float32", "end")
    return columns


def transition_columns(config: BufferedKeys, spec: ActsOn) -> dict[str, tuple[Shape, str]]:
    """Return the ``columns`` of a batch of transitions for a PolicySpec, with weights where the replay has priorities."""
    columns = {
        "obs": (spec.stacked_shape, spec.obs_dtype),
        "action": (spec.action.shape, spec.action.dtype),
        "reward": ((), "float32"),
        "discount": ((), "float32"),
        "next_obs": (spec.stacked_shape, spec.obs_dtype),
    }
    if is_prioritized(config):
        columns["weight"] = ((), "float32")
    return columns


def sequence_columns(config: BufferedKeys, spec: ActsOn) -> dict[str, tuple[Shape, str]]:
    """Return the ``columns`` of a batch of sequences for a recurrent PolicySpec, with weights as ``transition_columns``."""
    if not isinstance(config, SequenceReplay):
        raise TypeError("keys of sequences are needed")
    learnt = learnt_steps(config)
    whole = config.burn_in + learnt + config.n_step
    columns = {
        "obs": ((whole, *spec.stacked_shape), spec.obs_dtype),
        "begins": ((whole,), "float32"),
        "action": ((learnt, *spec.action.shape), spec.action.dtype),
        "reward": ((learnt,), "float32"),
        "discount": ((learnt,), "float32"),
        "ahead": ((learnt,), "int32"),
        "mask": ((learnt,), "float32"),
    }
    if not config.zero_init_states:
        columns |= {f"state_{index}": (shape, "float32") for index, shape in enumerate(spec.state)}
    if is_prioritized(config):
        columns["weight"] = ((), "float32")
    return columns
