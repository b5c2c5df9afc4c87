"""How MuJoCo's environments draw in processes that also load TensorFlow.

Used by ``envs.make`` and ``open_envs`` before MuJoCo is imported, and by ``envs.video`` before a frame is drawn. A process that
loads one of Mesa's software renderers (OSMesa, or EGL without a GPU) and TensorFlow is ended by a segmentation fault, whichever
comes first (seen with Mesa 22.3 and TensorFlow 2.21; each brings a copy of LLVM). ``import mujoco`` loads the library
that ``MUJOCO_GL`` names, even where nothing is drawn.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from drl_cli import process

_VARIABLE = "MUJOCO_GL"
_MODULES = "gymnasium.envs.mujoco"


def import_without_renderer(entry_point: Any) -> None:
    """Import MuJoCo for one of gymnasium's environments without its OpenGL library, which gymnasium loads when it draws.

    ``entry_point``: the environment's in gymnasium's registry; without effect for those of other packages, which may draw by
    MuJoCo's own renderer. A missing MuJoCo is reported by gymnasium when the environment is made.
    """
    if not str(entry_point).startswith(_MODULES) or "mujoco" in sys.modules:
        return
    with _naming("disabled"), contextlib.suppress(ImportError):
        importlib.import_module("mujoco")


def naming_one_that_is_installed() -> contextlib.AbstractContextManager[None]:
    """Let modules of other packages import MuJoCo where ``MUJOCO_GL`` names OSMesa, as it does here, and there is none.

    ``import mujoco`` would fail for them, though they may never draw.
    """
    is_missing = (
        os.environ.get(_VARIABLE) == "osmesa"
        and "mujoco" not in sys.modules
        and importlib.util.find_spec("mujoco") is not None
        and ctypes.util.find_library("OSMesa") is None
    )
    return _naming(None) if is_missing else contextlib.nullcontext()


@contextlib.contextmanager
def _naming(renderer: str | None) -> Iterator[None]:
    """Have ``MUJOCO_GL`` name ``renderer``, or none."""
    before = os.environ.pop(_VARIABLE, None)
    if renderer is not None:
        os.environ[_VARIABLE] = renderer
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
        if before is not None:
            os.environ[_VARIABLE] = before


def let_unmade_viewer_go() -> None:
    """Have a viewer of gymnasium's that could not be made be destroyed without a message.

    Its destructor frees the context that it failed to get, and Python would print that with a traceback, below the error of
    the drawing (seen with gymnasium 1.3).
    """
    rendering = sys.modules.get(f"{_MODULES}.mujoco_rendering")
    if rendering is not None:
        rendering.OffScreenViewer.opengl_context = types.SimpleNamespace(free=lambda: None)


def clash() -> str | None:
    """Return one line about why MuJoCo cannot draw in this process, None if nothing is known to speak against it."""
    if "mujoco" not in sys.modules or "tensorflow" not in sys.modules:
        return None
    renderer = os.environ.get(_VARIABLE, "").strip().lower()
    if renderer == "osmesa" or (renderer == "egl" and not any(map(os.path.exists, process.GPU_DEVICES))):
        return (
            "MuJoCo's software renderer cannot be loaded beside TensorFlow. Use num_workers: 1, whose process does without"
            " TensorFlow, or film a checkpoint with: drl rollout CHECKPOINT --video-dir DIR"
        )
    return None
