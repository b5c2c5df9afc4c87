import importlib.util
import os
import subprocess
import sys
import types

import gymnasium
import pytest

from drl_cli import process
from drl_cli.envs import mujoco_renderer
from drl_cli.envs.video import frame_of
from drl_cli.errors import EnvError


@pytest.fixture
def imported(monkeypatch):
    """Return a list that gets MUJOCO_GL as every import of MuJoCo sees it; nothing is imported."""
    seen = []
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setattr(
        mujoco_renderer.importlib, "import_module", lambda name: seen.append((name, os.environ["MUJOCO_GL"]))
    )
    return seen


@pytest.mark.parametrize("before", ["osmesa", None])
def test_mujoco_is_imported_without_its_renderer_for_environments_of_gymnasium(monkeypatch, imported, before):
    monkeypatch.setenv("MUJOCO_GL", before) if before else monkeypatch.delenv("MUJOCO_GL", raising=False)
    mujoco_renderer.import_without_renderer("gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv")
    assert imported == [("mujoco", "disabled")]
    assert os.environ.get("MUJOCO_GL") == before


@pytest.mark.parametrize("entry_point", ["gymnasium.envs.box2d:LunarLander", "my_robots:Arm", lambda: None, None])
def test_environments_of_other_packages_import_mujoco_as_they_like(imported, entry_point):
    mujoco_renderer.import_without_renderer(entry_point)
    assert imported == []


@pytest.mark.parametrize(
    ("modules", "renderer", "gpu", "refused"),
    [
        (("mujoco", "tensorflow"), "osmesa", False, True),
        (("mujoco", "tensorflow"), "egl", False, True),
        (("mujoco", "tensorflow"), "egl", True, False),
        (("mujoco", "tensorflow"), "glfw", False, False),
        (("mujoco",), "osmesa", False, False),
        (("tensorflow",), "osmesa", False, False),
    ],
)
def test_software_renderer_beside_tensorflow_is_refused_in_one_line(monkeypatch, modules, renderer, gpu, refused):
    class Drawn(gymnasium.Env):
        def render(self):
            return "a frame"

    for name in ("mujoco", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in modules:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setenv("MUJOCO_GL", renderer)
    monkeypatch.setattr(process, "GPU_DEVICES", ("/proc" if gpu else "/nowhere",))
    if refused:
        with pytest.raises(EnvError, match="Drawn cannot be drawn: .* beside TensorFlow. Use num_workers: 1"):
            frame_of(Drawn())
    else:
        assert frame_of(Drawn()) == "a frame"


@pytest.mark.process
def test_mujoco_environment_trains_where_a_software_renderer_is_installed(tmp_path):
    if None in map(importlib.util.find_spec, ("mujoco", "imageio")):  # to import mujoco would look for a renderer
        pytest.skip("pip install 'drl-cli[mujoco]'")
    words = ["--run", "SAC", "--env", "Hopper-v5", "--stop", "timesteps_total=100", "-s", "num_workers=0"]
    command = [sys.executable, "-m", "drl_cli", "train", *words, "--local-dir", str(tmp_path), "-q"]
    environ = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environ, check=False)
    assert done.returncode == 0, done.stderr
