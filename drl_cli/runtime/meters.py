"""What a loop counts: episodes, statistics of updates, where the time goes. Plain data in, plain data out."""

import collections

from drl_cli.config.episode_metrics import MetricsWindow


class Meters:
    """Counters of one run; ``close_iteration`` hands out and resets those of an iteration."""

    def __init__(self, config):
        self._recent = collections.deque(maxlen=config.metrics_smoothing_episodes)  # (return, length)
        self._told = MetricsWindow(config.metrics_smoothing_episodes)  # what callbacks said of episodes
        self.episodes = 0
        self.bad_transitions = 0
        self._stats = {}
        self.prepare_seconds = None
        self.has_sampled = self.has_learnt = False  # in this process
        self.lag = 0  # versions behind the newest, of the last fragment
        self.version = 1  # of the newest weights that were pushed
        # Seconds at work since this process began; those of sampling are over all workers.
        self.spent = {"learn": 0.0, "sample": 0.0, "env": 0.0, "policy": 0.0}
        self.read = None  # where files are read: what has been (``loops.pace.Tally``)
        self.slowest = 0.0  # seconds of the longest call of the learner
        self._exploring = {}  # worker -> what its newest fragment said of its exploration
        self._reset()

    def _reset(self):
        self._new_episodes = 0
        self._updates = 0
        self._sums, self._lags = {}, []
        self._steps = 0
        self._seconds = {"env": 0.0, "policy": 0.0, "making": 0.0, "total": 0.0, "learn": 0.0}

    def sampled(self, token, stored):
        """Note a fragment of which ``stored`` env steps were new."""
        self.has_sampled = True
        self._recent.extend(token.episodes)
        self._told.add(token.told)
        self.episodes += len(token.episodes)
        self._new_episodes += len(token.episodes)
        self.bad_transitions += token.bad_transitions
        self._steps += stored
        if token.reading is None:  # what is read is of nobody's weights
            self.lag = max(0, self.version - token.meta.version)
            self._lags.append(self.lag)
            self._exploring[token.meta.worker] = token.exploration
        for name, value in token.seconds.items():
            self._seconds[name] += value
        # A worker that differentiates (A3C) does so in time of its own.
        self.spent["sample"] += token.seconds["total"] + token.seconds.get("learn", 0.0)
        for name in ("env", "policy"):  # who reads files does neither
            self.spent[name] += token.seconds.get(name, 0.0)

    def learnt(self, result):
        """Note the learner's result of one call."""
        self.has_learnt = True
        count = result["updates"]
        self._updates += count
        self.version = result["version"]
        self._seconds["learn"] += result["seconds"]
        self.spent["learn"] += result["seconds"]
        self.slowest = max(self.slowest, result["seconds"])
        for name, value in result["stats"].items():
            if name.startswith(("min_", "max_")):
                worse = min if name.startswith("min_") else max
                self._sums[name] = worse(self._sums.get(name, value), value)
            else:
                self._sums[name] = self._sums.get(name, 0.0) + value * count

    def loaded(self, seconds):
        """Note that the learner has built its graph in ``seconds``."""
        self.prepare_seconds = seconds

    def reward_mean(self):
        """Return the mean return of recent episodes, None before the first has ended."""
        return _mean([reward for reward, _ in self._recent])

    def close_iteration(self):
        """Return the nested parts of a result that concern episodes, updates and time, and begin a new iteration."""
        rewards = [reward for reward, _ in self._recent]
        lengths = [length for _, length in self._recent]
        if self._updates:
            self._stats = {
                name: value if name.startswith(("min_", "max_")) else value / self._updates
                for name, value in self._sums.items()
            }
        learn_s, sample_s = self._seconds["learn"], self._seconds["total"]
        closed = {
            "episode_reward_mean": _mean(rewards),
            "episode_reward_max": max(rewards, default=None),
            "episode_reward_min": min(rewards, default=None),
            "episode_len_mean": _mean(lengths),
            "episodes_this_iter": self._new_episodes,
            "episodes_total": self.episodes,
            "hist_stats": {"episode_reward": rewards, "episode_lengths": lengths},
            "learner": dict(self._stats),
            "exploration": self._exploration(),
            "weight_lag_mean": _mean(self._lags),
            "timers": {
                "sample_s": sample_s,
                "make_env_s": self._seconds["making"],
                "learn_s": learn_s,
                "sample_throughput": self._steps / sample_s if sample_s else None,
                "learn_throughput": self._updates / learn_s if learn_s else None,
            },
            "sampler_perf": {
                "mean_env_wait_ms": 1e3 * self._seconds["env"] / self._steps if self._steps else None,
                "mean_inference_ms": 1e3 * self._seconds["policy"] / self._steps if self._steps else None,
            },
        }
        custom, hist = self._told.summarised()
        closed["hist_stats"] |= hist
        self._reset()
        return closed | ({"custom_metrics": custom} if custom else {})

    def _exploration(self):
        """How strongly the workers explore by now, the mean over them."""
        said = list(self._exploring.values())
        return {
            name: _mean([one[name] for one in said if name in one]) for name in sorted({n for o in said for n in o})
        }

    def state(self):
        """Return what a checkpoint keeps: the window of recent episodes and the totals."""
        return {
            "recent": [list(episode) for episode in self._recent],
            "episodes": self.episodes,
            "bad_transitions": self.bad_transitions,
            "stats": self._stats,
            "told": self._told.state(),
            "reward_mean": self.reward_mean(),  # for who looks into the file
        }

    def load(self, facts):
        """Continue from ``state``."""
        self._recent.clear()
        self._recent.extend(tuple(episode) for episode in facts["recent"])
        self.episodes, self.bad_transitions = facts["episodes"], facts["bad_transitions"]
        self._stats = dict(facts["stats"])
        self._told.load(facts.get("told", ()))


def _mean(values):
    return sum(values) / len(values) if values else None
