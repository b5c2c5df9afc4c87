"""A natural-gradient step as tensors: Fisher products, conjugate gradients, and a line search that stays in a trust region.

Used by ``algorithms.trpo_graph``. Nothing here reads or assigns a variable: what goes in are tensors, what comes out is the new
parameters or the old ones, bit for bit. Every loop is a ``tf.while_loop`` that XLA compiles and a plain session runs.

Sources: Schulman et al. 2015, "Trust Region Policy Optimization" (arXiv 1502.05477), section 6 and appendix C; conjugate
gradients, Hestenes & Stiefel 1952; a gradient of a gradient times a vector as a product with the matrix of second
derivatives, Pearlmutter 1994.

Deviations:
- Conjugate gradients end where the residual is a given share of the right-hand side; the authors' code compares with an
  absolute number, which means something else for every scale of rewards.
- The length of the step comes from a product of its own and not from the residual that the iterations update, whose
  rounding adds up in float32.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from drl_cli.tf1.tensorflow import Tensor, tf

Product: TypeAlias = Callable[[Tensor], Tensor]  # v [P] -> A·v [P]
Measured: TypeAlias = Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]]  # vector [P] -> (acceptable, measures)

_TINY = 1e-30  # keeps quotients of nothing by nothing at 0; far below any curvature that float32 can hold


class Step(NamedTuple):
    """A full step into the trust region; all float32."""

    full: Tensor  # [P] the step whose quadratic model of the KL is max_kl
    expected: Tensor  # scalar, what the linear model promises of it
    residual: Tensor  # scalar, ‖(F + λI)x − g‖ / ‖g‖ of the direction that was found
    iterations: Tensor  # int32 scalar, products that finding it took


class LineSearchResult(NamedTuple):
    """Where a line search ended; ``vector`` is the start, bit for bit, where ``accepted`` is false."""

    vector: Tensor  # [P]
    accepted: Tensor  # bool scalar
    fraction: Tensor  # float32 scalar, of the full step; 0 where nothing was accepted
    tried: Tensor  # int32 scalar, candidates that were tried
    measures: tuple[Tensor, ...]  # float32 scalars of the accepted candidate, or those for none


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """Return all elements of ``tensors`` in their order, [P]."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)  # [P]


def shaped(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return ``vector`` [P] as a list of tensors of the shapes of ``like``: the inverse of ``flat``."""
    shapes = [tensor.shape.as_list() for tensor in like]
    sizes = [tensor.shape.num_elements() for tensor in like]
    return [tf.reshape(part, shape) for part, shape in zip(tf.split(vector, sizes), shapes, strict=True)]


def fisher_product(mean_kl: Callable[[list[Tensor]], Tensor], weights: Sequence[Tensor]) -> Product:
    """Return a function v [P] -> F·v [P], F being the second derivatives of ``mean_kl`` at ``weights``.

    ``mean_kl(weights)``: list of tensors -> scalar KL(old ‖ new) of policies with these weights, the old ones without
    gradient. At the old weights that matrix is Fisher's. It is made of two passes backwards (appendix C.1); the function may
    be called inside of a loop, so the forward pass is made again in each call.
    """

    def product(vector: Tensor) -> Tensor:
        here = [tf.identity(weight) for weight in weights]
        slope = tf.gradients(mean_kl(here), here, unconnected_gradients="zero")
        along = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(slope, shaped(vector, here), strict=True)])  # scalar
        return flat(tf.gradients(along, here, unconnected_gradients="zero"))  # [P]

    return product


def conjugate_gradients(
    product: Product, right: Tensor, iterations: int | Tensor, tolerance: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Solve A·x = b; returns (x [P], how many products it took, int32 scalar).

    ``product``: function v [P] -> A·v, A symmetric and positive definite; ``right``: b [P]; ``iterations``: the most
    products, int or int32 scalar; it ends before that where ‖b − A·x‖ is ``tolerance`` times ‖b‖.
    """
    enough = tolerance**2 * _dot(right, right)

    def go_on(index: Tensor, _x: Tensor, _residual: Tensor, _direction: Tensor, size: Tensor) -> Tensor:
        return tf.logical_and(index < iterations, size > enough)

    def iterate(
        index: Tensor, x: Tensor, residual: Tensor, direction: Tensor, size: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        moved = product(direction)  # [P]
        share = size / tf.maximum(_dot(direction, moved), _TINY)
        residual = residual - share * moved  # [P]
        left = _dot(residual, residual)
        return index + 1, x + share * direction, residual, residual + left / size * direction, left

    start = (tf.constant(0), tf.zeros_like(right), right, right, _dot(right, right))
    taken, x, *_ = tf.while_loop(go_on, iterate, start, parallel_iterations=1)
    return x, taken


def full_step(
    product: Product, gradient: Tensor, max_kl: float | Tensor, damping: float, iterations: int | Tensor
) -> Step:
    """Return the Step along x = (F + λI)⁻¹·g that is so long that ½·sᵀ(F + λI)·s is ``max_kl``.

    ``product``: v [P] -> F·v; ``gradient``: g [P] of what is maximised; ``max_kl`` a float or scalar, ``damping`` λ a float;
    ``iterations``: of the conjugate gradients, int or int32 scalar. Damping counts in the length too, so that a direction in
    which the policy hardly changes is not followed without end. Source: appendix C, β = √(2δ / sᵀAs).
    """

    def damped(vector: Tensor) -> Tensor:
        return product(vector) + damping * vector  # [P]

    x, taken = conjugate_gradients(damped, gradient, iterations)
    moved = damped(x)  # [P]
    length = tf.sqrt(2.0 * max_kl / tf.maximum(_dot(x, moved), _TINY))
    # A gradient of zeros has a direction of zeros, which no length makes a step.
    full = tf.where_v2(_dot(x, x) > 0.0, length * x, tf.zeros_like(x))  # [P]
    residual = tf.sqrt(_dot(moved - gradient, moved - gradient) / tf.maximum(_dot(gradient, gradient), _TINY))
    return Step(full, _dot(gradient, full), residual, taken)


def line_search(
    measured: Measured,
    start: Tensor,
    full: Tensor,
    ladder: tuple[int | Tensor, float],
    nothing: tuple[Tensor, ...],
) -> LineSearchResult:
    """Try ``start`` + shrinkⁱ·``full``, i = 0, 1, … below ``most``, and return the first that is acceptable.

    ``measured(vector [P])`` returns (acceptable, bool scalar, and a tuple of float32 scalars worth reporting); ``start``,
    ``full`` [P]; ``ladder``: (most, int or int32 scalar, shrink, float in (0, 1)); ``nothing``: the measures to report where
    nothing was acceptable. Source: appendix C, the last paragraph.
    """
    most, shrink = ladder

    def go_on(index: Tensor, _vector: Tensor, accepted: Tensor, *_: Tensor) -> Tensor:
        return tf.logical_and(index < most, tf.logical_not(accepted))

    def attempt(
        index: Tensor, _vector: Tensor, _accepted: Tensor, _fraction: Tensor, _measures: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        fraction = tf.pow(shrink, tf.cast(index, tf.float32))
        candidate = start + fraction * full  # [P]
        accepted, measures = measured(candidate)
        # What is not accepted leaves the start as it is: nothing is subtracted again.
        vector = tf.where_v2(accepted, candidate, start)  # [P]
        kept = tuple(tf.where_v2(accepted, new, old) for new, old in zip(measures, nothing, strict=True))
        return index + 1, vector, accepted, tf.where_v2(accepted, fraction, 0.0), kept

    first = (tf.constant(0), start, tf.constant(False), tf.constant(0.0), tuple(nothing))
    tried, vector, accepted, fraction, measures = tf.while_loop(go_on, attempt, first, parallel_iterations=1)
    return LineSearchResult(vector, accepted, fraction, tried, tuple(measures))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return tf.reduce_sum(a * b)  # scalar
