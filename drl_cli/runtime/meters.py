"""What a run counts beside its steps: episodes, statistics of updates, where the time goes. Plain data in, plain data out."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from drl_cli.actors.part_records import BatchUpdateResult, UpdateResult
from drl_cli.config.episode_metrics import MetricsWindow
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.update_statistics import reducer_of
from drl_cli.evolution.directions import Evaluated
from drl_cli.experience.columns import Token

NOTHING_READ = (0, 0, 0, 0.0, None, None)
"""Steps, rows of the replay, episodes, the sum of returns, the lowest, the highest."""


class Tally:
    """What has been read, pass after pass."""

    def __init__(self) -> None:
        self.steps = self.rows = self.episodes = 0
        self._sum = 0.0
        self._low: float | None = None
        self._high: float | None = None

    def add(self, token: Token) -> None:
        """Count a fragment that was read."""
        reading = token.reading
        if reading is None:
            return
        self.steps += token.steps
        self.rows += token.steps + reading.pieces  # each piece has an observation after its last step
        self.episodes += len(reading.episodes)
        for reward, _ in reading.episodes:
            self._sum += reward
            self._low = reward if self._low is None else min(self._low, reward)
            self._high = reward if self._high is None else max(self._high, reward)

    @property
    def mean(self) -> float | None:
        """Mean return of the whole episodes, None before the first."""
        return self._sum / self.episodes if self.episodes else None

    def info(self) -> dict[str, Any]:
        """Return the fields of a result."""
        return {
            "num_steps_read": self.steps,
            "num_episodes_read": self.episodes,
            "read_reward_mean": self.mean,
            "read_reward_min": self._low,
            "read_reward_max": self._high,
        }

    def state(self) -> list[Any]:
        """Return what a checkpoint keeps."""
        return [self.steps, self.rows, self.episodes, self._sum, self._low, self._high]

    def load(self, facts: Sequence[Any]) -> None:
        """Continue from ``state``."""
        self.steps, self.rows, self.episodes, self._sum, self._low, self._high = facts


class IterationMeters(NamedTuple):
    """What was measured in one iteration; ``runtime.iteration_result`` makes the fields of a result of it."""

    rewards: list[float]  # returns of the episodes in the window, oldest first
    lengths: list[int]
    episodes: int  # that ended in this iteration
    learner: dict[str, float]  # statistics of the updates; of the newest iteration that had any
    exploration: dict[str, float | None]  # mean over the workers
    lag: float | None  # mean over the fragments: versions between the weights that acted and the newest
    steps: int
    updates: int
    seconds: dict[str, float]  # env, policy, making, total: of workers; learn
    custom_metrics: dict[str, float | None]  # of callbacks
    hist_data: dict[str, list[float]]  # of callbacks
    policy_rewards: dict[str, list[float]]  # of several agents: returns of agents in the window, by policy id
    success_rate: float | None  # share of the episodes in the window that reached their goal, where they say it


class Meters:
    """Windows and sums of one run; ``close_iteration`` returns and resets those of an iteration."""

    def __init__(self, config: CommonKeys) -> None:
        self._recent = collections.deque(maxlen=config.metrics_smoothing_episodes)  # (return, length)
        self._custom = MetricsWindow(config.metrics_smoothing_episodes)  # of callbacks
        self._by_policy: dict[str, collections.deque[float]] = {}  # returns of agents
        self._successes: collections.deque[bool] = collections.deque(maxlen=config.metrics_smoothing_episodes)
        self.episodes = 0
        self.bad_transitions = 0
        self._stats: dict[str, float] = {}
        self.prepare_seconds: float | None = None
        self.has_sampled = self.has_learnt = False  # in this process
        self.lag = 0  # versions between the weights of the last fragment and the newest
        # Seconds at work since this process began; those of sampling are over all workers.
        self.spent = {"learn": 0.0, "sample": 0.0, "env": 0.0, "policy": 0.0}
        self.read: Tally | None = None  # where files are read: how much
        self.slowest = 0.0  # seconds of the longest call of the learner
        self._exploring: dict[int, Mapping[str, float]] = {}  # worker -> ``Token.exploration`` of its newest fragment
        self.scored: list[tuple[float, int]] = []  # ``Token.scored`` since the last evaluation
        self._reset()

    def _reset(self) -> None:
        self._new_episodes = 0
        self._updates = 0
        self._sums: dict[str, float] = {}
        self._lags: list[int] = []
        self._steps = 0
        self._seconds = {"env": 0.0, "policy": 0.0, "making": 0.0, "total": 0.0, "learn": 0.0}

    def sampled(self, token: Token | Evaluated, steps: int, newest: int) -> None:
        """Count a fragment of which ``steps`` env steps are new; ``newest``: version of the newest weights."""
        self.has_sampled = True
        self._recent.extend(token.episodes)
        self._custom.add(token.told)
        self._successes.extend(token.successes if isinstance(token, Token) else ())
        for episode in token.agents if isinstance(token, Token) else ():
            for agent, reward in episode.returns.items():
                name, size = episode.policy_of[agent], self._recent.maxlen
                self._by_policy.setdefault(name, collections.deque(maxlen=size)).append(reward)
        self.episodes += len(token.episodes)
        self._new_episodes += len(token.episodes)
        self.bad_transitions += token.bad_transitions
        self._steps += steps
        self.scored += token.scored if isinstance(token, Token) else ()
        if token.reading is None:  # no weights act where files are read
            self.lag = max(0, newest - token.meta.version)
            self._lags.append(self.lag)
            self._exploring[token.meta.worker] = token.exploration
        for name, value in token.seconds.items():
            self._seconds[name] += value
        # A worker that differentiates (A3C) does so in time of its own.
        self.spent["sample"] += token.seconds["total"] + token.seconds.get("learn", 0.0)
        for name in ("env", "policy"):  # a reader has neither
            self.spent[name] += token.seconds.get(name, 0.0)

    def learnt(self, result: UpdateResult | BatchUpdateResult) -> None:
        """Count the updates of one call of the learner."""
        self.has_learnt = True
        count = result["updates"]
        self._updates += count
        self._seconds["learn"] += result["seconds"]
        self.spent["learn"] += result["seconds"]
        self.slowest = max(self.slowest, result["seconds"])
        for name, value in result["stats"].items():
            self._sums[name] = reducer_of(name).joined(self._sums.get(name), value, count)

    def loaded(self, seconds: float) -> None:
        """Note that the learner has built its graph in ``seconds``."""
        self.prepare_seconds = seconds

    def reward_mean(self) -> float | None:
        """Return the mean return of recent episodes, None before the first has ended."""
        return mean([reward for reward, _ in self._recent])

    def close_iteration(self) -> IterationMeters:
        """Return what was measured since the last time, and begin a new iteration."""
        if self._updates:
            self._stats = {name: reducer_of(name).closed(s, self._updates) for name, s in self._sums.items()}
        custom, hist = self._custom.summarised()
        closed = IterationMeters(
            rewards=[reward for reward, _ in self._recent],
            lengths=[length for _, length in self._recent],
            episodes=self._new_episodes,
            learner=dict(self._stats),
            exploration=self._exploration(),
            lag=mean(self._lags),
            steps=self._steps,
            updates=self._updates,
            seconds=self._seconds,
            custom_metrics=custom,
            hist_data=hist,
            policy_rewards={name: list(values) for name, values in self._by_policy.items()},
            success_rate=mean(self._successes),
        )
        self._reset()
        return closed

    def _exploration(self) -> dict[str, float | None]:
        """How strongly the workers explore by now, the mean over them."""
        workers = list(self._exploring.values())
        names = sorted({name for one in workers for name in one})
        return {name: mean([one[name] for one in workers if name in one]) for name in names}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the window of recent episodes and the totals."""
        return {
            "recent": [list(episode) for episode in self._recent],
            "episodes": self.episodes,
            "bad_transitions": self.bad_transitions,
            "stats": self._stats,
            "told": self._custom.state(),
            "successes": list(self._successes),
            "by_policy": {name: list(values) for name, values in self._by_policy.items()},
            "reward_mean": self.reward_mean(),  # for people who look into the file
        }

    def load(self, facts: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self._recent.clear()
        self._recent.extend((finite(reward), int(finite(length))) for reward, length in facts["recent"])
        self.episodes, self.bad_transitions = facts["episodes"], facts["bad_transitions"]
        self._stats = dict(facts["stats"])
        self._custom.load(facts.get("told", ()))
        self._successes.clear()
        self._successes.extend(bool(success) for success in facts.get("successes", ()))
        size = self._recent.maxlen
        self._by_policy = {name: collections.deque(own, size) for name, own in facts.get("by_policy", {}).items()}


def finite(value: Any) -> float:
    """Return ``value`` as a float; ValueError for a number that is not finite."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    return number


def mean(values: Sequence[float]) -> float | None:
    """Return the mean of ``values``, None of none."""
    return sum(values) / len(values) if values else None
