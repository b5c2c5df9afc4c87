"""What a run writes down about itself: params.json and versions.json. User: ``experiments.open_run``.

Values under keys that look like secrets are written as ``***``; environment variables are never written at all.
"""

import functools
import importlib.metadata
import os
import platform
import subprocess
from typing import Any

from drl_cli.config.plain_data import redact, redact_command
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.runs.run_folder import now
from drl_cli.version import __version__

PACKAGES = (
    "ray",
    "tensorflow",
    "gymnasium",
    "numpy",
    "scipy",
    "box2d",
    "pygame",
    "pygame-ce",
    "pettingzoo",
    "mpe2",
    "mujoco",
    "ale-py",
    "envpool",
    "pydantic",
    "safetensors",
    "lz4",
    "tensorboardX",
    "click",
    "rich",
)


def params(spec: ExperimentSpec) -> dict[str, Any]:
    """Return the content of params.json for an ExperimentSpec: everything resolved, secrets hidden."""
    return redact(
        {
            "run": spec.run,
            "env": spec.env,
            "env_asked": spec.env_asked,
            "config": config_of(spec),
            "stop": dict(spec.stop),
            "seed": spec.seed,
            "experiment": spec.name,
            "checkpoint_freq": spec.checkpoint_freq,
            "checkpoint_at_end": spec.checkpoint_at_end,
            "keep_checkpoints_num": spec.keep_checkpoints_num,
            "checkpoint_score_attr": spec.checkpoint_score_attr,
            "restore": None if spec.restore is None else str(spec.restore),
            "pass_criteria": dict(spec.pass_criteria),
            "imports": list(spec.imports),
            "loggers": list(spec.loggers),
            **({"export_formats": list(spec.export_formats)} if spec.export_formats else {}),
            **({"storage_path": spec.storage_path} if spec.storage_path else {}),
        }
    )


def config_of(spec: ExperimentSpec) -> dict[str, Any]:
    """Return the resolved config as plain data with the keys a user writes."""
    return spec.config.model_dump(mode="json", by_alias=True)


def versions(spec: ExperimentSpec) -> dict[str, Any]:
    """Return the content of versions.json; packages are looked up without importing them."""
    return {
        "time": now(),
        "drl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "git": _git(),
        "command": redact_command(spec.command),
        "seed": spec.seed,
    }


@functools.cache
def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """Return ``{"commit", "dirty"}`` of the repository around the working directory, None outside of one."""
    commit = _git_output("rev-parse", "HEAD")
    if not commit:
        return None
    # fsmonitor off: a repository's own configuration must not start programs because a run was started in it.
    changes = _git_output("-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git_output(*arguments: str) -> str | None:
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=3, env=environ, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
