"""The counters of a run, of any loop: env steps, updates, the version of the weights, steps that broken environments cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drl_cli import events, process
from drl_cli.actors.part_records import BatchUpdateResult, UpdateResult
from drl_cli.config.sections.common import CommonKeys
from drl_cli.errors import RunFailed
from drl_cli.evolution.directions import Evaluated
from drl_cli.experience.columns import Token
from drl_cli.runtime.meters import Meters

BAD_SHARE, BAD_LEAST = 0.01, 100  # more lost steps than this end the run


class Ledger:
    """The counters of a run, and its meters."""

    def __init__(self, config: CommonKeys) -> None:
        self.meters = Meters(config)
        self.version = 1  # of the newest weights that were pushed
        self.sampled = self.updates = self.trained = 0  # env steps, gradient steps, env steps learnt from
        self.fragments = 0  # learnt from, or stored in the replay, by this process; each counts once

    def stored(self, token: Token | Evaluated, steps: int) -> None:
        """Count a fragment that has arrived where it is learnt from, with ``steps`` new env steps.

        RunFailed when broken environments have cost too many of them.
        """
        if not self.meters.has_sampled:
            milestone("first_sample")
        self.sampled += steps
        self.meters.sampled(token, steps, self.version)
        for note in token.notes:
            events.report("warning", text=note)
        bad = self.meters.bad_transitions
        if bad > BAD_LEAST and bad > BAD_SHARE * self.sampled:
            last = f" The last: {token.notes[-1]}" if token.notes else ""
            raise RunFailed(f"{bad} of {self.sampled + bad} env steps were lost to environment errors.{last}")

    def learnt(self, result: UpdateResult | BatchUpdateResult, trained: int) -> None:
        """Count what one call of the learner did; ``trained``: env steps that it saw for the first time."""
        if not self.meters.has_learnt:
            milestone("first_update")
        self.updates += result["updates"]
        self.trained += trained
        self.version = result["version"]
        self.meters.learnt(result)

    def loaded(self, seconds: float) -> None:
        """Note that the learner is ready."""
        self.meters.loaded(seconds)
        milestone("learner_ready")

    def pushed(self, version: int) -> None:
        """Note a push outside of learning, as the one of weights that are to be scored."""
        self.version = version

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data; the version stands beside it."""
        counters = {"sampled": self.sampled, "updates": self.updates, "trained": self.trained}
        return counters | {"meters": self.meters.state()}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self.sampled, self.updates, self.trained = (facts[name] for name in ("sampled", "updates", "trained"))
        self.meters.load(facts["meters"])


def milestone(name: str) -> None:
    """Report that something has happened for the first time."""
    events.report("milestone", name=name, seconds=process.seconds_since_start())
