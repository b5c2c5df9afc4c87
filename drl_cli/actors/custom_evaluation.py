"""Evaluations of one's own: a function that scores the policy in place of the tester's usual episodes.

``register_evaluation("mine", function)`` in a module, then ``--import MODULE -s custom_eval_function=mine``. The function gets
an ``Evaluation`` and returns a dict of metrics, which stand under ``evaluation`` in results. It must say
``episode_reward_mean``: stop rules, the best checkpoint and the screen go by it. Where a stop rule's target is confirmed by
fresh episodes it is called once more, with fresh seeds. User: ``actors.tester``. Source of the key: RLlib 1.0
(``custom_eval_function(trainer, eval_workers)``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drl_cli import plugins
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.config.episode_metrics import summary
from drl_cli.config.sections.common import CommonKeys
from drl_cli.envs import make
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.team import laid_over
from drl_cli.envs.plugin_calls import called, place
from drl_cli.errors import ConfigError, InputError, PluginFailed
from drl_cli.policies.numpy_policy import NumpyPolicy

MEAN = "episode_reward_mean"
TAKEN = ("training_iteration", "timesteps_total", "num_updates", "confirmed_reward_mean", "confirmed_episodes")


def register_evaluation(name: str, function: Callable) -> Callable:
    """Make ``function(evaluation)`` known as ``name``, for the config key ``custom_eval_function``; returns the function."""
    if not callable(function):
        raise InputError(f"register_evaluation: {str(function)[:80]!r} cannot be called.")
    plugins.EVALUATIONS.add(name, function)
    return function


def name_of(function: Callable) -> str:
    """Return the name for the config key ``custom_eval_function`` of a function, which is registered under its own."""
    name = plugins.name_of(function)
    register_evaluation(name, function)
    return name


def problems(config: CommonKeys) -> list[str]:
    """Return one line for what is wrong with ``config.custom_eval_function``, [] for nothing."""
    if config.custom_eval_function is None:
        return []
    try:
        plugins.EVALUATIONS.find(config.custom_eval_function)
    except InputError as error:
        return [f"custom_eval_function: {error}"]
    if config.evaluation_duration_unit == "timesteps":
        return [
            "evaluation_duration_unit: timesteps counts the steps of the tester's own episodes; custom_eval_function "
            "decides by itself what it plays. Omit one of them."
        ]
    return []


class Evaluation:
    """What an evaluation may use: the policy, environments, seeds, and the tester's own way to play.

    ``policies``: {policy id: the ``policies.numpy_policy.NumpyPolicy`` to score}; ``policy``: the first of them, where there is
    one agent the only one. ``seeds``: one for each episode to play (``evaluation_num_episodes``, or
    ``evaluation_confirm_episodes``), others at every evaluation, the same in a repeated run.
    ``env_id``, ``env_config``, ``horizon``, ``explore``: of the evaluation.
    """

    def __init__(
        self,
        policies: Mapping[str, NumpyPolicy],
        env: Mapping[str, Any],
        seeds: Sequence[int],
        play: Callable[[Mapping[str, Any], Sequence[int]], list[ScoredEpisode]],
    ) -> None:
        """``env``: as the tester's; ``play(env, seeds)`` returns a list of ``actors.part_records.ScoredEpisode``."""
        self.policies, self.seeds = dict(policies), list(seeds)
        self.policy = next(iter(self.policies.values()))
        self.env_id, self.env_config = env["id"], dict(env["env_config"])
        self.horizon, self.explore = env["horizon"], env["explore"]
        self._env, self._play = env, play

    @property
    def episodes(self) -> int:
        """How many episodes to play."""
        return len(self.seeds)

    def make_env(self, **env_config: Any) -> Any:
        """Return a new environment whose observations are those of the policy; ``env_config`` is laid over the run's.

        A gymnasium.Env; with several agents an ``envs.multi_agent.multi_agent_env.MultiAgentEnv``. The caller closes it. Raises
        EnvError.
        """
        given = laid_over(self.env_id, self.env_config, env_config)
        if self._env.get("agents"):
            return open_envs.open_setup({**self._env, "env_config": given})
        return make.make(self.env_id, given, preprocessing=self._env.get("preprocessing"))

    def play(self, seeds: Sequence[int] | None = None, **env_config: Any) -> list[ScoredEpisode]:
        """Play one whole episode for each of ``seeds`` (None: all of ``self.seeds``) in environments as of ``make_env``.

        Returns a list of ScoredEpisode (reward, length, seed, terminated), in their order. Raises EnvError.
        """
        over = {**self._env, "env_config": laid_over(self.env_id, self.env_config, env_config)}
        return self._play(over, self.seeds if seeds is None else list(seeds))

    def summary(self, episodes: Sequence[ScoredEpisode]) -> dict[str, Any]:
        """Return the usual fields (``episode_reward_mean``, …) of a list of ScoredEpisode, at least one."""
        return summary(episodes)


def evaluated(name: str, evaluation: Evaluation) -> dict[str, Any]:
    """Return the metrics of an ``Evaluation`` by the function that is registered as ``name``, as plain data.

    Raises PluginFailed for what it raises, and for metrics that cannot be, ConfigError for an unknown name.
    """
    try:
        function = plugins.EVALUATIONS.find(name)
    except InputError as error:
        raise ConfigError(f"custom_eval_function: {error}") from error
    what = f"custom_eval_function {name!r}"
    found = called(what, function, evaluation)
    if not isinstance(found, dict):
        raise PluginFailed(
            f"{what} returned {type(found).__name__}; it must return a dict of metrics ({place(function)})."
        )
    metrics = _numbers(found, what)
    if metrics.get(MEAN) is None:
        raise PluginFailed(
            f"{what} returned no {MEAN}: stop rules, the best checkpoint and the screen go by it. Return "
            f"{{**evaluation.summary(episodes), …}}, or say what it is ({place(function)})."
        )
    return metrics


def _numbers(found: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return ``found`` with its numbers as Python's; what is not finite becomes None."""
    metrics = {}
    for name, value in found.items():
        if name in TAKEN:
            raise PluginFailed(f"{what} returned {name!r}, which the tester sets itself. Give it another name.")
        if isinstance(value, dict):
            metrics[str(name)] = _numbers(value, what)
        elif isinstance(value, (list, tuple)) and name != MEAN:
            metrics[str(name)] = [_one(item, f"{what}: an element of {name!r}") for item in value]
        else:
            metrics[str(name)] = _one(value, f"{what}: {name!r}")
    return metrics


def _one(value: Any, what: str) -> float | int | bool | None:
    value = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    raise PluginFailed(f"{what} is {str(value)[:60]!r}; it must be a number, or a list or dict of numbers.")
