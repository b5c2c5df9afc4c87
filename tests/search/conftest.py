"""One Ray for all tests of searches that need one: started once for a file, with two CPUs, and closed behind it."""

import pytest

from drl_cli import process
from drl_cli.extras import load


@pytest.fixture(scope="module")
def search_ray():
    """A Ray of our own that searches join."""
    process.prepare_ray()
    load("drl_cli.search.tune_runner:environment")()
    cluster = load("drl_cli.runtime.ray_cluster:RayCluster")({}, 2)
    yield cluster
    cluster.close()
