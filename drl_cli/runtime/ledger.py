"""What a loop counts and reports, whoever waits for whom: env steps, updates, first times, steps lost to environment errors.

Used by the loops; that over a replay, which counts what the replay has stored, takes the reports alone.
"""

from drl_cli import events, process
from drl_cli.errors import RunFailed
from drl_cli.runtime.meters import Meters

BAD_SHARE, BAD_LEAST = 0.01, 100  # more lost steps than this end the run


class Ledger:
    """The counters of a run, and its meters."""

    def __init__(self, config):
        self.meters = Meters(config)
        self.sampled = self.updates = self.trained = 0  # env steps, gradient steps, env steps learnt from

    def took(self, token):
        """Count a fragment of a worker; RunFailed when environment errors have cost too much of what was sampled."""
        if not self.meters.has_sampled:
            milestone("first_sample")
        self.sampled += token.steps
        self.meters.sampled(token, token.steps)
        pass_on(token, self.meters.bad_transitions, self.sampled)

    def learnt(self, result, trained):
        """Count what one call of the learner did; ``trained``: env steps that it saw for the first time."""
        if not self.meters.has_learnt:
            milestone("first_update")
        self.updates += result["updates"]
        self.trained += trained
        self.meters.learnt(result)

    def loaded(self, seconds):
        """Note that the learner is ready."""
        self.meters.loaded(seconds)
        milestone("learner_ready")

    def state(self):
        """Return what a checkpoint keeps, as plain data."""
        counters = {"sampled": self.sampled, "updates": self.updates, "trained": self.trained}
        return counters | {"meters": self.meters.state()}

    def load(self, facts):
        """Continue from ``state``."""
        self.sampled, self.updates, self.trained = (facts[name] for name in ("sampled", "updates", "trained"))
        self.meters.load(facts["meters"])


def pass_on(token, bad, sampled):
    """Tell the user what broke in a fragment; RunFailed when ``bad`` of ``sampled`` + ``bad`` env steps are too many."""
    for note in token.notes:
        events.report("warning", text=note)
    if bad > BAD_LEAST and bad > BAD_SHARE * sampled:
        last = f" The last: {token.notes[-1]}" if token.notes else ""
        raise RunFailed(f"{bad} of {sampled + bad} env steps were lost to environment errors.{last}")


def milestone(name):
    """Report that something has happened for the first time."""
    events.report("milestone", name=name, seconds=process.seconds_since_start())
