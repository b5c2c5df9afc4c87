"""BatchLearner: trains on whole trajectory batches, one session call each, and pushes after every one, or
after every ``broadcast_interval`` of them.

The counterpart of ``learner`` (replayed blocks) for trajectories. A shape (streams E, steps T, ends M)
is compiled on first use, and the expected shape in ``prepare``, while workers already sample.
TensorFlow is imported with this module, so it is loaded only in the thread or process that learns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli import events, plugins
from drl_cli.actors.aggregator import Joining, joining
from drl_cli.actors.learner_replica import ReplicaGroup, parallel_of
from drl_cli.actors.part_records import BatchUpdateResult, LearnerIdentity
from drl_cli.actors.session_state import COMPILING, Trained
from drl_cli.algorithms.impala import StreamKeys
from drl_cli.config.sections.on_policy import TrajectoryKeys, late_fragments
from drl_cli.contracts import Handle
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import PluginFailed
from drl_cli.experience.columns import Batch
from drl_cli.experience.trajectories import padded_shape
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import BatchGraph
from drl_cli.tf1.tensorflow import Tensor, function, tf


class BatchLearner:
    """Learns from the fragments of one batch. ``prepare`` must come before the first ``learn``."""

    _built: BatchGraph

    def __init__(
        self,
        config: TrajectoryKeys,
        spec: PolicySpec,
        graph: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """See ``Trained``; ``graph``: dotted name of the algorithm's graph module, which builds a BatchGraph.

        ``identity`` may have ``postprocess``: called with each batch and the config, returns more columns for it; and
        ``replicas``: handles of the other learners.
        """
        self._config = config
        self._trained = Trained(config, spec, graph, initial, identity, server)
        self._joining = joining(config, spec)
        self._postprocess = identity.get("postprocess")
        self._rates: dict[str, Tensor] = {}
        self._replicas: ReplicaGroup | None = None
        if "replicas" in identity:
            self._replicas = ReplicaGroup(identity["replicas"], identity.get("is_patient", False))
        self._learnt, self._broadcast = 0, config.broadcast_interval if isinstance(config, StreamKeys) else 1
        self._calls = {}  # shape of a batch -> ({column: placeholder}, fetches)
        self.publish, self.push = self._trained.publish, self._trained.push
        self.state, self.load = self._trained.state, self._trained.load
        self.scale_rates = self._trained.scale_rates

    def prepare(self, streams: int, steps: int) -> float:
        """Build the graph and compile it for the expected batch without touching a weight.

        ``streams``: environments of all its fragments; ``steps``: of each in its fragment, where episodes may be cut.
        Returns the seconds that it took.
        """
        began = time.perf_counter()

        def add(built: Any) -> None:
            self._built = built
            if self._replicas is not None:
                parallel_of(built).towers.replicas = self._replicas
            self._rates = {name: tf.placeholder(tf.float32, [], name=f"rate/{name}") for name in built.rates}

        if late_fragments(self._config):
            self._joining = self._joining._replace(least_rows=streams)
        whole = self._config.batch_mode == "complete_episodes"
        shape = padded_shape(streams, steps, self._joining.sequence, self._config.train_batch_size if whole else None)
        self._trained.open(add, lambda: self._run(self._zeros(shape), shape, 0))
        if self._replicas is not None:
            self._replicas.ready()
        return time.perf_counter() - began

    def learn(self, env_steps: int, seen: Sequence[Any] | None, *fragments: dict[str, np.ndarray]) -> BatchUpdateResult:
        """Learn once from the batch of all ``fragments`` ({column: array} each), and push when it is time.

        ``env_steps`` places rates on their schedules; ``seen``: a list of ``Token.seen``, or None. Returns
        dict(updates, stats, seconds, version, steps: env steps learnt from). Raises Diverged when a loss or gradient is
        not finite; that update has not been applied.
        """
        began = time.perf_counter()
        return self._learn_from(self._joining.batch(*fragments), env_steps, seen, began)

    def joining(self) -> Joining:
        """Return how fragments are joined, for aggregators."""
        return self._joining

    def learn_joined(self, env_steps: int, seen: Sequence[Any] | None, batch: Batch) -> BatchUpdateResult:
        """As ``learn``, from a ``batch`` that an aggregator has joined."""
        return self._learn_from(dict(batch), env_steps, seen, time.perf_counter())

    def _learn_from(self, batch: Batch, env_steps: int, seen: Sequence[Any] | None, began: float) -> BatchUpdateResult:
        batch |= self._added(batch)
        streams, steps = (int(size) for size in batch["mask"].shape)
        shape = (streams, steps, len(batch["end_at"]))
        is_new = shape not in self._calls
        if is_new and self._config.xla:
            events.report("learner", text=f"{COMPILING} for batches of {shape[0]} by {shape[1]} steps")
        out = self._run(batch, shape, env_steps)
        if is_new and self._config.xla:
            events.report("learner", text="")
        self._trained.made(out.updates, out.finite)
        self._trained.observe(seen or ())  # after learning: the batch was filtered with the statistics that acted
        self._learnt += 1
        if self._learnt % self._broadcast == 0:
            self._trained.send(keep=False)
        return {
            "updates": int(out.updates),
            "stats": {name: float(value) for name, value in out.stats.items()},
            "seconds": time.perf_counter() - began,
            "version": self._trained.version,
            "steps": int(batch["mask"].sum()),
        }

    def _added(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the columns that the algorithm's own postprocess adds to ``batch``. Raises PluginFailed."""
        if self._postprocess is None:
            return {}
        what = f"The postprocess {plugins.name_of(self._postprocess)}"
        added = called(what, self._postprocess, batch, self._config)
        lacks = [name for name in self._built.columns if name not in batch and name not in (added or ())]
        if lacks:
            raise PluginFailed(f"{what} did not bring the column {lacks[0]}, which the graph learns from.")
        return added or {}

    def _run(self, batch: dict[str, np.ndarray], shape: tuple[int, int, int], env_steps: int) -> Any:
        if shape not in self._calls:
            self._calls[shape] = self._compiled(shape)
        placeholders, fetches = self._calls[shape]
        feeds = {placeholder: batch[name] for name, placeholder in placeholders.items()}
        try:
            return self._trained.run(fetches, feeds, self._rates, env_steps)
        except tf.errors.OpError as error:
            if self._replicas is None or self._replicas.failure is None:
                raise
            raise self._replicas.failure from error

    def _compiled(self, shape: tuple[int, int, int]) -> tuple[dict[str, Tensor], Any]:
        built, rates = self._built, self._rates

        def learn(batch: dict[str, np.ndarray], rates: Mapping[str, Any]) -> Any:
            return built.learn(batch, rates, built.variables["num_updates"].read_value())

        with self._trained.graph.as_default(), self._trained.device():
            batch = {
                name: tf.placeholder(dtype, self._shape_of(kind, shape) + tuple(trailing))
                for name, (trailing, dtype, kind) in built.columns.items()
            }
            compiled = function(
                learn, jit_compile=True if self._config.xla and built.in_one_place else None, autograph=False
            )
            return batch, compiled(batch, rates)

    def _shape_of(self, kind: str, shape: tuple[int, int, int]) -> tuple[int, ...]:
        streams, steps, ends = shape
        return {"step": (streams, steps), "end": (ends,), "sequence": (streams, steps // self._joining.sequence)}[kind]

    def _zeros(self, shape: tuple[int, int, int]) -> dict[str, np.ndarray]:
        return {
            name: np.zeros(self._shape_of(kind, shape) + tuple(trailing), dtype)
            for name, (trailing, dtype, kind) in self._built.columns.items()
        }
