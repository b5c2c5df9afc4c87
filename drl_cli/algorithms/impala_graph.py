"""IMPALA: an actor-critic that learns from trajectories of older policies, with V-trace as its off-policy correction.

A batch is learnt from in a few passes over the whole of it, each one gradient step. The update (values, correction, optimiser,
loop over passes) is APPO's too; the objectives of the two say how the policy is trained.

Source: Espeholt et al. 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(arXiv 1802.01561), section 4; keys, terms and their names from RLlib's IMPALA.

Deviations:
- Losses are means over the valid steps of a batch; RLlib's and the paper's are sums.
- Every pass evaluates the batch again: V-trace's targets and ratios are those of the present weights.
- ``vtrace: false`` estimates advantages by the present values (GAE), not by those that the worker had.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from drl_cli.algorithms.impala import IMPALAConfig, passes_per_call
from drl_cli.algorithms.learner_graph import counter
from drl_cli.algorithms.losses.policy_gradient import explained_variance, policy_gradient_loss
from drl_cli.algorithms.losses.returns import gae
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.losses.vtrace import Clips, VTrace, ratio_of, vtrace
from drl_cli.config.sections.resources import learners
from drl_cli.policies.actor_critic_tf import ActorCritic, look_at
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, BatchGraph, Learnt, Rates, trajectory_columns
from drl_cli.tf1.optimizers import Adam, RMSProp, clipped
from drl_cli.tf1.tensorflow import Tensor, Variable, tf
from drl_cli.tf1.towers import DataParallel, Sums, Towers

RATES = ("lr", "entropy_coeff")
STATS = (
    *("total_loss", "policy_loss", "vf_loss", "entropy", "vf_explained_var", "grad_norm"),
    *("mean_rho", "max_rho", "behaviour_kl"),
)


def build(
    config: IMPALAConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``actor_critic_nets.initial_weights``; ``seed`` is not used: nothing here is random;
    ``scope`` (ending in "/") goes before every variable's name.
    """
    del seed
    net = ActorCritic(spec, initial, scope, looped=bool(config.xla), average=config.policy_average)
    return OffPolicyUpdate(config, spec, net, scope, PolicyGradient()).graph()


class PolicyOutputs(NamedTuple):
    """The outputs of a policy and its value on a batch."""

    heads: dict[str, Tensor]  # of the distribution, {name: [E·T, size]}
    logp: Tensor  # of the actions taken, [E, T]
    value: Tensor  # [E, T]
    next_value: Tensor  # [E, T]
    entropy: Tensor  # [E, T]


class Objective(Protocol):
    """How the policy is trained on a batch that older policies sampled."""

    stats: tuple[str, ...]  # names of its own statistics
    variables: dict[str, Variable]  # its own

    def before(self, batch: Batch) -> Any:
        """Return what all passes over a batch share."""
        ...

    def log_rho(self, now: PolicyOutputs, batch: Batch, before: Any) -> Tensor:
        """Return the log-ratio of the policy whose values are learnt to the behaviour policy, [E, T]."""
        ...

    def policy_loss(
        self, now: PolicyOutputs, batch: Batch, before: Any, advantage: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return (the loss of each step [E, T], {name: scalar} of ``stats``)."""
        ...

    def after(self, number: Tensor, stats: Tensors) -> None:
        """Update the objective's own variables after a gradient step."""
        ...


class PolicyGradient:
    """IMPALA's objective: −log π(a|x)·advantage, the advantage with its importance weight."""

    stats: tuple[str, ...] = ()
    variables: dict[str, Variable] = {}

    def before(self, batch: Batch) -> None:
        """See Objective."""

    def log_rho(self, now: PolicyOutputs, batch: Batch, before: None) -> Tensor:
        """See Objective: of the present policy."""
        return now.logp - batch["logp"]  # [E, T]

    def policy_loss(
        self, now: PolicyOutputs, batch: Batch, before: None, advantage: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See Objective."""
        return policy_gradient_loss(now.logp, advantage), {}  # [E, T]

    def after(self, number: Tensor, stats: Tensors) -> None:
        """See Objective: it has no variables."""


class OffPolicyUpdate:
    """The variables of an actor-critic and its optimiser, and the gradient steps on one batch."""

    def __init__(
        self, config: IMPALAConfig, spec: PolicySpec, net: ActorCritic, scope: str, objective: Objective
    ) -> None:
        """Arguments as for ``build``."""
        self._config, self._spec, self._net, self._objective = config, spec, net, objective
        self._number = counter(scope)
        self._optimiser = _optimiser(config, scope + "policy", {name: net.variables[name] for name in net.trained})
        self._towers = Towers(["/CPU:0"], bool(config.xla), learners(config))
        self._clips = Clips(config.vtrace_clip_rho_threshold, config.vtrace_clip_pg_rho_threshold, _lambda(config))

    def graph(self) -> BatchGraph:
        """Return the BatchGraph of this update."""
        groups = (self._net.variables, self._net.averaged, self._optimiser.variables, self._objective.variables)
        variables = {variable.op.name: variable for group in groups for variable in group.values()}
        variables["num_updates"] = self._number
        columns = trajectory_columns(self._config, self._spec)
        shared = (
            self._towers.in_one_place,
            self._net.sampled(),
            DataParallel(self._towers, self.loss, tuple(self._net.trained)),
        )
        return BatchGraph(columns, RATES, variables, self._net.published, self.learn, *shared)

    def learn(self, batch: Batch, rates: Rates, number: Tensor) -> Learnt:
        """See BatchGraph: make ``passes_per_call`` passes over ``batch``, fewer if one is not finite, none if it is empty."""
        passes = tf.where(tf.reduce_any(batch["mask"] > 0), passes_per_call(self._config), 0)
        before = self._objective.before(batch)
        names = STATS + self._objective.stats

        def go_on(index: Tensor, finite: Tensor, *_: Tensor) -> Tensor:
            return tf.logical_and(index < passes, finite)

        def body(index: Tensor, _: Tensor, *sums: Tensor) -> tuple[Tensor, ...]:
            stats, finite = self._step(batch, rates, number + tf.cast(index, tf.int64), before)
            added = [_merged(name, old, stats[name]) for name, old in zip(names, sums, strict=True)]
            return (index + tf.cast(finite, tf.int32), finite, *added)

        start = (tf.constant(0), tf.constant(True), *([tf.zeros([])] * len(names)))
        done, finite, *sums = tf.while_loop(go_on, body, start, parallel_iterations=1)
        # A step that was not finite is not counted, but is part of the sums, so that they show it.
        visited = tf.cast(tf.maximum(done + tf.cast(tf.logical_not(finite), tf.int32), 1), tf.float32)
        stats = {n: s if n.startswith("max_") else s / visited for n, s in zip(names, sums, strict=True)}
        return Learnt(stats, done, finite)

    def _step(self, batch: Batch, rates: Rates, number: Tensor, before: Any) -> tuple[dict[str, Tensor], Tensor]:
        """Evaluate ``batch`` and take one step, if it is finite; returns ({name: scalar}, whether it was)."""
        values = self._net.values()
        if self._towers.in_one_place:
            loss, stats = self._loss(evaluated(self._net, values, batch), batch, rates, before)
            trained = [values[name] for name in self._net.trained]
            gradients = tf.gradients(loss, trained, unconnected_gradients="zero")
        else:
            loss, stats, gradients = self._shared(values, batch, rates)
        gradients, stats["grad_norm"] = clipped(gradients, self._config.grad_clip)

        def apply() -> Tensor:
            self._optimiser.apply(gradients, rates["lr"])
            self._net.move_average()
            self._objective.after(number, stats)
            self._number.assign_add(1)
            return tf.constant(True)

        return stats, tf.cond(tf.math.is_finite(loss + stats["grad_norm"]), apply, lambda: tf.constant(False))

    def _shared(self, values: Tensors, batch: Batch, rates: Rates) -> tuple[Tensor, dict[str, Tensor], list[Tensor]]:
        """Return (loss, statistics, gradients) of ``batch``, of which each learner differentiates its streams."""
        trained = {name: values[name] for name in self._net.trained}
        rest = {name: value for name, value in values.items() if name not in trained}
        rest["entropy_coeff"] = rates["entropy_coeff"]
        pieces = _by_streams(batch, self._towers.width(batch["mask"].shape[0]), learners(self._config))
        found, sums = self._towers.gradients(self.loss, trained, pieces, rest)
        count = tf.maximum(sums.count, 1.0)
        means = {name: total / count for name, total in sums.stats.items()}
        spread = [means.pop(f"{name}²") - means.pop(name) ** 2 for name in ("error", "target")]
        stats = {**means, **sums.tops, "total_loss": sums.loss / count}
        stats["vf_explained_var"] = 1.0 - spread[0] / tf.maximum(spread[1], 1e-8)
        return stats["total_loss"], stats, [gradient / count for gradient in found]

    def loss(self, values: Tensors, batch: Batch) -> Sums:
        """Return the Sums of some streams for IMPALA's objective; ``values``: of the net's variables, and entropy_coeff."""
        now, mask = evaluated(self._net, values, batch), batch["mask"]
        estimated = self._estimated(self._objective.log_rho(now, batch, None), batch, now)
        policy, _ = self._objective.policy_loss(now, batch, None, estimated.advantage)  # [E, T]
        error = estimated.value_target - now.value  # [E, T]
        moved = ratio_of(now.logp - batch["logp"], mask)  # [E, T]
        rows = {
            "policy_loss": policy,
            "vf_loss": squared(error),
            "entropy": now.entropy,
            "mean_rho": estimated.rho,
            "behaviour_kl": moved - 1.0 - tf.math.log(moved),
            "error": error,
            "error²": tf.square(error),
            "target": estimated.value_target,
            "target²": tf.square(estimated.value_target),
        }  # [E, T] each
        total = policy + self._config.vf_loss_coeff * rows["vf_loss"] - values["entropy_coeff"] * now.entropy  # [E, T]
        stats = {name: tf.reduce_sum(x * mask) for name, x in rows.items()}
        tops = {"max_rho": tf.reduce_max(estimated.rho)}
        return Sums(tf.reduce_sum(total * mask), stats, tops, tf.reduce_sum(mask))

    def _loss(self, now: PolicyOutputs, batch: Batch, rates: Rates, before: Any) -> tuple[Tensor, dict[str, Tensor]]:
        config, mask = self._config, batch["mask"]
        log_rho = self._objective.log_rho(now, batch, before)  # [E, T]
        estimated = self._estimated(log_rho, batch, now)
        rows, more = self._objective.policy_loss(now, batch, before, estimated.advantage)  # [E, T]
        error = estimated.value_target - now.value  # [E, T]
        policy_loss, vf_loss = mean(rows, mask), mean(squared(error), mask)
        entropy = mean(now.entropy, mask)
        loss = policy_loss + config.vf_loss_coeff * vf_loss - rates["entropy_coeff"] * entropy  # scalar
        # How far the learnt policy has moved away from the behaviour policies: Σ_a μ·(π/μ − 1 − log π/μ) = KL(μ ‖ π).
        moved = ratio_of(now.logp - batch["logp"], mask)  # [E, T]
        stats = {
            "total_loss": loss,
            "policy_loss": policy_loss,
            "vf_loss": vf_loss,
            "entropy": entropy,
            "vf_explained_var": explained_variance(estimated.value_target, now.value, mask),
            "mean_rho": mean(estimated.rho, mask),
            "max_rho": tf.reduce_max(estimated.rho),
            "behaviour_kl": mean(moved - 1.0 - tf.math.log(moved), mask),
            **more,
        }
        return loss, stats

    def _estimated(self, log_rho: Tensor, batch: Batch, now: PolicyOutputs) -> VTrace:
        if self._config.vtrace:
            return vtrace(log_rho, batch, now.value, now.next_value, self._clips)
        advantage = gae(batch, now.value, now.next_value, self._clips.lambda_)  # [E, T]
        target = tf.stop_gradient(advantage + now.value)  # [E, T]
        return VTrace(target, advantage, tf.stop_gradient(ratio_of(log_rho, batch["mask"]) * batch["mask"]))


def evaluated(net: ActorCritic, values: Tensors, batch: Batch) -> PolicyOutputs:
    """Return the outputs on ``batch`` of ``net`` with the weights ``values``."""
    heads, value, next_value = look_at(net, values, batch)
    shape = batch["mask"].shape
    action = tf.reshape(batch["action"], [-1, *batch["action"].shape[2:].as_list()])  # [E·T, …]
    logp = tf.reshape(net.distribution.logp(heads, action), shape)  # [E, T]
    entropy = tf.reshape(net.distribution.entropy(heads), shape)  # [E, T]
    return PolicyOutputs(heads, logp, value, next_value, entropy)


def mean(rows: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of ``rows`` over valid steps, both [E, T]."""
    return tf.reduce_sum(rows * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)


def _by_streams(batch: Batch, width: int, parts: int) -> Batch:
    """Return ``batch`` with streams of padding up to ``width``, to be cut into ``parts`` along every column's first axis.

    Each part has all ends, [M, …], of which those in streams of other parts come after no step of its own.
    """
    streams, steps = batch["mask"].shape.as_list()
    size = width // parts * steps  # steps of a part
    found = {}
    for name, column in batch.items():
        if name == "end_at":
            shifted = [column - index * size for index in range(parts)]  # [M] each
            found[name] = tf.concat([tf.where((at >= 0) & (at < size), at, size + 0 * at) for at in shifted], 0)
        elif name.startswith("end_"):
            found[name] = tf.concat([column] * parts, 0)  # [parts·M, …]
        else:
            found[name] = tf.pad(column, [[0, width - streams]] + [[0, 0]] * (column.shape.rank - 1))
    return found


def _merged(name: str, old: Tensor, new: Tensor) -> Tensor:
    return tf.maximum(old, new) if name.startswith("max_") else old + new


def _lambda(config: IMPALAConfig) -> float:
    """Return how far traces reach: to the end of the episode where use_gae is false."""
    return config.lambda_ if config.use_gae else 1.0


def _optimiser(config: IMPALAConfig, part: str, weights: Mapping[str, Variable]) -> Adam | RMSProp:
    if config.opt_type == "adam":
        return Adam(part, weights, epsilon=config.adam_epsilon)
    # Its mean begins at ten times ε: TensorFlow's 1 beside RLlib's 0.1, whatever the scale of the gradients is.
    return RMSProp(part, weights, config.decay, config.momentum, config.epsilon, 10.0 * config.epsilon)
