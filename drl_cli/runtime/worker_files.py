"""Files that workers write: where recordings go, and what writes them, and films, for workers on other nodes.

Users: ``runtime.driver``, ``runtime.assembly``. See ``actors.file_keeper``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drl_cli import events
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.offline import output_folder
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.contracts import Cluster, Handle
from drl_cli.envs import render
from drl_cli.experience.recorded import write
from drl_cli.runtime import loop_kinds
from drl_cli.runtime.cluster import ACTOR


def recording_folder(config: CommonKeys, run_folder: Path | None) -> str | None:
    """Return the folder into which workers record, made and reported, None where nothing is recorded."""
    folder = output_folder(config, run_folder)
    if folder is not None:
        write.prepare(folder)
        events.report("notice", text=f"recording every env step to {folder}")
    return folder


class WorkerFiles:
    """The folder that workers record into, ``output`` or None, and the part that writes for those on other nodes."""

    def __init__(self, config: CommonKeys, env: Mapping[str, Any], cluster: Cluster, output: str | None) -> None:
        """``env``: the run's, with ``videos``, the folder for films in the run's folder, where it has one."""
        self.output, self._most, self._cluster = output, config.output_max_file_size, cluster
        films = render.film_folder(config, env.get("videos")) if isinstance(config, RolloutKeys) else None
        self._films = films and os.path.abspath(os.path.expanduser(films))
        self._keeper: Handle | None = None

    def keeper(self) -> Handle | None:
        """Return that part, made when Ray has a second node for the first time; None where no file can need it."""
        is_wanted = self._cluster.is_remote and (self.output or self._films)
        if self._keeper is None and is_wanted and len(self._cluster.nodes()) > 1:
            made_of = self.output, self._most, self._films
            self._keeper = self._cluster.spawn("files", loop_kinds.KEEPER, made_of, ACTOR, {"pinned": True})
        return self._keeper
