"""Off-policy estimates of a checkpoint's return from recorded experience: no environment, no TensorFlow, no Ray.

Used by ``drl evaluate --data``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drl_cli.algorithms import table
from drl_cli.analysis.loaded_checkpoint import open_policy
from drl_cli.config.parse import read
from drl_cli.errors import CheckpointError, ConfigError, ExperienceError, InputError
from drl_cli.experience.action_likelihood import Drawing, drawing_of, refusal
from drl_cli.experience.off_policy_estimates import LEAST_EFFECTIVE
from drl_cli.experience.recorded.read import Source
from drl_cli.experience.recorded_episodes import EpisodeCollector, layout_of_policy

KEYS = ("actions_in_input_normalized",)
"""Keys of --config that concern recorded files."""

MANY = 0.1  # share of incomplete episodes above which there is a warning


@dataclass(frozen=True)
class EstimateOptions:
    """What to estimate. data: paths of recorded experience, as ``experience.recorded.read`` takes them.

    gamma: the discount, None for that of the checkpoint's run. epsilon: share of random actions of a policy over action values,
    None for how its run explored at that time. normalized: whether recorded Box actions are within ±1 of their bounds.
    """

    data: tuple[str, ...]
    gamma: float | None = None
    epsilon: float | None = None
    normalized: bool = False


class Candidate:
    """A checkpoint whose policy's return is to be estimated."""

    def __init__(self, path: Path | str, asked: EstimateOptions, latest: bool = False) -> None:
        """Load the checkpoint that ``path`` means. Raises CheckpointError, InputError where nothing can be estimated."""
        self.path, self.facts, self._policy = open_policy(path, latest)
        self._asked = asked
        reason = refusal(self._policy)
        if reason:
            raise InputError(f"{self.path}: {reason}. Score it in its environment instead, without --data.")
        self._gamma = _gamma(self.path, self.facts) if asked.gamma is None else asked.gamma
        self._drawing = self._how_it_draws()

    def _how_it_draws(self) -> Drawing | None:
        if self._policy.spec.distribution != "q":
            if self._asked.epsilon is not None:
                raise InputError(
                    f"--epsilon is for policies that value each of a few actions (DQN and its kin); that of {self.path} draws "
                    "its actions from a distribution of its own. Leave it out."
                )
            return None
        if self._asked.epsilon is not None:
            return Drawing(self._asked.epsilon)
        row = table.find(self.facts["algorithm"])
        config, problems, _ = read(row, self.facts.get("config"), "its manifest", table.rows())
        if config is None or problems:
            raise CheckpointError(
                f"{self.path}: how its run explored cannot be read: {' '.join(problems[:1])} "
                "Say which policy is meant: --epsilon 0.05"
            )
        return drawing_of(config, self.facts["counters"]["timesteps_total"])

    @property
    def acts(self) -> str:
        """In words, how the policy that is estimated draws its actions."""
        return self._drawing.words() if self._drawing else "stochastic"

    def estimate(self) -> tuple[dict[str, Any], list[str]]:
        """Read the recorded experience; returns (the estimates as plain data, notes for the user).

        The estimates are those of ``experience.off_policy_estimates.estimate``, with gamma, policy (in words), files,
        incomplete (episodes that were not there as a whole) and without_logp (episodes) before them. Raises
        ExperienceError.
        """
        layout = layout_of_policy(self._policy.spec, self._asked.normalized)
        try:
            source = Source(self._asked.data, layout, passes=1)
        except ExperienceError as error:  # which speaks of the key ``input``
            raise ExperienceError(f"--data: {str(error).removeprefix('input: ')}") from error
        recollection, notes = EpisodeCollector(self._policy, self._drawing), []
        try:
            for piece in source:
                recollection.add(piece)
        finally:
            notes += dict.fromkeys(source.notes)
            source.close()
        found = {
            "gamma": self._gamma,
            "policy": self.acts,
            "files": len(source.files),
            "incomplete": recollection.incomplete,
            "without_logp": recollection.without_logp,
        }
        return found | recollection.estimate(self._gamma), notes


def estimate_options(
    config: Mapping[str, Any], data: Sequence[str], gamma: float | None, epsilon: float | None
) -> EstimateOptions:
    """Return the EstimateOptions, with the object of --config. Raises ConfigError for a key that says nothing of files."""
    for key, value in config.items():
        if key not in KEYS:
            raise ConfigError(
                f"--config: '{key}' has no effect on estimates from --data. Keys that have: {', '.join(KEYS)}."
            )
        if not isinstance(value, bool):
            raise ConfigError(f"--config: {key} is true or false, not {value!r}.")
    return EstimateOptions(tuple(data), gamma, epsilon, config.get("actions_in_input_normalized", False))


def doubts(found: Mapping[str, Any]) -> list[str]:
    """Return reasons not to trust the numbers of ``Candidate.estimate``, a list of lines."""
    lines, size, whole = [], found["effective_sample_size"], found["episodes"]
    if found["wis"]["per_episode"]["mean"] is None:
        lines.append("this policy has probability 0 for every recorded episode, so the weighted estimate is undefined")
    elif size < LEAST_EFFECTIVE:
        lines.append(
            f"the {whole} recorded episodes say as much as {size:.1f} of this policy's own: the estimates are hardly more than "
            "a guess, and their intervals are too narrow"
        )
    if found["is"]["per_episode"]["mean"] is None or found["is"]["per_step"]["mean"] is None:
        lines.append("the importance weights are so large that the ordinary estimate (IS) overflows")
    if found["incomplete"] > MANY * whole:
        lines.append(
            f"{found['incomplete']} more episodes are incomplete: long episodes are cut more often than short ones, "
            f"which biases the estimates towards short episodes"
        )
    if found["without_logp"]:
        lines.append(f"{found['without_logp']} episodes without action probabilities were skipped")
    return lines


def _gamma(path: Path, facts: Mapping[str, Any]) -> float:
    config = facts.get("config")
    gamma = config.get("gamma") if isinstance(config, dict) else None
    if isinstance(gamma, (int, float)) and not isinstance(gamma, bool) and math.isfinite(gamma) and 0 <= gamma <= 1:
        return float(gamma)
    raise CheckpointError(f"{path}: its discount gamma cannot be read. Say it: --gamma 0.99")
