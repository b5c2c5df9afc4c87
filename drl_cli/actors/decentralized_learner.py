"""DecentralizedLearner: the graph of one worker of DD-PPO, whose gradient steps it takes with the gradients of all workers.

All of them hold the same variables. A round learns once from the fragments of all workers, each of which computes the gradients
of minibatches of its own fragment. In the step ``number`` it first applies what the steps before it brought, the sums over
all workers divided by their env steps, then differentiates the loss of its minibatch ``number``. Sums are added in the order
of the workers and the optimizers are in the same state, so that the weights of all workers stay equal bit for bit although
none are sent. Used by ``decentralized_worker``, which loads this module, and with it TensorFlow.

Source: Wijmans et al. 2019, "DD-PPO: Learning Near-Perfect PointGoal Navigators from 2.5 Billion Frames" (arXiv 1911.00357),
section 3 and eq. 3.

Deviations:
- The mean is that over all steps: a worker that was cut off counts by the steps that it has. The paper averages the workers'.
- Advantages are standardized with the mean and deviation of those of all workers.
- Every worker divides its steps into the same number of minibatches, that of the worker with most of them.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli.actors.part_records import Begun, LearnerIdentity, RoundResult
from drl_cli.actors.session_state import Trained
from drl_cli.algorithms.ppo import ClippedSurrogateKeys
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.contracts import Handle
from drl_cli.errors import ConfigError
from drl_cli.experience.trajectories import join, padded_shape
from drl_cli.policies.filters import merged, moments, nothing
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import generator
from drl_cli.tf1.graph import BatchGraph, MinibatchSteps
from drl_cli.tf1.tensorflow import Tensor, function, tf
from drl_cli.tf1.towers import Sums

Arrays = dict[str, np.ndarray]
Answer = list[Any]  # gradients of the summed loss, [loss, count, statistics] float32, tops float32: as Sums has them
EPSILON = 1e-8  # beside the deviation of advantages, as in ``losses.policy_gradient.standardized``


class _Operations(NamedTuple):
    """What a session runs in a step."""

    minibatch: dict[str, Tensor]  # placeholders [B, …]
    gradients: Any  # of it: (a list, [loss, count, statistics], tops)
    sums: list[Tensor]  # placeholders of these of all workers, in one list
    applied: Any  # ({name: scalar}, whether it was finite)
    kl: Tensor  # placeholder: mean divergence of the last pass
    adapted: Tensor  # the coefficient of the penalty before it


class DecentralizedLearner:
    """The variables, and the rounds in which they are trained. ``prepare`` must come first."""

    _built: BatchGraph
    _steps: MinibatchSteps
    _operations: _Operations

    def __init__(
        self,
        config: ClippedSurrogateKeys,
        spec: PolicySpec,
        made_of: tuple[Any, Mapping[str, np.ndarray]],
        identity: LearnerIdentity,
        server: Handle,
        index: int,
    ) -> None:
        """See ``Trained``; ``made_of``: (the graph's dotted name, {name: array} of the first weights).

        ``index``: of the worker.
        """
        self._config, self._spec, self._index = config, spec, index
        self._trained = Trained(config, spec, *made_of, identity, server)
        self._seed, self._sequence = identity["seed"], sequence_length(config)
        self._size = config.sgd_minibatch_size // self._sequence  # rows of a minibatch at most
        self._estimates: dict[Any, Any] = {}  # shape of a batch -> (placeholders, fetches)
        self._rates: dict[str, Tensor] = {}
        self._names: list[list[str]] = [[], []]  # of the statistics and tops of a gradient
        self.state = self._trained.state
        self._forget()

    def _forget(self) -> None:
        """Have no round."""
        self._rows: Arrays = {}  # column -> [S, …] of the present fragment, only rows that have a valid step
        self._began = 0.0
        self._begun: Sequence[Begun] = ()
        self._minibatches, self._first = 1, 0  # of a pass; updates before the round
        self.taken: list[dict[str, float]] = []  # the statistics of every step of the round, oldest first

    def prepare(self) -> float:
        """Build and compile the graph without touching a weight; returns the seconds that it took."""
        began, config = time.perf_counter(), self._config
        streams, steps = config.num_envs_per_worker, config.rollout_fragment_length
        whole = config.batch_mode == "complete_episodes"
        shape = padded_shape(streams, steps, self._sequence, streams * steps if whole else None)

        def add(built: Any) -> None:
            if not isinstance(built, BatchGraph) or built.steps is None:
                raise ConfigError("The graph of this algorithm has no steps for learners without a centre.")
            self._built, self._steps = built, built.steps
            self._rates = {name: tf.placeholder(tf.float32, [], name=f"rate/{name}") for name in built.rates}
            self._operations = self._added(self._compiled_estimate(shape)[1][0])

        def warm() -> None:
            made = self._operations
            self._estimated({name: _zeros(at) for name, at in self._compiled_estimate(shape)[0].items()})
            feeds: dict[Any, Any] = {at: _zeros(at) for at in (*made.minibatch.values(), *made.sums)}
            self._trained.run([made.gradients, made.applied], feeds, self._rates, 0)

        self._trained.open(add, warm)
        return time.perf_counter() - began

    # -- a round ------------------------------------------------------------------------------------------------

    def begin(self, columns: Arrays, env_steps: int, factor: float = 1.0) -> Begun:
        """Begin a round with a fragment; ``env_steps`` of the run place rates on their schedules, times ``factor``."""
        self._trained.scale_rates(factor)
        self._forget()
        self._began, self._env_steps, self._first = time.perf_counter(), env_steps, self._trained.updates
        config = self._config
        steps = 0 if config.batch_mode == "complete_episodes" else config.rollout_fragment_length
        batch = join([columns], config.gamma, self._sequence, self._spec.stepwise, least_steps=steps)
        rows, stats = self._estimated(batch)
        mask = rows["mask"].reshape(len(rows["mask"]), -1) > 0
        present = mask.any(axis=1)
        self._rows = {name: column[present] for name, column in rows.items()}
        seen = moments(rows["advantage"].reshape(mask.shape)[mask])
        return Begun(int(present.sum()), seen, {name: float(value) for name, value in stats.items()})

    def plan(self, begun: Sequence[Begun]) -> None:
        """Take note of what all workers of the round begin with, in their order. After the first step it changes nothing."""
        if self.taken:
            return
        self._begun = begun
        self._minibatches = math.ceil(max(one.rows for one in begun) / self._size)
        every = nothing(())
        for one in begun:
            every = merged(every, one.advantages)
        deviation = math.sqrt(float(every.m2) / max(1.0, every.count))
        raw, mask = self._rows["advantage"], self._rows["mask"]
        standardized = (raw - float(every.mean)) / (deviation + EPSILON) * mask
        self._standardized = standardized.astype(np.float32)

    def step(self, number: int, *answers: Answer) -> Answer | None:
        """Apply ``answers``, those of step ``number`` - 1 of all workers; returns the Answer of step ``number``.

        The first step of a round, and the first one after the loss of a worker, have no answers to apply; one after the last
        minibatch has no Answer. Raises Diverged when a loss or gradient is not finite; that update has not been applied.
        """
        if answers:
            self._take(answers)
        if number != len(self.taken):
            raise RuntimeError(f"step {number} was called after {len(self.taken)} steps")
        if number == self._config.num_sgd_iter * self._minibatches:
            return None
        made = self._operations
        feeds: dict[Any, Any] = {made.minibatch[name]: column for name, column in self._minibatch_of(number).items()}
        found, added, tops = self._trained.run(made.gradients, feeds, self._rates, self._env_steps)
        return [*found, added, tops]

    def close(self, seen: Sequence[Any]) -> RoundResult:
        """End the round after its last step, and push the weights; ``seen``: a list of ``Token.seen`` of all workers."""
        if not self.taken:
            raise RuntimeError("a round without steps")
        last = self.taken[-self._minibatches :]
        stats = {name: sum(one[name] for one in last) / len(last) for name in last[0] if name != "ratio_deviation"}
        stats |= {f"first_{name}": self.taken[0][name] for name in ("kl", "clip_fraction", "ratio_deviation")}
        total = sum(one.advantages.count for one in self._begun)
        for name in self._begun[0].stats:
            stats[name] = sum(one.stats[name] * one.advantages.count for one in self._begun) / total
        made = self._operations
        fetches = [made.adapted, self._rates]
        stats["cur_kl_coeff"], now = self._trained.run(fetches, {made.kl: stats["kl"]}, self._rates, self._env_steps)
        stats |= {"cur_lr": now["lr"], "entropy_coeff": now["entropy_coeff"]}
        self._trained.observe(seen)  # after learning: fragments were filtered with the statistics that acted
        self._trained.push()
        result: RoundResult = {
            "updates": len(self.taken),
            "stats": {name: float(value) for name, value in stats.items()},
            "seconds": time.perf_counter() - self._began,
            "version": self._trained.version,
            "steps": int(total),
            "digest": self._digest(),
        }
        self._forget()
        return result

    def _digest(self) -> int:
        """Return a checksum of all variables, which is the same in workers whose variables are equal bit for bit."""
        found = 0
        for _, array in sorted(self.state().items()):
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
        return found

    # -- states -------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Version of the present weights."""
        return self._trained.version

    def load(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Continue from ``state``; see ``Trained``."""
        self._trained.load(arrays, version)

    # -- the graph ----------------------------------------------------------------------------------------------

    def _added(self, rows: Mapping[str, Tensor]) -> _Operations:
        """Add the operations of a step for minibatches of ``rows`` {column: [S, …]}."""
        minibatch = {
            name: tf.placeholder(column.dtype, [self._size, *column.shape[1:]]) for name, column in rows.items()
        }
        gradients = self._function(self._differentiated)(minibatch, self._rates)
        sums = [tf.placeholder(part.dtype, part.shape) for part in (*gradients[0], *gradients[1:])]
        applied = self._function(self._apply)(sums, self._rates)
        kl = tf.placeholder(tf.float32, [])
        return _Operations(minibatch, gradients, sums, applied, kl, self._function(self._steps.adapt)(kl))

    def _function(self, body: Any) -> Any:
        return function(body, jit_compile=True if self._config.xla else None, autograph=False)

    def _differentiated(self, minibatch: Mapping[str, Tensor], rates: Mapping[str, Tensor]) -> tuple:
        found, sums = self._steps.gradients(dict(minibatch), rates)
        self._names = [sorted(sums.stats), sorted(sums.tops)]
        added = tf.stack([sums.loss, sums.count, *(sums.stats[name] for name in self._names[0])])
        return found, added, tf.stack([sums.tops[name] for name in self._names[1]])

    def _apply(self, given: Sequence[Tensor], rates: Mapping[str, Tensor]) -> Any:
        *gradients, added, tops = given
        loss, count, *stats = tf.unstack(added)
        largest = dict(zip(self._names[1], tf.unstack(tops), strict=True))
        return self._steps.apply(
            gradients, Sums(loss, dict(zip(self._names[0], stats, strict=True)), largest, count), rates
        )

    def _take(self, answers: Sequence[Answer]) -> None:
        """Take one step with the sums of ``answers``, added in their order."""
        *found, tops = answers[0]
        for more in answers[1:]:
            found = [one + other for one, other in zip(found, more, strict=False)]
            tops = np.maximum(tops, more[-1])
        feeds: dict[Any, Any] = dict(zip(self._operations.sums, [*found, tops], strict=True))
        stats, finite = self._trained.run(self._operations.applied, feeds, self._rates, self._env_steps)
        self._trained.made(int(finite), finite)
        self.taken.append({name: float(value) for name, value in stats.items()})

    def _minibatch_of(self, number: int) -> Arrays:
        """Return the rows of minibatch ``number``, {column: [B, …]}; the mask of what fills it up is 0."""
        turn, place = divmod(number, self._minibatches)
        rows = len(self._rows["mask"])
        order = np.arange(rows)
        if self._config.shuffle_sequences:
            order = generator(self._seed, "minibatch", self._index, self._first, turn).permutation(rows)
        least, larger = divmod(rows, self._minibatches)
        start = place * least + min(place, larger)
        chosen = np.zeros(self._size, np.int64)
        inside = order[start : start + least + (place < larger)]
        chosen[: len(inside)] = inside
        columns = self._rows | {"advantage": self._standardized}
        found = {name: column[chosen] for name, column in columns.items()}
        found["mask"][len(inside) :] = 0.0
        return found

    def _estimated(self, batch: Arrays) -> tuple[Arrays, dict[str, np.float32]]:
        shape = (*batch["mask"].shape, len(batch["end_at"]))
        placeholders, fetches = self._compiled_estimate(shape)
        feeds: dict[Any, Any] = {placeholder: batch[name] for name, placeholder in placeholders.items()}
        return self._trained.run(fetches, feeds, {}, 0)

    def _compiled_estimate(self, shape: tuple[int, int, int]) -> tuple[dict[str, Tensor], Any]:
        """Return (the placeholders of a batch of ``shape`` (E, T, M), what ``MinibatchSteps.estimate`` makes of it)."""
        if shape not in self._estimates:
            streams, steps, ends = shape
            lead = {"step": (streams, steps), "end": (ends,), "sequence": (streams, steps // self._sequence)}
            with self._trained.graph.as_default(), self._trained.device():
                batch = {
                    name: tf.placeholder(dtype, (*lead[kind], *trailing))
                    for name, (trailing, dtype, kind) in self._built.columns.items()
                }
                self._estimates[shape] = (batch, self._function(self._steps.estimate)(batch))
        return self._estimates[shape]


def _zeros(placeholder: Tensor) -> np.ndarray:
    return np.zeros(placeholder.shape.as_list(), placeholder.dtype.as_numpy_dtype)
