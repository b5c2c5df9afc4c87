"""Frames to an mp4 file, one at a time, through the ffmpeg that imageio-ffmpeg brings; a film as an animated GIF.

Used by ``drl rollout --video-dir``, ``envs.render`` and ``runs.loggers``. H.264 in yuv420p, which every player opens, needs
even sizes: an odd last row or column is repeated. A file carries its name only when it is complete.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import imageio_ffmpeg
import numpy as np

from drl_cli.envs import mujoco_renderer
from drl_cli.errors import EnvError, InputError, ResourcesExhausted, RunFailed, failure, full_or

if TYPE_CHECKING:
    import gymnasium

    from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv

_MUJOCO = (
    " MuJoCo draws without a display through OSMesa (on Debian and Ubuntu: apt install libosmesa6 libgl1) or, with a GPU, EGL"
    " (libegl1); MUJOCO_GL=osmesa or MUJOCO_GL=egl chooses."
)
GIF_S, GIF_WIDTH = 15, 240
QUALITY = 7  # of 10; at 600 by 400 about 0.3 MB for a lander's episode


def video_folder(path: Path | str) -> Path:
    """Make the folder for videos and return it as a Path. Raises InputError when it cannot be written."""
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise full_or(error, InputError)(f"videos cannot be written to {path}: {error.strerror}.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"videos cannot be written to {path}: no permission.")
    return folder


def frame_of(env: gymnasium.Env | MultiAgentEnv) -> np.ndarray:
    """Return the picture that ``env`` draws of its state, uint8 [H, W, 3]. Raises EnvError where its renderer fails."""
    if clash := mujoco_renderer.clash():
        raise EnvError(f"{_name_of(env)} cannot be drawn: {clash}")
    try:
        frame: Any = env.render()
    except Exception as error:  # an environment draws by foreign code
        mujoco_renderer.let_unmade_viewer_go()
        raise EnvError(
            f"{_name_of(env)} cannot be drawn: {failure(error)}{_MUJOCO if 'mujoco' in sys.modules else ''}"
        ) from error
    return frame


def _name_of(env: gymnasium.Env | MultiAgentEnv) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__


class Video:
    """One mp4 file. ``add`` frames, then ``close``; ``abort`` leaves nothing behind."""

    def __init__(
        self, path: Path | str, frames_per_second: float, on_done: Callable[[Path], object] | None = None
    ) -> None:
        """``on_done(path)`` is called when the file is complete."""
        self.path = Path(path)
        self._on_done = on_done
        self._partial = self.path.with_name(f".{self.path.stem}.partial{self.path.suffix}")
        self._fps = float(frames_per_second)
        self._size: tuple[int, ...] = ()
        self._writer: Any = None  # imageio_ffmpeg's generator

    def add(self, frame: Any) -> None:
        """Append ``frame`` [H, W, 3] uint8. Raises EnvError for anything else, RunFailed when ffmpeg gives up."""
        frame = np.asarray(frame)
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise EnvError(
                f"the environment rendered {frame.dtype} of shape {list(frame.shape)}, not an image [H, W, 3] of uint8."
            )
        frame = _even(frame)
        if self._writer is None:
            self._open(frame)
        if frame.shape != self._size:
            raise EnvError(
                f"the size of the rendered image changed from {self._size[:2]} to {frame.shape[:2]} in an episode."
            )
        self._guarded(lambda: self._writer.send(np.ascontiguousarray(frame)))

    def close(self) -> None:
        """Finish the file and give it its name; without frames there is none."""
        if self._writer is None:
            return
        self._guarded(self._writer.close)
        self._writer = None
        if not self._partial.is_file() or self._partial.stat().st_size == 0:
            raise RunFailed(f"ffmpeg wrote no video {self.path}.")
        os.replace(self._partial, self.path)
        if self._on_done:
            self._on_done(self.path)

    def abort(self) -> None:
        """Give up and remove what was written."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except OSError:
            writer = None
        finally:
            self._partial.unlink(missing_ok=True)

    def _open(self, frame: np.ndarray) -> None:
        self._size = frame.shape
        height, width = frame.shape[:2]
        try:
            self._writer = imageio_ffmpeg.write_frames(
                str(self._partial),
                (width, height),
                fps=self._fps,  # type: ignore[arg-type]  # ffmpeg takes fractions
                quality=QUALITY,
                macro_block_size=1,
                ffmpeg_log_level="error",
            )
            self._writer.send(None)
        except (OSError, RuntimeError) as error:
            raise InputError(f"ffmpeg cannot be started: {error}") from error

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            raise ResourcesExhausted(
                f"{self.path}: ffmpeg gave up, probably for lack of disk space: {str(error)[:300]}"
            ) from error


def as_gif(path: Path) -> bytes:
    """Return the first ``GIF_S`` seconds of a film as an animated GIF, ``GIF_WIDTH`` pixels wide. Raises RunFailed."""
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-t", str(GIF_S), "-i", str(path)]
    done = subprocess.run([*ffmpeg, "-vf", f"fps=10,scale={GIF_WIDTH}:-2", "-f", "gif", "-"], capture_output=True)
    if done.returncode or not done.stdout:
        raise RunFailed(f"{path}: ffmpeg cannot read it: {done.stderr.decode(errors='replace').strip()[:200]}")
    return done.stdout


def _even(frame: np.ndarray) -> np.ndarray:
    """Repeat the last row or column of an odd height or width."""
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge") if height % 2 or width % 2 else frame
