"""Initial priorities of transitions, computed in NumPy by the worker that sampled them.

Used by rollout workers with ``worker_side_prioritization`` (Horgan et al. 2018, arXiv 1803.00933, section 3). The
quantities are those of the graphs of DQN and DDPG, with two differences: the acting weights replace the target networks, which
workers do not have, and there is no noise (noisy layers use their means, target policies are not
smoothed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from drl_cli.policies.distributions import softmax
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

ROWS = 64  # at a time: the windows of a convolution over more would take hundreds of megabytes


class _Transitions(NamedTuple):
    """The columns of M transitions, as of ``first_priorities``."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    next_obs: np.ndarray


def first_priorities(
    policy: NumpyPolicy,
    obs: np.ndarray,
    action: np.ndarray,
    reward: np.ndarray,
    discount: np.ndarray,
    next_obs: np.ndarray,
) -> np.ndarray:
    """Return the priorities of M transitions, float32 [M], not yet raised to alpha.

    ``policy``: NumpyPolicy with weights; ``obs``, ``next_obs`` [M, *stacked_shape]; ``action`` int32 [M], or float32 [M, A] in
    the policy's bounds; ``reward``, ``discount`` float32 [M] as in a batch (γ^k·(1 − terminated)). Policies over action
    values give |TD error|, with atoms the cross-entropy, with quantiles the mean over all pairs; deterministic ones the
    mean over their critics of |TD error|. Raises ValueError for a policy that cannot judge.
    """
    judge = _judge(policy.spec)
    columns = (obs, action, reward, discount, next_obs)
    starts = range(0, len(reward), ROWS)
    parts = [judge(policy, _Transitions(*(column[at : at + ROWS] for column in columns))) for at in starts]
    return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)


def _judge(spec: PolicySpec) -> Callable[[NumpyPolicy, _Transitions], np.ndarray]:
    if spec.distribution == "q" and spec.value is not None:
        return {"scalar": _of_means, "categorical": _of_atoms, "quantile": _of_quantiles}[spec.value.kind]
    if spec.distribution == "deterministic" and len(spec.nets) > 1:
        return _of_critics
    raise ValueError(
        f"a policy of {spec.distribution} with {len(spec.nets)} nets has no critic to compute initial priorities with"
    )


def _taken_and_next(policy: NumpyPolicy, seen: _Transitions) -> tuple[np.ndarray, np.ndarray]:
    """The atoms of the taken and of the best next action, [M, atoms] each."""
    rows, next_heads = np.arange(len(seen.action)), policy.heads(seen.next_obs)
    taken = policy.atoms(policy.heads(seen.obs))[rows, seen.action]
    return taken, policy.atoms(next_heads)[rows, policy.greedy(next_heads)]


def _of_means(policy: NumpyPolicy, seen: _Transitions) -> np.ndarray:
    taken, following = _taken_and_next(policy, seen)
    return np.abs(seen.reward + seen.discount * following[:, 0] - taken[:, 0])


def _of_atoms(policy: NumpyPolicy, seen: _Transitions) -> np.ndarray:
    taken, following = _taken_and_next(policy, seen)
    shifted = taken - taken.max(axis=-1, keepdims=True)
    log_chances = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return -(projected(seen.reward, seen.discount, softmax(following), policy.spec.value) * log_chances).sum(axis=-1)


def _of_quantiles(policy: NumpyPolicy, seen: _Transitions) -> np.ndarray:
    taken, following = _taken_and_next(policy, seen)
    target = seen.reward[:, None] + seen.discount[:, None] * following
    return np.abs(target[:, None, :] - taken[:, :, None]).mean(axis=(1, 2))


def _of_critics(policy: NumpyPolicy, seen: _Transitions) -> np.ndarray:
    (now,) = policy.judged(seen.obs, seen.action)
    (following,) = policy.judged(seen.next_obs, policy.greedy(policy.heads(seen.next_obs)))
    q, next_q = (heads["q"].reshape(-1, len(seen.reward)) for heads in (now, following))  # [C, M]
    return np.abs(seen.reward + seen.discount * next_q.min(axis=0) - q).mean(axis=0)


def projected(reward: np.ndarray, discount: np.ndarray, next_probabilities: np.ndarray, value: Any) -> np.ndarray:
    """Return the distribution of r + d·Z(s′) on the atoms of ``value`` (ValueSpec), float32 [M, atoms].

    ``reward``, ``discount`` [M], ``next_probabilities`` [M, atoms]. Source: Bellemare et al. 2017, eq. 7.
    """
    moved = reward[:, None] + discount[:, None] * value.support()
    place = np.clip((moved - value.low) * ((value.atoms - 1) / (value.high - value.low)), 0, value.atoms - 1)
    distance = np.abs(place[:, None, :] - np.arange(value.atoms, dtype=np.float32)[:, None])  # [M, to, from]
    return (np.maximum(1.0 - distance, 0.0) * next_probabilities[:, None, :]).sum(axis=-1).astype(np.float32)
