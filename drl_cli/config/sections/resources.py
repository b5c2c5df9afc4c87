"""Keys of placement: GPUs, CPUs, custom resources, threads of the session, which parts are Ray actors.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1); those of
``tf_session_args`` are TensorFlow's (ConfigProto).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.environment_variables import ALLOWED, Environs
from drl_cli.config.schema import MisfitError, Section, Whole, key
from drl_cli.config.sections.rollout import RolloutKeys

NO_GPU = "most machines have none"


class GpuOptions(Section):
    """Memory of a GPU that the session may take."""

    allow_growth: bool = key(True, "Allocate GPU memory on demand instead of all at once.")
    per_process_gpu_memory_fraction: float = key(
        0.0, "Share of each GPU's memory that the session may use; 0: no limit.", "share", ge=0, le=1
    )


class DeviceCount(Section):
    """Devices that the session may use."""

    CPU: Whole = key(1, "CPU devices of the session.", "devices", ge=1, le=1024)
    GPU: Whole | None = key(
        None, "GPUs that the session may use; null leaves it to num_gpus.", "devices", ge=0, le=1024
    )


class SessionArgs(Section):
    """Options of the TensorFlow session."""

    intra_op_parallelism_threads: Whole = key(
        1,
        "Threads within one operation; 0 lets TensorFlow choose.",
        "threads",
        ge=0,
        le=1024,
        rllib=2,
        why="for small matrix products thread synchronisation costs more than it gains",
    )
    inter_op_parallelism_threads: Whole = key(
        1,
        "Threads that run operations in parallel; 0 lets TensorFlow choose.",
        "threads",
        ge=0,
        le=1024,
        rllib=2,
        why="one core learns while the others sample",
    )
    use_per_session_threads: bool = key(False, "Give the session its own thread pools.")
    allow_soft_placement: bool = key(True, "Place an operation on the CPU if the requested device cannot run it.")
    log_device_placement: bool = key(False, "Log on which device each operation runs.")
    isolate_session_state: bool = key(False, "Share no resources with other sessions of the process.")
    operation_timeout_in_ms: Whole = key(0, "Timeout of blocking operations; 0: no timeout.", "milliseconds", ge=0)
    gpu_options: GpuOptions = key(GpuOptions(), "Memory of a GPU.")
    device_count: DeviceCount = key(DeviceCount(), "Devices of the session.")


class ResourceKeys(Section):
    """What the parts of a run need of the machine or the cluster."""

    num_gpus: float = key(0.0, "GPUs of the learner; fractions share a GPU.", "GPUs", ge=0, le=1024)
    num_cpus_per_worker: float = key(1.0, "Logical CPUs that each worker requests from Ray.", "CPUs", ge=0, le=1024)
    num_cpus_for_driver: float = key(
        1.0,
        "Logical CPUs of the run's own process, which contains the learner: a Ray instance started by the run has "
        "these in addition to its workers', and a trial of a search reserves them.",
        "CPUs",
        ge=0,
        le=1024,
    )
    memory_per_worker: Whole = key(
        0,
        "Memory that must be free, by Ray's accounting, on the node where a worker is placed; 0 requests none. It "
        "is not a limit.",
        "bytes",
        needs=("num_workers", 1),
        ge=0,
    )
    num_gpus_per_worker: float = key(
        0.0, "GPUs that each worker requests from Ray; fractions share a GPU.", "GPUs", ge=0, le=1024
    )
    custom_resources_per_worker: dict[str, Annotated[float, Field(ge=0)]] = key(
        {},
        "Custom Ray resources that each worker requests.",
        "amount by resource name",
        allowed="a mapping of names to numbers ≥ 0",
    )
    extra_python_environs_for_driver: Environs = key(
        {},
        "Environment variables of the run's own process, set before it constructs an environment, and inherited by "
        "the workers of a Ray instance that it starts. Variables that could load code are refused.",
        allowed=ALLOWED,
    )
    extra_python_environs_for_worker: Environs = key(
        {},
        "Environment variables of the processes of workers and testers. Variables that could load code are refused.",
        needs=("num_workers", 1),
        allowed=ALLOWED,
    )
    learner_actor: bool = key(False, "Run the learner as a Ray actor instead of in the run's own process.")
    custom_resources_for_learner: dict[str, Annotated[float, Field(gt=0)]] = key(
        {},
        "Custom Ray resources that the learner requests: it is placed on a node that has them (and the GPUs of num_gpus), "
        "instead of the run's own node.",
        "amount by resource name",
        allowed="a mapping of names to numbers > 0",
        needs=("learner_actor", 1),
    )
    tf_session_args: SessionArgs = key(SessionArgs(), "Options of the learner's TensorFlow session.")
    xla: bool | None = key(
        None,
        "Compile the update loop with XLA: about 2 s at the start, then more than twice as many small updates per "
        "second; worthwhile from about 2,700 updates. null: true, except for images without a GPU, whose updates it "
        "slows down 20 to 90 times.",
    )

    @model_validator(mode="after")
    def _places_an_actor(self) -> Self:
        if self.custom_resources_for_learner and not self.learner_actor:
            text = "only a Ray actor is placed by resources: set learner_actor to true"
            raise MisfitError("custom_resources_for_learner", text)
        return self


class LearnerKeys(ResourceKeys):
    """Several learners, for algorithms whose gradient of a batch is a sum over its steps."""

    num_learners: Whole = key(
        1,
        "Processes that compute gradients: each takes an equal part of every minibatch, and the run's own, which is one of "
        "them, applies their sum. More than 1 needs num_workers 1 or more.",
        "processes",
        ge=0,
        le=1024,
        rllib=0,
        why="0 and 1 are the same here: the run's own process learns",
    )
    num_cpus_per_learner: float = key(
        1.0, "Logical CPUs that each learner but the run's own requests from Ray.", "CPUs", ge=0, le=1024
    )

    @model_validator(mode="after")
    def _learns_beside_workers(self) -> Self:
        if learners(self) == 1:
            return self
        if not (isinstance(self, RolloutKeys) and self.num_workers):
            text = f"{self.num_learners} needs num_workers 1 or more: without workers there is no Ray"
            raise MisfitError("num_learners", text)
        if self.num_gpus:
            text = f"{self.num_learners} needs num_gpus 0: one learner splits its batches over GPUs, several compute on CPUs"
            raise MisfitError("num_learners", text)
        return self


def learners(config: object) -> int:
    """Return the processes that compute gradients: ``num_learners``, at least 1."""
    return max(1, config.num_learners) if isinstance(config, LearnerKeys) else 1


def num_cpus_per_learner(config: object) -> float:
    """Return the CPUs that each learner but the run's own asks for."""
    return config.num_cpus_per_learner if isinstance(config, LearnerKeys) else 0.0


@runtime_checkable
class HasTowers(Protocol):
    """A config whose GPUs may be tried on the CPU (``TrajectoryKeys``)."""

    fake_gpus: bool


def gpus(config: ResourceKeys) -> float:
    """Return the GPUs that the learner really takes: ``num_gpus``, or none where towers are only tried (``_fake_gpus``)."""
    return 0.0 if isinstance(config, HasTowers) and config.fake_gpus else config.num_gpus


def compiles(config: ResourceKeys, sees_images: bool) -> bool:
    """Return whether the updates of this run are compiled: ``xla`` with its null resolved.

    Measured on one core, Pong's frames: PPO's minibatch of 128 takes 4.2 s compiled, 0.05 s in oneDNN's kernels; DQN's
    batch of 32 0.72 s and 0.03 s. XLA has no fast code for the gradients of strided convolutions on a CPU. Not measured on
    a GPU.
    """
    return config.xla if config.xla is not None else gpus(config) > 0 or not sees_images


def total(bundles: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return {resource: amount} of a trial's ``bundles`` together."""
    names = dict.fromkeys(name for bundle in bundles for name in bundle)
    return {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}
