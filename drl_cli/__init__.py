"""drl: train, watch and score deep-reinforcement-learning agents from the command line, and from Python.

What your own programs need is here: ``Trainer``, the ``register_…`` functions, and the classes that go with them. Each is
loaded at its first use, so that ``import drl_cli`` loads nothing heavy: no NumPy, no TensorFlow, no Ray. Type checkers read
``__init__.pyi`` beside this file.
"""

import importlib
import sys

from drl_cli.version import __version__


class _OldNames:
    """Stands after all other importers, which find no module of 0.1 any more: ``api.moved`` knows where they are now."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if not name.startswith("drl_cli."):
            return None
        from drl_cli.api import moved

        return moved.spec_of(name)


sys.meta_path.append(_OldNames())  # pyright: ignore[reportArgumentType] - importlib.abc would be loaded for its name alone

_WHERE = {
    "Algorithm": "drl_cli.algorithms.row:Algorithm",
    "Callbacks": "drl_cli.envs.callbacks:Callbacks",
    "Trainer": "drl_cli.api.trainer:Trainer",
    "register_action_dist": "drl_cli.policies.custom_distributions:register_action_dist",
    "register_algorithm": "drl_cli.algorithms.custom_algorithms:register_algorithm",
    "register_callbacks": "drl_cli.envs.callbacks:register_callbacks",
    "register_env": "drl_cli.envs.custom_envs:register_env",
    "register_env_task_fn": "drl_cli.envs.env_tasks:register_env_task_fn",
    "register_env_wrapper": "drl_cli.envs.env_wrappers:register_env_wrapper",
    "register_evaluation": "drl_cli.actors.custom_evaluation:register_evaluation",
    "register_exploration": "drl_cli.policies.exploration.custom_exploration:register_exploration",
    "register_logger": "drl_cli.runs.loggers.custom_loggers:register_logger",
    "register_observation_fn": "drl_cli.envs.multi_agent.agent_functions:register_observation_fn",
    "register_opponent": "drl_cli.envs.multi_agent.agent_functions:register_opponent",
    "register_policy_mapping": "drl_cli.envs.multi_agent.agent_functions:register_policy_mapping",
    "register_model": "drl_cli.policies.custom_models:register_model",
    "register_preprocessor": "drl_cli.envs.custom_preprocessors:register_preprocessor",
    "run_search": "drl_cli.api.python_search:run_search",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    found = globals()[name] = getattr(importlib.import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
