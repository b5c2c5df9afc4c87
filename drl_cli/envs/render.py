"""Training rendered: the first environment of the first worker, filmed now and then or drawn in a window.

Used by ``actors.rollout_worker`` (``record_env``, ``render_env``) and, for what cannot be shown, by ``experiments``. Which
episodes are filmed is gym's old Monitor's choice: the cubes 0, 1, 8, 27, … below 1000, then every thousandth. Drawing changes
nothing that is learnt from, and a film that fails ends the films, not the run.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.config.sections.rollout import RolloutKeys
    from drl_cli.envs.env_spec import EnvSetup
    from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
    from drl_cli.envs.video import Video

CUBES_BELOW = 1000
DEFAULT_FPS = 30.0  # where an environment does not say


class Viewer:
    """Shows nothing: what all environments but the first one have."""

    render_mode = None

    def began(self, env: gymnasium.Env | MultiAgentEnv, number: int, notes: list[str]) -> None:
        """Episode ``number`` has begun in ``env``; strings about what goes wrong are appended to ``notes``."""

    def stepped(self, env: gymnasium.Env | MultiAgentEnv, notes: list[str]) -> None:
        """``env`` has taken a step."""

    def ended(self, notes: list[str]) -> None:
        """The episode is over."""

    def broken(self) -> None:
        """The episode broke."""


class LiveWindow(Viewer):
    """A window: the environment draws into it by itself."""

    render_mode = "human"


class EpisodeVideos(Viewer):
    """One mp4 file for each filmed episode, ``episode-000008.mp4``."""

    render_mode = "rgb_array"

    def __init__(self, folder: Path | str, send: Callable[[Path], None] | None = None) -> None:
        """``folder`` is made when the first film is begun. ``send(path)`` takes a finished film that is not to stay there."""
        self._folder, self._send = Path(folder).expanduser(), send
        self._film: Video | None = None
        self._given_up = False

    def began(self, env: gymnasium.Env | MultiAgentEnv, number: int, notes: list[str]) -> None:
        """See ``Viewer``."""
        if self._given_up or not is_filmed(number):
            return
        from drl_cli.envs import video  # its ffmpeg takes time to find, and only films need it

        fps = (env.metadata or {}).get("render_fps") or DEFAULT_FPS

        def begin() -> None:
            folder = video.video_folder(self._folder if self._send is None else tempfile.mkdtemp(prefix="drl-film-"))
            done = None if self._send is None else self._sent
            self._film = film = video.Video(folder / f"episode-{number:06d}.mp4", fps, done)
            film.add(video.frame_of(env))

        self._guarded(begin, notes)

    def stepped(self, env: gymnasium.Env | MultiAgentEnv, notes: list[str]) -> None:
        """See ``Viewer``."""
        film = self._film
        if film is not None:
            from drl_cli.envs import video

            self._guarded(lambda: film.add(video.frame_of(env)), notes)

    def ended(self, notes: list[str]) -> None:
        """See ``Viewer``."""
        if self._film is not None:
            self._guarded(self._film.close, notes)
            self._film = None

    def broken(self) -> None:
        """See ``Viewer``; nothing is left of the film."""
        film, self._film = self._film, None
        if film is not None:
            film.abort()
            self._forget(film.path)

    def _sent(self, path: Path) -> None:
        """Send a finished film away, and remove it here."""
        if self._send is not None:
            try:
                self._send(path)
            finally:
                self._forget(path)

    def _forget(self, path: Path) -> None:
        if self._send is not None:  # its folder is a temporary one of its own
            shutil.rmtree(path.parent, ignore_errors=True)

    def _guarded(self, call: Callable[[], object], notes: list[str]) -> None:
        try:
            call()
        except Exception as error:  # an environment draws by foreign code, and a film is not worth a run
            self._given_up = True
            notes.append(f"record_env: no more videos of this run: {error}")
            self.broken()


def make(
    config: RolloutKeys,
    env: EnvSetup,
    index: int,
    send: Callable[[str | None], Callable[[Path], None] | None] = lambda _: None,
) -> Viewer:
    """Return who looks at the environments of worker ``index``; ``env``: dict(videos: folder for films, or None).

    ``send(folder)``: what takes finished films where that folder is not on this node, or None.
    """
    if index:
        return Viewer()
    if config.render_env:
        return LiveWindow()
    folder = film_folder(config, env.get("videos"))
    return EpisodeVideos(folder, send(folder)) if folder else Viewer()


def film_folder(config: RolloutKeys, videos: str | None) -> str | None:
    """Return the folder for films of training, None where nothing is filmed; ``videos``: the one in the run's folder."""
    if config.render_env or not config.record_env:
        return None
    return config.record_env if isinstance(config.record_env, str) else videos


def is_filmed(number: int) -> bool:
    """Return whether episode ``number``, counted from 0, is filmed."""
    return round(number ** (1 / 3)) ** 3 == number if number < CUBES_BELOW else number % CUBES_BELOW == 0


def misfits(config: CommonKeys, env_id: str, open_env: Callable[[], Any]) -> list[str]:
    """Return one line for each wish to see the training that cannot be met here.

    ``open_env``: makes the environment, with one agent or several; called if there is such a wish.
    """
    from drl_cli.config.sections.rollout import RolloutKeys  # playing a checkpoint needs this file and no schema

    if not isinstance(config, RolloutKeys):
        return []
    keys = (("record_env", "rgb_array", config.record_env), ("render_env", "human", config.render_env))
    wishes = [(name, mode) for name, mode, is_set in keys if is_set]
    if not wishes:
        return []
    env = open_env()
    modes = tuple((env.metadata or {}).get("render_modes") or ())
    env.close()
    has = ", ".join(modes) or "nothing"
    found = [
        f"{name}: {env_id} cannot be rendered as {mode}; it supports: {has}. Omit the key."
        for name, mode in wishes
        if mode not in modes
    ]
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if config.render_env and sys.platform.startswith("linux") and not has_display:
        found.append("render_env: no display (neither DISPLAY nor WAYLAND_DISPLAY is set). Use record_env for videos.")
    return found
