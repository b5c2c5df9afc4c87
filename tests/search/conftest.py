"""One Ray for all tests of searches that need one: started once for a file, with two CPUs, and closed behind it."""

import pytest

from drl_cli import process


@pytest.fixture(scope="module")
def search_ray():
    """A Ray of our own that searches join."""
    process.prepare_ray()
    from drl_cli.runtime.ray_cluster import RayCluster
    from drl_cli.search import tune_runner

    tune_runner.environment()
    cluster = RayCluster({}, 2)
    yield cluster
    cluster.close()
