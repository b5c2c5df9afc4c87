"""A Ray of the run's own that does not start."""

import pytest

from drl_cli.errors import ClusterUnavailable
from drl_cli.runtime import ray_cluster

pytestmark = pytest.mark.ray  # imported, not started
OVERLOADED = "The current node timed out during startup. This could happen because the GCS has become overloaded."


@pytest.mark.parametrize("options", [{}, {"address": "127.0.0.1:6379"}])
def test_daemon_that_takes_too_long_to_start_on_a_busy_machine_is_not_called_a_bug(options, tmp_path, monkeypatch):
    def init(**_):
        raise Exception(OVERLOADED)

    folder = tmp_path / "ray"
    folder.mkdir()
    monkeypatch.setattr(ray_cluster.ray, "init", init)
    monkeypatch.setattr(ray_cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_cluster, "private_folder", lambda: folder)
    monkeypatch.setattr(ray_cluster, "_knock", lambda address: None)
    with pytest.raises(ClusterUnavailable, match="timed out during startup") as caught:
        ray_cluster.RayCluster(options, 1)
    assert caught.value.exit_code == 75
    assert folder.exists() == bool(options)
