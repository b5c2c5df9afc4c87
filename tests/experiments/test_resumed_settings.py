"""A resumed run keeps its settings, and keys that its sections have got since it began are at their defaults."""

import types

import pytest

from drl_cli.errors import ConfigError
from drl_cli.experiments import run_records, spec
from drl_cli.experiments.open_run import check_unchanged

FLAGS = {"run": "SAC", "env": "Pendulum-v1", "set": ["seed=1"]}


def resumed(given, forget):
    """Check the settings of a run of SAC, resumed with ``given``, that began before ``Q_model.<forget>`` and the like."""
    old = run_records.params(spec.from_flags(FLAGS))
    for section in ("Q_model", "policy_model"):
        old["config"][section] = {name: value for name, value in old["config"][section].items() if name != forget}
    folder = types.SimpleNamespace(path="runs/old", read=lambda name: old)
    check_unchanged(folder, spec.from_flags(FLAGS | {"config": given}))


def test_key_that_a_section_did_not_have_yet_is_refused_at_another_value_than_its_default_only():
    resumed("{}", "residual_blocks")
    with pytest.raises(ConfigError, match=r"config\.Q_model: .*'residual_blocks': False.* → .*'residual_blocks': True"):
        resumed('{"Q_model": {"residual_blocks": true}}', "residual_blocks")


def test_key_that_the_run_has_at_another_value_is_refused():
    old = run_records.params(spec.from_flags(FLAGS | {"config": '{"Q_model": {"layer_norm": true}}'}))
    folder = types.SimpleNamespace(path="runs/old", read=lambda name: old)
    with pytest.raises(ConfigError, match=r"config\.Q_model: .*'layer_norm': True.* → .*'layer_norm': False"):
        check_unchanged(folder, spec.from_flags(FLAGS))
