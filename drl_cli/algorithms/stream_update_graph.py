"""What IMPALA and APPO do with one batch of trajectories: a few passes over the whole of it, each one gradient step.

Used by ``algorithms.impala_graph`` and ``algorithms.appo_graph``, whose objectives say what the policy is to do; here
are the values, the correction for older policies, the optimiser and the loop over passes.

Sources: Espeholt et al. 2018, "IMPALA" (arXiv 1802.01561), section 4; RLlib's IMPALA for the terms and their names.

Deviations:
- Losses are means over the valid steps of a batch; RLlib's and the paper's are sums.
- Every pass looks again: V-trace's targets and ratios are those of the present weights.
- ``vtrace: false`` estimates advantages by the present values (GAE), not by those that the worker had.
"""

from typing import NamedTuple

import numpy as np

from drl_cli.algorithms.impala import passes_per_call
from drl_cli.algorithms.losses.policy_gradient import explained_variance
from drl_cli.algorithms.losses.returns import gae
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.losses.vtrace import Clips, VTrace, ratio_of, vtrace
from drl_cli.policies.actor_critic_tf import look_at
from drl_cli.tf1.adam import Adam, clipped
from drl_cli.tf1.graph import BatchGraph, Learnt, trajectory_columns
from drl_cli.tf1.rmsprop import RMSProp
from drl_cli.tf1.tensorflow import tf

RATES = ("lr", "entropy_coeff")
STATS = (
    *("total_loss", "policy_loss", "vf_loss", "entropy", "vf_explained_var", "grad_norm"),
    *("mean_rho", "max_rho", "behaviour_kl"),
)


class Looked(NamedTuple):
    """What a policy makes of a batch."""

    heads: dict  # of the distribution, {name: [E·T, size]}
    logp: object  # of the actions taken, [E, T]
    value: object  # [E, T]
    next_value: object  # [E, T]
    entropy: object  # [E, T]


class StreamUpdate:
    """The variables of an actor-critic and its optimiser, and everything that one batch does to them.

    ``objective`` has ``stats`` (names of its own statistics), ``variables`` ({name: variable} of its own), ``before(batch)``
    (what all passes share), ``log_rho(looked, batch, before)`` [E, T] (the policy for which values are learnt over the one
    that acted), ``policy_loss(looked, batch, before, advantage)`` ([E, T] to be made small, {name: scalar}) and
    ``after(number, stats)``, called behind every step taken.
    """

    def __init__(self, config, spec, net, scope, objective):
        """``net``: ActorCritic; the other arguments as an algorithm's ``build`` has them."""
        self._config, self._spec, self._net, self._objective = config, spec, net, objective
        self._number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)
        self._optimiser = _optimiser(config, scope + "policy", {name: net.variables[name] for name in net.trained})
        self._clips = Clips(config.vtrace_clip_rho_threshold, config.vtrace_clip_pg_rho_threshold, _lambda(config))

    def graph(self):
        """Return the BatchGraph of this update."""
        groups = (self._net.variables, self._optimiser.variables, self._objective.variables)
        variables = {variable.op.name: variable for group in groups for variable in group.values()}
        variables["num_updates"] = self._number
        columns = trajectory_columns(self._config, self._spec)
        return BatchGraph(columns, RATES, variables, tuple(self._net.published), self.learn)

    def learn(self, batch, rates, number):
        """See BatchGraph: make ``passes_per_call`` passes over ``batch``, fewer if one is not finite, none if it is empty."""
        passes = tf.where(tf.reduce_any(batch["mask"] > 0), passes_per_call(self._config), 0)
        before = self._objective.before(batch)
        names = STATS + self._objective.stats

        def go_on(index, finite, *_):
            return tf.logical_and(index < passes, finite)

        def body(index, _, *sums):
            stats, finite = self._step(batch, rates, number + tf.cast(index, tf.int64), before)
            sums = [_merged(name, old, stats[name]) for name, old in zip(names, sums, strict=True)]
            return (index + tf.cast(finite, tf.int32), finite, *sums)

        start = (tf.constant(0), tf.constant(True), *([tf.zeros([])] * len(names)))
        done, finite, *sums = tf.while_loop(go_on, body, start, parallel_iterations=1)
        # The one that was not finite is not counted, but stands in the sums: they are to show it.
        visited = tf.cast(tf.maximum(done + tf.cast(tf.logical_not(finite), tf.int32), 1), tf.float32)
        stats = {n: s if n.startswith("max_") else s / visited for n, s in zip(names, sums, strict=True)}
        return Learnt(stats, done, finite)

    def _step(self, batch, rates, number, before):
        """Look at ``batch`` and take one step, if it is finite; returns ({name: scalar}, whether it was)."""
        values = self._net.values()
        loss, stats = self._loss(looked(self._net, values, batch), batch, rates, before)
        trained = [values[name] for name in self._net.trained]
        gradients = tf.gradients(loss, trained, unconnected_gradients="zero")
        gradients, stats["grad_norm"] = clipped(gradients, self._config.grad_clip)

        def apply():
            self._optimiser.apply(gradients, rates["lr"])
            self._objective.after(number, stats)
            self._number.assign_add(1)
            return tf.constant(True)

        return stats, tf.cond(tf.math.is_finite(loss + stats["grad_norm"]), apply, lambda: tf.constant(False))

    def _loss(self, now, batch, rates, before):
        config, mask = self._config, batch["mask"]
        log_rho = self._objective.log_rho(now, batch, before)  # [E, T]
        estimated = self._estimated(log_rho, batch, now)
        rows, more = self._objective.policy_loss(now, batch, before, estimated.advantage)  # [E, T]
        error = estimated.value_target - now.value  # [E, T]
        policy_loss, vf_loss = mean(rows, mask), mean(squared(error), mask)
        entropy = mean(now.entropy, mask)
        loss = policy_loss + config.vf_loss_coeff * vf_loss - rates["entropy_coeff"] * entropy  # scalar
        # How far the policy that learns has moved away from those that acted: Σ_a μ·(π/μ − 1 − log π/μ) = KL(μ ‖ π).
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

    def _estimated(self, log_rho, batch, now):
        if self._config.vtrace:
            return vtrace(log_rho, batch, now.value, now.next_value, self._clips)
        advantage = gae(batch, now.value, now.next_value, self._clips.lambda_)  # [E, T]
        target = tf.stop_gradient(advantage + now.value)  # [E, T]
        return VTrace(target, advantage, tf.stop_gradient(ratio_of(log_rho, batch["mask"]) * batch["mask"]))


def looked(net, values, batch):
    """Return what ``net`` with the weights ``values`` makes of ``batch``, as Looked."""
    heads, value, next_value = look_at(net, values, batch)
    shape = batch["mask"].shape
    action = tf.reshape(batch["action"], [-1, *batch["action"].shape[2:].as_list()])  # [E·T, …]
    logp = tf.reshape(net.distribution.logp(heads, action), shape)  # [E, T]
    entropy = tf.reshape(net.distribution.entropy(heads), shape)  # [E, T]
    return Looked(heads, logp, value, next_value, entropy)


def mean(rows, mask):
    """Return the mean of ``rows`` over valid steps, both [E, T]."""
    return tf.reduce_sum(rows * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)


def _merged(name, old, new):
    return tf.maximum(old, new) if name.startswith("max_") else old + new


def _lambda(config):
    """How far traces reach: whole returns where no estimate of advantages is asked for."""
    return config.lambda_ if config.use_gae else 1.0


def _optimiser(config, part, weights):
    if config.opt_type == "adam":
        return Adam(part, weights, epsilon=config.adam_epsilon)
    # Its mean begins at ten times ε: TensorFlow's 1 beside RLlib's 0.1, whatever the scale of the gradients is.
    return RMSProp(part, weights, config.decay, config.momentum, config.epsilon, 10.0 * config.epsilon)
