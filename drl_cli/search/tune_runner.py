"""Ray Tune runs the points of a search: the only file that talks to its ``Tuner``. Used by ``search.run_search``.

Tune's own output, loggers and files are turned off or thrown away: its folder is a temporary one, trials write the files of
single runs, the record of the search is ``search.search_record``. Source: Ray 2.60.
"""

import json
import logging
import math
import os
import tempfile
import time
from pathlib import Path

import ray
from ray import tune
from ray.tune.stopper import Stopper

from drl_cli import events
from drl_cli.config.sections.resources import total
from drl_cli.errors import ClusterUnavailable, ConfigError
from drl_cli.search import scheduler_state, tune_schedulers
from drl_cli.search.tune_trainable import Trial

PATIENCE_S = 2.5  # of a stop with the trials that run: a trial leaves itself less to come to rest in


def check_resources(points):
    """Raise ConfigError when one of the points asks for more than all of Ray has, which Tune would wait for in silence."""
    there = ray.cluster_resources()
    for point in points:
        asked = total(point["bundles"])
        for name, amount in asked.items():
            if amount > there.get(name, 0) + 1e-9:
                way_out = f", or type --ray-num-{name.lower()}s {math.ceil(amount)}" if name in ("CPU", "GPU") else ""
                raise ConfigError(
                    f"trial {point['trial']} asks for {amount:g} {name}, Ray has {there.get(name, 0):g}. Lower num_workers or "
                    f"--resources-per-trial{way_out}."
                )


def fit(data, work, record, stop_request):
    """Run ``work`` (points, and how many more a searcher makes) to its end or until ``stop_request`` is true.

    ``work``: dict(points, new: trials that are drawn while it runs, rows: see ``schedulers.make``, fifo: compare nothing).
    What happens to trials goes to ``record`` and is reported.
    """
    with tempfile.TemporaryDirectory(prefix="drl-search-") as folder:
        stop_file = Path(folder, "stop")
        plain = {**data, "scheduler": {"name": "FIFO", "config": {}}} if work["fifo"] else data
        scheduler = tune_schedulers.make(plain, work["rows"], {} if work["fifo"] else record.scheduler)
        watch = Watch(record, stop_request, stop_file, scheduler)
        # What every trial needs, as text: Tune would multiply the grids that it finds in a mapping.
        own = {point["trial"]: point["seed"] for point in work["points"]}
        told = {name: data[name] for name in ("id", "experiments", "flags", "metric")} | {"own_seeds": own}
        space = {"search": json.dumps(told), "stop_file": str(stop_file)}
        searcher = None
        if work["new"]:
            from drl_cli.search.tpe import ParzenSearcher

            searcher = ParzenSearcher(data, watch.next_point, work["points"], work["told"])
        else:
            space["point"] = tune.grid_search(work["points"])
        tuner = tune.Tuner(
            Trial,
            param_space=space,
            tune_config=tune.TuneConfig(
                scheduler=scheduler,
                search_alg=searcher,
                num_samples=work["new"] + len(work["points"]) if work["new"] else 1,
                max_concurrent_trials=_at_once(work["points"] or [data]) if work["new"] else None,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=tune.RunConfig(
                name="search",
                storage_path=folder,
                failure_config=tune.FailureConfig(max_failures=data["max_failures"]),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[watch],
                stop=Ending(watch),
                verbose=0,
            ),
        )
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            tuner.fit()
        except tune.TuneError as error:
            raise ClusterUnavailable(f"Ray Tune failed: {str(error).splitlines()[0]}") from error


def _at_once(points):
    """Return how many trials fit side by side: TPE should know the outcome of one before it suggests the next."""
    there, asked = ray.cluster_resources(), total(points[0]["bundles"])
    return max(1, min(int(there.get(name, 0) / amount + 1e-9) for name, amount in asked.items()))


class Watch(tune.Callback):
    """Writes what happens to trials into the record and reports it as ``trial`` events."""

    def __init__(self, record, stop_request, stop_file, scheduler):
        self._record, self._stop_request, self._stop_file = record, stop_request, stop_file
        self._scheduler = scheduler
        self.running = set()

    def __getstate__(self):
        """Nothing: Tune writes a copy of its parts down, which nobody reads."""
        return {}

    def next_point(self, values):
        """Return the point of newly drawn values, and note it."""
        data, number = self._record.data, len(self._record.trials)
        seed = None if data["seeded"] else (data["seed"] + number) % 2**31
        point = {"trial": number, "experiment": 0, "values": values, "seed": seed, "bundles": data["bundles"]}
        self._change(number, point=point, state="pending")
        return point

    def is_stopping(self):
        """Whether the search shall end; tells the trials the first time."""
        if self._stop_request and not self._stop_file.exists():
            self._stop_file.touch()
        return bool(self._stop_request)

    def on_trial_start(self, iteration, trials, trial, **info):
        """A trial got its process."""
        self.running.add(trial.trial_id)
        self._change(_number(trial), state="running", point=self._point(trial))

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """A trial made an iteration, or says how it ended."""
        known = {name: value for name, value in result.items() if isinstance(value, (int, float)) and name != "done"}
        facts = {"run_folder": result.get("run_folder"), "point": self._point(trial)}
        if known.get("timesteps_total") is not None:
            facts["result"] = known
        if result.get("best"):
            facts["best"] = result["best"]
        if result.get("state"):
            facts |= {"ended": result["state"], "text": result.get("text"), "exit_code": result.get("exit_code") or 0}
        self._change(_number(trial), **{name: value for name, value in facts.items() if value is not None})

    def on_step_end(self, iteration, trials, **info):
        """Tune tells nobody when a trial is paused. A search that ends takes its trials from the scheduler: no more then."""
        if not self._stop_request:
            self._record.scheduler = scheduler_state.snapshot(self._scheduler) or self._record.scheduler
        for trial in trials:
            number = _number(trial)
            if trial.status == "PAUSED" and self._record.trials[number]["state"] == "running":
                self.running.discard(trial.trial_id)
                self._change(number, state="paused")

    def on_trial_complete(self, iteration, trials, trial, **info):
        """A trial is over: by itself, by the scheduler, or because the search ends."""
        self.running.discard(trial.trial_id)
        noted = self._record.trials[_number(trial)]
        state = noted.pop("ended", None) or ("interrupted" if self._stop_request else "stopped")
        if state == "interrupted" and not noted.get("run_folder"):
            state = "pending"  # not started
        text = noted.get("text") or f"stopped by {self._record.data['scheduler']['name']}"
        self._change(_number(trial), state=state, text=text)

    def on_trial_recover(self, iteration, trials, trial, **info):
        """A trial failed or died, and goes on from its newest checkpoint."""
        failures = trial.run_metadata.num_failures
        self.running.discard(trial.trial_id)
        self._change(_number(trial), state="pending", failures=failures, text=_why(trial))

    def on_trial_error(self, iteration, trials, trial, **info):
        """A trial failed for good."""
        self.running.discard(trial.trial_id)
        self._change(_number(trial), state="failed", text=_why(trial))

    def _point(self, trial):
        """Return the point that a trial runs now: PBT changes its values."""
        point = self._record.trials[_number(trial)]["point"]
        return {**point, "values": trial.config["point"]["values"]}

    def _change(self, number, **facts):
        if facts.get("state") == "running":
            self._record.trials.get(number, {}).pop("ended", None)
        try:
            self._record.change(number, **facts)
        except OSError as error:
            events.report("warning", text=f"{self._record.path.name} cannot be written ({error.strerror})")
        events.report("trial", trial=number, **self._record.trials[number])


class Ending(Stopper):
    """Ends the search once it shall end and no trial runs any more: each has saved its last state by then."""

    def __init__(self, watch):
        self._watch = watch
        self._since = None  # when the stop was seen

    def __call__(self, trial_id, result):
        """No single trial is stopped here."""
        return False

    def stop_all(self):
        """Whether all is over: no trial runs, or one has had its time (on another machine it does not see the file)."""
        if not self._watch.is_stopping():
            return False
        self._since = time.monotonic() if self._since is None else self._since
        return not self._watch.running or time.monotonic() - self._since > PATIENCE_S


def _name(trial):
    """A trial goes by its number, which stays when PBT gives it the config of another one."""
    return f"{trial.config['point']['trial']:05d}"


def _number(trial):
    return int(trial.custom_trial_name)


def _why(trial):
    """Return in one line why a trial failed, from the text that Tune wrote of it."""
    try:
        lines = [
            line.strip() for line in Path(trial.error_file).read_text("utf-8", "replace").splitlines() if line.strip()
        ]
    except (OSError, TypeError):
        return "its process died"
    last = lines[-1] if lines else ""
    name, _, text = last.partition(": ")
    if any("The actor is dead" in line or "ActorUnavailable" in line for line in lines[-12:]):
        return "its process died"
    return (text if name.startswith("drl_cli.errors.") else last)[:400] or "it failed"


def environment(environ=os.environ):
    """Set what Tune reads from the environment, before it is asked for anything."""
    environ.pop("TUNE_RESULT_DIR", None)  # ours by RLlib's custom; this Tune refuses to run beside it
    for name, value in ENVIRONMENT.items():
        environ.setdefault(name, value)


ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # its state is never read again
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
}
