"""The class that Ray Tune runs: a ``TrialRun`` behind Tune's verbs. Its process is used for one trial after the other.

Used by ``search.tune_runner``. Tune's checkpoints hold a pointer to one of ours, as JSON. Source: Ray 2.60
``ray.tune.Trainable``.
"""

import json
import signal

from ray import tune

from drl_cli import process
from drl_cli.search.trial import TrialRun


class Trial(tune.Trainable):
    """``config``: dict(search, point, stop_file) with the search's data as JSON and the other arguments of TrialRun."""

    @classmethod
    def default_resource_request(cls, config):
        """Return what the point asks of Ray: its own process first, then its workers."""
        return tune.PlacementGroupFactory([dict(bundle) for bundle in config["point"]["bundles"]])

    def setup(self, config):
        """Get ready; the run is opened by the first step, when it is known where it goes on from."""
        process.prepare()
        # A terminal sends Ctrl-C to the whole process group; only the driver decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._trial = self._made(config)

    def reset_config(self, new_config):
        """End this trial and take on the next one: TensorFlow is loaded already."""
        self._trial.end()
        self._trial = self._made(new_config)
        return True

    def step(self):
        """Train one iteration."""
        return self._trial.step()

    def save_checkpoint(self, checkpoint_dir):
        """Save the run in its own folder and a pointer to it here."""
        self._trial.save(checkpoint_dir)

    def load_checkpoint(self, checkpoint):
        """Go on from the checkpoint that is pointed to."""
        self._trial.copy_from(checkpoint)

    def cleanup(self):
        """End the trial in order."""
        self._trial.end()

    def get_auto_filled_metrics(self, *arguments, **keywords):
        """Leave to Tune what it needs and what our rows do not say: no copy of the config, no clock of its own."""
        filled = super().get_auto_filled_metrics(*arguments, **keywords)
        return {name: filled[name] for name in ("trial_id", "date", "hostname", "node_ip") if name in filled}

    def _made(self, config):
        # The name stays when PBT hands a trial the config of another one.
        data, number = json.loads(config["search"]), int(self.trial_name)
        own = {"trial": number, "seed": data["own_seeds"].get(str(number), config["point"]["seed"])}
        return TrialRun(data, {**config["point"], **own}, config["stop_file"])
