"""What A2C, PG, PPO and TRPO share: advantages and value targets of a batch, its rows, and gradient steps on them.

A row is a step, or with an LSTM a sequence of L steps with the state before it; an "[S(, L), …]" below is either.

Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 16; with λ = 1 an advantage is the whole return less the value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from drl_cli.algorithms.learner_graph import counter
from drl_cli.algorithms.losses.policy_gradient import explained_variance, standardized
from drl_cli.algorithms.losses.returns import gae, returns_to_go
from drl_cli.config.sections.on_policy import OnPolicyKeys, TrajectoryKeys
from drl_cli.config.sections.resources import learners
from drl_cli.policies.actor_critic_tf import ActorCritic, Seen, look_at, state_of
from drl_cli.policies.forward_tf import Tensors
from drl_cli.tf1.graph import Batch
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.tensorflow import Tensor, Variable, tf
from drl_cli.tf1.towers import DataParallel, Sums, Towers, devices_of

OLD = "old/"  # before the names of the heads of the policy that sampled
STEP_STATS = ("total_loss", "grad_norm")  # statistics of every step, beside those of the loss

Rows: TypeAlias = Tensors  # column -> [S(, L), …], or of a minibatch [B(, L), …]
Loss: TypeAlias = Callable[[Tensors, Rows], Sums]  # (values of all variables of the net and coefficients, minibatch)


class TrainedNets(Protocol):
    """Nets as the optimiser sees them, see ``policies.actor_critic_tf.ActorCritic``."""

    variables: dict[str, Variable]
    averaged: dict[str, Variable]
    trained: tuple[str, ...]
    published: tuple[str, ...]

    def values(self) -> Tensors:
        """Return {name: tensor} of all variables, read once."""
        ...

    def move_average(self) -> None:
        """Move the averaged weights by an update."""
        ...


class TrainedPolicy(TrainedNets, Protocol):
    """Nets of which one draws actions."""

    distribution: Any


class Estimates(NamedTuple):
    """A batch with its estimates, made by the policy that sampled it."""

    rows: dict[str, Tensor]  # column -> [S(, L), …]: obs, action, logp, mask, advantage, with a critic value, target, …
    stats: dict[str, Tensor]  # name -> scalar


def estimates(
    config: OnPolicyKeys,
    net: ActorCritic,
    batch: Batch,
    standardize: bool,
    heads: bool = False,
    sampler: Tensors | None = None,
) -> Estimates:
    """Return the Estimates of ``batch`` (``experience.trajectories``) by the present weights of ``net``.

    ``standardize``: advantages have mean 0 and deviation 1 over the whole batch. ``heads``: rows have the heads
    (``old/<head>``) of the policy that sampled as well, whose weights are ``sampler``, by default the present ones.
    Nothing here has a gradient.
    """
    old, value, next_value = look_at(net, net.values(), batch)  # [E·T, …], [E, T], [E, T]
    if heads and sampler:
        old = look_at(net, sampler, batch)[0]  # [E·T, …]
    mask = batch["mask"]  # [E, T]
    columns = {name: batch[name] for name in ("obs", "action", "logp", "mask")}
    stats = {}
    if config.use_critic:
        weight = config.lambda_ if config.use_gae else 1.0
        advantage = gae(batch, value, next_value, weight)  # [E, T]
        columns |= {"value": value, "target": advantage + value}
        stats["vf_explained_var"] = explained_variance(columns["target"], value, mask)
    else:
        advantage = returns_to_go(batch)  # [E, T]
    columns["advantage"] = standardized(advantage, mask) if standardize else advantage
    if heads:
        columns |= {
            OLD + name: tf.reshape(y, [*mask.shape, *y.shape[1:]]) for name, y in old.items() if name != "features"
        }
    if net.spec.state:
        columns["begins"] = batch["begins"]
    rows = {name: tf.stop_gradient(_in_rows(net, batch, x)) for name, x in columns.items()}
    if net.spec.state:
        sequences = rows["mask"].shape[0]
        rows |= {f"state_{index}": part for index, part in enumerate(state_of(net, batch, "state", sequences))}
    return Estimates(rows, stats)


def evaluated(net: ActorCritic, values: Tensors, minibatch: Rows) -> tuple[Seen, Rows]:
    """Return (the outputs of ``net`` with ``values`` on a minibatch, [B(·L), …]; its columns by step, [B(·L), …] each)."""
    if not net.spec.state:
        return net.look(values, minibatch["obs"]), minibatch
    state = state_of(net, minibatch, "state", minibatch["mask"].shape[0])
    steps = {name: tf.reshape(x, [-1, *x.shape[2:]]) for name, x in minibatch.items() if not name.startswith("state_")}
    return net.look(values, minibatch["obs"], state, minibatch["begins"]), steps


def _in_rows(net: ActorCritic, batch: Batch, x: Tensor) -> Tensor:
    """Return [E, T, …] as [E·T, …], or with an LSTM as [E·T/L, L, …]."""
    streams, steps = x.shape[:2].as_list()
    if not net.spec.state:
        return tf.reshape(x, [streams * steps, *x.shape[2:]])  # [E·T, …]
    sequences = batch["state_0"].shape[1]
    return tf.reshape(x, [streams * sequences, steps // sequences, *x.shape[2:]])  # [E·T/L, L, …]


class Descent:
    """The optimiser of all trained weights of an ActorCritic ``net``; ``number`` counts updates."""

    def __init__(self, config: TrajectoryKeys, net: TrainedNets, scope: str) -> None:
        """``scope`` (ending in "/") goes before every variable's name."""
        self._net, self._clip = net, config.grad_clip
        self.towers = Towers(devices_of(config), bool(config.xla), learners(config))
        self.trained = {name: net.variables[name] for name in net.trained}
        self._adam = Adam(scope + "policy", self.trained, epsilon=config.adam_epsilon)
        self.number = counter(scope)

    def variables(self) -> dict[str, Variable]:
        """Return {exact name: variable} of the net, the optimiser and the counter (as ``num_updates``)."""
        own = (*self._net.variables.values(), *self._net.averaged.values())
        found = {variable.op.name: variable for variable in own}
        return found | self._adam.variables | {"num_updates": self.number}

    def gradients(self, loss: Loss, minibatch: Rows, coefficients: Tensors | None = None) -> tuple[list[Tensor], Sums]:
        """Return (gradients of the sum of ``loss``, Sums) with the present weights.

        ``loss(values, minibatch)`` returns Sums; ``values``: {name: tensor} of all variables of the net, and ``coefficients``.
        """
        values = self._net.values()
        trained = {name: values[name] for name in self.trained}
        rest = {name: value for name, value in values.items() if name not in trained}
        return self.towers.gradients(loss, trained, minibatch, rest | (coefficients or {}))

    def parallel(self, loss: Loss) -> DataParallel:
        """Return what several learners share."""
        return DataParallel(self.towers, loss, tuple(self.trained))

    def step(self, gradients: list[Tensor], sums: Sums, rate: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Take one step with the gradients of a sum; returns ({name: scalar}: means and tops, whether it was finite).

        A step that is not finite is not taken.
        """
        count = tf.maximum(sums.count, 1.0)
        gradients, norm = clipped([gradient / count for gradient in gradients], self._clip)
        total = sums.loss / count

        def apply() -> Tensor:
            self._adam.apply(gradients, rate)
            self._net.move_average()
            self.number.assign_add(1)
            return tf.constant(True)

        finite = tf.cond(tf.math.is_finite(total + norm), apply, lambda: tf.constant(False))
        means = {name: value / count for name, value in sums.stats.items()}
        return {**means, **sums.tops} | {"total_loss": total, "grad_norm": norm}, finite


def summed(loss: Tensor, stats: Tensors, mask: Tensor, tops: Tensors | None = None) -> Sums:
    """Return the Sums of ``loss`` [B] and ``stats`` {name: [B]} over the valid steps of ``mask`` [B].

    ``tops``: {name: [B], at least 0}, of which the largest counts.
    """
    added = {name: tf.reduce_sum(mask * rows) for name, rows in stats.items()}
    largest = {name: tf.reduce_max(mask * rows) for name, rows in (tops or {}).items()}
    return Sums(tf.reduce_sum(mask * loss), added, largest, tf.reduce_sum(mask))
