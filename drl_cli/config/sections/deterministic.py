"""Keys of runs whose result does not depend on how many processes computed it, and what follows from them.

``ReproducibleKeys`` is mixed into the config of ES, whose work items are numbered anyway, ``DeterministicKeys`` into those of
algorithms whose environments are stepped in blocks.
"""

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, key
from drl_cli.config.sections.offline import reads
from drl_cli.config.sections.rollout import WorkerKeys
from drl_cli.config.sections.served_input import is_served

MEANING = (
    "Whether the weights are equal bit for bit whatever num_workers is, 0 included, and whichever workers die. Fragments are "
    "numbered, and learnt from in that order; the end of an iteration waits for all of them."
)


class ReproducibleKeys(Section):
    """The key alone, with what it excludes everywhere."""

    deterministic: bool = key(False, MEANING)

    @model_validator(mode="after")
    def _depends_on_no_clock(self) -> Self:
        if not self.deterministic:
            return self
        own = dict(self)
        excluded = (
            (own["min_iter_time_s"], "min_iter_time_s", "a clock would decide how much an iteration learns"),
            (own["ignore_worker_failures"], "ignore_worker_failures", "workers that die are replaced"),
            (
                own.get("broadcast_dtype", "float32") != "float32",
                "broadcast_dtype",
                "without workers nothing is rounded",
            ),
            (own.get("straggler_cutoff", 1.0) < 1, "straggler_cutoff", "a clock would decide what is learnt from"),
            (own.get("num_replay_shards", 1) > 1, "num_replay_shards", "without workers there is one; set it to 1"),
            (own.get("num_learners", 1) > 1, "num_learners", "without workers there is one learner; set it to 1"),
            (
                own.get("num_aggregation_workers", 0),
                "num_aggregation_workers",
                "without workers there are none; set it to 0",
            ),
            (own["output"], "output", "recordings are not numbered by environments"),
            (reads(self) or is_served(self), "input", "it is for runs that step environments"),
            (
                own["env_task_fn"],
                "env_task_fn",
                "tasks are not part of what is computed again after the loss of a worker",
            ),
        )
        for value, name, why in excluded:
            if value:
                raise MisfitError("deterministic", f"true excludes {name}: {why}")
        return self


class DeterministicKeys(ReproducibleKeys):
    """Sampling in blocks of environments that belong to the run, not to a worker."""

    num_env_blocks: Whole = key(
        4,
        "With deterministic, blocks of num_envs_per_worker environments, which the workers share: so many workers at most "
        "have work. Each block has its own seeds, exploration and fragments, whichever worker steps it.",
        "blocks",
        needs=("deterministic", 1),
        ge=1,
        le=10_000,
    )

    @model_validator(mode="after")
    def _gives_each_worker_a_block(self) -> Self:
        if self.deterministic and isinstance(self, WorkerKeys) and self.num_workers > self.num_env_blocks:
            text = f"{self.num_workers} is more than num_env_blocks {self.num_env_blocks}, which deterministic workers share"
            raise MisfitError("num_workers", f"{text}; raise num_env_blocks, which changes the run, or use fewer")
        return self


def is_deterministic(config: Section) -> bool:
    """Return whether the run must not depend on timing, nor on how many workers it has."""
    return isinstance(config, ReproducibleKeys) and config.deterministic


def has_blocks(config: Section) -> bool:
    """Return whether environments are stepped in blocks that belong to the run."""
    return isinstance(config, DeterministicKeys) and config.deterministic


def sources(config: WorkerKeys) -> int:
    """Return how many streams of fragments there are, each of ``num_envs_per_worker`` environments: workers, or blocks."""
    if isinstance(config, DeterministicKeys) and config.deterministic:
        return config.num_env_blocks
    return max(1, config.num_workers)
