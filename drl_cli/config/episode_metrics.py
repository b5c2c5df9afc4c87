"""Numbers that callbacks give an episode, and what a result says of many episodes. Plain data in, plain data out.

Users: ``runtime.meters`` (the window of recent training episodes), ``runtime.evaluator`` and
``actors.custom_evaluation`` (those of an evaluation). Names are RLlib's: ``custom_metrics/NAME_mean``, ``_min``,
``_max``, and ``hist_stats/NAME``.
"""

import collections
import math

UNBOUNDED_STEPS = 10_000  # of an evaluation's episode, where the environment would let it go on for ever
LONGEST_HIST = 10_000  # numbers of one name in a result; the newest are kept


def summarised(told):
    """Return ({name_mean, name_min, name_max: number}, {name: list of numbers}) of ``told``.

    ``told``: a (custom_metrics, hist_data) for each episode, {name: number} and {name: list of numbers}. What is not finite is
    left out of mean, min and max; None where nothing else is there.
    """
    metrics, hist = collections.defaultdict(list), collections.defaultdict(list)
    for numbers, lists in told:
        for name, value in numbers.items():
            metrics[name].append(value)
        for name, values in lists.items():
            hist[name] += values
    custom = {}
    for name in sorted(metrics):
        finite = [value for value in metrics[name] if math.isfinite(value)]
        custom[f"{name}_mean"] = sum(finite) / len(finite) if finite else None
        custom[f"{name}_min"] = min(finite, default=None)
        custom[f"{name}_max"] = max(finite, default=None)
    return custom, {name: values[-LONGEST_HIST:] for name, values in sorted(hist.items())}


def summary(episodes):
    """Return RLlib's episode fields for a list of scored episodes (``actors.part_records.ScoredEpisode``), at least one."""
    rewards = [episode.reward for episode in episodes]
    fields = {
        "episode_reward_mean": sum(rewards) / len(rewards),
        "episode_reward_max": max(rewards),
        "episode_reward_min": min(rewards),
        "episode_len_mean": sum(episode.length for episode in episodes) / len(episodes),
        "episodes_this_iter": len(episodes),
        "episodes_cut": sum(episode.is_cut for episode in episodes),
    }
    custom, hist = summarised([(episode.custom_metrics, episode.hist_data) for episode in episodes])
    fields |= {"custom_metrics": custom} if custom else {}
    return fields | ({"hist_stats": hist} if hist else {})


class Window:
    """What callbacks said of the newest ``size`` episodes."""

    def __init__(self, size):
        self._told = collections.deque(maxlen=size)

    def add(self, told):
        """Note the (custom_metrics, hist_data) of further episodes."""
        self._told.extend(told)

    def summarised(self):
        """Return what ``summarised`` says of the window."""
        return summarised(self._told)

    def state(self):
        """Return what a checkpoint keeps."""
        return [[dict(numbers), dict(lists)] for numbers, lists in self._told]

    def load(self, facts):
        """Continue from ``state``."""
        self._told.clear()
        self._told.extend((numbers, lists) for numbers, lists in facts)
