"""A stand-in for the stop rules where they are not there yet, and what the tests of this folder share."""

import importlib.util
import sys
import types

import pytest

from drl_cli import events


class _Stop:
    def __init__(self, rules, confirm_episodes=0):
        self._rules, self._confirm = rules, confirm_episodes

    def check(self, result):
        for field, threshold in self._rules.items():
            value = result
            for name in field.split("/"):
                value = (value or {}).get(name)
            if field.startswith("evaluation/") and self._confirm:
                value = (result.get("evaluation") or {}).get("confirmed_reward_mean")
            if value is not None and value >= threshold:
                return f"{field} {value} reached {threshold}"
        return None


def _unmet(criteria, result):
    return [f"{name} is {result.get(name)}, below {least}" for name, least in criteria.items() if result[name] < least]


if importlib.util.find_spec("drl_cli.experiment.stop") is None:
    stand_in = types.ModuleType("drl_cli.experiment.stop")
    stand_in.Stop, stand_in.unmet = _Stop, _unmet
    sys.modules["drl_cli.experiment.stop"] = stand_in


@pytest.fixture
def heard():
    """Every event reported during the test, as (kind, fields)."""
    found = []
    unsubscribe = events.subscribe(lambda kind, fields: found.append((kind, fields)))
    yield found
    unsubscribe()
