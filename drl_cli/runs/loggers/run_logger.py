"""All loggers of a run behind one ``write``. User: ``experiments.run``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from drl_cli import events
from drl_cli.config.plain_data import plain
from drl_cli.errors import failure
from drl_cli.runs.loggers.custom_loggers import Logger
from drl_cli.runs.loggers.custom_loggers import make as made_by_name
from drl_cli.runs.loggers.tables import JsonLines, ProgressCsv
from drl_cli.runs.loggers.tensorboard_events import TensorBoard


class Loggers:
    """``result.json``, ``progress.csv`` and the TensorBoard events of one run folder.

    A file that cannot be written never stops training: it is reported once as a ``warning``. Rows of the two tables are
    kept and written when it works again; TensorBoard's file, which a torn record spoils, is given up. Loggers by name
    (``runs.loggers.custom_loggers``) are other people's code: whatever they raise is such a warning.
    """

    def __init__(
        self,
        run_folder: Path | str,
        joined_at: int | None = None,
        facts: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        resumed: bool = False,
    ) -> None:
        """``joined_at``: timesteps_total of the checkpoint that a resumed run continues from (after ``join``).

        ``facts``: what params.json holds; ``names``: of further loggers; ``resumed``: whether the run is resumed.
        """
        folder = Path(run_folder)
        self._names = tuple(names)
        self._warned = set()
        self._open: dict[str, Logger] = {}
        makers = {
            "result.json": lambda: JsonLines(folder / "result.json"),
            "progress.csv": lambda: ProgressCsv(folder / "progress.csv"),
            "TensorBoard events": lambda: TensorBoard(str(folder), joined_at, facts),
        }
        for name, make in makers.items():
            try:
                self._open[name] = make()
            except (OSError, ValueError) as error:
                self._warn(name, error)
        for name in dict.fromkeys(self._names):
            with self._forgiving(name):
                self._open[name] = made_by_name(name, folder, facts or {}, resumed)

    def write(self, result: Mapping[str, Any]) -> None:
        """Write one result dict (nested; NumPy scalars allowed) to every file."""
        row = plain(result)
        for name, logger in list(self._open.items()):
            if name in self._names:
                with self._forgiving(name):
                    logger.write(plain(row))  # its own copy, which it may change
                continue
            try:
                logger.write(row)
            except (OSError, ValueError) as error:
                self._warn(name, error)
                if name == "TensorBoard events":
                    del self._open[name]

    def close(self) -> None:
        """Close the files."""
        for name, logger in self._open.items():
            with self._forgiving(name):
                logger.close()
        self._open.clear()

    @contextlib.contextmanager
    def _forgiving(self, name: str) -> Iterator[None]:
        """Whatever is raised inside is worth a warning, not a run."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self._warn(name if name not in self._names else f"logger {name}", failure(error).rstrip("."))

    def _warn(self, name: str, error: object) -> None:
        if name not in self._warned:
            self._warned.add(name)
            events.report("warning", text=f"{name} cannot be written ({error}); training continues without it")
