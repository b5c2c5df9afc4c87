"""Reports to screens while an iteration runs: the event ``progress``, a few times a second, with what the run waits for."""

from __future__ import annotations

import time
from typing import Any

from drl_cli import events
from drl_cli.algorithms import table
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.served_input import is_served
from drl_cli.runtime import machine
from drl_cli.runtime.assembly import RunSetup
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.bottleneck import Bottleneck, Setting
from drl_cli.runtime.loop_kinds import Loop

EVERY_S = 0.25
RATE_S = 2.0  # over which rates are measured


class Progress:
    """Reports how far a run is; ``report`` is called after every step of its loop."""

    def __init__(self, setup: RunSetup, loop: Loop, pool: SamplePool, began: float) -> None:
        """``began``: when the run did, in seconds of the monotonic clock."""
        config = setup.config
        self._config, self._loop, self._pool, self._began = config, loop, pool, began
        self._with_tensorflow, self._only_reads = setup.row.tensorflow, reads_only(config)
        self._capacity = config.buffer_size if isinstance(config, BufferKeys) else None
        kind = Setting(
            table.loop_name(setup.row), config.num_workers, machine.cores(), self._only_reads, is_served(config)
        )
        self._bottleneck = Bottleneck(kind)
        self._last = 0.0
        self._mark = (time.monotonic(), loop.sampled, loop.ledger.updates)  # from which rates are measured

    def report(self, iteration: int, evaluate_s: float, save_s: float) -> None:
        """Report, unless that was done just before.

        ``evaluate_s``, ``save_s``: seconds so far in which evaluations and checkpoints held everything else up.
        """
        now = time.monotonic()
        if now - self._last < EVERY_S:
            return
        self._last = now
        loop, ledger, meters = self._loop, self._loop.ledger, self._loop.ledger.meters
        since, steps, updates = self._mark
        elapsed = max(now - since, 1e-9)
        if elapsed >= RATE_S:
            self._mark = (now, loop.sampled, ledger.updates)
        spent = meters.spent | {"evaluate": evaluate_s, "save": save_s} if meters.has_learnt else None
        self._bottleneck.look(now, spent, self._pool.healthy)
        events.report(
            "progress",
            seconds=now - self._began,
            env_steps=loop.sampled,
            env_steps_per_s=(loop.sampled - steps) / elapsed,
            updates=ledger.updates,
            updates_per_s=(ledger.updates - updates) / elapsed,
            episodes=meters.episodes,
            episode_reward_mean=meters.reward_mean(),
            replay_size=loop.stored,
            replay_capacity=self._capacity,
            weight_version=ledger.version,
            weight_lag=meters.lag,
            waiting=loop.waiting(),
            bottleneck=self._bottleneck.text,
            training_iteration=iteration,
            workers=self._pool.healthy if self._config.num_workers else 0,  # 0: the only one is in this process
            read=self._read(),
            only_reads=self._only_reads,
            learner="learning" if loop.is_learning else self._loading(),
        )

    def _read(self) -> dict[str, Any] | None:
        read = self._loop.ledger.meters.read
        return None if read is None else read.info()

    def _loading(self) -> str:
        """What the learner does before its own events ``learner``, which do not come from another process."""
        if self._config.learner_actor:
            return "starting in a process of its own"
        return "loading TensorFlow" if self._with_tensorflow else "starting"
