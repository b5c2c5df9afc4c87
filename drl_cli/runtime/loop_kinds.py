"""Which loop, learner and worker belong together: the one place that maps the name of a loop to its parts.

Rows of algorithms name a loop of ``KINDS``, or a module or an object with ``make``; ``learner`` and ``worker`` of a row replace
those of its loop. Parts are named, not imported: a name is resolved in the process that holds the part, and the driver of a
run on Ray loads no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from drl_cli.algorithms.row import Algorithm
from drl_cli.extras import load
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.loops import decentralized, evolution, gradients, replay, stream, sync

SERVER = "drl_cli.actors.parameter_server:ParameterServer"
KEEPER = "drl_cli.actors.file_keeper:FileKeeper"
REPLAY = "drl_cli.actors.replay_buffer:ReplayBuffer"
LEARNER = "drl_cli.actors.learner:Learner"
REPLICA = "drl_cli.actors.learner_replica:LearnerReplica"
WORKER = "drl_cli.actors.rollout_worker:RolloutWorker"
BLOCKS = "drl_cli.actors.block_worker:BlockWorker"
READER = "drl_cli.actors.experience_reader:ExperienceReader"
MIXED = "drl_cli.actors.mixed_worker:MixedWorker"
SERVED = "drl_cli.actors.external_worker:ExternalWorker"
TESTER = "drl_cli.actors.tester:Tester"
AGENTS_WORKER = "drl_cli.actors.multi_agent_worker:MultiAgentWorker"
AGENTS_READER = "drl_cli.actors.agents_reader:AgentsReader"
AGENTS_TESTER = "drl_cli.actors.agents_tester:AgentsTester"
GROUP_LEARNER = "drl_cli.actors.policy_group:GroupLearner"
REPLAY_ELSEWHERE = "drl_cli.actors.replay_elsewhere:ReplayElsewhere"
GROUP_REPLAY = "drl_cli.actors.policy_group:GroupReplay"


class Loop(Protocol):
    """Decides which calls are made next; ``make(cluster, pool, replay, learner, config)`` of its module returns it."""

    @property
    def ledger(self) -> Ledger:
        """The run's counters, its meters, and the version of the newest weights."""
        ...

    @property
    def sampled(self) -> int:
        """Env steps so far."""
        ...

    @property
    def stored(self) -> int:
        """Env steps that wait for the learner, or are in the replay."""
        ...

    @property
    def is_learning(self) -> bool:
        """Whether the learner is ready."""
        ...

    def start(self) -> None:
        """Let the learner build its graph; sampling can begin at once."""

    def step(self, timeout: float = 0.25) -> None:
        """Make the calls that are due, and deal with those that are done."""

    def quiesce(self) -> None:
        """Come to rest: afterwards no call is outstanding."""

    def settle(self) -> None:
        """Deal with the update that is running."""

    def trained(self) -> int:
        """Return the steps or transitions learnt from."""
        ...

    def waiting(self) -> str:
        """Return in a few words what waits for what."""
        ...

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result, under ``info``."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data."""
        ...

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``."""


class LoopKind(NamedTuple):
    """A loop with what it drives: ``loop`` is a module with ``make``, the others are classes, all by dotted name.

    ``learner`` is None where workers learn themselves.
    """

    loop: object
    learner: object = LEARNER
    worker: object = WORKER


_BATCH_LEARNER = "drl_cli.actors.batch_learner:BatchLearner"
KINDS = {
    "replay": LoopKind(replay),
    "sync": LoopKind(sync, _BATCH_LEARNER),
    "stream": LoopKind(stream, _BATCH_LEARNER),
    "gradients": LoopKind(
        gradients,
        "drl_cli.actors.gradient_learner:GradientLearner",
        "drl_cli.actors.gradient_worker:GradientWorker",
    ),
    "decentralized": LoopKind(decentralized, None, "drl_cli.actors.decentralized_worker:DecentralizedWorker"),
    "evolution": LoopKind(
        evolution,
        "drl_cli.actors.evolution_learner:EvolutionLearner",
        "drl_cli.actors.evolution_worker:EvolutionWorker",
    ),
}


def kind_of(row: Algorithm) -> LoopKind:
    """Return the loop of a row with its learner and worker: names, or the objects that a registered row brings."""
    kind = KINDS.get(row.loop) if isinstance(row.loop, str) else None
    kind = kind or LoopKind(row.loop)
    return LoopKind(kind.loop, row.learner or kind.learner, row.worker or kind.worker)


def make(row: Algorithm, *parts: object) -> Loop:
    """Return the loop of a row, made of cluster, pool, replay, learner and config."""
    return load(kind_of(row).loop).make(*parts)
