"""Versions of weights: newest, kept, refused."""

import numpy as np
import pytest

from drl_cli.actors.parameter_server import ParameterServer
from drl_cli.actors.weight_pulls import widened
from drl_cli.errors import Diverged


def _weights(value):
    return {"default_policy": {"policy/mean/bias": np.float32([value])}}


def test_versions_count_from_one_and_pull_gives_only_what_is_newer():
    server = ParameterServer()
    assert server.pull(0) is None
    assert server.push(_weights(1.0)) == 1
    assert server.push(_weights(2.0)) == 2
    assert server.pull(0) == server.pull(1) == (2, _weights(2.0))
    assert server.pull(2) is None and server.pull(3) is None


def test_kept_versions_are_the_newest_four_of_those_pushed_to_be_kept():
    server = ParameterServer()
    for value in range(1, 13):
        server.push(_weights(value), keep=value % 2 == 0)  # 2, 4, … 12
    for version in (6, 8, 10, 12):
        assert server.pull_exact(version) == _weights(version)
    for version in (4, 11):
        with pytest.raises(KeyError):
            server.pull_exact(version)
    assert server.pull(0) == (12, _weights(12))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_name_and_change_nothing(value):
    server = ParameterServer()
    server.push(_weights(1.0))
    with pytest.raises(Diverged, match="default_policy/policy/mean/bias"):
        server.push(_weights(value), keep=True)
    assert server.state() == (_weights(1.0), 1)
    assert server.push(_weights(2.0)) == 2


def test_load_goes_on_from_a_version():
    server = ParameterServer()
    server.load(_weights(5.0), 17)
    assert server.pull(16) == (17, _weights(5.0))
    assert server.push(_weights(6.0)) == 18


def test_float16_rounds_weights_for_acting_but_not_filters_nor_what_is_scored():
    server = ParameterServer("float16")
    fine, large = np.float32([1 + 2**-13]), np.float32([1e6])
    server.push({"default_policy": {"policy/kernel": fine, "filter/mean": fine, "policy/bias": large}}, keep=True)
    _, sent = server.pull(0)
    assert {name: array.dtype for name, array in sent["default_policy"].items()} == {
        "policy/kernel": np.float16,
        "filter/mean": np.float32,
        "policy/bias": np.float32,  # beyond what float16 can hold
    }
    acting = widened(sent)["default_policy"]
    assert acting["policy/kernel"].dtype == np.float32 and acting["policy/kernel"] == 1.0
    assert server.pull_exact(1)["default_policy"]["policy/kernel"] == fine
    assert server.state()[0]["default_policy"]["policy/kernel"] == fine


def test_newest_cut_is_the_version_that_was_cut_last():
    started = ParameterServer()
    assert started.newest_cut() == 0
    started.cut(3)
    assert started.newest_cut() == 3
