"""What an algorithm's config says of exploration, resolved; and whether it fits the actions of an environment.

Used by ``policies.exploration``, ``experience.action_likelihood`` and ``runtime`` (``exploration_settings``), and by
``experiments`` (``misfits``). Key names and their meaning: ``config.sections.exploration``.
"""

from typing import Any

from drl_cli import plugins
from drl_cli.config.schema import Section
from drl_cli.config.sections.exploration import MEANT_FOR, TYPES, ExplorationConfig, types_of, uses_of, value_of
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.on_policy import StateDependentKeys
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.rollout import RolloutKeys

_BOX_ONLY = tuple(name for name, meant in MEANT_FOR.items() if meant == "Box actions")

_SUB = {
    "Discrete": {"type": "EpsilonGreedy", "initial_epsilon": 0.01, "final_epsilon": 0.01, "epsilon_timesteps": 1},
    "Box": {"type": "OrnsteinUhlenbeckNoise"},
}
"""Exploration that is laid over noisy weights where ``sub_exploration`` is null."""


def uses_sde(config: Section) -> bool:
    """Return whether the policy's noise is state-dependent (gSDE)."""
    return isinstance(config, (SoftKeys, StateDependentKeys)) and config.use_sde


def exploration_settings(config: RolloutKeys) -> dict[str, Any]:
    """Return the exploration of an algorithm's config, resolved: ``type`` and the keys that it uses, as plain data.

    No value is null but an absent schedule, and ``sde_sample_freq`` of a policy without ``use_sde``.
    ``sub_exploration`` is such a mapping itself, without a random phase of its own.
    """
    given = config.exploration_config
    settings = _resolved(given, config.learning_starts if isinstance(config, BufferKeys) else 0)
    if "sub_exploration" in settings:
        schema = type(given)
        sub = settings["sub_exploration"] or _SUB["Discrete" if "EpsilonGreedy" in types_of(schema) else "Box"]
        settings["sub_exploration"] = _resolved(schema.model_validate(sub), 0)
    if given.type == "StochasticSampling" and not uses_sde(config):
        settings["sde_sample_freq"] = None
    return settings


def _resolved(given: ExplorationConfig, random_timesteps: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"type": given.type}
    for name, value in uses_of(given.type).items():
        chosen = value_of(given, name)
        settings[name] = value if chosen is None else chosen
    if settings.get("random_timesteps", 0) is None:
        settings["random_timesteps"] = random_timesteps
    return settings


def misfits(config: Section, kind: str) -> list[str]:
    """Return one line for each key of exploration that does not fit actions of ``kind`` ("Box", "Discrete")."""
    if not isinstance(config, RolloutKeys):
        return []  # evolution strategies perturb weights and explore in no other way
    given = config.exploration_config
    own = None if given.type in TYPES else plugins.EXPLORATIONS.find(given.type)
    if own and kind not in own.actions:
        fits = " and ".join(own.actions)
        return [f"exploration_config.type: {given.type} is for {fits} actions, the environment's are {kind}."]
    if kind == "Box":
        return []
    found = []
    if given.type in _BOX_ONLY:
        fits = [name for name in types_of(type(given)) if name not in _BOX_ONLY]
        found.append(
            f"exploration_config.type: {given.type} is for Box actions, the environment's are {kind}. What fits: "
            f"{', '.join(fits)}."
        )
    if uses_sde(config):
        found.append(
            f"use_sde: state-dependent noise is for Box actions, the environment's are {kind}. Leave the key out."
        )
    return found
