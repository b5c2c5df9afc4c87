"""LearnerReplica: computes the gradients of its part of each minibatch; ReplicaGroup: the run's learner calls all of them.

With ``num_learners`` the run's learner is the first of them and the only one that has an optimiser, statistics, or anything
else that a checkpoint keeps. A replica holds a graph without a session state: weights travel to it with every call, so that
one that died is replaced by a new process and nothing else. TensorFlow is imported with this module.

Source: synchronous data parallelism with a central optimiser, Chen et al. 2016, "Revisiting Distributed Synchronous SGD"
(arXiv 1604.00981), section 3, without backup workers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli import events, plugins
from drl_cli.actors.part_records import LearnerIdentity
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.contracts import Call, Handle
from drl_cli.errors import ClusterUnavailable, ConfigError
from drl_cli.extras import load
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import Tensor, function, tf
from drl_cli.tf1.towers import DataParallel, differentiated

PLACEMENT_S, ANSWER_S = (
    120.0,
    600.0,
)  # for a replica to be made; for an answer, which may have to be made again elsewhere

Arrays = dict[str, np.ndarray]
Answer = tuple[int, list[np.ndarray], np.ndarray, np.ndarray]  # process id, gradients, [loss, count, statistics], tops


class LearnerReplica:
    """Sums and their gradients on the CPU of its process."""

    def __init__(
        self,
        config: TrajectoryKeys,
        spec: PolicySpec,
        graph: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
    ) -> None:
        """As ``Trained``; the values of ``initial`` are not used."""
        plugins.adopt(identity.get("plugins"))
        self._xla = bool(config.xla)
        self._graph = tf.Graph()
        module: Any = load(graph)
        build: Any = module if callable(module) else module.build
        with self._graph.as_default(), tf.device("/CPU:0"):
            built = build(config, spec, initial, identity["seed"], "replica/")
        self._parallel = parallel_of(built)
        # A replica in the process of the run's learner computes while the thread of that one's session waits for it.
        options = config.tf_session_args.model_dump(exclude_none=True) | {"use_per_session_threads": True}
        self._session = new_session(self._graph, options | {"device_count": {"GPU": 0}})
        self._calls: dict[Any, tuple[list[Tensor], Any]] = {}  # shapes -> (placeholders, fetches)

    def gradients(self, weights: Sequence[np.ndarray], given: Arrays, piece: Arrays) -> Answer:
        """Return the Answer for the rows of ``piece``; ``weights``: in the order of ``DataParallel.trained``."""
        names = self._parallel.trained
        groups = (dict(zip(names, weights, strict=True)), given, piece)
        key = tuple((name, array.shape) for group in groups for name, array in group.items())
        if key not in self._calls:
            self._calls[key] = self._compiled(groups)
        placeholders, fetches = self._calls[key]
        arrays = [array for group in groups for array in group.values()]
        found, added, tops = self._session.run(fetches, dict(zip(placeholders, arrays, strict=True)))
        return os.getpid(), found, np.array(added, np.float32), np.array(tops, np.float32)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def _compiled(self, groups: tuple[Arrays, Arrays, Arrays]) -> tuple[list[Tensor], Any]:
        loss = self._parallel.loss
        with self._graph.as_default(), tf.device("/CPU:0"):
            fed = [{name: tf.placeholder(x.dtype, x.shape) for name, x in group.items()} for group in groups]
            compiled = function(
                lambda *given: differentiated(loss, *given)[1], jit_compile=True if self._xla else None, autograph=False
            )
            return [placeholder for group in fed for placeholder in group.values()], compiled(*fed)


class ReplicaGroup:
    """The replicas as the learner's towers call them (``tf1.towers.Replicas``)."""

    failure: Exception | None = None
    """What a replica raised, which reaches the caller of a session as an error of TensorFlow's."""

    def __init__(self, handles: Sequence[Handle], is_patient: bool = False) -> None:
        """``handles``: of LearnerReplicas; ``is_patient``: wait without end for one that has no place on the cluster."""
        self._handles, self._is_patient = handles, is_patient
        self._calls: list[Call] = []
        self._processes: list[int | None] = [None] * len(handles)

    def ready(self) -> None:
        """Wait until all have been made. Raises ClusterUnavailable."""
        for handle in self._handles:
            self._awaited(handle, handle.ready(), PLACEMENT_S)

    def _awaited(self, handle: Handle, call: Call, seconds: float) -> Any:
        try:
            return call.result(None if self._is_patient else seconds)
        except TimeoutError:
            raise ClusterUnavailable(
                f"{handle.name} has not answered for {seconds:.0f} s: it is not placed, or its machine is too slow. Lower "
                "num_learners or num_cpus_per_learner (0 or a fraction is allowed), or wait for longer with --queue-trials."
            ) from None

    def begin(self, weights: list[np.ndarray], given: Arrays, pieces: list[Arrays]) -> None:
        """See Replicas."""
        self._calls = [
            handle.call("gradients", weights, given, piece) for handle, piece in zip(self._handles, pieces, strict=True)
        ]

    def sums(self) -> list[np.ndarray]:
        """See Replicas; always added up in the order of the replicas."""
        try:
            calls = zip(self._handles, self._calls, strict=True)
            answers: list[Answer] = [self._awaited(handle, call, ANSWER_S) for handle, call in calls]
        except Exception as error:
            self.failure = error
            raise
        for index, (process, *_) in enumerate(answers):
            if self._processes[index] not in (None, process):
                text = f"{self._handles[index].name} was lost and has been started again; nothing was lost with it."
                events.report("warning", text=text)
            self._processes[index] = process
        _, found, added, tops = answers[0]
        for _, more, also, others in answers[1:]:
            found = [one + other for one, other in zip(found, more, strict=True)]
            added, tops = added + also, np.maximum(tops, others)
        return [*found, added, tops]


def parallel_of(built: Any) -> DataParallel:
    """Return what several learners share of a BatchGraph. Raises ConfigError."""
    if built.parallel is None:
        raise ConfigError("num_learners: the graph of this algorithm has no gradients to share. Set num_learners to 1.")
    return built.parallel
