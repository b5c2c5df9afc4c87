"""Registries of plug-ins: found by name, taken from installed packages when needed, carried to other processes."""

from types import SimpleNamespace

import pytest

from drl_cli import plugins
from drl_cli.errors import InputError


@pytest.fixture
def registry(monkeypatch):
    made = plugins.Registry("model", "register_model")
    monkeypatch.setattr(plugins, "_ALL", {"model": made})
    monkeypatch.setattr(plugins, "_failures", [])
    return made


def _entry(name, loaded):
    def load():
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    return SimpleNamespace(name=name, value=f"pack.{name}", load=load)


def test_what_is_registered_is_found_and_replaced(registry):
    registry.add("mine", 1)
    registry.add("mine", 2)
    assert registry.find("mine") == 2 and registry.known() == {"mine": 2}


def test_an_unknown_name_is_refused_with_the_nearest_and_how_to_register(registry):
    registry.add("two_towers", 1)
    with pytest.raises(
        InputError, match="as 'two_tower'. Did you mean 'two_towers'?.*drl_cli.register_model.*--import"
    ):
        registry.find("two_tower")


def test_something_without_a_name_is_refused(registry):
    with pytest.raises(InputError, match="register_model: a model is registered under a name, not '3'"):
        registry.add(3, "thing")


def test_entry_points_are_asked_once_and_only_for_what_is_not_known(registry, monkeypatch):
    asked = []
    entry = _entry("theirs", lambda: registry.add("theirs", 7))
    monkeypatch.setattr(plugins, "_failures", None)
    monkeypatch.setattr(plugins, "entry_points", lambda group: asked.append(group) or [entry])
    registry.add("mine", 1)
    assert registry.find("mine") == 1 and asked == []
    assert registry.find("theirs") == 7 and registry.all() == {"mine": 1, "theirs": 7}
    assert asked == ["drl_cli.plugins"]


def test_a_broken_entry_point_is_told_where_a_name_is_missed_and_spoils_nothing_else(registry, monkeypatch):
    entries = [_entry("bad", ZeroDivisionError("division")), _entry("good", lambda: registry.add("good", 1))]
    monkeypatch.setattr(plugins, "_failures", None)
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    assert registry.find("good") == 1
    with pytest.raises(InputError, match=r"The plug-in bad \(pack.bad\) failed: ZeroDivisionError: division"):
        registry.find("other")


def test_what_is_registered_here_is_adopted_elsewhere(registry):
    registry.add("mine", 5)
    carried = plugins.registered()
    assert carried == {"model": {"mine": 5}}
    registry._things.clear()
    plugins.adopt(carried)
    plugins.adopt(None)
    assert registry.find("mine") == 5
