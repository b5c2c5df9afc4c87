"""Keys of an iteration and its report, of logging, seeds and checkpoints.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1) where it has them.
"""

from typing import Literal

from drl_cli.config.schema import Section, Whole, default, key

STEPS_WHY = "100 steps are a few milliseconds of sampling; the lines of a run would be thousands"
SECONDS_WHY = (
    "a line a second with workers; without them a clock would make iterations depend on the machine's speed. In files "
    "with workers RLlib's holds"
)


class IterationKeys(Section):
    """How long an iteration is and what it reports."""

    timesteps_per_iteration: Whole = key(
        1000,
        "Env steps after which an iteration may end and a result line is written; 0: after what one round of the loop "
        "samples.",
        "env steps",
        ge=0,
        rllib=0,
        why=STEPS_WHY,
    )
    min_train_timesteps_per_iteration: Whole = key(
        0,
        "Env steps that must be learnt from (info/num_steps_trained) before an iteration may end.",
        "env steps trained",
        ge=0,
    )
    min_iter_time_s: float | None = key(
        None,
        "Shortest duration of an iteration; null means 1 with workers and 0 without, where only env steps count "
        "so that "
        "runs can be repeated exactly.",
        "seconds",
        ge=0,
        le=86_400,
        rllib=0,
        why=SECONDS_WHY,
    )
    metrics_smoothing_episodes: Whole = key(
        100,
        "Most recent training episodes over which episode_reward_mean and its like are taken.",
        "episodes",
        ge=1,
        le=100_000,
    )
    callbacks: str | None = key(
        None,
        "Code of one's own that looks at episodes, steps and results: the name under which a module of --import, or an "
        "installed package, has registered it (drl_cli.register_callbacks).",
        allowed="the name of registered callbacks, or null",
        min_length=1,
        max_length=200,
    )
    seed: Whole | None = key(
        None, "Seed of everything random in the run; null draws one and records it.", ge=0, le=2**31 - 1
    )
    log_level: Literal["DEBUG", "INFO", "WARN", "ERROR"] = key(
        "WARN", "How much goes into the run's log; -v is INFO, -vv DEBUG."
    )
    log_sys_usage: bool = key(
        True, "Whether results say how busy the machine is (perf/cpu_util_percent, perf/ram_util_percent)."
    )
    checkpoint_compress: bool = key(True, "Whether the replay's columns are compressed (lz4) in checkpoints.")


def least_seconds(rllib):
    """Return the default of ``min_iter_time_s`` for algorithms whose RLlib default is ``rllib``."""
    return default(None, rllib=rllib, why=SECONDS_WHY)


def min_iter_seconds(config):
    """Return the seconds that an iteration must last at least: ``min_iter_time_s`` with its null resolved."""
    if config.min_iter_time_s is not None:
        return config.min_iter_time_s
    return 1.0 if config.num_workers > 0 else 0.0


def steps_per_iteration(config) -> int:
    """Return the env steps that an iteration has at least: ``timesteps_per_iteration``, or one round of the loop."""
    fragment = getattr(config, "rollout_fragment_length", 1) * config.num_envs_per_worker
    return config.timesteps_per_iteration or fragment
