"""How far a rollout is, in a file that another program can read: RLlib's ``--track-progress``.

Used by ``drl rollout``. The file is ``__progress_<name>`` beside the one that the transitions go to; it holds one line, such as
"3 / 10 episodes completed", and is gone when the rollout is over. Source: RLlib 1.0.1.
"""

from pathlib import Path

from drl_cli.errors import InputError


class ProgressFile:
    """The file; ``add`` an episode, ``close`` removes it."""

    def __init__(self, out, limits):
        """``out``: the path of the transitions; ``limits``: the Limits of the rollout. Raises InputError."""
        out = Path(out).expanduser()
        self.path = out.with_name(f"__progress_{out.name}")
        self._limits, self._episodes, self._steps = limits, 0, 0
        try:
            self._write()
        except OSError as error:
            raise InputError(f"--track-progress: {self.path}: {error.strerror}.") from error

    def add(self, episode):
        """Note an Episode that has been played."""
        self._episodes += episode.complete
        self._steps += episode.length
        self._write()

    def close(self):
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _write(self):
        if self._limits.episodes is None:
            text = f"{self._steps} / {self._limits.steps} steps completed"
        else:
            text = f"{self._episodes} / {self._limits.episodes} episodes completed"
        self.path.write_text(text, encoding="utf-8")
