"""Import paths of 0.1 bring the modules that have taken their place, for one release."""

import importlib
import sys
from pathlib import Path

import pytest

import drl_cli
from drl_cli.api import moved

PACKAGE = Path(drl_cli.__file__).parent


@pytest.fixture(autouse=True)
def old_names():
    """Nothing of the old names stays in ``sys.modules``."""
    yield
    for name in [name for name in sys.modules if name.removeprefix("drl_cli.") in (*moved.MODULES, *moved.PACKAGES)]:
        del sys.modules[name]


@pytest.mark.parametrize("new", sorted(set(moved.MODULES.values())))
def test_new_place_of_a_moved_module_exists(new):
    place = PACKAGE.joinpath(*new.split("."))
    assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def test_old_names_are_free():
    taken = [old for old in moved.MODULES if PACKAGE.joinpath(*old.split(".")).with_suffix(".py").exists()]
    assert taken == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("configs.schema", "config.schema"),
        ("configs.on_policy", "config.sections.on_policy"),
        ("configs.sac", "algorithms.sac"),
        ("networks.spec", "policies.policy_spec"),
        ("acting.exploration.registering", "policies.exploration.custom_exploration"),
        ("data.columns", "experience.columns"),
        ("loading", "extras"),
    ],
)
def test_old_import_brings_the_new_module_and_warns(old, new):
    with pytest.warns(DeprecationWarning, match=f"drl_cli.{old} is drl_cli.{new}"):
        module = importlib.import_module(f"drl_cli.{old}")
    assert module is importlib.import_module(f"drl_cli.{new}")
    assert module.__name__ == module.__spec__.name == f"drl_cli.{new}"


def test_from_import_of_an_old_package_finds_its_modules():
    with pytest.warns(DeprecationWarning):
        from drl_cli.networks import nets
    assert nets is importlib.import_module("drl_cli.policies.nets")


@pytest.mark.parametrize("name", ["drl_cli.configs.nothing", "drl_cli.nothing", "drl_cli.networks.nets.more"])
def test_name_that_never_was_is_still_missing(name):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
