"""One result → Aim. Loaded by ``runs.loggers.custom_loggers``; needs the extra ``aim``.

The repository is ``AIM_REPO``, else ``.aim`` in the present folder or one above it, made where there is none, as Aim's own
tools do. Source: Aim's reference of ``Run`` (3.17 and later).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aim

from drl_cli.config.result_names import flatten
from drl_cli.runs.loggers.tracked_runs import keep, known, numbers


class ToAim:
    """A run of Aim."""

    def __init__(self, folder: Path, facts: Mapping[str, Any], resumed: bool) -> None:
        """See ``runs.loggers.custom_loggers``."""
        before = known(folder, "aim") if resumed else None
        own = {"system_tracking_interval": None, "log_system_params": False, "capture_terminal_logs": False}
        self._run = aim.Run(before, repo=os.environ.get("AIM_REPO"), experiment=facts["experiment"], **own)
        self._run.name = folder.name
        self._run["hparams"] = {"run": facts["run"], "env": facts["env"], **flatten(facts["config"])}
        keep(folder, "aim", self._run.hash)

    def write(self, result: Mapping[str, Any]) -> None:
        """Track the numbers of a result at step ``timesteps_total``."""
        step = int(result.get("timesteps_total") or 0)
        for name, value in numbers(result).items():
            self._run.track(value, name=name, step=step)

    def close(self) -> None:
        """Write what is left."""
        self._run.close()
