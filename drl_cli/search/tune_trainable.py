"""The class that Ray Tune runs: a ``TrialRun`` as a ``tune.Trainable``. Its process is used for one trial after the other.

Used by ``search.tune_runner``. Tune's checkpoints hold a pointer to one of ours, as JSON. Source: Ray 2.60
``ray.tune.Trainable``.
"""

import json
import signal
from typing import Any

from ray import tune

from drl_cli import process
from drl_cli.experiments.search_data import Point
from drl_cli.search.trial import TrialRun


class TrialTrainable(tune.Trainable):
    """``config``: dict(search, point, stop_file) with the search's data as JSON and the other arguments of TrialRun."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return what the point reserves of Ray: its own process first, then its workers."""
        return tune.PlacementGroupFactory([dict(bundle) for bundle in config["point"]["bundles"]])

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the process; the run is opened by the first step, when it is known which checkpoint it starts from."""
        process.prepare()
        # A terminal sends Ctrl-C to the whole process group; only the driver handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._trial = self._made(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """End this trial and begin the next one: TensorFlow is loaded already."""
        self._trial.end()
        self._trial = self._made(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train one iteration."""
        return self._trial.step()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the run in its own folder and a pointer to it here."""
        self._trial.save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Continue from the checkpoint to which the one in the folder ``checkpoint`` points."""
        self._trial.copy_from(checkpoint)

    def cleanup(self) -> None:
        """Save and close the run."""
        self._trial.end()

    def get_auto_filled_metrics(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Return of Tune's own metrics those that our rows lack: no copy of the config, no clock."""
        filled = super().get_auto_filled_metrics(*arguments, **keywords)
        return {name: filled[name] for name in ("trial_id", "date", "hostname", "node_ip") if name in filled}

    def _made(self, config: dict[str, Any]) -> TrialRun:
        # The name stays when PBT gives a trial the config of another one.
        data, number = json.loads(config["search"]), int(self.trial_name)
        point: Point = config["point"].copy()
        point["trial"], point["seed"] = number, data["own_seeds"].get(str(number), point["seed"])
        return TrialRun(data, point, config["stop_file"])
