"""The loop of off-policy algorithms: workers → replay → learner, concurrently, at a fixed replay ratio.

Workers step environments or read files; ``runtime.pace`` decides which updates are due and what may be requested.
Fragments are consumed in completion order (inline: in the order of the calls, for reproducibility), and the next block of
batches is prepared during the current update.

The driver moves references; it never reads the fragments or batches that pass between worker, replay and learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from drl_cli.actors.part_records import UpdateResult
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.replay import intensity
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.runtime import pace
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.replay_shards import Drawn, Shards


def make(cluster: Cluster, pool: SamplePool, replay: Shards, learner: Handle, config: BufferedKeys) -> ReplayLoop:
    """Return the loop over these parts; ``replay``: Shards."""
    return ReplayLoop(cluster, pool, replay, learner, config)


class RunningUpdate(NamedTuple):
    """A call of the learner that is running."""

    call: Call
    drawn: Drawn  # what it learns from


class ReplayLoop:
    """``step`` issues all allowed calls and waits for one of them to complete."""

    def __init__(
        self, cluster: Cluster, pool: SamplePool, replay: Shards, learner: Handle, config: BufferedKeys
    ) -> None:
        """``replay``: Shards; ``learner``: handle; ``pool``: SamplePool."""
        self._cluster, self._pool, self._replay, self._learner, self._config = cluster, pool, replay, learner, config
        self._batch, self.intensity = config.train_batch_size, intensity(config)
        self._fragment = config.num_envs_per_worker * config.rollout_fragment_length
        per_fragment = self._fragment * self.intensity / self._batch
        self._chunk = max(1, min(config.updates_per_call, int(per_fragment)))
        self.ledger = Ledger(config)
        self.pace = pace.make(config, self.ledger)
        self._in_order = not cluster.is_remote or is_deterministic(config)  # whether timing must decide nothing
        # What the next updates are drawn from then arrives during the running ones.
        self._samples_first = is_deterministic(config)
        self._running: RunningUpdate | None = None
        self._prepared: Drawn | None = None
        self._adding = []  # (reference, token) of fragments on their way into the replay
        self._seen: list = []  # of stored fragments, what the learner's filters do not have yet
        self._observed: Call | None = None  # the newest call that sent such
        self._ready, self._started = None, False
        self.ledger.meters.read = self.pace.tally

    def start(self) -> None:
        """Let the learner build its graph; sampling can begin at once."""
        self._ready, self._started = self._learner.call("prepare"), True

    @property
    def sampled(self) -> int:
        """Env steps so far, as the pace counts them."""
        return self.pace.timesteps()

    @property
    def stored(self) -> int:
        """Env steps in the replay, all of its rows in use counted."""
        return self.pace.stored

    def intensity_got(self) -> float | None:
        """Return the transitions learnt from per env step sampled since learning began; None before."""
        return self.pace.achieved()

    @property
    def is_learning(self) -> bool:
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self) -> int:
        """Transitions learnt from, counted once for every update they were in."""
        return self.ledger.updates * self._batch

    def step(self, timeout: float = 0.25) -> None:
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._request_updates()
        self._request_samples()
        self._deal(self._cluster.wait(self._next(), timeout))
        self._pool.watch()

    def quiesce(self) -> None:
        """Deal with everything under way and ask for nothing new: afterwards no call is outstanding."""
        self._prepared = None
        while self._pending() or self._pool.outstanding:
            self._deal(self._cluster.wait(self._next(), 0.25))
            self._prepared = None
            self._pool.watch()
        self._observe()

    def settle(self) -> None:
        """Deal with the update that is running: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running.call])
        self._observe()

    def waiting(self) -> str:
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers are waiting for the learner to load"
        return self.pace.waiting(self._running is not None, self._pool.outstanding)

    def info(self) -> dict[str, Any]:
        """Return the fields of a result about the replay and the pace."""
        return {
            "training_intensity_asked": self.intensity,
            "training_intensity_got": self.intensity_got(),
            "replay_size": self._replay.size(),
            "replay_capacity": self._config.buffer_size,
            "replay_shards": len(self._replay.handles),
            **self.pace.info(),
        }

    def _pending(self) -> list[Call]:
        first = [self._running.call] if self._running is not None else []
        first += [reference for reference, _ in self._adding]
        if self._ready is not None:
            first.append(self._ready)
        if self._samples_first and self._pool.outstanding:
            return self._pool.references()
        return first + self._pool.references()

    def _next(self) -> list[Call]:
        """What to wait for: any of what is pending, or in order the first of it, whatever else is done by then."""
        return self._pending()[:1] if self._in_order else self._pending()

    def _request_samples(self) -> None:
        coming = self.ledger.updates + (self._running.drawn.batches if self._running else 0)
        count, among = self.pace.allowed(coming, self._pool.outstanding + len(self._adding))
        if count:
            # A worker must not see weights that a running update happens to have pushed already, or not yet.
            newest = self.ledger.version if self._in_order else None
            self._pool.request(count, max_version=newest, among=among)

    def _owed(self) -> int:
        under_way = self._running.drawn.batches if self._running is not None else 0
        under_way += self._prepared.batches if self._prepared is not None else 0
        return self.pace.owed(self.ledger.updates + under_way)

    def _request_updates(self) -> None:
        if self._ready is not None:
            return
        if self._prepared is None:
            self._prepare()
        if self._running is None and self._prepared is not None:
            drawn, self._prepared = self._prepared, None
            self._observe()
            self._running = RunningUpdate(self._learner.call("learn", drawn.block, drawn.batches, self.sampled), drawn)
            self._prepare()

    def _observe(self) -> None:
        """Send the learner what the stored fragments add to its filters: updates that are called afterwards use it."""
        if self._observed is not None and self._observed.done():
            self._observed.result()  # raises what went wrong
            self._observed = None
        if self._seen:
            self._observed, self._seen = self._learner.call("observe", self._seen), []

    def _prepare(self) -> None:
        owed = self._owed()
        if owed >= self._chunk:
            count = min(owed, self._config.updates_per_call)
            self._prepared = self._replay.sample(count, self.pace.complete)

    def _deal(self, done: Iterable[Call]) -> None:
        for reference in done:
            adding = next((entry for entry in self._adding if entry[0] is reference), None)
            if self._running is not None and reference is self._running.call:
                self._learnt(self._running.drawn, reference.result())
            elif reference is self._ready:
                self.ledger.loaded(reference.result())
                self._ready = None
            elif adding is not None:
                self._adding.remove(adding)
                self._added(*adding)
            else:
                self._take(reference)
        for worker in self._pool.lost_workers:
            self._replay.cut(worker)
        self._pool.lost_workers.clear()

    def _learnt(self, drawn: Drawn, result: UpdateResult) -> None:
        self._running = None
        self.ledger.learnt(result, 0)
        self._replay.learnt(drawn, result)

    def _take(self, reference: Call) -> None:
        taken = self._pool.take(reference)
        if taken is None:
            return
        token, columns = taken
        self.pace.arrived(token)
        if not token.steps:
            return  # a reader that has nothing left
        reference = self._replay.add(token, columns)
        if reference.done():
            self._added(reference, token)
        else:
            self._adding.append((reference, token))

    def _added(self, reference: Call, token: Token) -> None:
        steps = self._replay.added(token, reference)
        if not steps:
            return  # it was stored before, or its worker has been replaced
        if token.seen is not None:
            self._seen.append(token.seen)
        self.ledger.stored(token, steps)
        self.ledger.fragments += 1

    def state(self) -> dict[str, Any]:
        """Return the counters that a checkpoint keeps, as plain data."""
        return {
            "updates": self.ledger.updates,
            "shards": self._replay.state(),
            "meters": self.ledger.meters.state(),
            **self.pace.state(),
        }

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; without the replay's contents it fills anew before learning goes on."""
        self.ledger.updates, self.ledger.sampled = facts["updates"], facts["sampled"]
        self.pace.load(facts, with_replay)
        # Older checkpoints know of no shards: all that was sampled is in the only one.
        only = {"next": 0, "least": [None], "stored": [self.stored]}
        self._replay.restore(facts.get("shards", only), with_replay)
        self.ledger.meters.load(facts["meters"])
