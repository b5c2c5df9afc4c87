"""Keys of sampling: how many workers and environments, how long a fragment, how they explore.

Mixed into the config of every algorithm that samples; ``WorkerKeys`` alone where weights are perturbed. Key names and
meanings are RLlib's (COMMON_CONFIG, 1.0.1).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, key
from drl_cli.config.sections.exploration import ExplorationConfig
from drl_cli.config.sections.offline import OutputKeys, reads_only
from drl_cli.config.sections.served_input import PolicyServerKeys


class WorkerKeys(Section):
    """How many workers step how many environments, and what all of them share."""

    num_workers: Whole = key(
        0,
        "Rollout workers, each in its own process; 0 samples in the run's single process, without Ray, and is "
        "reproducible bit for bit.",
        "processes",
        ge=0,
        le=10_000,
    )
    num_envs_per_worker: Whole = key(
        4,
        "Environments per worker, stepped together, with one forward pass for all of them.",
        "environments",
        ge=1,
        le=4096,
        rllib=1,
        why=(
            "one forward pass of a small net in NumPy costs about the same for 1 and 8 rows, so more environments "
            "are nearly free"
        ),
    )
    rollout_fragment_length: Whole = key(
        25,
        "Steps of each environment per call to a worker; the fragment has num_envs_per_worker times as many.",
        "env steps per environment",
        ge=1,
        le=100_000,
        rllib=1,
        why=(
            "one step per call would need one message per step; the replay keeps stream order, so fragment "
            "boundaries do not matter"
        ),
    )
    recreate_failed_workers: bool | None = key(
        None,
        "Whether a worker that dies is replaced immediately; false ends the run at the first loss, or, with "
        "ignore_worker_failures, continues without it. null: true unless ignore_worker_failures.",
        needs=("num_workers", 1),
        rllib=False,
        why="losing a worker loses only its data in transit, and need not end the run",
    )
    ignore_worker_failures: bool = key(
        False,
        "Continue without workers that die, as long as one is left, instead of replacing them.",
        needs=("num_workers", 1),
    )
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = key(
        "NoFilter",
        "MeanStdFilter subtracts the running mean of all sampled observations, divides by their running standard "
        "deviation, and clips the result at 10. All workers share the statistics, which are part of the policy. Not "
        "for images.",
    )


class RolloutKeys(WorkerKeys, OutputKeys, PolicyServerKeys):
    """Keys of the part that steps environments with one policy, and explores on top of it."""

    synchronize_filters: bool = key(
        True,
        "Whether workers share the statistics of observation_filter; false: each uses those of its own samples. "
        "Learner, evaluations and checkpoints use those of all samples.",
    )
    broadcast_dtype: Literal["float32", "float16"] = key(
        "float32",
        "Type in which weights are sent to workers. float16 halves what is sent; workers act with the rounded weights, while "
        "learner, evaluations and checkpoints have the exact ones.",
        needs=("num_workers", 1),
    )
    remote_worker_envs: bool = key(
        False,
        "Whether each environment of a worker has its own process, so that they step in parallel. Worthwhile if a "
        "step takes longer than 0.2 ms, or if two environments cannot share a process; results are bit-identical.",
        needs=("num_envs_per_worker", 2),
    )
    explore: bool = key(True, "Whether training samples with exploration; false samples greedy actions.")
    exploration_config: ExplorationConfig = key(ExplorationConfig(), "How to explore.")
    no_done_at_end: bool = key(
        False,
        "Treat every end of a training episode as truncation: the value of the final observation is bootstrapped "
        "even if the episode terminated. Time limits are always truncations.",
    )
    soft_horizon: bool = key(
        False,
        "At the horizon, count the episode but let the environment continue instead of resetting it.",
        needs=("horizon", 1),
    )
    record_env: bool | Annotated[str, Field(min_length=1)] = key(
        False,
        "Record videos of training episodes of the first environment of the first worker (0, 1, 8, 27, … below "
        "1000, then every thousandth) as videos/*.mp4 in the run's folder, or, with a string, in that folder.",
        allowed="true, false or a folder",
    )
    render_env: bool = key(
        False, "Render the first environment of the first worker in a window during training, which is slow."
    )

    @model_validator(mode="after")
    def _is_drawn_in_one_way(self) -> Self:
        if self.record_env and self.render_env:
            raise MisfitError("render_env", "true excludes record_env: an environment draws in one way at a time")
        return self

    @model_validator(mode="after")
    def _sends_weights_to_act_with(self) -> Self:
        if self.broadcast_dtype != "float32" and reads_only(self):
            raise MisfitError(
                "broadcast_dtype", f"{self.broadcast_dtype} is for workers that act, and these read files; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _filters_what_it_sees(self) -> Self:
        if self.synchronize_filters:
            return self
        if self.observation_filter == "NoFilter":
            raise MisfitError(
                "synchronize_filters", "false speaks of observation_filter, which is NoFilter; leave it out"
            )
        if reads_only(self):
            raise MisfitError(
                "synchronize_filters", "false speaks of workers that act, and these read files; leave it out"
            )
        return self


def on_loss(config: WorkerKeys) -> str:
    """Return what becomes of a worker that dies: "replace", "drop" (the run goes on without it) or "fail" (it ends)."""
    replaced = config.recreate_failed_workers
    if replaced is None:
        replaced = not config.ignore_worker_failures
    return "replace" if replaced else "drop" if config.ignore_worker_failures else "fail"


def filter_misfits(config: WorkerKeys, shape: Sequence[int]) -> list[str]:
    """Return one line for a filter that does not fit observations of ``shape``; an empty list where it does."""
    if config.observation_filter == "NoFilter" or len(shape) == 1:
        return []
    return [
        f"observation_filter: {config.observation_filter} is for vectors of numbers, the environment's observations are "
        f"images of shape {tuple(shape)}, which nets scale themselves. Set it to NoFilter."
    ]
