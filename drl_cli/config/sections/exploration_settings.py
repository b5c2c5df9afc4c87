"""What an algorithm's config says of exploration, resolved; and whether it fits the actions of an environment.

Used by ``policies.exploration``, ``experience.action_likelihood`` and ``runtime`` (``exploration_settings``), and by
``experiments`` (``misfits``). Key names and their meaning: ``config.sections.exploration``.
"""

from collections.abc import Sequence
from typing import Any

from drl_cli import plugins
from drl_cli.config.schema import Section
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.exploration import MEANT_FOR, TYPES, ExplorationConfig, types_of, uses_of, value_of
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.offline import reads
from drl_cli.config.sections.on_policy import StateDependentKeys
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.config.sections.served_input import is_served

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
    settings = _laid(config.exploration_config, config.learning_starts if isinstance(config, BufferKeys) else 0)
    for drawn in (settings, settings.get("sub_exploration", {})):
        if drawn.get("type") == "StochasticSampling" and not uses_sde(config):
            drawn["sde_sample_freq"] = None
    return settings


def _laid(given: ExplorationConfig, random_timesteps: int) -> dict[str, Any]:
    """Return the settings of ``given``, with those of what is laid over it."""
    settings, schema = _resolved(given, random_timesteps), type(given)
    if "sub_exploration" in settings:
        sub = settings["sub_exploration"]
        if sub is None and given.type == "ParameterNoise":
            sub = _SUB["Discrete" if "EpsilonGreedy" in types_of(schema) else "Box"]
        settings["sub_exploration"] = _laid(schema.model_validate(sub or {}), 0)
    return settings


def _resolved(given: ExplorationConfig, random_timesteps: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"type": given.type}
    for name, value in uses_of(given.type).items():
        chosen = value_of(given, name)
        settings[name] = value if chosen is None else chosen
    if settings.get("random_timesteps", 0) is None:
        settings["random_timesteps"] = random_timesteps
    return settings


def gives_novelty(config: Section) -> bool:
    """Return whether new observations bring rewards."""
    return isinstance(config, RolloutKeys) and config.exploration_config.type == "RND"


def novelty_misfits(config: Section, shape: Sequence[int], has_agents: bool) -> list[str]:
    """Return one line where RND has nothing to see, in a list: ``shape`` of observations; ``has_agents``: several of them."""
    if not gives_novelty(config):
        return []
    where = "exploration_config.type: RND"
    if len(shape) != 1:
        return [f"{where} is for vectors; the observations are images of shape {tuple(shape)}."]
    if has_agents:
        return [f"{where} is for one agent."]
    if is_served(config):
        return [f"{where}: steps of external simulators bring no rewards for what is new. Leave it out."]
    if reads(config):
        return [f"{where}: recorded steps bring no rewards for what is new. Leave it out."]
    if is_deterministic(config):
        return [
            f"{where}: each worker has networks of its own, so that deterministic runs cannot have it. Leave it out."
        ]
    return []


def misfits(config: Section, kind: str) -> list[str]:
    """Return one line for each key of exploration that does not fit actions of ``kind`` ("Box", "Discrete")."""
    if not isinstance(config, RolloutKeys):
        return []  # evolution strategies perturb weights and explore in no other way
    given = config.exploration_config
    own = None if given.type in TYPES else plugins.EXPLORATIONS.find(given.type)
    if own and kind not in own.actions:
        fits = " and ".join(own.actions)
        return [f"exploration_config.type: {given.type} is for {fits} actions, the environment's are {_words(kind)}."]
    if kind == "Box":
        return []
    found = []
    if given.type in _BOX_ONLY:
        fits = [name for name in types_of(type(given)) if name not in _BOX_ONLY]
        found.append(
            f"exploration_config.type: {given.type} is for Box actions, the environment's are {_words(kind)}. What fits: "
            f"{', '.join(fits)}."
        )
    if uses_sde(config):
        found.append(
            f"use_sde: state-dependent noise is for Box actions, the environment's are {_words(kind)}. Leave the key out."
        )
    if kind == "Composite" and is_served(config):
        found.append("input: policy_server is for Box and for discrete actions, the environment's are a Dict or Tuple.")
    return found


def _words(kind: str) -> str:
    """Return in words what actions of ``kind`` are."""
    return "a Dict or Tuple" if kind == "Composite" else kind
