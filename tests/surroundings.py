"""What surrounds a test: no run, file or setting of whoever runs it, and none that another test has left.

Used by ``tests/conftest.py`` for every test. ``HOME`` and the current folder are empty folders with nothing beside them, and
variables that change what ``drl`` does, or how it prints, are not set.
"""

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from drl_cli.extras import load

PREFIXES = ("DRL_", "XDG_", "WANDB_", "MLFLOW_", "AIM_")
NAMES = (
    "TUNE_RESULT_DIR",
    "MINARI_DATASETS_PATH",
    "RAY_ADDRESS",
    "COLUMNS",
    "LINES",
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "LANG",
    "LANGUAGE",
)
FIXED = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}


def foreign(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the variables of ``environ`` that a test must not see."""
    return sorted(name for name in environ if name in NAMES or name.startswith(PREFIXES))


def settle(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Leave nothing of the user's around the process: ``folder`` is its home, and holds what libraries keep in caches."""
    for name in foreign():
        patch.delenv(name)
    for name, value in {**FIXED, "HOME": str(folder), "MPLCONFIGDIR": str(folder / "matplotlib")}.items():
        patch.setenv(name, value)


def hear_signals() -> None:
    """Let the processes that tests start hear signals that whoever started pytest ignores: nohup SIGHUP, a shell's & SIGINT."""
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


_places: list[Path] = []


def _place(base: Path) -> Path:
    """Return a folder that no test has written to: the last one again where it is still as it was made."""
    for last in _places[-1:]:
        entries = sorted(len(files) + len(folders) for _, folders, files in os.walk(last))
        if last.parent == base and entries == [0, 0, 1, 2]:
            return last
    place = base / str(len(_places))
    (place / "home").mkdir(parents=True)
    (place / "place" / "here").mkdir(parents=True)
    _places.append(place)
    return place


def settle_test(patch: pytest.MonkeyPatch, base: Path) -> None:
    """Give one test an empty home and an empty current folder below ``base``."""
    place = _place(base)
    patch.setenv("HOME", str(place / "home"))
    patch.chdir(place / "place" / "here")


@contextlib.contextmanager
def forgetting_plug_ins():
    """What is registered inside is forgotten at the end."""
    plugins, gymnasium = load("drl_cli.plugins"), load("gymnasium")
    load("drl_cli.envs.make")  # registers what comes with the program
    held = {registry: registry.known() for registry in plugins._ALL.values()}
    creator = load("drl_cli.envs.custom_envs:Creator")
    yield plugins
    for registry, things in held.items():
        registry._things = things
    for name in [name for name, spec in gymnasium.registry.items() if isinstance(spec.entry_point, creator)]:
        del gymnasium.registry[name]
