"""How learning and what it learns from keep pace: which updates are owed, which fragments may be asked for.

Used by ``loops.replay``. ``Sampling`` is for steps that go on coming, from environments or from a mix with files;
``Reading`` for files alone, which may all be in memory at some point. What the run calls its env steps, ``timesteps``, is
theirs to say.
"""

from drl_cli import events
from drl_cli.configs.offline import reads, reads_only
from drl_cli.configs.replay import intensity, span
from drl_cli.errors import ExperienceError


def make(config):
    """Return the pace for ``config``, one with BufferKeys."""
    return Reading(config) if reads_only(config) else Sampling(config)


class Tally:
    """What has been read, pass after pass."""

    def __init__(self):
        self.steps = self.rows = self.episodes = 0
        self._sum, self._low, self._high = 0.0, None, None

    def add(self, token):
        """Count a fragment that was read."""
        told = token.reading
        self.steps += token.steps
        self.rows += token.steps + told.pieces  # each piece has an observation behind its last step
        self.episodes += len(told.episodes)
        for reward, _ in told.episodes:
            self._sum += reward
            self._low = reward if self._low is None else min(self._low, reward)
            self._high = reward if self._high is None else max(self._high, reward)

    @property
    def mean(self):
        """Mean return of the whole episodes, None before the first."""
        return self._sum / self.episodes if self.episodes else None

    def info(self):
        """Return the fields of a result that speak of it."""
        return {
            "num_steps_read": self.steps,
            "num_episodes_read": self.episodes,
            "read_reward_mean": self.mean,
            "read_reward_min": self._low,
            "read_reward_max": self._high,
        }

    def state(self):
        """Return what a checkpoint keeps."""
        return [self.steps, self.rows, self.episodes, self._sum, self._low, self._high]

    def load(self, facts):
        """Continue from ``state``."""
        self.steps, self.rows, self.episodes, self._sum, self._low, self._high = facts


class Sampling:
    """``training_intensity`` I, kept from both sides.

    ⌊(sampled − learning_starts)·I/B⌋ updates are owed and no more are made; workers are not asked for more than a small lead
    over what has been learnt.
    """

    learns_from = "samples"

    def __init__(self, config):
        """``config``: one with BufferKeys."""
        self._config, self._intensity = config, intensity(config)
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        streams = max(1, config.num_workers) * config.num_envs_per_worker
        self._start = max(config.learning_starts, streams * (span(config) + 1))
        # A window of n steps, or a sequence, is only drawn when it is complete.
        self.complete = config.num_envs_per_worker * (span(config) + 1)
        self._lead = max(
            2 * self._fragment * max(1, config.num_workers),
            2 * config.updates_per_call * config.train_batch_size / self._intensity,
        )
        self._origin = (0, 0)  # (sampled, updates) when the present contents of the replay began
        self.sampled = 0
        self._tally = Tally() if reads(config) else None

    def timesteps(self, updates):
        """Return the env steps so far: those sampled and read."""
        del updates
        return self.sampled

    @property
    def stored(self):
        """Env steps in the replay, all of its rows in use counted."""
        return min(self.sampled - self._origin[0], self._config.buffer_size)

    def got(self, updates):
        """Return the transitions learnt from per env step since learning began; None before."""
        steps = self.sampled - self._origin[0] - self._start
        return (updates - self._origin[1]) * self._config.train_batch_size / steps if steps > 0 else None

    def owed(self, updates):
        """Return how many updates beyond ``updates`` are due by now."""
        sampled = self.sampled - self._origin[0]
        if sampled < self._start:
            return 0
        target = int((sampled - self._start) * self._intensity / self._config.train_batch_size)
        return target - (updates - self._origin[1])

    def asked(self, updates, under_way):
        """Return (how many fragments may be asked for, of which workers: None for all).

        ``updates``: those made and running; ``under_way``: fragments asked for that are not stored yet.
        """
        sampled = self.sampled - self._origin[0] + under_way * self._fragment
        coming = (updates - self._origin[1]) * self._config.train_batch_size / self._intensity
        room = self._start + coming + self._lead - sampled
        return max(0, int(room // self._fragment)), None

    def behind(self, index):
        """Return how many fragments a successor of worker ``index`` need not bring again: what was sampled stays new."""
        del index
        return 0

    def came(self, token):
        """A fragment has come from a worker."""
        if token.reading is not None:
            self._tally.add(token)

    def added(self, token, steps):
        """``steps`` env steps of a fragment are in the replay."""
        del token
        self.sampled += steps

    def info(self):
        """Return what a result says of it, beside the steps."""
        return self._tally.info() if self._tally else {}

    def state(self, updates):
        """Return what a checkpoint keeps."""
        del updates
        facts = {"sampled": self.sampled, "origin": list(self._origin), "pace": self._terms()}
        return facts | ({"read": self._tally.state()} if self._tally else {})

    def load(self, facts, with_replay):
        """Continue from ``state``; without the replay's contents it fills anew before learning goes on."""
        self.sampled, updates = facts["sampled"], facts["updates"]
        self._origin = tuple(facts["origin"]) if with_replay else (self.sampled, updates)
        if facts["pace"] != self._terms() and self.sampled - self._origin[0] >= self._start:
            # Another pace holds from now on: nothing is owed, in either direction, for what was sampled before.
            self._origin = (self.sampled - self._start, updates)
        if self._tally and "read" in facts:
            self._tally.load(facts["read"])

    def _terms(self):
        return [self._start, self._intensity, self._config.train_batch_size]


class Reading:
    """Files alone: first the replay is filled, then it is learnt from, for as long as the run lasts.

    Files that fit into ``buffer_size`` are in memory after one pass, and nothing is read again. Of others reading goes on
    behind the first filling, ``training_intensity`` I transitions learnt from for each step read, pass after pass. Either way
    one timestep stands for I transitions learnt from: what would have been read by then if nothing were held.
    """

    complete = 1

    def __init__(self, config):
        """``config``: one with BufferKeys."""
        self._config, self._intensity = config, intensity(config)
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        self._lead = 2 * config.updates_per_call * config.train_batch_size / self._intensity
        self._workers = frozenset(range(max(1, config.num_workers)))
        self._base = (0, 0)  # (timesteps, updates) when the present pace began
        self._begin(0)

    def _begin(self, updates):
        """The replay is empty and nothing has been read, after so many ``updates``."""
        self._tally = Tally()
        self._brought = {}  # worker -> fragments of its first pass
        self._ended = set()  # workers that have read all of theirs once
        self._full = None  # steps read when the replay was full before the files were over
        self._since = updates

    @property
    def is_whole(self):
        """Whether all that the files hold is in the replay."""
        return self._full is None and self._ended == self._workers

    @property
    def read(self):
        """What has been read: a Tally."""
        return self._tally

    def timesteps(self, updates):
        """Return the env steps so far: one for every I transitions learnt from."""
        return self._base[0] + int(self._learnt(updates, self._base[1]) / self._intensity)

    def _learnt(self, updates, since):
        return (updates - since) * self._config.train_batch_size

    @property
    def stored(self):
        """Rows of the replay in use."""
        return min(self._tally.rows, self._config.buffer_size)

    def got(self, updates):
        """As ``Sampling.got``: timesteps follow from what is learnt, so that there is nothing to compare."""
        del updates

    def owed(self, updates):
        """Return how many updates beyond ``updates`` may be made: nothing has to be waited for once the replay is filled."""
        if self.is_whole:
            return self._config.updates_per_call
        if self._full is None:
            return 0
        ahead = self._tally.steps - self._full + self._lead - self._learnt(updates, self._since) / self._intensity
        return int(ahead * self._intensity / self._config.train_batch_size)

    def asked(self, updates, under_way):
        """As ``Sampling.asked``."""
        if self._full is None:
            left = self._workers - self._ended
            return len(left), left
        read = self._tally.steps - self._full + under_way * self._fragment
        room = self._learnt(updates, self._since) / self._intensity + self._lead - read
        return max(0, int(room // self._fragment)), self._workers - {
            w for w, count in self._brought.items() if not count
        }

    def behind(self, index):
        """Return how many fragments a successor of worker ``index`` need not bring again."""
        return 0 if index in self._ended or self._full is not None else self._brought.get(index, 0)

    def came(self, token):
        """A fragment has come from a worker, maybe an empty one. Raises ExperienceError when all have come to nothing."""
        index = token.meta.worker
        self._tally.add(token)
        self._brought[index] = self._brought.get(index, 0) + (token.steps > 0)
        if self._full is None and self._tally.rows > self._config.buffer_size:
            self._full = self._tally.steps
            events.report(
                "notice",
                text=f"The files hold more than buffer_size {self._config.buffer_size:,}: they are read on while learning "
                "goes on, and the oldest steps make room.",
            )
        if token.reading.ended and index not in self._ended:
            self._ended.add(index)
            if self.is_whole:
                self._tell()

    def _tell(self):
        read = self._tally
        if not read.steps:
            raise ExperienceError("input: the files hold no step that could be learnt from.")
        what = (
            f"{read.episodes:,} whole episodes, mean return {read.mean:,.5g}" if read.episodes else "no whole episode"
        )
        events.report("notice", text=f"read {read.steps:,} steps ({what}); all are held")

    def added(self, token, steps):
        """``steps`` env steps of a fragment are in the replay."""

    def info(self):
        """Return what a result says of it, beside the steps."""
        return {"num_steps_sampled": self._tally.steps} | self._tally.info()

    def state(self, updates):
        """Return what a checkpoint keeps."""
        reading = {
            "base": list(self._base),
            "since": self._since,
            "brought": [list(pair) for pair in sorted(self._brought.items())],
            "ended": sorted(self._ended),
            "workers": len(self._workers),
            "full": self._full,
        }
        steps = self.timesteps(updates)
        facts = {"sampled": steps, "origin": [steps, updates], "pace": self._terms(), "read": self._tally.state()}
        return facts | {"reading": reading}

    def load(self, facts, with_replay):
        """Continue from ``state``; without the replay's contents the files are read anew."""
        reading, updates = facts.get("reading"), facts["updates"]
        goes_on = reading is not None and facts["pace"] == self._terms()
        self._base = tuple(reading["base"]) if goes_on else (facts["sampled"], updates)
        self._begin(updates)
        if not with_replay or reading is None:
            return
        self._tally.load(facts["read"])
        self._since, self._full = reading["since"], reading["full"]
        self._brought = dict(map(tuple, reading["brought"]))
        self._ended = set(reading["ended"])
        if reading["workers"] != len(self._workers):
            # Other workers have other shares: what is not whole yet is read from its beginning.
            whole = len(self._ended) == reading["workers"] or self._full is not None
            self._brought, self._ended = {}, set(self._workers) if whole else set()

    def _terms(self):
        return ["files", self._intensity, self._config.train_batch_size]
