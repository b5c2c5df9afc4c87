"""How learning and sampling keep pace: which updates are owed, which fragments may be requested. User: ``loops.replay``.

``SamplePace`` is for steps that go on coming, from environments or from a mix with files; for files alone there is
``loops.reading``. Either defines the run's env steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drl_cli.config.sections.deterministic import sources
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import reads, reads_only
from drl_cli.config.sections.replay import intensity, span
from drl_cli.experience.columns import Token
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.meters import Tally
from drl_cli.runtime.read_pace import ReadPace


def make(config: BufferedKeys, ledger: Ledger) -> SamplePace | ReadPace:
    """Return the pace for ``config``, one with BufferKeys, over the counters of ``ledger``."""
    return ReadPace(config, ledger) if reads_only(config) else SamplePace(config, ledger)


class SamplePace:
    """``training_intensity`` I, kept from both sides.

    ⌊(sampled − learning_starts)·I/B⌋ updates are owed and no more are made; no more is requested of workers than a small lead
    over what has been learnt.
    """

    def __init__(self, config: BufferedKeys, ledger: Ledger) -> None:
        """``config``: one with BufferKeys; ``ledger``: its ``sampled`` env steps and ``updates`` are what is kept in pace."""
        self._config, self._intensity, self.ledger = config, intensity(config), ledger
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        streams = sources(config) * config.num_envs_per_worker
        self._start = max(config.learning_starts, streams * (span(config) + 1))
        # A window of n steps, or a sequence, is only drawn when it is complete.
        self.complete = config.num_envs_per_worker * (span(config) + 1)
        self._lead = max(
            2 * self._fragment * sources(config),
            2 * config.updates_per_call * config.train_batch_size / self._intensity,
        )
        self._origin = (0, 0)  # (sampled, updates) when the present contents of the replay began
        self.tally = Tally() if reads(config) else None

    def timesteps(self) -> int:
        """Return the env steps so far: those sampled and read."""
        return self.ledger.sampled

    @property
    def stored(self) -> int:
        """Env steps in the replay, all of its rows in use counted."""
        return min(self.ledger.sampled - self._origin[0], self._config.buffer_size)

    def achieved(self) -> float | None:
        """Return the transitions learnt from per env step since learning began; None before."""
        steps = self.ledger.sampled - self._origin[0] - self._start
        return (self.ledger.updates - self._origin[1]) * self._config.train_batch_size / steps if steps > 0 else None

    def owed(self, updates: int) -> int:
        """Return how many updates beyond ``updates`` are due by now."""
        sampled = self.ledger.sampled - self._origin[0]
        if sampled < self._start:
            return 0
        target = int((sampled - self._start) * self._intensity / self._config.train_batch_size)
        return target - (updates - self._origin[1])

    def allowed(self, updates: int, under_way: int) -> tuple[int, frozenset[int] | None]:
        """Return (how many fragments may be requested, of which workers: None for all).

        ``updates``: those made and running; ``under_way``: fragments requested that are not stored yet.
        """
        sampled = self.ledger.sampled - self._origin[0] + under_way * self._fragment
        coming = (updates - self._origin[1]) * self._config.train_batch_size / self._intensity
        room = self._start + coming + self._lead - sampled
        return max(0, int(room // self._fragment)), None

    def waiting(self, learns: bool, outstanding: int) -> str:
        """Say in a few words what waits for what, while the learner ``learns`` or not and fragments are ``outstanding``."""
        if not learns:
            return "learner is waiting for samples"
        return "" if outstanding else "workers are waiting for the learner"

    def behind(self, index: int) -> int:
        """Return how many fragments a successor of worker ``index`` need not bring again: what was sampled stays new."""
        del index
        return 0

    def arrived(self, token: Token) -> None:
        """A fragment has come from a worker."""
        if self.tally is not None:
            self.tally.add(token)

    def info(self) -> dict[str, Any]:
        """Return the fields of a result, beside the steps."""
        return self.tally.info() if self.tally else {}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        facts = {"sampled": self.ledger.sampled, "origin": list(self._origin), "pace": self._terms()}
        return facts | ({"read": self.tally.state()} if self.tally else {})

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; without the replay's contents it fills anew before learning goes on."""
        sampled, updates = facts["sampled"], facts["updates"]
        self._origin = tuple(facts["origin"]) if with_replay else (sampled, updates)
        if facts["pace"] != self._terms() and sampled - self._origin[0] >= self._start:
            # Another pace holds from now on: nothing is owed, in either direction, for what was sampled before.
            self._origin = (sampled - self._start, updates)
        if self.tally and "read" in facts:
            self.tally.load(facts["read"])

    def _terms(self) -> list[Any]:
        return [self._start, self._intensity, self._config.train_batch_size]
