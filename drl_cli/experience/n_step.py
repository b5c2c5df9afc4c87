"""n-step windows inside one fragment, for all of its steps at once.

Used by workers that judge what they have sampled. The replay has windows of its own that see no fragment borders; here a
window that reaches the end of the fragment is cut short there and bootstraps from the observation behind it.
"""

from typing import NamedTuple

import numpy as np


class Windows(NamedTuple):
    """One window from every step on, all [T, N]."""

    reward: np.ndarray  # float32, Σ γ^i r_i over its k steps
    discount: np.ndarray  # float32, γ^k · (1 − terminated)
    last: np.ndarray  # int64, the index of its last step


def n_step(columns, gamma, steps):
    """Return the Windows of up to ``steps`` steps of a fragment's ``columns`` (reward, terminated, truncated, [T, N])."""
    reward, terminated = columns["reward"], columns["terminated"]
    ended = terminated | columns["truncated"]
    length = len(reward)
    total, discount = reward.copy(), np.full(reward.shape, gamma, np.float32)
    last = np.repeat(np.arange(length)[:, None], reward.shape[1], axis=1)
    goes_on = ~ended
    for step in range(1, min(steps, length)):
        goes_on = goes_on[: length - step]  # the windows that begin at t < length − step have a step more to take
        total[: length - step] += np.where(goes_on, discount[: length - step] * reward[step:], 0.0)
        discount[: length - step][goes_on] *= np.float32(gamma)
        last[: length - step] += goes_on
        goes_on = goes_on & ~ended[step:]
    discount[np.take_along_axis(terminated, last, 0)] = 0.0
    return Windows(total, discount, last)
