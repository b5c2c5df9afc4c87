"""Recorded episodes as a policy sees them: what estimates are made of, gathered piece by piece.

Used by ``actors.estimator`` (while learning) and ``analysis.checkpoint_estimates`` (``drl evaluate --data``). Of the
observations and actions nothing is kept: an episode is its rewards and two log-probabilities a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from drl_cli.errors import ExperienceError
from drl_cli.experience.action_likelihood import EpisodeLikelihood
from drl_cli.experience.off_policy_estimates import RecordedEpisode, estimate
from drl_cli.experience.recorded.pieces import Layout
from drl_cli.policies.action_specs import CompositeSpec

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import SpaceSpec
    from drl_cli.experience.action_likelihood import Drawing
    from drl_cli.experience.recorded.pieces import Piece
    from drl_cli.policies.action_specs import Actions
    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

HELP = (
    "Record with output: …, or drl rollout --explore --out FILE.json, with a policy that samples its actions "
    "independently at every step (for DQN: SoftQ, or epsilon-greedy without hold_steps)."
)


def layout_of_policy(spec: PolicySpec, normalized: bool = False) -> Layout:
    """Return the Layout of what the policy of ``spec`` (PolicySpec) sees and does; ``normalized``: as Layout's."""
    action = _described(spec.action)
    if isinstance(spec.action, CompositeSpec):
        action["parts"] = [_described(part) for part in spec.action.parts]
    return Layout(tuple(spec.obs_shape), spec.obs_dtype, cast("SpaceSpec", action), (), spec.frames, normalized)


def _described(action: Actions) -> dict[str, Any]:
    """Return ``action`` as a SpaceSpec has it, without its parts."""
    found: dict[str, Any] = {"kind": action.kind, "shape": action.shape}
    for name in ("n", "nvec", "start", "low", "high"):
        if hasattr(action, name):
            found[name] = getattr(action, name)
    return found


class EpisodeCollector:
    """The whole episodes among the pieces that it is given; the others are counted."""

    def __init__(self, policy: NumpyPolicy, drawing: Drawing | None = None) -> None:
        """``policy``: NumpyPolicy that ``is_drawn_from``; ``drawing``: the Drawing of one over action values."""
        self._policy, self._drawing = policy, drawing
        self._open = {}  # (file, episode) -> (Following, [Episode], steps): long episodes come in several pieces
        self._lost = set()  # (file, episode) that are not there as a whole
        self._without = None  # where the first steps without log-probabilities stand
        self.episodes = []
        self.without_logp = 0  # episodes

    @property
    def incomplete(self) -> int:
        """How many episodes are not there from their beginning to their end."""
        return len(self._lost) + len(self._open)

    def add(self, piece: Piece) -> None:
        """Take the next Piece of what was recorded. Raises ExperienceError for a log-probability that is no number."""
        key = (piece.source.rpartition(":")[0], piece.episode)
        before = self._open.pop(key, None)
        if piece.start == 0:
            if before:
                self._lost.add((*key, len(self._lost)))  # the same number, but an episode of its own
            before = (EpisodeLikelihood(self._policy, self._drawing), [], 0)
        if before is None or before[2] != piece.start:
            self._lost.add(key)
            return
        following, parts, steps = before
        parts.append(self._part(following, piece))
        if not (piece.terminated or piece.truncated):
            self._open[key] = (following, parts, steps + piece.steps)
        elif any(part is None for part in parts):
            self.without_logp += 1
        else:
            self.episodes.append(RecordedEpisode(*map(np.concatenate, zip(*parts, strict=True))))

    def _part(self, following: EpisodeLikelihood, piece: Piece) -> RecordedEpisode | None:
        if piece.logp is None:
            self._without = self._without or piece.source
            return None
        if not np.isfinite(piece.logp).all():
            raise ExperienceError(f"{piece.source}: holds a log-probability of an action that is not finite.")
        return RecordedEpisode(piece.reward, piece.logp, following.logp(piece.obs, piece.action, piece.reward))

    def estimate(self, gamma: float) -> dict[str, Any]:
        """Return ``experience.off_policy_estimates.estimate`` of the episodes. Raises ExperienceError where nothing can
        be estimated."""
        if not self.episodes:
            if self._without:
                raise ExperienceError(
                    f"{self._without}: the probabilities of these actions were not recorded (action_logp or "
                    f"action_prob), and estimates need them. {HELP}"
                )
            raise ExperienceError(
                "no recorded episode is complete, and estimates need complete episodes. Record "
                "longer, or with shorter episodes (horizon)."
            )
        if all(not episode.logp_behaviour.any() for episode in self.episodes):
            raise ExperienceError(
                "every recorded action has probability 1: the behaviour policy was deterministic, and no other "
                f"policy can be estimated from it. {HELP}"
            )
        return estimate(self.episodes, gamma)
