"""Import paths of 0.1 that programs of one's own may still use, kept for one release.

Used by ``drl_cli`` for modules that no other importer finds: such an import brings the module that has taken the place of the
old one, with a DeprecationWarning that names it.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "acting.callbacks": "envs.callbacks",
    "acting.env_batch": "envs.env_batch",
    "acting.envs": "envs.make",
    "acting.evaluations": "actors.custom_evaluation",
    "acting.exploration.registering": "policies.exploration.custom_exploration",
    "acting.own_creators": "envs.custom_envs",
    "acting.policy": "policies.numpy_policy",
    "acting.preprocessing": "envs.preprocessors",
    "acting.spaces": "envs.spaces",
    "algorithms.ars": "evolution.ars_update",
    "algorithms.conservative": "algorithms.cql_graph",
    "algorithms.crossq_nets": "algorithms.crossq",
    "algorithms.ddpg_nets": "algorithms.ddpg",
    "algorithms.describing": "policies.net_builders",
    "algorithms.dqn_nets": "algorithms.dqn",
    "algorithms.estimates": "algorithms.on_policy_graph",
    "algorithms.evolution_nets": "evolution.net",
    "algorithms.iql_nets": "algorithms.iql",
    "algorithms.marwil_nets": "algorithms.marwil",
    "algorithms.r2d2_nets": "algorithms.r2d2",
    "algorithms.registering": "algorithms.custom_algorithms",
    "algorithms.sac_nets": "algorithms.sac",
    "algorithms.soft_actor": "algorithms.max_entropy_actor_graph",
    "algorithms.soft_critics": "algorithms.max_entropy_critics_graph",
    "algorithms.soft_update": "algorithms.max_entropy_update_graph",
    "algorithms.tqc_nets": "algorithms.tqc",
    "configs.a2c": "algorithms.a2c",
    "configs.a3c": "algorithms.a3c",
    "configs.allowed": "config.key_description",
    "configs.apex": "algorithms.apex",
    "configs.common_defaults": "config.rllib.common_defaults",
    "configs.comparisons": "config.result_names",
    "configs.cql": "algorithms.cql",
    "configs.crossq": "algorithms.crossq",
    "configs.ddpg": "algorithms.ddpg",
    "configs.dqn": "algorithms.dqn",
    "configs.elsewhere": "config.rllib.other_libraries",
    "configs.environment": "config.sections.environment",
    "configs.environs": "config.environment_variables",
    "configs.es": "evolution.keys",
    "configs.estimates": "config.sections.estimates",
    "configs.evaluation": "config.sections.evaluation",
    "configs.evaluation_overrides": "config.sections.evaluation_overrides",
    "configs.experiment": "config.experiment_keys",
    "configs.experiment_spelling": "config.rllib.experiment_aliases",
    "configs.exploration": "config.sections.exploration",
    "configs.export_formats": "config.experiment_keys",
    "configs.flags": "config.assignments",
    "configs.idle_keys": "config.rllib.ignored_keys",
    "configs.impala": "algorithms.impala",
    "configs.iql": "algorithms.iql",
    "configs.iteration": "config.sections.iteration",
    "configs.listing": "config.key_description",
    "configs.marwil": "algorithms.marwil",
    "configs.model": "config.sections.model",
    "configs.off_policy": "config.sections.off_policy",
    "configs.offline": "config.sections.offline",
    "configs.old_versions": "config.rllib.old_versions",
    "configs.on_policy": "config.sections.on_policy",
    "configs.origins": "config.origins",
    "configs.output": "config.sections.offline",
    "configs.parse": "config.parse",
    "configs.pg": "algorithms.a2c",
    "configs.ppo": "algorithms.ppo",
    "configs.r2d2": "algorithms.r2d2",
    "configs.recorded": "config.sections.offline",
    "configs.replay": "config.sections.replay",
    "configs.resources": "config.sections.resources",
    "configs.results": "config.result_names",
    "configs.rllib_keys": "config.rllib.refused_keys",
    "configs.rllib_semantics": "config.rllib.semantics",
    "configs.rollout": "config.sections.rollout",
    "configs.sac": "algorithms.sac",
    "configs.sampling": "config.search_space",
    "configs.scalars": "config.strict_yaml",
    "configs.schedulers": "config.sections.schedulers",
    "configs.schema": "config.schema",
    "configs.secrets": "config.plain_data",
    "configs.soft": "config.sections.max_entropy",
    "configs.spelling": "config.rllib.aliases",
    "configs.td3bc": "algorithms.td3bc",
    "configs.text": "config.strict_yaml",
    "configs.tqc": "algorithms.tqc",
    "configs.trpo": "algorithms.trpo",
    "configs.variants": "config.search_space",
    "configs.where": "config.origins",
    "data.columns": "experience.columns",
    "data.randomness": "randomness",
    "data.schedules": "schedules",
    "data.trajectories": "experience.trajectories",
    "experiment.door": "api.trainer",
    "loading": "extras",
    "loggers.registering": "runs.loggers.custom_loggers",
    "losses.action_value": "algorithms.losses.value",
    "losses.conservative": "algorithms.losses.conservative",
    "losses.entropy": "algorithms.losses.policy_gradient",
    "losses.imitation": "algorithms.losses.imitation",
    "losses.policy_gradient": "algorithms.losses.policy_gradient",
    "losses.quantile": "algorithms.losses.quantile",
    "losses.rescaling": "algorithms.losses.value",
    "losses.returns": "algorithms.losses.returns",
    "losses.value": "algorithms.losses.value",
    "losses.vtrace": "algorithms.losses.vtrace",
    "networks.action_specs": "policies.action_specs",
    "networks.backward": "policies.backward",
    "networks.distributions": "policies.distributions",
    "networks.filtering": "policies.filters",
    "networks.flat": "evolution.net",
    "networks.forward": "policies.forward",
    "networks.initial": "policies.nets",
    "networks.models": "policies.custom_models",
    "networks.nets": "policies.nets",
    "networks.reading": "policies.policy_from_manifest",
    "networks.score_gradients": "policies.score_gradients",
    "networks.scored": "policies.distributions",
    "networks.spec": "policies.policy_spec",
    "tf1.action_values": "policies.distributions_tf",
    "tf1.actor_critic": "policies.actor_critic_tf",
    "tf1.build": "policies.forward_tf",
    "tf1.custom": "policies.custom_models_tf",
    "tf1.distributions": "policies.distributions_tf",
    "tf1.filtering": "policies.filters_tf",
    "tf1.greedy": "policies.greedy_tf",
    "tf1.lstm": "policies.layers_tf",
    "tf1.moving": "tf1.polyak",
    "tf1.noise": "policies.layers_tf",
    "tf1.scored": "policies.distributions_tf",
}
"""Old dotted name → new one, both without ``drl_cli.``. A row's ``graph`` is mapped by ``register_algorithm``."""

PACKAGES = (
    "acting",
    "acting.exploration",
    "checkpoint",
    "configs",
    "data",
    "experiment",
    "loggers",
    "losses",
    "networks",
)
"""Folders of 0.1 that are gone; imported by themselves they are empty."""


def spec_of(fullname: str) -> ModuleSpec | None:
    """Return where to load a module of 0.1 from, or None for every other name."""
    short = fullname.removeprefix("drl_cli.")
    if short in PACKAGES:
        return ModuleSpec(fullname, _Nothing(), is_package=True)
    return ModuleSpec(fullname, _Moved(f"drl_cli.{MODULES[short]}")) if short in MODULES else None


class _Nothing(Loader):
    """Loads an empty package."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the package empty."""


class _Moved(Loader):
    """Loads a module from its new place and puts it into ``sys.modules`` under the old name too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def exec_module(self, module: ModuleType) -> None:
        """Import the new module in place of ``module``."""
        old = module.__name__
        warnings.warn(
            f"{old} is {self._name} since 0.2; the old name is removed in 0.3", DeprecationWarning, stacklevel=2
        )
        sys.modules[old] = importlib.import_module(self._name)
