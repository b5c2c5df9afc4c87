"""One result → Weights & Biases. Loaded by ``runs.loggers.custom_loggers``; needs the extra ``wandb``.

All of wandb's own variables count (``WANDB_PROJECT``, ``WANDB_ENTITY``, ``WANDB_MODE=offline`` …); without a project it is
``drl``. The x-axis is ``timesteps_total``, so that a run that is resumed from an earlier checkpoint continues there.
Source: wandb's reference of ``init``, ``define_metric`` and ``Run.log`` (0.19 and later).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from drl_cli.config.result_names import flatten
from drl_cli.runs.loggers.new_films import NewFilms
from drl_cli.runs.loggers.tracked_runs import keep, known, numbers

STEP = "timesteps_total"


class ToWandb:
    """A run of wandb."""

    def __init__(self, folder: Path, facts: Mapping[str, Any], resumed: bool) -> None:
        """See ``runs.loggers.custom_loggers``."""
        name = (known(folder, "wandb") if resumed else None) or secrets.token_hex(4)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "drl",
            group=facts["experiment"],
            name=folder.name,
            id=name,
            resume="allow",
            dir=str(folder),
            config=flatten({"run": facts["run"], "env": facts["env"], **facts["config"]}),
            tags=[facts["run"], facts["env"][:64]],
            settings=wandb.Settings(console="off", silent=True),  # the screen is drl's
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)
        keep(folder, "wandb", name)
        self._films = NewFilms(folder, facts)

    def write(self, result: Mapping[str, Any]) -> None:
        """Log the numbers of a result, and the films made since the last one."""
        films = {f"films/{path.stem}": wandb.Video(str(path), format="mp4") for path in self._films()}
        self._run.log({**numbers(result), **films})

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()
