"""Two policies against each other: who plays whom, and how many games are won, drawn and lost.

Used by ``drl evaluate --against``. Source of the interval: Wilson 1927, "Probable Inference, the Law of Succession, and
Statistical Inference".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from drl_cli.envs.env_spec import AgentsSetup
from drl_cli.envs.multi_agent import scripted
from drl_cli.errors import ConfigError, InputError
from drl_cli.policies.numpy_policy import NumpyPolicy

if TYPE_CHECKING:
    from drl_cli.actors.part_records import ScoredEpisode
    from drl_cli.analysis.loaded_checkpoint import Subject

Z = 1.959964  # 97.5 % quantile of the normal distribution
OWN, OTHER = "main", "opponent"  # ids of the two policies in their games


class Match(TypedDict):
    """Games of one policy against another; the bounds are those of a 95 % Wilson interval."""

    games: int
    won: int
    drawn: int
    lost: int
    win_rate: float
    win_low: float
    win_high: float
    loss_rate: float
    loss_low: float
    loss_high: float
    score: float  # a draw counts half


def opposed(subject: Subject, opponent: Subject | str) -> Subject:
    """Return ``subject`` in games against ``opponent``, another's policy or an opponent by name, with sides exchanged.

    Raises ConfigError where the two cannot play each other.
    """
    policy, agents = _one_policy(subject), subject.several
    spaces = agents["spaces"]
    first = next(iter(spaces.values()))
    if len(spaces) < 2 or any(own != first for own in spaces.values()):
        raise ConfigError(
            f"--against: the agents of {subject.env} do not have equal spaces, so that they cannot change sides."
        )
    policies: dict[str, NumpyPolicy] = {OWN: policy}
    if isinstance(opponent, str):
        try:
            scripted.check(opponent, first)
        except InputError as error:
            raise ConfigError(f"--against: {error} Or name a run or a checkpoint.") from error
        name = opponent
    else:
        _expect_same_game(subject, opponent)
        policies[OTHER], name = _one_policy(opponent), OTHER
    acting = {one: {"agents": list(spaces), "spaces": first, "config": {}, "is_trained": False} for one in policies}
    setup: AgentsSetup = {
        **agents,
        "policies": acting,  # type: ignore[typeddict-item]
        "mapping": None,
        "mapping_fn": None,
        "self_play": {
            "learner": OWN,
            "slots": [],
            "scripted": [],
            "own_share": 0.0,
            "evaluate_against": [name],
        },
    }
    return replace(subject, policies=policies, agents=setup)


def _one_policy(subject: Subject) -> NumpyPolicy:
    """Return the policy that plays for a run: the one that learnt by self-play, or its only one."""
    if subject.agents is None:
        raise ConfigError(f"--against: {subject.path}: {subject.env} has one agent, so there is no opponent to play.")
    setup = subject.agents.get("self_play")
    if setup is not None:
        return subject.policies[setup["learner"]]
    if len(subject.policies) > 1:
        raise ConfigError(
            f"--against: {subject.path} has the policies {', '.join(subject.policies)}; games are between runs with one policy "
            "each."
        )
    return subject.policy


def _expect_same_game(subject: Subject, opponent: Subject) -> None:
    if subject.env != opponent.env:
        raise ConfigError(
            f"--against: {opponent.path} was trained in {opponent.env}, {subject.path} in {subject.env}. Name a run of "
            f"{subject.env}."
        )
    if dict(subject.several["spaces"]) != dict(opponent.several["spaces"]) or subject.frames != opponent.frames:
        raise ConfigError(
            f"--against: the agents of {opponent.path} observe or do something else than those of {subject.path}, in the same "
            "environment. Name a run with the same env_config and preprocessing."
        )


def match(episodes: Sequence[ScoredEpisode]) -> Match:
    """Return how the games of ``OWN`` ended: won where its return is above the other's, drawn where they are equal."""
    ahead = [_ahead(episode) for episode in episodes]
    games, won, lost = len(ahead), ahead.count(1), ahead.count(-1)
    win_low, win_high = wilson(won, games)
    loss_low, loss_high = wilson(lost, games)
    return {
        "games": games,
        "won": won,
        "drawn": games - won - lost,
        "lost": lost,
        "win_rate": won / games,
        "win_low": win_low,
        "win_high": win_high,
        "loss_rate": lost / games,
        "loss_low": loss_low,
        "loss_high": loss_high,
        "score": (won + (games - won - lost) / 2) / games,
    }


def _ahead(episode: ScoredEpisode) -> int:
    own = float(np.mean(episode.policy_rewards[OWN]))
    others = [reward for name, rewards in episode.policy_rewards.items() if name != OWN for reward in rewards]
    return int(np.sign(own - float(np.mean(others))))


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share of which ``hits`` of ``count`` (1 or more) were seen."""
    share, spread = hits / count, Z * Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
