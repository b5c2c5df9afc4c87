"""TRPO: everything that is done with one batch of trajectories, as a graph.

Advantages and value targets once, with the weights that sampled; then one step of the policy along the natural gradient,
as far as a line search finds the surrogate grow within the trust region; then the fit of the value. ``tf1.natural_gradient``
has the mechanics of the step.

Sources: Schulman et al. 2015, "Trust Region Policy Optimization" (arXiv 1502.05477), sections 5 and 6, appendix C; GAE,
Schulman et al. 2016 (arXiv 1506.02438).

Deviations:
- The value is fitted with Adam on shuffled minibatches, as OpenAI's baselines do; the authors take L-BFGS.
- The subsample for Fisher products is rows at equal distances, others after each update, instead of drawn ones.
- Advantages are standardised over the batch.
- ``entropy_coeff`` adds the policy's entropy to the surrogate, in the gradient and in the line search.
- With an LSTM the value is a linear function of the policy's features, fitted without moving them: layers that the fit
  moves would move the policy out of its trust region.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from drl_cli.algorithms.learner_graph import counter
from drl_cli.algorithms.losses.policy_gradient import clipped_value_loss, surrogate_loss
from drl_cli.algorithms.on_policy_graph import OLD, Rows, estimates, evaluated
from drl_cli.algorithms.trpo import TRPOConfig
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.policies.actor_critic_tf import ActorCritic
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.epochs import Passed, Plan, epochs
from drl_cli.tf1.graph import Batch, BatchGraph, Learnt, Rates, trajectory_columns
from drl_cli.tf1.natural_gradient import LineSearchResult, Step, fisher_product, flat, full_step, line_search, shaped
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("lr", "entropy_coeff", "max_kl")
FIT = ("vf_loss", "grad_norm_value")  # what the steps of the value's fit report
_FIT_COLUMNS = ("obs", "mask", "target", "begins", "state_")


def build(config: TRPOConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``actor_critic_nets.initial_weights``;
    ``seed`` keys the shuffles; ``scope`` (ending in "/") goes before every variable's name.
    """
    net = ActorCritic(spec, initial, scope, looped=bool(config.xla), average=config.policy_average)
    value_head = f"{spec.nets[0].name}/value/"  # of a net that both share
    policy = [name for name in net.policy_names if not name.startswith(value_head)]
    region = _TrustRegion(config, net, policy)
    fit = _ValueFit(config, net, [name for name in net.trained if name not in policy], seed, scope)
    number = counter(scope)

    def learn(batch: Batch, rates: Rates, present: Tensor) -> Learnt:
        estimated = estimates(config, net, batch, standardize=True, heads=True)
        found, moved, finite = region.improve(estimated.rows, rates, present)
        stats = estimated.stats | moved | {"cur_lr": rates["lr"], "entropy_coeff": rates["entropy_coeff"]}
        updates = tf.cast(found.accepted, tf.int32)
        if config.use_critic:
            fitted = fit.fit(estimated.rows, finite, rates["lr"], present)
            stats |= fitted.last
            updates, finite = updates + fitted.updates, tf.logical_and(finite, fitted.finite)
        net.move_average()
        number.assign_add(tf.cast(updates, tf.int64))
        return Learnt(stats, updates, finite)

    made = [*net.variables.values(), *net.averaged.values(), *fit.variables()]
    variables = {variable.op.name: variable for variable in made} | {"num_updates": number}
    return BatchGraph(trajectory_columns(config, spec), RATES, variables, net.published, learn, sampled=net.sampled())


class _TrustRegion:
    """The step of the policy."""

    def __init__(self, config: TRPOConfig, net: ActorCritic, names: Sequence[str]) -> None:
        """``names``: the weights that it moves."""
        self._config, self._net, self._names = config, net, names

    def improve(self, rows: Rows, rates: Rates, number: Tensor) -> tuple[LineSearchResult, dict[str, Tensor], Tensor]:
        """Take the step, or leave every bit of the policy as it was.

        ``rows``: of ``estimates``; ``rates``: {name: scalar}; ``number``: int64 scalar that moves the subsample on. Returns
        (LineSearchResult, {name: scalar}, whether all was finite, bool scalar).
        """
        config, values, max_kl = self._config, self._net.values(), rates["max_kl"]
        entropy_coeff = rates["entropy_coeff"]
        weights = [values[name] for name in self._names]
        surrogate, _, entropy = self._measures(values, weights, rows, entropy_coeff)
        gradient = flat(tf.gradients(surrogate, weights, unconnected_gradients="zero"))  # [P]
        some = _spread(rows, config.fisher_fraction, number)
        product = fisher_product(lambda here: self._measures(values, here, some, 0.0)[1], weights)
        step = full_step(product, gradient, max_kl, config.cg_damping, config.cg_iterations)
        before, entropy = tf.stop_gradient(surrogate), tf.stop_gradient(entropy)
        finite = tf.math.is_finite(tf.reduce_sum(gradient) + tf.reduce_sum(step.full) + before)

        def measured(vector: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
            after, kl, entropy = self._measures(values, shaped(vector, weights), rows, entropy_coeff)
            inside = tf.logical_and(kl <= max_kl, tf.math.is_finite(after))
            return tf.logical_and(after > before, inside), (kl, after - before, entropy)

        # An empty batch tries no step.
        ready = tf.logical_and(finite, tf.reduce_sum(rows["mask"]) > 0.0)
        ladder = (tf.where_v2(ready, config.line_search_steps, 0), config.line_search_shrink)
        found = line_search(measured, flat(weights), step.full, ladder, (tf.zeros([]), tf.zeros([]), entropy))
        for name, value in zip(self._names, shaped(found.vector, weights), strict=True):
            self._net.variables[name].assign(value)
        return found, _stats(step, found, gradient), finite

    def _measures(
        self, values: Tensors, weights: Sequence[Tensor], rows: Rows, entropy_coeff: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return, for a policy of ``weights``, (surrogate to be maximised, mean KL from the old one, mean entropy)."""
        distribution = self._net.distribution
        seen, steps = evaluated(self._net, {**values, **dict(zip(self._names, weights, strict=True))}, rows)  # [B, …]
        mask, old = steps["mask"], {name.removeprefix(OLD): x for name, x in steps.items() if name.startswith(OLD)}
        # Padding holds anything: without the mask its ratio may be infinite, and 0 times that is not a number.
        ratio = tf.exp((distribution.logp(seen.heads, steps["action"]) - steps["logp"]) * mask)  # [B]
        surrogate = -_mean(surrogate_loss(ratio, steps["advantage"], None), mask)
        entropy = _mean(distribution.entropy(seen.heads), mask)
        return surrogate + entropy_coeff * entropy, _mean(distribution.kl(old, seen.heads), mask), entropy


class _ValueFit:
    """Regression of the value on its targets."""

    def __init__(self, config: TRPOConfig, net: ActorCritic, names: Sequence[str], seed: int, scope: str) -> None:
        """``names``: the weights that it moves."""
        self._config, self._net, self._seed = config, net, seed
        self._weights = {name: net.variables[name] for name in names}
        self._adam = Adam(scope + "value", self._weights, config.adam_epsilon)
        self._size = config.sgd_minibatch_size // sequence_length(config)

    def variables(self) -> Iterable[Variable]:
        """Return the optimiser's."""
        return self._adam.variables.values()

    def fit(self, rows: Rows, ready: Tensor, rate: Tensor, number: Tensor) -> Passed:
        """Go over ``rows`` of ``estimates`` in minibatches; returns Passed. Nothing happens unless ``ready``, bool scalar."""
        config, net = self._config, self._net
        rows = {name: column for name, column in rows.items() if name.startswith(_FIT_COLUMNS)}
        rows["mask"] *= tf.cast(ready, tf.float32)

        def step(minibatch: Rows, _: Tensor) -> tuple[dict[str, Tensor], Tensor]:
            weights = {name: variable.read_value() for name, variable in self._weights.items()}
            seen, steps = evaluated(net, net.values() | weights, minibatch)  # [B, …]
            loss = _mean(clipped_value_loss(seen.value, seen.value, steps["target"], None), steps["mask"])
            gradients, norm = clipped(tf.gradients(loss, list(weights.values())), config.grad_clip)

            def apply() -> Tensor:
                self._adam.apply(gradients, rate)
                return tf.constant(True)

            finite = tf.cond(tf.math.is_finite(loss + norm), apply, lambda: tf.constant(False))
            return dict(zip(FIT, (loss, norm), strict=True)), finite

        plan = Plan(config.vf_iterations, self._size, self._size, shuffle=True)
        return epochs(rows, plan, (self._seed, number), FIT, step)


def _spread(rows: Rows, fraction: float, number: Tensor) -> Rows:
    """Return ``fraction`` of the rows, at equal distances; ``number`` (int64 scalar) moves them on."""
    count = rows["mask"].shape[0]
    size = math.ceil(count * fraction)
    if size == count:
        return rows
    at = (np.arange(size, dtype=np.int64) * count // size + number) % count  # [size]
    return {name: tf.gather(column, at) for name, column in rows.items()}


def _mean(steps: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the real steps; ``steps`` and ``mask`` [B]."""
    return tf.reduce_sum(steps * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)


def _stats(step: Step, found: LineSearchResult, gradient: Tensor) -> dict[str, Tensor]:
    kl, gain, entropy = found.measures
    return {
        "kl": kl,
        "entropy": entropy,
        "surrogate_improvement": gain,
        "expected_improvement": step.expected * found.fraction,
        "step_fraction": found.fraction,
        "line_search_steps": tf.cast(found.tried, tf.float32),
        "cg_residual": step.residual,
        "cg_iterations": tf.cast(step.iterations, tf.float32),
        "grad_norm": tf.norm(gradient),
    }
