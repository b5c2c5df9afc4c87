"""Keys of an iteration and its report, of logging, seeds and checkpoints.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1) where it has them.
"""

from typing import Literal

from drl_cli.config.schema import Default, Section, Whole, default, key

STEPS_WHY = "100 steps are a few milliseconds of sampling; the lines of a run would be thousands"
SECONDS_WHY = (
    "a line a second with workers; without them a clock would make iterations depend on the machine's speed. In files "
    "with workers RLlib's holds"
)


class IterationKeys(Section):
    """How long an iteration is and what it reports."""

    timesteps_per_iteration: Whole = key(
        1000,
        "Minimum env steps per iteration, and so per line of results; 0: the steps of one round of the loop.",
        "env steps",
        ge=0,
        rllib=0,
        why=STEPS_WHY,
    )
    min_train_timesteps_per_iteration: Whole = key(
        0,
        "Minimum env steps trained on (info/num_steps_trained) per iteration.",
        "env steps trained",
        ge=0,
    )
    min_iter_time_s: float | None = key(
        None,
        "Minimum duration of an iteration; null means 1 with workers, and 0 without workers, where only env steps "
        "count so that runs are reproducible.",
        "seconds",
        ge=0,
        le=86_400,
        rllib=0,
        why=SECONDS_WHY,
    )
    metrics_smoothing_episodes: Whole = key(
        100,
        "Number of most recent training episodes over which episode_reward_mean and similar fields are computed.",
        "episodes",
        ge=1,
        le=100_000,
    )
    callbacks: str | None = key(
        None,
        "Hooks of your own for episodes, steps and results: the name under which a module of --import, or an "
        "installed package, has registered them (drl_cli.register_callbacks).",
        allowed="the name of registered callbacks, or null",
        min_length=1,
        max_length=200,
    )
    seed: Whole | None = key(
        None, "Seed of all randomness in the run; null draws one and records it.", ge=0, le=2**31 - 1
    )
    log_level: Literal["DEBUG", "INFO", "WARN", "ERROR"] = key(
        "WARN", "Level of detail of the run's log; -v is INFO, -vv DEBUG."
    )
    log_sys_usage: bool = key(
        True, "Whether results include the load of the machine (perf/cpu_util_percent, perf/ram_util_percent)."
    )
    checkpoint_compress: bool = key(True, "Whether replay columns are compressed (LZ4) in checkpoints.")


def least_seconds(rllib: float) -> Default:
    """Return the default of ``min_iter_time_s`` for algorithms whose RLlib default is ``rllib``."""
    return default(None, rllib=rllib, why=SECONDS_WHY)
