"""How likely a policy would have been to do what was recorded: log-probabilities along episodes, for estimates from data.

Used by ``actors.estimator`` (estimates while learning) and ``analysis.checkpoint_estimates`` (``drl evaluate --data``).
Of a policy over action values it says what share of actions is random, or how they are drawn: ``Drawing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drl_cli.config.sections.exploration_settings import exploration_settings
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.policies.exploration.interface import scheduled

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.policies.numpy_policy import NumpyPolicy

ROWS = 1024  # observations in one forward pass: stacks of images are large


class Drawing(NamedTuple):
    """How a policy over action values acts: the share ``epsilon`` at random, the rest greedily or by ``temperature``."""

    epsilon: float = 0.0
    temperature: float | None = None

    def words(self) -> str:
        """Return it as a person says it."""
        if self.temperature is not None:
            return f"softmax of Q / {self.temperature:g}"
        return f"epsilon-greedy, epsilon {self.epsilon:g}" if self.epsilon else "greedy"


def drawing_of(config: CommonKeys, t: int) -> Drawing:
    """Return how an algorithm with ``config`` draws actions at env step ``t`` of its run, None for none of action values.

    Ladders are many policies, and noise on the weights makes another one of each episode: there it is the greedy one.
    """
    if not isinstance(config, RolloutKeys):
        return Drawing()
    settings = exploration_settings(config)
    if settings["type"] == "SoftQ":
        return Drawing(temperature=settings["temperature"])
    if settings["type"] != "EpsilonGreedy":
        return Drawing()
    return Drawing(epsilon=float(scheduled(settings)(t, slice(None))))


def refusal(policy: NumpyPolicy) -> str | None:
    """Return in words why nothing can be estimated for ``policy`` from what another one did, or None."""
    if policy.is_drawn_from:
        return None
    return (
        "its policy is deterministic over a Box, so every recorded action has probability 0 and nothing can be "
        "estimated"
    )


class EpisodeLikelihood:
    """A policy that follows one recorded episode, part by part, and says how likely it would have done the same."""

    def __init__(self, policy: NumpyPolicy, drawing: Drawing | None = None) -> None:
        """``policy``: NumpyPolicy that ``is_drawn_from``; ``drawing``: the Drawing of one over action values."""
        self._policy = policy
        self._drawing = (drawing or Drawing())._asdict() if policy.spec.distribution == "q" else {}
        self._state = policy.initial_state(1)
        self._before: np.ndarray | None = None  # the last frames of the parts so far, where the policy sees several

    def logp(self, obs: np.ndarray, action: np.ndarray, reward: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of the next steps of the episode, float64 [T].

        ``obs`` [T, *obs_shape] as single observations, ``action`` [T, …] as recorded (of a Box in the environment's units),
        ``reward`` [T] raw: a recurrent policy may see it.
        """
        stacked = self._stacked(obs)
        if self._policy.spec.state:
            return self._step_by_step(stacked, action, reward)
        found = np.empty(len(action))
        for first in range(0, len(action), ROWS):
            rows = slice(first, first + ROWS)
            found[rows] = self._policy.logp(self._policy.heads(stacked[rows]), action[rows], **self._drawing)
        return found

    def _step_by_step(self, obs: np.ndarray, action: np.ndarray, reward: np.ndarray) -> np.ndarray:
        policy, found, acted = self._policy, np.empty(len(action)), self._policy.as_acted(action)
        for t in range(len(action)):
            row = slice(t, t + 1)
            heads, state = policy.stepped(obs[row], self._state)
            found[t] = policy.logp(heads, action[row], **self._drawing)[0]
            self._state = policy.noted(state, acted[row])
            policy.rewarded(self._state, reward[t])
        return found

    def _stacked(self, obs: np.ndarray) -> np.ndarray:
        """The frames that the policy sees at each of ``obs``, the oldest first; the first one repeated before an episode."""
        frames = self._policy.spec.frames
        if frames == 1:
            return obs
        before = np.repeat(obs[:1], frames - 1, axis=0) if self._before is None else self._before
        every = np.concatenate([before, obs])
        self._before = every[len(every) - frames + 1 :]
        return np.concatenate([every[i : i + len(obs)] for i in range(frames)], axis=-1)
