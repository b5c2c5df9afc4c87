"""One result → TensorBoard events: scalars, histograms, films, the HParams tab, and charts by subject (Custom Scalars tab).

User: ``runs.loggers.run_logger``.

Source: tensorboardX's event writer, used directly: its ``SummaryWriter`` adds a queue of ``multiprocessing`` and a
thread for what is here one small write an iteration. Tags and skipped fields are those of Tune's logger.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli import events
from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD, flatten
from drl_cli.errors import RunFailed
from drl_cli.runs.loggers.new_films import NewFilms
from drl_cli.runs.loggers.tables import cell

# tensorboardX imports these when they are installed, seconds each, for features that are not used here. None in
# sys.modules makes an import fail as if they were not there.
_UNWANTED = [n for n in ("torch", "onnx", "theano", "chainer", "boto3", "comet_ml") if n not in sys.modules]
_MODULES: dict[str, Any] = sys.modules  # which may hold None
_MODULES.update(dict.fromkeys(_UNWANTED))
try:
    from tensorboardX.event_file_writer import EventsWriter

    # protobuf makes these classes when the module is loaded.
    from tensorboardX.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboardX.summary import custom_scalars, histogram, hparams, scalar
finally:
    for _name in _UNWANTED:
        del sys.modules[_name]

SKIPPED = ("config", "pid", "timestamp", "time_total_s", "training_iteration")
PREFIX = "ray/tune/"
COMPARED = (TRAINING_REWARD, EVALUATION_REWARD, "timesteps_total")
"""Fields that the HParams tab shows beside the config, of the scalars of the same run."""
CHARTS = {
    "Return": {
        "training and greedy evaluation": f"{TRAINING_REWARD}|{EVALUATION_REWARD}",
        "of each policy": "(evaluation/)?policy_reward_mean/.*",
        "least and greatest of training": "episode_reward_(min|max)",
        "episode length": "episode_len_mean",
    },
    "Learner": {"losses": "info/learner/.*loss.*", "everything else": "info/learner/(?!.*loss).*"},
    "Speed": {"seconds": "timers/.*_s", "per second": "timers/.*_throughput", "weight lag": "info/weight_lag_mean"},
}
"""Charts of the Custom Scalars tab: {group: {title: pattern of the fields in it}}."""


class TensorBoard:
    """An event file in the run's folder; ``joined_at`` is the timesteps_total after which a resumed run continues."""

    def __init__(self, folder: str, joined_at: int | None = None, facts: Mapping[str, Any] | None = None) -> None:
        """``facts``: what params.json holds, for the HParams tab, or None."""
        # The name has whole seconds only: the suffix keeps a run that is resumed at once from overwriting it.
        suffix = f".{os.getpid()}.{secrets.token_hex(4)}"
        self._writer = EventsWriter(os.path.join(folder, "events"), suffix)
        if joined_at is not None:
            # TensorBoard forgets the points from this step on that earlier event files hold.
            start = Event(wall_time=time.time(), step=joined_at + 1, session_log=SessionLog(status=SessionLog.START))
            self._writer.write_event(start)
        charts = {
            group: {title: ["Multiline", [f"^{PREFIX}({fields})$"]] for title, fields in titles.items()}
            for group, titles in CHARTS.items()
        }
        self._writer.write_event(Event(wall_time=time.time(), step=0, summary=custom_scalars(charts)))
        self._films = NewFilms(folder, facts)
        self._at_end = self._begin_session(facts) if facts else None

    def _begin_session(self, facts: Mapping[str, Any]) -> Any:
        """Write what was chosen, for the HParams tab; returns the summary that ends the session."""
        chosen = {name: facts[name] for name in ("run", "env", "seed") if name in facts} | flatten(facts["config"])
        given = {name: cell(value) for name, value in chosen.items() if value is not None}
        metrics = dict.fromkeys(PREFIX + name for name in COMPARED)
        experiment, start, end = hparams(given, metrics)
        for summary in (experiment, start):
            self._writer.write_event(Event(wall_time=time.time(), step=0, summary=summary))
        self._writer.flush()
        return end

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row (nested plain data) at step ``timesteps_total``. Raises OSError."""
        step = row.get("timesteps_total") or row.get("training_iteration") or 0
        for name, value in flatten(row).items():
            summary = _summary(name, value)
            if summary is not None:
                self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        for path in self._films():
            try:
                summary = _film(path)
            except RunFailed as error:
                events.report("warning", text=f"TensorBoard has no {path.name}: {error}")
                continue
            self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file. Raises OSError."""
        if self._at_end is not None:
            self._writer.write_event(Event(wall_time=time.time(), step=0, summary=self._at_end))
        self._writer.close()


def _film(path: Path) -> Any:
    """Return a film as an image that moves. Raises RunFailed where it cannot be read."""
    from drl_cli.envs import video  # its ffmpeg takes time to find, and only films need it

    gif = video.as_gif(path)
    width, height = (int.from_bytes(gif[at : at + 2], "little") for at in (6, 8))
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
    return Summary(value=[Summary.Value(tag=f"{PREFIX}films/{path.stem}", image=image)])


def _summary(name: str, value: Any) -> Any:
    if name.split("/")[0] in SKIPPED:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return scalar(PREFIX + name, value)
    if name.startswith(("hist_stats/", "evaluation/hist_stats/")) and isinstance(value, list):
        numbers = np.array([item for item in value if item is not None], np.float64)
        return histogram(PREFIX + name, numbers, bins="auto") if numbers.size else None
    return None
