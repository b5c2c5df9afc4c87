"""The loop of evolution strategies: a round of perturbed policies is tried, all of it, then one step is made.

A round is closed by index, not by arrival: which directions belong to it is known before the first episode begins, and every
one of them counts, however slow it is or long its episodes. A round of the quickest would be one of short episodes.
Directions are handed out in blocks, as many as a worker plays side by side; a block comes back whole, both sides of every
direction. A worker that dies costs its block's episodes, and any free worker plays them again: with the same outcome, since a
block and the weights say all. A block that takes long comes back in calls, each of which shows that the worker is alive.

With ``train_batch_size`` further directions join a round whose episodes were short; how many depends on those alone.

Sources: Salimans et al. 2017 (arXiv 1703.03864), algorithm 2; RLlib 1.0.1 (``agents/es/es.py``), which closes by arrival.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping
from typing import Any

from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.evolution.directions import Block, Evaluated
from drl_cli.evolution.keys import ESConfig, EvolutionKeys, pairs, pairs_side_by_side
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.replay_shards import Shards


def make(
    cluster: Cluster, pool: WorkerPool, replay: Shards | None, learner: Handle, config: EvolutionKeys
) -> EvolutionLoop:
    """Return the loop over these parts; ``replay`` is not used."""
    return EvolutionLoop(cluster, pool, learner, config)


class EvolutionLoop:
    """``step`` does what can be done and waits for one thing to happen."""

    def __init__(self, cluster: Cluster, pool: WorkerPool, learner: Handle, config: EvolutionKeys) -> None:
        """``learner``: handle of an EvolutionLearner; ``pool``: WorkerPool of EvolutionWorkers."""
        self._cluster, self._pool, self._learner, self._config = cluster, pool, learner, config
        self._workers = set(range(max(1, config.num_workers)))
        self._ready, self._started = None, False
        self._running, self._learnt_steps = None, 0  # reference of the learner's call, env steps that it learns from
        self.ledger = Ledger(config)
        self._round = None  # the Round that is being played
        self._playing = {}  # {worker index: its Block}
        self._floor = 1  # version of the weights that the round is played with; newer ones are the same weights
        self._unperturbed = collections.deque(maxlen=config.report_length)

    def start(self) -> None:
        """Ask the learner whether it is ready; sampling can begin at once."""
        self._ready, self._started = self._learner.call("prepare"), True

    @property
    def sampled(self) -> int:
        """Env steps sampled."""
        return self.ledger.sampled

    @property
    def stored(self) -> int:
        """Env steps of the round in hand."""
        return self._round.steps if self._round is not None else 0

    @property
    def is_learning(self) -> bool:
        """Whether the learner is ready."""
        return self._started and self._ready is None

    def trained(self) -> int:
        """Env steps learnt from."""
        return self.ledger.trained

    def step(self, timeout: float = 0.25) -> None:
        """Hand out blocks, wait up to ``timeout`` s for something to be done, and deal with it."""
        if self._round is None and self._running is None:
            self._round = Round(self.ledger.updates, self._config)
        self._go_on(timeout)

    def quiesce(self) -> None:
        """Complete the round that has been begun and learn from it: afterwards no call is outstanding."""
        while self._round is not None or self._pending():
            self._go_on(0.25)

    def settle(self) -> None:
        """Deal with the step that is being made: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running])

    def waiting(self) -> str:
        """Return in a few words what waits for what, or an empty string."""
        if self._running is not None:
            return "workers are waiting for the learner"
        return "" if self._pool.outstanding else "learner is waiting for episodes"

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result."""
        scores = self._unperturbed
        return {"unperturbed_reward_mean": sum(scores) / len(scores) if scores else None}

    def state(self) -> dict[str, Any]:
        """Return the counters that a checkpoint keeps, as plain data."""
        return self.ledger.state() | {"unperturbed": list(self._unperturbed)}

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self.ledger.load(facts)
        self._unperturbed.extend(facts["unperturbed"])
        self._floor = self.ledger.version

    def _go_on(self, timeout: float) -> None:
        self._hand_out()
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()
        self._take_back()
        self._learn()

    def _pending(self) -> list[Call]:
        last = [reference for reference in (self._running, self._ready) if reference is not None]
        return self._pool.references() + last

    def _hand_out(self) -> None:
        """Give each idle worker the next block."""
        while self._round is not None and self._round.waiting:
            block = self._round.waiting[0]
            worker = self._pool.ask(self._workers - self._playing.keys(), self._floor, None, block)
            if worker is None:
                return
            self._round.waiting.pop(0)
            self._playing[worker] = block

    def _deal(self, done: Iterable[Call]) -> None:
        for reference in done:
            if reference is self._running:
                self._running, result = None, reference.result()
                self.ledger.learnt(result, self._learnt_steps)
                self._floor = result["version"]
            elif reference is self._ready:
                self._ready = None
                self.ledger.loaded(reference.result())
            else:
                self._take(reference)
        self._take_back()

    def _take(self, reference: Call) -> None:
        taken = self._pool.take(reference)
        if taken is None or self._round is None:
            return
        token, results = taken
        if not isinstance(token, Evaluated):
            raise TypeError(f"a worker of this loop brings Evaluated, not {type(token).__name__}")
        self.ledger.stored(token, token.steps)
        self.ledger.fragments += 1
        self._round.took(token, results)
        if not token.whole:
            # Only its own worker has the episodes that are under way.
            self._pool.ask({token.meta.worker}, self._floor, None, token.block)
            return
        del self._playing[token.meta.worker]
        self._unperturbed.extend(token.unperturbed)

    def _take_back(self) -> None:
        """Let the blocks of workers that were lost be played again."""
        for worker in self._pool.lost_workers:
            block = self._playing.pop(worker, None)
            if block is not None and self._round is not None:
                self._round.again(block)
        self._pool.lost_workers.clear()

    def _learn(self) -> None:
        if self._round is None or self._running is not None or self._ready is not None:
            return
        if not self._round.is_complete():
            return
        finished, self._round = self._round, None
        seen, results = finished.close()
        self._learnt_steps = finished.steps
        self._running = self._learner.call("learn", self.sampled, seen, *results)


class Round:
    """What one step is made of: blocks that wait for a worker, are played, or are done."""

    def __init__(self, number: int, config: EvolutionKeys) -> None:
        """``number``: steps made before; ``config``: of an algorithm."""
        self._number, self._least = number, config.train_batch_size if isinstance(config, ESConfig) else 0
        self._size = pairs_side_by_side(config)
        self._directions = 0
        self.waiting = []  # Blocks, in order
        self._done = {}  # {Block: results}
        self._seen = {}  # {Block: list of Token.seen}
        self._steps = {}  # {Block: env steps}
        self._open = 0  # blocks that are not done
        self._join(pairs(config))

    @property
    def steps(self) -> int:
        """Env steps of the round so far."""
        return sum(self._steps.values())

    def _join(self, directions: int) -> None:
        end = self._directions + directions
        while self._directions < end:
            block = Block(self._number, self._directions, min(self._size, end - self._directions))
            self.waiting.append(block)
            self._directions += block.count
            self._open += 1

    def took(self, token: Evaluated, results: Call) -> None:
        """Take what a call brought of a block; ``results``: reference to them, of the last one."""
        block = token.block
        self._seen.setdefault(block, []).append(token.seen)
        self._steps[block] = self._steps.get(block, 0) + token.steps
        if token.whole:
            self._done[block] = results
            self._open -= 1

    def again(self, block: Block) -> None:
        """Forget what was played of ``block``: it waits once more, in its place."""
        self._seen.pop(block, None)
        self._steps.pop(block, None)
        self.waiting = sorted([*self.waiting, block])

    def is_complete(self) -> bool:
        """Whether all blocks are done; where they had too few env steps, more join, and it is not."""
        if self._open:
            return False
        missing = self._least - self.steps
        if missing > 0:
            self._join(max(1, math.ceil(missing * self._directions / max(1, self.steps))))
        return missing <= 0

    def close(self) -> tuple[list[Any], list[Call]]:
        """Return (what filters have seen, results), both in the order of the blocks."""
        order = sorted(self._done)
        return [seen for block in order for seen in self._seen[block]], [self._done[block] for block in order]
