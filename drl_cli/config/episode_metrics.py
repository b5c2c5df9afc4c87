"""Statistics of episodes for a result: returns and lengths, and the custom metrics that callbacks record.

Used by ``runtime.meters`` (the window of recent training episodes), ``runtime.evaluator`` and ``actors.custom_evaluation``
(the episodes of an evaluation). Plain data in, plain data out. Names are RLlib's: ``custom_metrics/NAME_mean``, ``_min``,
``_max``, and ``hist_stats/NAME``.
"""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

UNBOUNDED_STEPS = 10_000  # of an evaluation's episode, where the environment would let it go on for ever
LONGEST_HIST = 10_000  # numbers of one name in a result; the newest are kept

EpisodeMetrics: TypeAlias = tuple[Mapping[str, float], Mapping[str, Sequence[float]]]
"""What callbacks record of one episode: custom_metrics (name → number) and hist_data (name → numbers)."""


class EpisodeScore(Protocol):
    """An episode of an evaluation, as ``actors.tester`` returns it."""

    @property
    def reward(self) -> float: ...

    @property
    def length(self) -> int: ...

    @property
    def is_cut(self) -> bool: ...

    @property
    def policy_rewards(self) -> Mapping[str, Sequence[float]]: ...

    @property
    def custom_metrics(self) -> Mapping[str, float]: ...

    @property
    def hist_data(self) -> Mapping[str, Sequence[float]]: ...

    @property
    def success(self) -> bool | None: ...


def summarised(episodes: Iterable[EpisodeMetrics]) -> tuple[dict[str, float | None], dict[str, list[float]]]:
    """Return ({name_mean, name_min, name_max: number}, {name: list of numbers}) over ``episodes``.

    Values that are not finite are left out of mean, min and max, which are None where no others are there.
    """
    metrics: dict[str, list[float]] = collections.defaultdict(list)
    hist: dict[str, list[float]] = collections.defaultdict(list)
    for numbers, lists in episodes:
        for name, value in numbers.items():
            metrics[name].append(value)
        for name, values in lists.items():
            hist[name] += values
    custom: dict[str, float | None] = {}
    for name in sorted(metrics):
        finite = [value for value in metrics[name] if math.isfinite(value)]
        custom[f"{name}_mean"] = sum(finite) / len(finite) if finite else None
        custom[f"{name}_min"] = min(finite, default=None)
        custom[f"{name}_max"] = max(finite, default=None)
    return custom, {name: values[-LONGEST_HIST:] for name, values in sorted(hist.items())}


def summary(episodes: Sequence[EpisodeScore]) -> dict[str, Any]:
    """Return RLlib's episode fields for one or more episodes of an evaluation."""
    rewards = [episode.reward for episode in episodes]
    fields: dict[str, Any] = {
        "episode_reward_mean": sum(rewards) / len(rewards),
        "episode_reward_max": max(rewards),
        "episode_reward_min": min(rewards),
        "episode_len_mean": sum(episode.length for episode in episodes) / len(episodes),
        "episodes_this_iter": len(episodes),
        "episodes_cut": sum(episode.is_cut for episode in episodes),
    }
    rate = success_rate([episode.success for episode in episodes])
    fields |= {} if rate is None else {"success_rate": rate}
    fields |= policy_rewards(_by_policy(episode.policy_rewards for episode in episodes))
    custom, hist = summarised([(episode.custom_metrics, episode.hist_data) for episode in episodes])
    fields |= {"custom_metrics": custom} if custom else {}
    return fields | ({"hist_stats": hist} if hist else {})


def success_rate(successes: Iterable[bool | None]) -> float | None:
    """Return the share of episodes that reached their goal among those that say so (not None), None where none does."""
    known = [success for success in successes if success is not None]
    return sum(known) / len(known) if known else None


def policy_rewards(returns: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return RLlib's policy_reward_mean, _min and _max, each by policy id, of ``returns`` of agents; {} for none."""
    found = {name: values for name, values in sorted(returns.items()) if values}
    if not found:
        return {}
    return {
        "policy_reward_mean": {name: sum(values) / len(values) for name, values in found.items()},
        "policy_reward_min": {name: min(values) for name, values in found.items()},
        "policy_reward_max": {name: max(values) for name, values in found.items()},
    }


def _by_policy(episodes: Iterable[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    returns: dict[str, list[float]] = collections.defaultdict(list)
    for episode in episodes:
        for name, values in episode.items():
            returns[name] += values
    return returns


class MetricsWindow:
    """The custom metrics of the newest ``size`` episodes."""

    def __init__(self, size: int) -> None:
        self._episodes: collections.deque[EpisodeMetrics] = collections.deque(maxlen=size)

    def add(self, episodes: Iterable[EpisodeMetrics]) -> None:
        """Add the metrics of further episodes."""
        self._episodes.extend(episodes)

    def summarised(self) -> tuple[dict[str, float | None], dict[str, list[float]]]:
        """Return ``summarised`` of the window."""
        return summarised(self._episodes)

    def state(self) -> list[list[dict[str, Any]]]:
        """Return what a checkpoint keeps."""
        return [[dict(numbers), dict(lists)] for numbers, lists in self._episodes]

    def load(self, facts: Iterable[Sequence[dict[str, Any]]]) -> None:
        """Continue from ``state``."""
        self._episodes.clear()
        self._episodes.extend((numbers, lists) for numbers, lists in facts)
