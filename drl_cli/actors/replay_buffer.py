"""ReplayBuffer: stores fragments in stream order and hands out staged blocks of transitions.

In the driver's process on one machine, a Ray actor when asked for; a plain class either way.
"""

import numpy as np

from drl_cli import checkpoint
from drl_cli.data.randomness import generator, set_state, state_of
from drl_cli.data.ring import Ring
from drl_cli.errors import CheckpointError, ConfigError


class ReplayBuffer:
    """Uniform replay of n-step transitions."""

    def __init__(self, config, spec, seed, index=0):
        """``config`` with buffer_size, n_step, gamma, train_batch_size, updates_per_call; ``spec``: PolicySpec."""
        streams = max(1, config.num_workers) * config.num_envs_per_worker
        least = 2 * streams * (config.rollout_fragment_length + config.n_step + 1)
        if config.buffer_size < least:
            raise ConfigError(
                f"buffer_size {config.buffer_size} is too small: {streams} environments with fragments of "
                f"{config.rollout_fragment_length} steps need at least {least}."
            )
        self._config, self._index = config, index
        self._ring = Ring(config.buffer_size, spec.obs_shape, (spec.action.size,))
        self._rng = generator(seed, "replay", index)
        self._seen = {}  # worker -> (incarnation, sequence) of its newest fragment

    def add(self, token, columns):
        """Store a fragment; returns the env steps stored, 0 for one that has been seen or is of a dead incarnation."""
        meta = token.meta
        mark = (meta.incarnation, meta.sequence)
        before = self._seen.get(meta.worker)
        if before is not None and mark <= before:
            return 0
        if before is not None and mark != (before[0], before[1] + 1):
            self._ring.cut(meta.worker)  # a fragment between them was lost: their steps do not follow one another
        self._seen[meta.worker] = mark
        self._ring.add(meta.worker, columns)
        return columns["reward"].size

    def size(self):
        """Return the rows in use: env steps and the last observation of each episode."""
        return len(self._ring)

    def sample(self, count):
        """Return a block {column: array [updates_per_call, B, …]} whose first ``count`` batches are drawn.

        The rest repeats the first batch: shapes are static, and only the first ``count`` are learnt from.
        """
        config = self._config
        most, size = config.updates_per_call, config.train_batch_size
        drawn = self._ring.draw(count * size, config.n_step, config.gamma, self._rng)
        block = {}
        for name, values in drawn.items():
            values = values.reshape(count, size, *values.shape[1:])
            if count < most:
                values = np.concatenate([values, np.broadcast_to(values[:1], (most - count, *values.shape[1:]))])
            block[name] = values.reshape(most, size, -1) if values.ndim > 2 else values
        return block

    def cut(self, worker):
        """End the streams of ``worker``: it was lost, or begins anew."""
        self._ring.cut(worker)

    def forget_streams(self):
        """End all streams and expect new ones: the workers begin anew."""
        self._seen.clear()
        for worker in self._ring.workers():
            self._ring.cut(worker)

    def save(self, folder, compress):
        """Write ``replay-<index>.safetensors`` into ``folder``; returns the facts that ``load`` needs beside it."""
        arrays, ring = self._ring.state()
        checkpoint.write_arrays(folder / f"replay-{self._index}.safetensors", arrays, compress=compress)
        return self.facts() | {"ring": ring}

    def facts(self):
        """Return what is kept even where the contents are not: the random state and which fragments were seen."""
        return {"rng": state_of(self._rng), "seen": [[worker, *mark] for worker, mark in sorted(self._seen.items())]}

    def load(self, arrays, facts):
        """Continue from ``save``; with ``arrays`` None only the random state."""
        try:
            set_state(self._rng, facts["rng"])
            self._seen = {worker: (incarnation, sequence) for worker, incarnation, sequence in facts["seen"]}
            if arrays is not None:
                self._ring.load(arrays, facts["ring"])
        except KeyError as error:
            raise CheckpointError(f"The replay does not fit this run: {error} is missing.") from error
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"The replay does not fit this run: {error}.") from error
