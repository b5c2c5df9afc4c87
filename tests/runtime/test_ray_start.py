"""A Ray of the run's own that does not start."""

import ctypes
import signal
import sys

import pytest

from drl_cli.errors import ClusterUnavailable
from drl_cli.runtime import ray_cluster

pytestmark = pytest.mark.ray  # imported, not started
OVERLOADED = "The current node timed out during startup. This could happen because the GCS has become overloaded."


@pytest.fixture
def started_by(tmp_path, monkeypatch):
    """Returns a function that puts its argument in the place of ``ray.init``, and returns the folder of a Ray that starts."""

    def replace(init):
        folder = tmp_path / "ray"
        folder.mkdir()
        monkeypatch.setattr(ray_cluster.ray, "init", init)
        monkeypatch.setattr(ray_cluster.ray, "is_initialized", lambda: False)
        monkeypatch.setattr(ray_cluster, "private_folder", lambda: folder)
        monkeypatch.setattr(ray_cluster, "_knock", lambda address: None)
        return folder

    return replace


@pytest.mark.parametrize("options", [{}, {"address": "127.0.0.1:6379"}])
def test_daemon_that_takes_too_long_to_start_on_a_busy_machine_is_not_called_a_bug(options, started_by):
    def overloaded(**_):
        raise Exception(OVERLOADED)

    folder = started_by(overloaded)
    with pytest.raises(ClusterUnavailable, match="timed out during startup") as caught:
        ray_cluster.RayCluster(options, 1)
    assert caught.value.exit_code == 75
    assert folder.exists() == bool(options)


def test_sigterm_while_the_actors_start_reaches_the_program_and_not_ray_s_handler_which_aborts(started_by):
    def as_ray_does(**_):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        libc = ctypes.CDLL(None)
        libc.signal(signal.SIGTERM, libc.getpid)  # of its C++ core: Python does not know of it

    came = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        started_by(as_ray_does)
        ray_cluster.RayCluster({}, 1)
        signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
