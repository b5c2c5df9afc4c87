"""Ray Tune runs the points of a search: the only file that uses its ``Tuner``. Used by ``search.run_search``.

Tune's own output, loggers and files are turned off or discarded: its folder is a temporary one, trials write the files of
single runs, the record of the search is ``search.search_record``. Source: Ray 2.60.
"""

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayError
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.stopper import Stopper
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from drl_cli import events, process
from drl_cli.config.sections.resources import total
from drl_cli.errors import ClusterUnavailable, ConfigError
from drl_cli.experiments.search_data import Bundles, Point, SearchData
from drl_cli.search import tune_schedulers
from drl_cli.search.search_record import Record, Work
from drl_cli.search.tune_trainable import TrialTrainable

ANSWER_S = 60.0  # in which a node starts a process and answers
PATIENCE_S = 2.5  # between a stop and the end of trials that still run; a trial takes less to save its state


def check_resources(points: Sequence[Point]) -> None:
    """Raise ConfigError when one of the points needs more than all of Ray has: Tune would wait for it without a message."""
    there = ray.cluster_resources()
    for point in points:
        for name, amount in total(_bundles(point)).items():
            if amount > there.get(name, 0) + 1e-9:
                way_out = f", or type --ray-num-{name.lower()}s {math.ceil(amount)}" if name in ("CPU", "GPU") else ""
                raise ConfigError(
                    f"trial {point['trial']} asks for {amount:g} {name}, Ray has {there.get(name, 0):g}. Lower num_workers or "
                    f"--resources-per-trial{way_out}."
                )


def check_folder(record: Path) -> None:
    """Raise ConfigError when a node of Ray on which trials may run has another disk than the one with ``record``.

    A trial that is paused or copied goes on wherever there is room, from the files of its run. ClusterUnavailable for a node
    that does not answer.
    """
    here = ray.get_runtime_context().get_node_id()
    others = [
        node
        for node in ray.nodes()
        if node["Alive"] and node["NodeID"] != here and any(name in node["Resources"] for name in ("CPU", "GPU"))
    ]
    asked = [_is_there_from(node["NodeID"]).remote(str(record)) for node in others]
    try:
        found = ray.get(asked, timeout=ANSWER_S)
    except RayError as error:
        raise ClusterUnavailable(
            f"A node of Ray did not say whether it sees {record.parent} ({type(error).__name__}). Try again, or remove it."
        ) from error
    blind = [str(node["NodeManagerAddress"]) for node, sees in zip(others, found, strict=True) if not sees]
    if blind:
        raise ConfigError(
            f"the nodes {', '.join(blind[:5])} do not see {record.parent}: a search over several nodes needs a disk that they "
            "share. Name a folder there (--local-dir), or search on one node."
        )


def _is_there_from(node_id: str) -> Any:
    """Return a remote function of Ray, run on a node, that says whether a path exists."""
    where = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(os.path.exists).options(num_cpus=0, scheduling_strategy=where)


def fit(data: SearchData, work: Work, record: Record, stop_request: object) -> None:
    """Run ``work`` to its end or until ``stop_request`` is true. What happens to trials goes to ``record`` and is reported.

    Raises ClusterUnavailable when Tune fails.
    """
    with tempfile.TemporaryDirectory(prefix="drl-search-") as folder, process.removed_by_leave(folder):
        stop_file = Path(folder, "stop")
        scheduler = FIFOScheduler() if work.is_rescoring else tune_schedulers.make(data, work.rows, record.scheduler)
        recorder = TrialRecorder(record, stop_request, stop_file, scheduler)
        # What every trial needs, as a string: Tune would multiply the grids that it finds in a mapping.
        own = {point["trial"]: point["seed"] for point in work.points}
        shared = {name: data[name] for name in ("id", "experiments", "flags", "metric")} | {"own_seeds": own}
        space: dict[str, Any] = {"search": json.dumps(shared), "stop_file": str(stop_file)}
        searcher, at_once = None, None
        if work.new:
            from drl_cli.search.tpe import ParzenSearcher

            searcher = ParzenSearcher(data, recorder.next_point, work.points, work.observed)
            at_once = _at_once(_bundles(work.points[0]) if work.points else data["bundles"])
        else:
            space["point"] = tune.grid_search(work.points)
        tuner = tune.Tuner(
            TrialTrainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                scheduler=scheduler,
                search_alg=searcher,
                num_samples=work.new + len(work.points) if work.new else 1,
                max_concurrent_trials=at_once,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=tune.RunConfig(
                name="search",
                storage_path=folder,
                failure_config=tune.FailureConfig(max_failures=data["max_failures"]),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[recorder],
                stop=SearchStopper(recorder),
                verbose=0,
            ),
        )
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            tuner.fit()
        except tune.TuneError as error:
            raise ClusterUnavailable(f"Ray Tune failed: {str(error).splitlines()[0]}") from error


def _at_once(bundles: Bundles) -> int:
    """Return how many trials fit side by side: TPE should know the outcome of one before it suggests the next."""
    there, needed = ray.cluster_resources(), total(bundles)
    return max(1, min(int(there.get(name, 0) / amount + 1e-9) for name, amount in needed.items()))


def _bundles(point: Point) -> Bundles:
    return point.get("bundles", [])


class TrialRecorder(tune.Callback):
    """Writes what happens to trials into the record and reports it as ``trial`` events."""

    def __init__(self, record: Record, stop_request: object, stop_file: Path, scheduler: TrialScheduler) -> None:
        self._record, self._stop_request, self._stop_file = record, stop_request, stop_file
        self._scheduler = scheduler
        self.running: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: the copy of its parts that Tune writes is not used."""
        return {}

    def next_point(self, values: dict[str, Any]) -> Point:
        """Return the point of newly drawn values, and record it."""
        data, number = self._record.data, len(self._record.trials)
        seed = None if data["seeded"] else (data["seed"] + number) % 2**31
        point: Point = {"trial": number, "experiment": 0, "values": values, "seed": seed, "bundles": data["bundles"]}
        self._change(number, point=point, state="pending")
        return point

    def is_stopping(self) -> bool:
        """Whether the search stops; the first time writes the file that stops the trials."""
        if self._stop_request and not self._stop_file.exists():
            self._stop_file.touch()
        return bool(self._stop_request)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial got its process."""
        self.running.add(trial.trial_id)
        self._change(tune_schedulers.number_of(trial), state="running", point=self._point(trial))

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict, **info: Any) -> None:
        """A trial trained an iteration, or reports how it ended."""
        known = {name: value for name, value in result.items() if isinstance(value, (int, float)) and name != "done"}
        facts: dict[str, Any] = {"run_folder": result.get("run_folder"), "point": self._point(trial)}
        if known.get("timesteps_total") is not None:
            facts["result"] = known
        if result.get("best"):
            facts["best"] = result["best"]
        if result.get("state"):
            facts |= {"ended": result["state"], "text": result.get("text"), "exit_code": result.get("exit_code") or 0}
        self._change(
            tune_schedulers.number_of(trial), **{name: value for name, value in facts.items() if value is not None}
        )

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Find paused trials, which Tune does not report, and keep the scheduler's state: a search that stops empties it."""
        if not self._stop_request:
            self._record.scheduler = tune_schedulers.snapshot(self._scheduler) or self._record.scheduler
        for trial in trials:
            number = tune_schedulers.number_of(trial)
            if trial.status == "PAUSED" and self._record.trials[number]["state"] == "running":
                self.running.discard(trial.trial_id)
                self._change(number, state="paused")

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial is over: by itself, by the scheduler, or because the search stops."""
        self.running.discard(trial.trial_id)
        recorded = self._record.trials[tune_schedulers.number_of(trial)]
        state = recorded.pop("ended", None) or ("interrupted" if self._stop_request else "stopped")
        if state == "interrupted" and not recorded.get("run_folder"):
            state = "pending"  # not started
        text = recorded.get("text") or f"stopped by {self._record.data['scheduler']['name']}"
        self._change(tune_schedulers.number_of(trial), state=state, text=text)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial failed or died, and continues from its newest checkpoint."""
        failures = trial.run_metadata.num_failures
        self.running.discard(trial.trial_id)
        self._change(tune_schedulers.number_of(trial), state="pending", failures=failures, text=_why(trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial failed for good."""
        self.running.discard(trial.trial_id)
        self._change(tune_schedulers.number_of(trial), state="failed", text=_why(trial))

    def _point(self, trial: Trial) -> Point:
        """Return the point that a trial runs now: PBT changes its values."""
        point = self._record.trials[tune_schedulers.number_of(trial)]["point"]
        return {**point, "values": trial.config["point"]["values"]}

    def _change(self, number: int, **facts: Any) -> None:
        if facts.get("state") == "running":
            self._record.trials.get(number, {}).pop("ended", None)
        try:
            self._record.change(number, **facts)
        except OSError as error:
            events.report("warning", text=f"{self._record.path.name} cannot be written ({error.strerror})")
        events.report("trial", trial=number, **self._record.trials[number])


class SearchStopper(Stopper):
    """Ends a search that is stopping once no trial runs any more: each has saved its last state by then."""

    def __init__(self, recorder: TrialRecorder) -> None:
        self._recorder = recorder
        self._since: float | None = None  # when the stop was seen

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No single trial is stopped here."""
        return False

    def stop_all(self) -> bool:
        """Whether all is over: no trial runs, or one took too long (on another machine it does not see the file)."""
        if not self._recorder.is_stopping():
            return False
        self._since = time.monotonic() if self._since is None else self._since
        return not self._recorder.running or time.monotonic() - self._since > PATIENCE_S


def _name(trial: Trial) -> str:
    """Return the name of a trial: its number, which stays when PBT gives it the config of another one."""
    return f"{trial.config['point']['trial']:05d}"


def _why(trial: Trial) -> str:
    """Return in one line why a trial failed, from the error file that Tune wrote."""
    try:
        text = Path(trial.error_file or "").read_text("utf-8", "replace")
    except OSError:  # Tune writes none for a process that was killed
        return "its process died"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    name, _, text = last.partition(": ")
    if any("The actor is dead" in line or "ActorUnavailable" in line for line in lines[-12:]):
        return "its process died"
    return (text if name.startswith("drl_cli.errors.") else last)[:400] or "it failed"


def environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that Tune reads, before it is used."""
    environ.pop("TUNE_RESULT_DIR", None)  # read by drl as by old RLlib; this Tune refuses to run where it is set
    for name, value in ENVIRONMENT.items():
        environ.setdefault(name, value)


ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # its state is not used
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
}
