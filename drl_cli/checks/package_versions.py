"""The packages that drl needs, the versions it supports, and those that are installed. Used by ``drl doctor``.

The version ranges are those of drl's own metadata, or of ``setup.cfg`` in a checkout. ``packaging``, which compares them, is
imported where it is used: it may be what is missing.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import re
from pathlib import Path

import drl_cli
from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding

_NEED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(.*)$")
OPTIONAL = {
    "ale-py": ("Atari games", "pip install 'drl-cli[atari]'"),
    "mujoco": ("MuJoCo's environments", "pip install 'drl-cli[mujoco]'"),
    "pettingzoo": ("environments with several agents", "pip install 'drl-cli[multiagent]'"),
}
ALIKE = {"pygame-ce": "pygame"}
"""Package → another one that writes the same modules: either will do, and both damage each other."""


def needed() -> dict[str, str]:
    """Return {package: specifier text} of what the program needs, without extras."""
    lines = _from_setup() or _from_metadata()
    found = {}
    for line in lines:
        match = _NEED.match(line.split(";")[0].strip())
        if match and "extra ==" not in line:
            found[match[1]] = match[2].strip().strip("()")
    return found


def python_window() -> str:
    """Return the specifier text of Python's versions."""
    parser = _setup()
    if parser is not None:
        return parser.get("options", "python_requires", fallback="")
    try:
        return importlib.metadata.metadata("drl-cli")["Requires-Python"] or ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def _setup() -> configparser.ConfigParser | None:
    path = Path(drl_cli.__file__).resolve().parent.parent / "setup.cfg"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        return parser if parser.read(path, encoding="utf-8") and parser.get("metadata", "name") == "drl-cli" else None
    except configparser.Error:  # no setup.cfg of this program
        return None


def _from_setup() -> list[str]:
    parser = _setup()
    return [] if parser is None else parser.get("options", "install_requires", fallback="").split("\n")


def _from_metadata() -> list[str]:
    try:
        return importlib.metadata.requires("drl-cli") or []
    except importlib.metadata.PackageNotFoundError:
        return []


def installed(package: str) -> str | None:
    """Return the version of ``package`` that is installed, or None."""
    try:
        return importlib.metadata.version(package)
    except Exception:  # damaged metadata raises whatever it likes, and is as good as none
        return None


def fits(version: str, specifier: str) -> bool:
    """Whether ``version`` is within ``specifier`` (``>=2.16,<2.22``); True where that cannot be decided."""
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.version import InvalidVersion
    except ImportError:  # it comes with TensorFlow and Ray, which are reported missing by themselves
        return True
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):  # a version of one's own making: nothing can be said
        return True


def probe() -> list[Finding]:
    """Return the Findings about packages: those that are missing or outside of their window, and one for the rest."""
    found, good = [], []
    for package, specifier in needed().items():
        version = installed(package)
        mend = f"pip install '{package}{_extras(package)}{specifier.replace(' ', '')}'"
        alike = ALIKE.get(package)
        other = installed(alike) if alike else None
        if version and other:
            text = f"{version} and {alike} {other} are installed and overwrite each other's files; keep one"
            found.append(Finding(package, WARN, text, f"pip uninstall -y {alike} {package}; {mend}"))
        elif other:
            good.append(f"{alike} {other}")
        elif version is None:
            found.append(Finding(package, FAIL, f"is not installed; drl needs {specifier or 'any version'}", mend))
        elif not fits(version, specifier):
            found.append(Finding(package, WARN, f"{version} is outside the supported range: {specifier}", mend))
        else:
            good.append(f"{package} {version}")
    if good:
        found.insert(0, Finding("packages", OK, ", ".join(good)))
    for package, (use, mend) in OPTIONAL.items():
        if installed(package) is None and package not in needed():
            found.append(Finding(package, NOTE, f"is not installed, which is for {use}", mend))
    return found


def _extras(package: str) -> str:
    return "[rllib]" if package == "ray" else ""
