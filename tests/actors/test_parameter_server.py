"""Versions of weights: newest, kept, refused."""

import numpy as np
import pytest

from drl_cli.actors.parameter_server import ParameterServer
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
