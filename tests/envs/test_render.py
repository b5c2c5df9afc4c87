"""Films of training episodes: which, of what, and that a film which fails ends no run."""

import functools

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import make, render
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.errors import RunFailed


class Drawn(gymnasium.Env):
    """Episodes of three steps; the picture is as bright as steps were taken, times 60."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    modes = []

    def __init__(self, render_mode=None, breaks=False):
        self.modes.append(render_mode)
        self.breaks = breaks

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self.breaks and self.at == 1:
            raise RunFailed("broken")
        self.at += 1
        return np.zeros(1, np.float32), 1.0, self.at == 3, False, {}

    def render(self):
        return np.full((32, 32, 3), 60 * self.at, np.uint8)


gymnasium.register("Drawn-v0", entry_point=Drawn)
NAME = {"id": "Drawn-v0", "env_config": {}}
ZERO = np.zeros((2, 1), np.float32)


def frames(path):
    reader = imageio_ffmpeg.read_frames(str(path))
    next(reader)
    return [np.frombuffer(data, np.uint8).mean() for data in reader]


def filmed(folder, steps, send=None, **env_config):
    batch = EnvBatch({**NAME, "env_config": env_config}, 2, (7, 0), viewer=render.EpisodeVideos(folder, send))
    batch.reset()
    for _ in range(steps):
        batch.step_all(ZERO)
    return batch


def test_cubes_are_filmed_and_then_every_thousandth():
    assert [n for n in range(4001) if render.is_filmed(n)] == [
        0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000, 2000, 3000, 4000,
    ]  # fmt: skip


def test_first_environment_is_filmed_from_reset_to_end(tmp_path):
    Drawn.modes.clear()
    filmed(tmp_path / "videos", 27)
    names = sorted(path.name for path in (tmp_path / "videos").iterdir())
    assert names == ["episode-000000.mp4", "episode-000001.mp4", "episode-000008.mp4"]
    assert Drawn.modes[:2] == ["rgb_array", None]
    for name in names:
        assert frames(tmp_path / "videos" / name) == pytest.approx([0, 60, 120, 180], abs=6)


def test_film_that_is_sent_away_stays_nowhere_here(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sent = {}
    filmed(tmp_path / "videos", 27, lambda path: sent.update({path.name: path.read_bytes()})).close()
    assert sorted(sent) == ["episode-000000.mp4", "episode-000001.mp4", "episode-000008.mp4"]
    assert all(len(data) > 500 for data in sent.values()) and list(tmp_path.iterdir()) == []


def test_film_of_an_episode_that_is_not_over_leaves_nothing(tmp_path):
    batch = filmed(tmp_path, 2)
    batch.close()
    assert list(tmp_path.iterdir()) == []


def test_film_of_an_episode_that_breaks_leaves_nothing(tmp_path):
    batch = filmed(tmp_path, 2, breaks=True)
    batch.close()  # the film of the episode after it, which ffmpeg may have begun or not
    assert list(tmp_path.iterdir()) == []


def test_films_that_fail_are_said_once_and_end(tmp_path):
    (tmp_path / "file").write_text("")
    batch = filmed(tmp_path / "file", 9)
    assert len(batch.notes) == 1
    assert batch.notes[0].startswith(f"record_env: no more videos of this run: videos cannot be written to {tmp_path}")


def test_resumed_run_films_no_episode_that_it_replays(tmp_path):
    batch = filmed(tmp_path, 2)
    arrays, facts = batch.state()
    other = EnvBatch(NAME, 2, (7, 0), viewer=render.EpisodeVideos(tmp_path / "again"))
    other.load(arrays, facts)
    for _ in range(4):
        other.step_all(ZERO)
    assert [path.name for path in (tmp_path / "again").glob("*.mp4")] == ["episode-000001.mp4"]


def config(**keys):
    return SACConfig(**keys)


@pytest.mark.parametrize(
    ("keys", "index", "kind"),
    [
        ({}, 0, "Viewer"),
        ({"record_env": True}, 0, "EpisodeVideos"),
        ({"record_env": "elsewhere"}, 0, "EpisodeVideos"),
        ({"record_env": True}, 1, "Viewer"),
        ({"render_env": True}, 0, "LiveWindow"),
    ],
)
def test_only_the_first_worker_is_seen(keys, index, kind):
    assert type(render.make(config(**keys), {"videos": "/v"}, index)).__name__ == kind


def test_what_cannot_be_shown_is_told(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    drawn = functools.partial(make.make, "Drawn-v0", {})
    assert render.misfits(config(), "Drawn-v0", drawn) == []
    assert render.misfits(config(record_env=True), "Drawn-v0", drawn) == []
    assert render.misfits(config(render_env=True), "Drawn-v0", drawn) == [
        "render_env: Drawn-v0 cannot be rendered as human; it supports: rgb_array. Omit the key.",
        "render_env: no display (neither DISPLAY nor WAYLAND_DISPLAY is set). Use record_env for videos.",
    ]
