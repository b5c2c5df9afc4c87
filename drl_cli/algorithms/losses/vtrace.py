"""V-trace, off-policy correction: the value of a state for the learnt policy, from steps that older policies took.

Used by ``algorithms.impala_graph``, for IMPALA and APPO. Source: Espeholt et al. 2018, "IMPALA" (arXiv
1802.01561), section 4, eq. 1, remark 1 (the recursion that is computed here) and remark 2 (λ in the c's).

Deviations: a truncated episode ends its trace as a real end does, and goes on with the value of its real last observation;
the paper knows real ends only. c̄ is 1 whatever ρ̄ is, as in RLlib and in the authors' code.
"""

from collections.abc import Mapping
from typing import NamedTuple

from drl_cli.algorithms.losses.returns import backward
from drl_cli.tf1.tensorflow import Tensor, tf

MOST_C = 1.0
MOST_LOG_RHO = 20.0  # beyond e^20 a ratio says no more, and would soon be beyond every float


class Clips(NamedTuple):
    """How far importance weights may go: ρ̄ of the temporal differences, ρ̄ of the policy's gradient, and λ of the traces.

    None clips nothing.
    """

    rho: float | None = 1.0
    pg_rho: float | None = 1.0
    lambda_: float = 1.0


class VTrace(NamedTuple):
    """All [E, T], without gradient, 0 at steps that are padding."""

    value_target: Tensor  # v_s
    advantage: Tensor  # ρ_s·(r_s + γ·v_{s+1} − V(x_s)), ρ clipped at ``pg_rho``
    rho: Tensor  # π(a|x) / μ(a|x), not clipped


def vtrace(log_rho: Tensor, batch: Mapping[str, Tensor], values: Tensor, next_values: Tensor, clips: Clips) -> VTrace:
    """Return the VTrace of a trajectory batch.

    ``log_rho`` [E, T]: log π(a|x) − log μ(a|x), μ the behaviour policy. ``batch``: reward, discount (γ·(1 − terminated)),
    trace (0 where an episode ends either way) and mask, each [E, T]. ``values`` [E, T]: V(x); ``next_values`` [E, T]: that of
    the real next observation, see ``algorithms.losses.returns.next_values``. Source: eq. 1 and the gradient of section 4.2.
    """
    reward, discount, trace, mask = (batch[name] for name in ("reward", "discount", "trace", "mask"))  # [E, T] each
    values, next_values = tf.stop_gradient(values), tf.stop_gradient(next_values)  # [E, T], [E, T]
    rho = tf.stop_gradient(ratio_of(log_rho, mask)) * mask  # [E, T]
    delta = _at_most(rho, clips.rho) * (reward + discount * next_values - values)  # [E, T]
    carried = discount * trace * clips.lambda_ * _at_most(rho, MOST_C)  # [E, T]
    beyond = backward(delta, carried)  # v_s − V(x_s): [E, T]
    # v_{s+1} is V(x_{s+1}) and what is beyond it; after an end, and after the last step, that is nothing.
    later = tf.concat([beyond[:, 1:], tf.zeros_like(beyond[:, :1])], axis=1)  # [E, T]
    next_target = next_values + trace * later  # [E, T]
    advantage = _at_most(rho, clips.pg_rho) * (reward + discount * next_target - values)  # [E, T]
    target = (values + beyond) * mask  # [E, T]
    return VTrace(*(tf.stop_gradient(part) for part in (target, advantage, rho)))


def ratio_of(log_rho: Tensor, mask: Tensor) -> Tensor:
    """Return e to ``log_rho`` [E, T], 1 in padding: its numbers are arbitrary, and must not spoil those of other steps."""
    return tf.exp(tf.minimum(tf.where(mask > 0, log_rho, tf.zeros_like(log_rho)), MOST_LOG_RHO))  # [E, T]


def _at_most(rho: Tensor, most: float | None) -> Tensor:
    return rho if most is None else tf.minimum(rho, most)
