"""Tries heavy libraries, each in a process of its own with a time limit. Used by ``drl doctor``.

The error of a library is reported with the most likely fix; one that crashes its process or hangs affects no other probe.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from drl_cli.checks.findings import FAIL, NOTE, OK, Finding
from drl_cli.checks.subprocess_probe import SILENT, SubprocessProbe


class LibraryProbe(NamedTuple):
    """``code`` prints one JSON line {"text": what works}; ``needs``: what runs without it; ``cure``: the command to try."""

    name: str
    code: str
    cure: str
    is_needed: bool = True
    limit_s: float = 90.0


_TENSORFLOW = """
import json, time
began = time.perf_counter()
import numpy
import tensorflow
tf = tensorflow.compat.v1
with tf.Graph().as_default():
    with tf.Session() as session:
        total = session.run(tf.reduce_sum(tf.ones([3, 3])))
gpus = len(tensorflow.config.list_physical_devices("GPU"))
text = f"{tensorflow.__version__} with NumPy {numpy.__version__}, {time.perf_counter() - began:.1f} s to load, "
print(json.dumps({"text": text + (f"{gpus} GPUs" if gpus else "no GPU"), "gpus": gpus, "works": bool(total == 9)}))
"""
_RAY = """
import json, time
began = time.perf_counter()
import ray
from pathlib import Path
home = Path(ray.__file__).parent
known = [name for name in ("rllib/utils/tf_utils.py", "experimental/tf_utils.py") if (home / name).is_file()]
if not known:
    raise ImportError("TensorFlowVariables is missing: this Ray was installed without rllib")
print(json.dumps({"text": f"{ray.__version__}, {time.perf_counter() - began:.1f} s to load"}))
"""
_ENVIRONMENTS = """
import json
import gymnasium
env = gymnasium.make("CartPole-v1")
env.reset(seed=0)
env.step(0)
print(json.dumps({"text": f"{gymnasium.__version__}, CartPole-v1 can be stepped"}))
"""
_BOX2D = """
import json
import gymnasium
import Box2D
env = gymnasium.make("LunarLanderContinuous-v3")
env.reset(seed=0)
env.step(env.action_space.sample())
print(json.dumps({"text": f"{Box2D.__version__}, LunarLanderContinuous-v3 can be stepped"}))
"""
_FFMPEG = """
import json, subprocess
import imageio_ffmpeg
path = imageio_ffmpeg.get_ffmpeg_exe()
done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20)
if done.returncode:
    raise OSError(f"{path} does not run: {done.stderr[:200]}")
print(json.dumps({"text": f"{done.stdout.split()[2]}, for videos"}))
"""
_FILES = """
import json
import lz4.block, pydantic, rich.console, tensorboardX, yaml
if lz4.block.decompress(lz4.block.compress(b"ab" * 50)) != b"ab" * 50 or yaml.safe_load("a: 1") != {"a": 1}:
    raise ValueError("lz4 or PyYAML answers wrongly")
print(json.dumps({"text": "lz4, pydantic, tensorboardX, PyYAML and rich can be used"}))
"""

PROBES = (
    LibraryProbe("TensorFlow", _TENSORFLOW, "pip install --force-reinstall 'tensorflow>=2.16,<2.22'"),
    LibraryProbe("Ray", _RAY, "pip install --force-reinstall 'ray[rllib]>=2.59.1,<2.61'"),
    LibraryProbe("gymnasium", _ENVIRONMENTS, "pip install --force-reinstall 'gymnasium>=1.2,<2'", limit_s=60.0),
    LibraryProbe(
        "Box2D", _BOX2D, "pip uninstall -y box2d-py; pip install --force-reinstall 'box2d>=2.3.10'", limit_s=60.0
    ),
    LibraryProbe("files", _FILES, "pip install lz4 pydantic tensorboardX PyYAML rich", limit_s=60.0),
    LibraryProbe("ffmpeg", _FFMPEG, "pip install --force-reinstall imageio-ffmpeg", is_needed=False, limit_s=60.0),
)
_MISSING = re.compile(r"No module named '([\w.]+)'")


def attempt(trial: LibraryProbe) -> tuple[Finding, dict[str, Any] | None]:
    """Return (Finding, answer or None) of one LibraryProbe."""
    state = FAIL if trial.is_needed else NOTE
    # Warnings of a library are not findings; what it raises is the last line it prints.
    with SubprocessProbe(trial.code, environ={"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}) as asked:
        answer, problem = asked.next(trial.limit_s)
        if answer is None:
            hung = f"cannot be used: no answer within {trial.limit_s:.0f} s"
            text = hung if problem == SILENT else f"cannot be used: {asked.end()}"
            missing = _MISSING.search(text)
            if missing:
                text = f"cannot be used: the package {missing[1].split('.')[0]} is missing"
            return Finding(trial.name, state, text, trial.cure), None
    return Finding(trial.name, OK, answer["text"]), answer
