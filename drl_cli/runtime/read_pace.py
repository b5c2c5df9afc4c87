"""The ratio of updates to steps read when all steps come from files; ``pace`` is its counterpart for sampled steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drl_cli import events
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.replay import intensity
from drl_cli.errors import ExperienceError
from drl_cli.experience.columns import Token
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.meters import NOTHING_READ, Tally


class ReadPace:
    """Offline pace: the replay buffer is filled first, then trained on until the run ends.

    Files that fit into ``buffer_size`` are read once and kept in memory. Larger ones are read pass after pass, one step for
    every ``training_intensity`` I transitions trained on. Either way one timestep stands for I transitions trained on, as many
    as sampling would have given.
    """

    complete = 1

    def __init__(self, config: BufferedKeys, ledger: Ledger) -> None:
        """``config``: one with BufferKeys; ``ledger``: its ``updates`` are what the pace follows from."""
        self._config, self._intensity, self.ledger = config, intensity(config), ledger
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        self._lead = 2 * config.updates_per_call * config.train_batch_size / self._intensity
        self._workers = frozenset(range(max(1, config.num_workers)))
        self._base = (0, 0)  # (timesteps, updates) when the present pace began
        self.tally = Tally()
        self._begin(0)

    def _begin(self, updates: int) -> None:
        """The replay is empty and nothing has been read, after so many ``updates``."""
        self.tally.load(NOTHING_READ)
        self._brought = {}  # worker -> fragments of its first pass
        self._ended = set()  # workers that have read all of theirs once
        self._full = None  # steps read when the replay was full before the files were over
        self._since = updates

    @property
    def is_whole(self) -> bool:
        """Whether all that the files hold is in the replay."""
        return self._full is None and self._ended == self._workers

    def timesteps(self) -> int:
        """Return the env steps so far: one for every I transitions learnt from."""
        return self._base[0] + int(self._learnt(self.ledger.updates, self._base[1]) / self._intensity)

    def _learnt(self, updates: int, since: int) -> int:
        return (updates - since) * self._config.train_batch_size

    @property
    def stored(self) -> int:
        """Rows of the replay in use."""
        return min(self.tally.rows, self._config.buffer_size)

    def achieved(self) -> None:
        """As ``SamplePace.achieved``: timesteps follow from what is learnt, so that there is nothing to compare."""
        return

    def owed(self, updates: int) -> int:
        """Return how many updates beyond ``updates`` may be made now; a whole call's once all files are in the replay."""
        if self.is_whole:
            return self._config.updates_per_call
        if self._full is None:
            return 0
        ahead = self.tally.steps - self._full + self._lead - self._learnt(updates, self._since) / self._intensity
        return int(ahead * self._intensity / self._config.train_batch_size)

    def allowed(self, updates: int, under_way: int) -> tuple[int, frozenset[int]]:
        """As ``SamplePace.allowed``."""
        if self._full is None:
            left = self._workers - self._ended
            return len(left), left
        read = self.tally.steps - self._full + under_way * self._fragment
        room = self._learnt(updates, self._since) / self._intensity + self._lead - read
        return max(0, int(room // self._fragment)), self._workers - {
            w for w, count in self._brought.items() if not count
        }

    def waiting(self, learns: bool, outstanding: int) -> str:
        """As ``SamplePace.waiting``."""
        del outstanding
        return "" if learns or self.is_whole else "learner is waiting for files to be read"

    def behind(self, index: int) -> int:
        """Return the fragments that a replacement of worker ``index`` can skip."""
        return 0 if index in self._ended or self._full is not None else self._brought.get(index, 0)

    def arrived(self, token: Token) -> None:
        """Count a fragment, which may be empty. Raises ExperienceError when all files are read and hold no steps."""
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
        if token.reading is not None and token.reading.ended and index not in self._ended:
            self._ended.add(index)
            if self.is_whole:
                self._report_whole()

    def _report_whole(self) -> None:
        read = self.tally
        if not read.steps:
            raise ExperienceError("input: the files hold no steps to train on.")
        what = f"{read.episodes:,} episodes, mean return {read.mean:,.5g}" if read.episodes else "no whole episode"
        events.report("notice", text=f"loaded {read.steps:,} steps into memory: {what}")

    def info(self) -> dict[str, Any]:
        """Return the fields of a result, beside the steps."""
        held = self.is_whole and self.tally.steps
        passes = self._learnt(self.ledger.updates, self._since) / held if held else None
        return {"num_steps_sampled": 0, "num_passes": passes} | self.tally.info()

    def state(self) -> dict[str, Any]:
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

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; without the replay's contents the files are read anew."""
        reading, updates = facts.get("reading"), facts["updates"]
        self._base = (facts["sampled"], updates)
        if reading is not None and facts["pace"] == self._terms():
            self._base = tuple(reading["base"])
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

    def _terms(self) -> list[Any]:
        return ["files", self._intensity, self._config.train_batch_size]
