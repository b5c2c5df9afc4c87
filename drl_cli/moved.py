"""Import paths of 0.1 that programs of one's own may still use, kept for one release.

``import drl_cli`` puts ``Finder`` after all other importers, so it is asked only for modules that do not exist any more. Such an
import brings the module that has taken the place of the old one, with a DeprecationWarning that names it.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
@@MODULES@@
}
"""Old dotted name → new one, both after ``drl_cli.``."""

PACKAGES = ("acting", "acting.exploration", "checkpoint", "configs", "data", "experiment", "loggers", "losses", "networks")
"""Folders of 0.1 that are gone; imported by themselves they are empty."""

GRAPHS = (@@GRAPHS@@)
"""What a row of 0.1 named as its graph, ``drl_cli.algorithms.NAME``, is now ``drl_cli.algorithms.NAME_graph``."""


def graph(name: object) -> object:
    """Return the graph that a row names, by its new name where it is one of 0.1; anything but such a name as it is."""
    short = name.removeprefix("drl_cli.algorithms.") if isinstance(name, str) else None
    return f"{name}_graph" if short in GRAPHS else name


class Finder(MetaPathFinder):
    """Finds the modules of ``MODULES`` under their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where to load a module of 0.1 from, or None for every other name."""
        short = fullname.removeprefix("drl_cli.")
        if short == fullname:
            return None
        if short in PACKAGES:
            return ModuleSpec(fullname, _Nothing(), is_package=True)
        if short not in MODULES:
            return None
        return ModuleSpec(fullname, _Moved(f"drl_cli.{MODULES[short]}"))


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
        import sys

        old = module.__name__
        warnings.warn(f"{old} is {self._name} since 0.2; the old name goes with 0.3", DeprecationWarning, stacklevel=6)
        sys.modules[old] = importlib.import_module(self._name)
