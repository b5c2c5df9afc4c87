"""Small runs for the tests of the runtime: their config, what a Driver is told, results without their times."""

from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import make

SMALL = {
    "seed": 7,
    "learning_starts": 200,
    "timesteps_per_iteration": 200,
    "buffer_size": 5000,
    "train_batch_size": 32,
    "rollout_fragment_length": 10,
    "updates_per_call": 20,
    "publish_every": 10,
    "policy_model": {"fcnet_hiddens": [16, 16]},
    "Q_model": {"fcnet_hiddens": [16, 16]},
    "evaluation_interval": 2,
    "evaluation_num_episodes": 2,
    "evaluation_config": {"horizon": 100},
    "xla": False,
}
CLOCKED = {
    "time_this_iter_s",
    "time_total_s",
    "time_since_restore",
    "date",
    "timestamp",
    "timers",
    "sampler_perf",
    "perf",
}
SINCE_RESTORE = {"timesteps_since_restore", "iterations_since_restore"}


def small_config(**over):
    """A config of a small run; ``over`` replaces keys."""
    return SACConfig.model_validate(SMALL | over)


def env_facts(env_id, env_config=None):
    """What a Driver is told of an environment."""
    spaces = make.check(env_id, env_config or {}, table.find("SAC"))
    return {"id": env_id, "asked": env_id, "env_config": env_config or {}, "spaces": spaces, "imports": ()}


def timeless(result, also=()):
    """``result`` without the fields that a clock fills."""
    return {name: value for name, value in result.items() if name not in CLOCKED | set(also)}
