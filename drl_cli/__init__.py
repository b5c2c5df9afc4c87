"""drl: train, watch and score deep-reinforcement-learning agents from the command line, and from Python.

What a program of one's own needs is here: ``Trainer``, the ``register_…`` functions, and the classes that go with them. Each is
loaded when it is first asked for, so that ``import drl_cli`` loads nothing heavy: no NumPy, no TensorFlow, no Ray.
``__init__.pyi`` beside this file tells the same to type checkers.
"""

import importlib

from drl_cli.version import __version__

_WHERE = {
    "Algorithm": "drl_cli.algorithms.row:Algorithm",
    "Callbacks": "drl_cli.envs.callbacks:Callbacks",
    "Trainer": "drl_cli.api.trainer:Trainer",
    "register_algorithm": "drl_cli.algorithms.custom_algorithms:register_algorithm",
    "register_callbacks": "drl_cli.envs.callbacks:register_callbacks",
    "register_env": "drl_cli.envs.custom_envs:register_env",
    "register_evaluation": "drl_cli.actors.custom_evaluation:register_evaluation",
    "register_exploration": "drl_cli.policies.exploration.custom_exploration:register_exploration",
    "register_logger": "drl_cli.runs.loggers.custom_loggers:register_logger",
    "register_model": "drl_cli.policies.custom_models:register_model",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    found = globals()[name] = getattr(importlib.import_module(module), attribute)
    return found


def __dir__():
    return sorted({*globals(), *_WHERE})
