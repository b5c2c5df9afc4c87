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


class WorkerKeys(Section):
    """How many workers step how many environments, and what all of them share."""

    num_workers: Whole = key(
        0,
        "Rollout workers that sample in processes of their own; 0 samples in the run's one process, without Ray, "
        "and is reproducible bit for bit.",
        "processes",
        ge=0,
        le=10_000,
    )
    num_envs_per_worker: Whole = key(
        4,
        "Environments that one worker steps side by side, with one forward pass for all of them.",
        "environments",
        ge=1,
        le=4096,
        rllib=1,
        why="one forward pass of a small net in NumPy costs about the same for 1 and 8 rows, so more are nearly free",
    )
    rollout_fragment_length: Whole = key(
        25,
        "Steps of each environment that one call to a worker collects; a worker's fragment has "
        "num_envs_per_worker times as many.",
        "env steps per environment",
        ge=1,
        le=100_000,
        rllib=1,
        why="one step per call would cost a message for each; the replay keeps stream order, so borders change nothing",
    )
    recreate_failed_workers: bool | None = key(
        None,
        "Whether a worker that dies is replaced at once; false ends the run at the first loss, or, with "
        "ignore_worker_failures, goes on without it. null: true unless ignore_worker_failures.",
        needs=("num_workers", 1),
        rllib=False,
        why="a worker is disposable: what it had in flight is lost, and a run need not end for that",
    )
    ignore_worker_failures: bool = key(
        False,
        "Go on without the workers that die, as long as one is left, instead of replacing them.",
        needs=("num_workers", 1),
    )
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = key(
        "NoFilter",
        "MeanStdFilter centres observations and divides them by their deviation, both running over all that was sampled, "
        "and limits them to 10 deviations. All workers share the statistics, which are part of the policy. Not for images.",
    )


class RolloutKeys(WorkerKeys, OutputKeys):
    """Keys of the part that steps environments with one policy, and explores on top of it."""

    synchronize_filters: bool = key(
        True,
        "Whether all workers act with the statistics of observation_filter over the samples of all of them; false: each acts "
        "with those of its own samples. Learner, evaluations and checkpoints have those of all.",
    )
    remote_worker_envs: bool = key(
        False,
        "Whether each environment of a worker has a process of its own, so that all of them step at once. Pays where a step "
        "takes longer than 0.2 ms, or where two environments cannot share a process; what happens is the same to the bit.",
        needs=("num_envs_per_worker", 2),
    )
    explore: bool = key(True, "Whether training samples with exploration; false samples greedy actions.")
    exploration_config: ExplorationConfig = key(ExplorationConfig(), "How to explore.")
    no_done_at_end: bool = key(
        False,
        "Take every end of a training episode for a truncation: the value of its last observation is bootstrapped, also where "
        "the episode terminated. Time limits are truncations anyway.",
    )
    soft_horizon: bool = key(
        False,
        "At the horizon, count the episode but let the environment go on from where it is instead of resetting it.",
        needs=("horizon", 1),
    )
    record_env: bool | Annotated[str, Field(min_length=1)] = key(
        False,
        "Film training episodes of the first environment of the first worker (0, 1, 8, 27, … below 1000, then every "
        "thousandth) as videos/*.mp4 in the run's folder, or, with a string, in that folder.",
        allowed="true, false or a folder",
    )
    render_env: bool = key(
        False, "Draw the first environment of the first worker in a window while it trains, which is slow."
    )

    @model_validator(mode="after")
    def _is_drawn_in_one_way(self) -> Self:
        if self.record_env and self.render_env:
            raise MisfitError("render_env", "true excludes record_env: an environment draws in one way at a time")
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
