"""How learning and reading keep pace where all steps come from files: the other half of ``loops.pace``."""

from drl_cli import events
from drl_cli.config.sections.replay import intensity
from drl_cli.errors import ExperienceError

NOTHING = (0, 0, 0, 0.0, None, None)  # steps, rows of the replay, episodes, the sum of returns, the lowest, the highest


class Tally:
    """What has been read, pass after pass."""

    def __init__(self):
        self.load(NOTHING)

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


class ReadPace:
    """Files alone: first the replay is filled, then it is learnt from, for as long as the run lasts.

    Files that fit into ``buffer_size`` are in memory after one pass, and nothing is read again. Of others reading goes on
    behind the first filling, ``training_intensity`` I transitions learnt from for each step read, pass after pass. Either way
    one timestep stands for I transitions learnt from: what would have been read by then if nothing were held.
    """

    complete = 1

    def __init__(self, config, ledger):
        """``config``: one with BufferKeys; ``ledger``: its ``updates`` are what the pace follows from."""
        self._config, self._intensity, self.ledger = config, intensity(config), ledger
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        self._lead = 2 * config.updates_per_call * config.train_batch_size / self._intensity
        self._workers = frozenset(range(max(1, config.num_workers)))
        self._base = (0, 0)  # (timesteps, updates) when the present pace began
        self.tally = Tally()
        self._begin(0)

    def _begin(self, updates):
        """The replay is empty and nothing has been read, after so many ``updates``."""
        self.tally.load(NOTHING)
        self._brought = {}  # worker -> fragments of its first pass
        self._ended = set()  # workers that have read all of theirs once
        self._full = None  # steps read when the replay was full before the files were over
        self._since = updates

    @property
    def is_whole(self):
        """Whether all that the files hold is in the replay."""
        return self._full is None and self._ended == self._workers

    def timesteps(self):
        """Return the env steps so far: one for every I transitions learnt from."""
        return self._base[0] + int(self._learnt(self.ledger.updates, self._base[1]) / self._intensity)

    def _learnt(self, updates, since):
        return (updates - since) * self._config.train_batch_size

    @property
    def stored(self):
        """Rows of the replay in use."""
        return min(self.tally.rows, self._config.buffer_size)

    def got(self):
        """As ``SamplePace.got``: timesteps follow from what is learnt, so that there is nothing to compare."""
        return

    def owed(self, updates):
        """Return how many updates beyond ``updates`` may be made: nothing has to be waited for once the replay is filled."""
        if self.is_whole:
            return self._config.updates_per_call
        if self._full is None:
            return 0
        ahead = self.tally.steps - self._full + self._lead - self._learnt(updates, self._since) / self._intensity
        return int(ahead * self._intensity / self._config.train_batch_size)

    def asked(self, updates, under_way):
        """As ``SamplePace.asked``."""
        if self._full is None:
            left = self._workers - self._ended
            return len(left), left
        read = self.tally.steps - self._full + under_way * self._fragment
        room = self._learnt(updates, self._since) / self._intensity + self._lead - read
        return max(0, int(room // self._fragment)), self._workers - {
            w for w, count in self._brought.items() if not count
        }

    def waiting(self, learns, outstanding):
        """As ``SamplePace.waiting``."""
        del outstanding
        return "" if learns or self.is_whole else "learner is waiting for files to be read"

    def behind(self, index):
        """Return how many fragments a successor of worker ``index`` need not bring again."""
        return 0 if index in self._ended or self._full is not None else self._brought.get(index, 0)

    def came(self, token):
        """A fragment has come from a worker, maybe an empty one. Raises ExperienceError when all have come to nothing."""
        index = token.meta.worker
        self.tally.add(token)
        self._brought[index] = self._brought.get(index, 0) + (token.steps > 0)
        if self._full is None and self.tally.rows > self._config.buffer_size:
            self._full = self.tally.steps
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
        read = self.tally
        if not read.steps:
            raise ExperienceError("input: the files hold no step that could be learnt from.")
        what = f"{read.episodes:,} episodes, mean return {read.mean:,.5g}" if read.episodes else "no whole episode"
        events.report("notice", text=f"loaded {read.steps:,} steps into memory: {what}")

    def info(self):
        """Return what a result says of it, beside the steps."""
        held = self.is_whole and self.tally.steps
        passes = self._learnt(self.ledger.updates, self._since) / held if held else None
        return {"num_steps_sampled": 0, "num_passes": passes} | self.tally.info()

    def state(self):
        """Return what a checkpoint keeps."""
        reading = {
            "base": list(self._base),
            "since": self._since,
            "brought": [list(pair) for pair in sorted(self._brought.items())],
            "ended": sorted(self._ended),
            "workers": len(self._workers),
            "full": self._full,
        }
        steps, updates = self.timesteps(), self.ledger.updates
        facts = {"sampled": steps, "origin": [steps, updates], "pace": self._terms(), "read": self.tally.state()}
        return facts | {"reading": reading}

    def load(self, facts, with_replay):
        """Continue from ``state``; without the replay's contents the files are read anew."""
        reading, updates = facts.get("reading"), facts["updates"]
        goes_on = reading is not None and facts["pace"] == self._terms()
        self._base = tuple(reading["base"]) if goes_on else (facts["sampled"], updates)
        self._begin(updates)
        if not with_replay or reading is None:
            return
        self.tally.load(facts["read"])
        self._since, self._full = reading["since"], reading["full"]
        self._brought = dict(map(tuple, reading["brought"]))
        self._ended = set(reading["ended"])
        if reading["workers"] != len(self._workers):
            # Other workers have other shares: what is not whole yet is read from its beginning.
            whole = len(self._ended) == reading["workers"] or self._full is not None
            self._brought, self._ended = {}, set(self._workers) if whole else set()

    def _terms(self):
        return ["files", self._intensity, self._config.train_batch_size]
