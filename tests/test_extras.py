"""Tests of ``extras``: objects by dotted name, and what is said of packages that are not installed."""

import math

import pytest

from drl_cli import extras
from drl_cli.errors import InputError


def test_load_returns_a_module_an_attribute_or_what_is_no_string():
    assert extras.load("math") is math
    assert extras.load("math:sqrt") is math.sqrt
    assert extras.load(math.sqrt) is math.sqrt


def test_require_of_a_package_that_is_not_there_says_what_to_install(monkeypatch):
    with pytest.raises(InputError, match=r"no_such_package is not installed. Run: pip install no_such_package$"):
        extras.require("no_such_package")
    monkeypatch.setitem(extras.EXTRA_OF_MODULE, "no_such_package", "onnx")
    with pytest.raises(InputError, match=r"Run: pip install 'drl-cli\[onnx\]'$"):
        extras.require("no_such_package.inner")


def test_module_of_ours_that_is_not_there_is_a_mistake_of_the_program():
    with pytest.raises(ModuleNotFoundError):
        extras.load("drl_cli.no_such_module:thing")
