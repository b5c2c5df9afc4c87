"""Trust region policy optimization: everything that is learnt from one batch of trajectories, as a graph.

Sources: Schulman et al. 2015, "Trust Region Policy Optimization" (arXiv 1502.05477), sections 5 and 6, appendix C; advantages
from Schulman et al. 2016 (arXiv 1506.02438). What makes the step is ``tf1.natural_gradient``.

Deviations:
- The value is fitted with Adam on shuffled minibatches, as OpenAI's baselines do; the authors take L-BFGS.
- The subsample for Fisher products is steps at equal distances, others after each update, instead of drawn ones.
- Advantages are standardised over the batch.
- ``entropy_coeff`` adds the policy's entropy to the surrogate, in the gradient and in the line search.
"""

import math
from typing import NamedTuple

import numpy as np

from drl_cli.losses.policy_gradient import clipped_value_loss, explained_variance, standardized, surrogate_loss
from drl_cli.losses.returns import gae, returns_to_go
from drl_cli.tf1.actor_critic import ActorCritic, look_at
from drl_cli.tf1.adam import Adam, clipped
from drl_cli.tf1.epochs import Plan, epochs
from drl_cli.tf1.graph import BatchGraph, Learnt, trajectory_columns
from drl_cli.tf1.natural_gradient import fisher_product, flat, full_step, line_search, shaped
from drl_cli.tf1.tensorflow import tf

RATES = ("lr", "entropy_coeff")
FIT_STATS = ("vf_loss", "grad_norm_value")


def build(config, spec, initial, seed, scope):
    """Build TRPO's variables in the current graph and return its BatchGraph.

    ``config``: TRPOConfig; ``spec``: PolicySpec of a net for the policy and one for the value; ``initial``: {name: array} of
    ``actor_critic_nets.initial_weights``; ``seed`` keys the shuffling; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    net = ActorCritic(spec, initial, scope)
    number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)
    region, fit = _TrustRegion(config, net), _ValueFit(config, net, seed, scope)

    def learn(batch, rates, present):
        values = net.values()
        heads, value, next_value = look_at(net, values, batch)  # {[E·T, …]}, [E, T], [E, T]
        advantage, target = _advantages(config, batch, tf.stop_gradient(value), tf.stop_gradient(next_value))  # [E, T]
        steps = _steps(batch, heads, advantage)
        found, stats, finite = region.improve(values, heads, steps, rates["entropy_coeff"], present)
        # A gradient that is no number ends it all: then no step is there to be fitted to.
        mask = steps.mask * tf.cast(finite, tf.float32)  # [E·T]
        rows = {"obs": steps.obs, "target": tf.reshape(target, [-1]), "mask": mask}
        fitted, more = fit.fit(values, rows, rates["lr"], present)
        updates = fitted.updates + tf.cast(found.accepted, tf.int32)
        number.assign_add(tf.cast(updates, tf.int64))
        stats |= more | {"vf_explained_var": explained_variance(target, value, batch["mask"])}
        return Learnt(stats, updates, tf.logical_and(finite, fitted.finite))

    made = [*net.variables.values(), *fit.variables()]
    variables = {variable.op.name: variable for variable in made} | {"num_updates": number}
    return BatchGraph(trajectory_columns(config, spec), RATES, variables, net.published, learn)


class Steps(NamedTuple):
    """What the policy learns from, B steps."""

    obs: object  # [B, …]
    action: object  # [B, …]
    logp: object  # [B] of the action when it was drawn
    advantage: object  # [B] standardised
    mask: object  # [B] 1 for a real step, 0 for padding
    heads: dict  # of the old policy, without gradient, {name: [B, size]}


def _steps(batch, heads, advantage):
    """The steps of a batch in one row, with the ``heads`` of the policy before the update and ``advantage`` [E, T]."""
    mask = batch["mask"]
    count = mask.shape.num_elements()
    columns = (batch["obs"], batch["action"], batch["logp"], standardized(advantage, mask), mask)
    columns = [tf.reshape(column, [count, *column.shape[2:]]) for column in columns]
    return Steps(*columns, {name: tf.stop_gradient(head) for name, head in heads.items()})


def _advantages(config, batch, value, next_value):
    """Return (advantages [E, T], targets of the value [E, T])."""
    if not config.use_critic:
        returns = returns_to_go(batch)
        return returns, returns
    advantage = gae(batch, value, next_value, config.lambda_ if config.use_gae else 1.0)
    return advantage, advantage + value


class _TrustRegion:
    """The step of the policy: along the natural gradient, as far as the surrogate grows within ``max_kl``."""

    def __init__(self, config, net):
        self._config, self._net = config, net
        self._weights = [net.variables[name] for name in net.policy_names]

    def improve(self, values, heads, steps, entropy_coeff, number):
        """Take the step, or leave every bit of the policy as it was.

        ``values``: {name: tensor} of all weights; ``heads`` [B, …] of the policy with them, to differentiate; ``steps``:
        Steps; ``number``: int64 scalar. Returns (Found, {name: scalar}, whether all was finite, bool scalar).
        """
        config = self._config
        weights = [values[name] for name in self._net.policy_names]
        before, _, entropy = self._measures(heads, steps, entropy_coeff)
        gradient = flat(tf.gradients(before, weights, unconnected_gradients="zero"))  # [P]
        some = _sample(steps, config.fisher_fraction, number)
        product = fisher_product(lambda here: self._kl(self._heads(values, here, some), some), weights)
        step = full_step(product, gradient, config.max_kl, config.cg_damping, config.cg_iterations)
        finite = tf.math.is_finite(tf.reduce_sum(gradient) + tf.reduce_sum(step.full) + before)

        def measured(vector):
            heads = self._heads(values, shaped(vector, weights), steps)
            surrogate, kl, entropy = self._measures(heads, steps, entropy_coeff)
            gain = surrogate - before
            inside = tf.logical_and(kl <= config.max_kl, tf.math.is_finite(gain))
            return tf.logical_and(gain > 0.0, inside), (kl, gain, entropy)

        # Nothing to learn from, nothing to look at.
        ready = tf.logical_and(finite, tf.reduce_sum(steps.mask) > 0.0)
        most = tf.where_v2(ready, config.line_search_steps, 0)
        nothing = (tf.zeros([]), tf.zeros([]), tf.stop_gradient(entropy))
        found = line_search(measured, flat(weights), step.full, (most, config.line_search_shrink), nothing)
        for variable, value in zip(self._weights, shaped(found.vector, weights), strict=True):
            variable.assign(value)
        return found, self._stats(step, found, gradient), finite

    def _heads(self, values, weights, steps):
        """Heads of the policy with ``weights``, a list of tensors, {name: [B, size]}."""
        return self._net.look(values | dict(zip(self._net.policy_names, weights, strict=True)), steps.obs).heads

    def _kl(self, heads, steps):
        return _mean(self._net.distribution.kl(steps.heads, heads), steps.mask)

    def _measures(self, heads, steps, entropy_coeff):
        """Return (surrogate that is to grow, mean KL from the old policy, mean entropy), scalars."""
        distribution = self._net.distribution
        entropy = _mean(distribution.entropy(heads), steps.mask)
        ratio = tf.exp(distribution.logp(heads, steps.action) - steps.logp)  # [B]
        surrogate = -_mean(surrogate_loss(ratio, steps.advantage, None), steps.mask)
        return surrogate + entropy_coeff * entropy, self._kl(heads, steps), entropy

    @staticmethod
    def _stats(step, found, gradient):
        kl, gain, entropy = found.measures
        return {
            "kl": kl,
            "entropy": entropy,
            "surrogate_improvement": gain,
            "expected_improvement": step.expected * found.fraction,
            "step_fraction": found.fraction,
            "line_search_steps": tf.cast(found.looked, tf.float32),
            "cg_residual": step.residual,
            "cg_iterations": tf.cast(step.iterations, tf.float32),
            "grad_norm": tf.norm(gradient),
        }


class _ValueFit:
    """Regression of the value on its targets."""

    def __init__(self, config, net, seed, scope):
        self._config, self._net, self._seed = config, net, seed
        self._weights = {name: net.variables[name] for name in net.value_names}
        self._adam = Adam(scope + "value", self._weights, config.adam_epsilon)

    def variables(self):
        """The optimiser's."""
        return self._adam.variables.values()

    def fit(self, values, rows, rate, number):
        """Go over ``rows`` (obs [B, …], target [B], mask [B]); returns (Passed, {name: scalar})."""
        config = self._config
        size = min(config.sgd_minibatch_size, rows["mask"].shape.num_elements())

        def step(minibatch, _index):
            weights = {name: variable.read_value() for name, variable in self._weights.items()}
            value = self._net.look(values | weights, minibatch["obs"]).value  # [b]
            loss = _mean(clipped_value_loss(value, value, minibatch["target"], None), minibatch["mask"])
            gradients, norm = clipped(tf.gradients(loss, list(weights.values())), config.grad_clip)

            def apply():
                self._adam.apply(gradients, rate)
                return tf.constant(True)

            finite = tf.cond(tf.math.is_finite(loss + norm), apply, lambda: tf.constant(False))
            return dict(zip(FIT_STATS, (loss, norm), strict=True)), finite

        plan = Plan(config.vf_iterations if config.use_critic else 0, size, size, shuffle=True)
        passed = epochs(rows, plan, (self._seed, number), FIT_STATS, step)
        return passed, passed.last


def _sample(steps, fraction, number):
    """Return ``fraction`` of the steps, at equal distances; ``number`` (int64 scalar) moves them on."""
    count = steps.mask.shape.num_elements()
    size = math.ceil(count * fraction)
    if size == count:
        return steps
    at = np.arange(size, dtype=np.int64) * count // size  # [n]
    rows = (at + number) % count  # [n]
    return tf.nest.map_structure(lambda column: tf.gather(column, rows), steps)


def _mean(rows, mask):
    """The mean over the real steps; ``rows`` and ``mask`` [B]."""
    return tf.reduce_sum(rows * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)
