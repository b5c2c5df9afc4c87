"""ReplayBuffer: stores fragments in stream order and returns staged blocks of transitions.

A plain class, in the driver's process or, with ``num_replay_shards``, in Ray actors. Priorities are those of
Schaul et al. 2016, Prioritized Experience Replay (arXiv:1511.05952). Deviations: importance weights are normalised by the
smallest probability in a block (and in other shards' blocks) instead of that in the whole replay, which may never be
sampled; beta is annealed over env steps stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli import checkpoints
from drl_cli.actors.hindsight_goals import relabelling
from drl_cli.config.sections.deterministic import sources
from drl_cli.config.sections.off_policy import BufferedKeys, OffPolicyKeys
from drl_cli.config.sections.replay import (
    ReplayKeys,
    SequenceReplay,
    is_prioritized,
    learns_returns,
    learnt_steps,
    relabels_goals,
    shards,
    span,
)
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.errors import CheckpointError, ConfigError
from drl_cli.experience import hindsight
from drl_cli.experience.columns import Token
from drl_cli.experience.hindsight import Hindsight
from drl_cli.experience.monte_carlo_returns import WholeReturns
from drl_cli.experience.priorities import Priorities
from drl_cli.experience.ring_buffer import Ring
from drl_cli.experience.sequences import Sequences
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import generator, set_state, state_of
from drl_cli.schedules import value_at

Storage = Ring | WholeReturns | Sequences | Hindsight
ROWS = 256  # of a replay that is made to be measured


class ReplayBuffer:
    """Replay buffer, or one shard of it, of n-step transitions sampled uniformly or by priority."""

    def __init__(
        self,
        config: BufferedKeys,
        spec: PolicySpec,
        seed: int,
        index: int = 0,
        agents: int = 1,
        env: EnvSetup | None = None,
    ) -> None:
        """``config``: one with BufferKeys; ``spec``: PolicySpec; ``index``: which of ``num_replay_shards`` this is.

        ``agents``: of each environment for which the policy may act: so many streams come from there. ``env``: one with
        ``spaces``, for ``hindsight_goals``; an environment is made that says what other goals bring.

        ConfigError when the shard's share of buffer_size is too small for its environments.
        """
        self._config, self._index, self._shards = config, index, shards(config)
        capacity = config.buffer_size // self._shards
        streams = math.ceil(sources(config) / self._shards) * config.num_envs_per_worker * agents
        self._least = 2 * streams * (span(config) + 1)
        _expect_room(
            config, self._shards, capacity, streams * (spec.frames + span(config) + config.rollout_fragment_length)
        )
        self._rng = generator(seed, "replay", index)
        self._ring: Storage = _storage(config, spec, capacity)
        if isinstance(config, OffPolicyKeys) and relabels_goals(config) and isinstance(self._ring, Ring):
            self._ring = Hindsight(self._ring, relabelling(config, env), self._rng)
        self._in_sequences = bool(spec.state)
        self._priorities = None
        ring = self._ring
        if isinstance(config, ReplayKeys) and config.prioritized_replay and not isinstance(ring, WholeReturns):
            self._priorities = Priorities(ring, config.prioritized_replay_alpha, config.prioritized_replay_eps)
        self._stored = 0  # env steps
        self._seen = {}  # worker -> (incarnation, sequence) of its newest fragment

    def add(self, token: Token, columns: dict[str, np.ndarray]) -> int:
        """Store a fragment; returns the env steps stored, 0 for one that has been seen or is of a dead incarnation.

        Raises Diverged when the fragment brings priorities that are not finite.
        """
        meta = token.meta
        mark = (meta.incarnation, meta.sequence)
        before = self._seen.get(meta.worker)
        if before is not None and mark <= before:
            return 0
        if before is not None and mark != (before[0], before[1] + 1):
            self._ring.cut(meta.worker)  # a fragment between them was lost: their steps do not follow one another
        self._seen[meta.worker] = mark
        steps = int(columns["steps"].sum()) if "steps" in columns else columns["reward"].size
        self._stored += steps
        if self._priorities is None:
            self._ring.add(meta.worker, columns)
        else:
            masses = self._priorities.masses(columns["priority"]) if "priority" in columns else None
            self._priorities.follow(self._ring.add(meta.worker, columns), masses)
        return steps

    def size(self) -> int:
        """Return the rows in use: env steps and the last observation of each episode."""
        return len(self._ring)

    def has_batch(self) -> bool:
        """Whether there is enough to draw batches from: of several policies one may have had few turns."""
        return len(self._ring) >= max(self._config.train_batch_size, self._least)

    def memory(self) -> int:
        """Return the bytes that the rows in use take, without what is kept beside them for drawing."""
        return self._ring.nbytes()

    def sample(self, count: int, least: float | None = None) -> tuple[dict[str, np.ndarray], float | None]:
        """Return (block {column: array [updates_per_call, B, …]}, smallest probability); ``count`` batches of it are drawn.

        For recurrent policies a row of a batch is a sequence (``experience.columns``). The rest of the block repeats the first
        batch: shapes are static, and only the first ``count`` are learnt from. With
        priorities the block also has ``weight`` and ``serial`` (see ``experience.columns``), and the smallest probability with
        which one of its rows was drawn is returned, else None. ``least`` is that of the newest blocks of all other shards:
        no weight exceeds that of a row with the smaller of the two, whose weight is 1.
        """
        config = self._config
        most, size = config.updates_per_call, config.train_batch_size
        window = (config.n_step if isinstance(config, ReplayKeys) else 1, config.gamma, self._rng)
        smallest = None
        if self._priorities is None:
            drawn = self._ring.draw(count * size, *window)
        else:
            drawn, serial, share = self._priorities.draw(count, size, *window)
            smallest = float(share.min())
            drawn |= {"weight": self._weights(share, smallest, least), "serial": serial}
        block = {name: _staged(values, count, most, not self._in_sequences) for name, values in drawn.items()}
        return block, smallest

    def prioritize(self, serial: np.ndarray, priority: np.ndarray) -> None:
        """Give rows new priorities: ``serial`` as in a block and |TD error| ``priority``, both flat; the last one counts.

        Rows that have been overwritten since they were drawn are left alone. Raises Diverged when one is not finite.
        """
        if self._priorities is None:
            raise ValueError("priorities for a replay without prioritized_replay")
        self._priorities.set(serial, priority)

    def beta(self) -> float:
        """Return the exponent of the importance weights now: annealed over the env steps that all shards have stored."""
        config = self._config
        if not isinstance(config, ReplayKeys):
            raise ValueError("importance weights for a replay without prioritized_replay")
        end = (config.prioritized_replay_beta_annealing_timesteps, config.final_prioritized_replay_beta)
        # Fragments spread evenly over the shards: this one's steps stand for those of all.
        return value_at(((0, config.prioritized_replay_beta), end), self._stored * self._shards)

    def _weights(self, share: np.ndarray, smallest: float, least: float | None) -> np.ndarray:
        """Return float32 importance weights of rows drawn with the probabilities ``share``; Schaul et al. 2016, section 3.4."""
        reference = smallest if least is None else min(smallest, float(least))
        return ((share / reference) ** -self.beta()).astype(np.float32)

    def cut(self, worker: int) -> None:
        """End the streams of ``worker``: it was lost, or begins anew."""
        self._ring.cut(worker)
        if self._priorities is not None:
            self._priorities.follow()

    def forget_streams(self) -> None:
        """End all streams and expect new ones: the workers begin anew."""
        self._seen.clear()
        for worker in self._ring.workers():
            self.cut(worker)

    def save(self, folder: Path, compress: bool, check: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Write ``replay-<index>.safetensors`` into ``folder``; returns the facts that ``load`` needs beside it.

        ``check`` is called again and again; what it raises ends the writing.
        """
        arrays, facts = self.state()
        checkpoints.write_arrays(folder / f"replay-{self._index}.safetensors", arrays, compress, check)
        return facts

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): the contents, and what ``load`` needs beside them."""
        arrays, ring = self._ring.state()
        if self._priorities is not None:
            arrays |= self._priorities.state()
        return arrays, self.facts() | {"ring": ring}

    def facts(self) -> dict[str, Any]:
        """Return what is kept even where the contents are not: the random state and which fragments were seen."""
        seen = [[worker, *mark] for worker, mark in sorted(self._seen.items())]
        facts = {"rng": state_of(self._rng), "seen": seen}
        if self._priorities is None:
            return facts
        return facts | {"stored": self._stored, "priorities": self._priorities.facts()}

    def load(self, arrays: Mapping[str, np.ndarray] | None, facts: Mapping[str, Any]) -> None:
        """Continue from ``save``; with ``arrays`` None only from its ``facts``.

        What was saved without priorities goes on with them as if all of it were new, and the other way round they are
        left out. CheckpointError when it does not fit.
        """
        try:
            set_state(self._rng, facts["rng"])
            self._seen = {worker: (incarnation, sequence) for worker, incarnation, sequence in facts["seen"]}
            if arrays is not None:
                self._ring.load(arrays, facts["ring"])
            if self._priorities is not None:
                self._stored = int(facts.get("stored", 0))
                self._priorities.load(arrays, facts.get("priorities"))
        except KeyError as error:
            raise CheckpointError(f"The replay does not fit this run: {error} is missing.") from error
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"The replay does not fit this run: {error}.") from error


def bytes_per_step(config: BufferedKeys, spec: PolicySpec) -> float:
    """Return the bytes of memory that one env step takes in a replay of ``config``, observations counted uncompressed."""
    store = _storage(config.model_copy(update={"compress_observations": False}), spec, ROWS)
    tree = 2 * 8 if is_prioritized(config) else 0  # a leaf and an inner node of the sum tree
    return store.reserved() / ROWS + tree + (hindsight.BYTES if relabels_goals(config) else 0)


def _storage(config: BufferedKeys, spec: PolicySpec, capacity: int) -> Ring | WholeReturns | Sequences:
    """Return the Ring of ``capacity`` rows, or what is drawn over one: Sequences, WholeReturns."""
    dtypes = (spec.obs_dtype, spec.action.dtype)
    backwards = bool(spec.state)
    ring = Ring(
        capacity, spec.obs_shape, spec.action.shape, dtypes, spec.frames, config.compress_observations, backwards
    )
    if learns_returns(config):
        return WholeReturns(ring, config.gamma)
    if not spec.state:
        return ring
    if not isinstance(config, SequenceReplay):
        raise ConfigError(
            "a recurrent policy with a replay buffer needs the keys of sequences: model.max_seq_len, burn_in"
        )
    return Sequences(ring, config.burn_in, learnt_steps(config), () if config.zero_init_states else spec.state)


def _expect_room(config: BufferedKeys, parts: int, capacity: int, rows: int) -> None:
    """``rows``: of what the streams of one shard have under way."""
    least, streams = 2 * rows, math.ceil(sources(config) / parts) * config.num_envs_per_worker
    if capacity >= least:
        return
    shared = f" and {parts} shards" if parts > 1 else ""
    raise ConfigError(
        f"buffer_size {config.buffer_size} is too small: {streams} environments with fragments of "
        f"{config.rollout_fragment_length} steps{shared} need at least {least * parts}."
    )


def _staged(values: np.ndarray, count: int, most: int, flat: bool) -> np.ndarray:
    """Return ``values`` [count · B, …] as [most, B, …], filled up with the first batch; ``flat``: all but images as vectors."""
    values = values.reshape(count, -1, *values.shape[1:])
    if count < most:
        values = np.concatenate([values, np.broadcast_to(values[:1], (most - count, *values.shape[1:]))])
    is_image = values.ndim == 5
    return values if not flat or is_image or values.ndim == 2 else values.reshape(*values.shape[:2], -1)
