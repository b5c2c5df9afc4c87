import gc
import sys
import types

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from drl_cli.envs.video import Video, frame_of, video_folder
from drl_cli.errors import EnvError, InputError


def frame(height, width, value):
    return np.full((height, width, 3), value, np.uint8)


def read(path):
    """Return (facts, frames) of an mp4 file."""
    reader = imageio_ffmpeg.read_frames(str(path))
    facts = next(reader)
    width, height = facts["size"]
    return facts, [np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader]


class Undrawable(gymnasium.Env):
    """An environment whose renderer fails, as MuJoCo's does without a library for OpenGL."""

    def render(self):
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")


@pytest.mark.parametrize("with_mujoco", [True, False])
def test_renderer_that_fails_is_one_line_with_what_mujoco_needs(monkeypatch, with_mujoco):
    monkeypatch.setitem(sys.modules, "mujoco", object()) if with_mujoco else monkeypatch.delitem(
        sys.modules, "mujoco", raising=False
    )
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # beside which nothing is drawn
    with pytest.raises(EnvError, match="Undrawable cannot be drawn: AttributeError: .*glGetError") as caught:
        frame_of(Undrawable())
    assert ("apt install libosmesa6" in str(caught.value)) == with_mujoco
    assert ".." not in str(caught.value)


class Viewer:
    """Like gymnasium's: it needs a context, which it frees when it is destroyed."""

    def __init__(self, context=None):
        if context is None:
            raise AttributeError("'NoneType' object has no attribute 'glGetError'")
        self.opengl_context = context

    def __del__(self):
        self.opengl_context.free()


def test_viewer_that_could_not_be_made_prints_no_traceback_when_it_is_destroyed(monkeypatch):
    class Env(gymnasium.Env):
        def render(self):
            return Viewer()

    rendering = types.SimpleNamespace(OffScreenViewer=Viewer)
    monkeypatch.setitem(sys.modules, "gymnasium.envs.mujoco.mujoco_rendering", rendering)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    printed, freed = [], []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with pytest.raises(EnvError, match="cannot be drawn") as caught:
        frame_of(Env())
    del caught
    gc.collect()
    assert printed == []
    Viewer(types.SimpleNamespace(free=lambda: freed.append(True)))
    assert freed == [True]


def test_video_holds_the_frames_in_order(tmp_path):
    video = Video(tmp_path / "a.mp4", 30)
    for value in (0, 120, 240):
        video.add(frame(64, 96, value))
    video.close()
    facts, frames = read(tmp_path / "a.mp4")
    assert (facts["size"], facts["fps"], facts["codec"], len(frames)) == ((96, 64), 30.0, "h264", 3)
    assert [abs(int(f.mean()) - value) < 8 for f, value in zip(frames, (0, 120, 240), strict=True)] == [True] * 3


def test_odd_sizes_become_even_by_repeating_the_edge(tmp_path):
    video = Video(tmp_path / "a.mp4", 15)
    video.add(frame(63, 95, 100))
    video.close()
    facts, frames = read(tmp_path / "a.mp4")
    assert facts["size"] == (96, 64)
    assert abs(int(frames[0][-1, -1, 0]) - 100) < 8


def test_file_has_its_name_only_when_it_is_complete(tmp_path):
    done = []
    video = Video(tmp_path / "a.mp4", 30, on_done=done.append)
    video.add(frame(64, 64, 9))
    assert not (tmp_path / "a.mp4").exists()
    video.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    assert done == [tmp_path / "a.mp4"]


def test_abort_leaves_nothing(tmp_path):
    video = Video(tmp_path / "a.mp4", 30)
    video.add(frame(64, 64, 9))
    video.abort()
    assert list(tmp_path.iterdir()) == []


def test_no_frames_no_file(tmp_path):
    Video(tmp_path / "a.mp4", 30).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.float32), None])
def test_what_is_no_image_is_refused(tmp_path, wrong):
    with pytest.raises(EnvError, match="not an image"):
        Video(tmp_path / "a.mp4", 30).add(wrong)


def test_changing_size_is_refused(tmp_path):
    video = Video(tmp_path / "a.mp4", 30)
    video.add(frame(64, 64, 9))
    with pytest.raises(EnvError, match=r"the size of the rendered image changed from \(64, 64\) to \(32, 64\)"):
        video.add(frame(32, 64, 9))
    video.abort()


def test_folder_is_made(tmp_path):
    assert video_folder(tmp_path / "a" / "b").is_dir()


def test_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="^videos cannot be written to "):
        video_folder(tmp_path / "a")
