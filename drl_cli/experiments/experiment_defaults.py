"""What an experiment gets where nothing is given: stop rules, a seed, Ray's settings, a hint at a tuned file.

Used by ``experiments.spec``.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from drl_cli.algorithms import table
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.result_names import EVALUATION_REWARD
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.offline import absolute
from drl_cli.config.sections.resources import compiles
from drl_cli.envs import make
from drl_cli.errors import ConfigError, DrlError
from drl_cli.experiments import tuned_files
from drl_cli.experiments.config_tree import Flags

MAX_STEPS = 1_000_000  # env steps after which a run without stop rules ends


def stop_rules(keys: ExperimentKeys, config: CommonKeys, env: Mapping[str, Any], notices: list[str]) -> dict[str, Any]:
    """Return the stop rules: the given ones, else the environment's threshold and a limit; and rewards of the pass criteria.

    ``env``: its facts; a threshold is known of environments with one agent. A line about rules that were filled in is appended
    to ``notices``.
    """
    wanted = {field: value for field, value in keys.pass_criteria.items() if "episode_reward" in field}
    if keys.stop is not None:
        return {**wanted, **keys.stop}
    rules = dict(wanted)
    threshold = None if "agents" in env else make.reward_threshold(env["id"])
    if not rules and threshold is not None and config.evaluation_interval is not None:
        rules[EVALUATION_REWARD] = threshold
    rules["timesteps_total"] = MAX_STEPS
    text = " or ".join(f"{field} reaches {value:,g}" for field, value in rules.items() if field != "timesteps_total")
    until = f"when {text}, or after" if text else "after"
    notices.append(
        f"No --stop given: the run stops {until} {MAX_STEPS:,} env steps. Type --stop '{{}}' for an endless run."
    )
    return rules


def tuned_file(run: str, env_id: str) -> str | None:
    """Return the name of the tuned file that comes with the program for an algorithm and environment, or None.

    Of several the shortest, which is the plain one.
    """
    found = [name for name, path in tuned_files.shipped().items() if _is_for(path.read_text("utf-8"), run, env_id)]
    return min(found, key=len, default=None)


def _is_for(text: str, run: str, env_id: str) -> bool:
    own_run, own_env = tuned_files.run_and_env(text)
    if table.spelt(own_run or "") != table.spelt(run):  # names alone: a row would be imported for every file
        return False
    try:
        return make.resolve(own_env or "").id == env_id
    except DrlError:
        return False  # an environment whose package is not installed


def complete(config: CommonKeys, env_id: str, sees_images: bool) -> tuple[CommonKeys, int]:
    """Return the config with what was left open filled in, and the seed.

    That is the environment's id, a seed, whether XLA compiles, absolute paths.

    ``sees_images``: whether an observation is an image.
    """
    seed = config.seed if config.seed is not None else secrets.randbelow(2**31)
    settled = {"env": env_id, "seed": seed, "xla": compiles(config, sees_images)}
    return config.model_copy(update=settled | absolute(config)), seed


def ray_settings(flags: Flags) -> dict[str, Any]:
    """Return {address, num_cpus, num_gpus, object_store_memory} of the ``ray_…`` flags, and queue_trials where it is typed.

    Raises ConfigError.
    """
    names = ("address", "num_cpus", "num_gpus", "object_store_memory")
    settings: dict[str, Any] = {name: flags.get(f"ray_{name}") for name in names}
    given = [f"--ray-{name.replace('_', '-')}" for name in names if settings[name] is not None]
    if flags.get("local_mode") and given:
        raise ConfigError(
            f"{given[0]} is about Ray, and --local-mode runs everything in one process. Give one of them."
        )
    if flags.get("queue_trials"):
        settings["queue_trials"] = True
    for name in names[1:]:
        value, flag = settings[name], f"--ray-{name.replace('_', '-')}"
        if value is None:
            continue
        if settings["address"]:
            raise ConfigError(
                f"{flag} starts a Ray instance, --ray-address joins a running cluster. Give only one of them."
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise ConfigError(f"{flag}: {value!r:.60} is not a number ≥ 0.")
    return settings
