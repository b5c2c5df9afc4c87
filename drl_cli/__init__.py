"""drl: train, watch and score deep-reinforcement-learning agents from the command line."""

import importlib

__version__ = "0.1.0"

_PUBLIC = {"register_model": "drl_cli.networks.models"}


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
