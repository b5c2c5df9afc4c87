"""All loggers of a run behind one ``write``. User: ``experiment.driving``."""

from pathlib import Path

from drl_cli import events
from drl_cli.loggers.rows import plain
from drl_cli.loggers.tables import JsonLines, ProgressCsv
from drl_cli.loggers.tensorboard import TensorBoard


class Loggers:
    """``result.json``, ``progress.csv`` and the TensorBoard events of one run folder.

    A file that cannot be written never stops training: it is reported once as a ``warning``. Rows of the two tables are
    kept and written when it works again; TensorBoard's file, which a torn record spoils, is given up.
    """

    def __init__(self, run_folder, joined_at=None):
        """``joined_at``: timesteps_total of the checkpoint that a resumed run goes on from (after ``join``)."""
        folder = Path(run_folder)
        self._warned = set()
        self._open = {}
        makers = {
            "result.json": lambda: JsonLines(folder / "result.json"),
            "progress.csv": lambda: ProgressCsv(folder / "progress.csv"),
            "TensorBoard events": lambda: TensorBoard(str(folder), joined_at),
        }
        for name, make in makers.items():
            try:
                self._open[name] = make()
            except (OSError, ValueError) as error:
                self._warn(name, error)

    def write(self, result):
        """Write one result dict (nested; NumPy scalars allowed) to every file."""
        row = plain(result)
        for name, logger in list(self._open.items()):
            try:
                logger.write(row)
            except (OSError, ValueError) as error:
                self._warn(name, error)
                if name == "TensorBoard events":
                    del self._open[name]

    def close(self):
        """Close the files."""
        for name, logger in self._open.items():
            try:
                logger.close()
            except (OSError, ValueError) as error:
                self._warn(name, error)
        self._open.clear()

    def _warn(self, name, error):
        if name not in self._warned:
            self._warned.add(name)
            events.report("warning", text=f"{name} cannot be written ({error}); training goes on without it")
