"""``import drl_cli``: light, and every public name is where the map says."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import drl_cli

PACKAGE = Path(drl_cli.__file__).parent


def test_import_loads_nothing_heavy():
    program = "import sys, drl_cli; drl_cli.__version__; dir(drl_cli); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & {"numpy", "tensorflow", "ray", "gymnasium", "pydantic", "click", "rich"} == set()
    assert [name for name in done.stdout.split() if name.startswith("drl_cli.")] == ["drl_cli.version"]


@pytest.mark.parametrize("name", sorted(drl_cli._WHERE))
def test_every_public_name_is_there(name):
    module, _, attribute = drl_cli._WHERE[name].partition(":")
    assert getattr(drl_cli, name) is getattr(importlib.import_module(module), attribute)
    assert name in dir(drl_cli)
    assert name in drl_cli.__all__


def test_type_checkers_are_told_the_same():
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    told = {
        alias.asname: f"{node.module}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == drl_cli._WHERE


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="module 'drl_cli' has no attribute 'Trainr'"):
        drl_cli.Trainr  # noqa: B018
