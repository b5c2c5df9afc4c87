"""One result → MLflow. Loaded by ``runs.loggers.custom_loggers``; needs the extra ``mlflow``.

Where runs go is MLflow's affair (``MLFLOW_TRACKING_URI``, else its default); the experiment is ``MLFLOW_EXPERIMENT_NAME``, else
the run's. A client is used, no active run, so that nothing is shared with a program that uses MLflow itself. Source: MLflow's
reference of ``MlflowClient`` (2.9 and later), and its limits of ``log_batch``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from drl_cli.config.result_names import flatten
from drl_cli.runs.loggers.tracked_runs import keep, known, numbers

MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 1000, 100, 500  # of one call, the last in characters


class ToMlflow:
    """A run of MLflow."""

    def __init__(self, folder: Path, facts: Mapping[str, Any], resumed: bool) -> None:
        """See ``runs.loggers.custom_loggers``."""
        self._client = mlflow.MlflowClient()
        self._id = known(folder, "mlflow") if resumed else None
        if self._id is not None:
            self._client.set_terminated(self._id, "RUNNING")  # that it had ended is no longer so
            return
        experiment = _experiment(self._client, os.environ.get("MLFLOW_EXPERIMENT_NAME") or facts["experiment"])
        tags = {"run": facts["run"], "env": facts["env"], "folder": str(folder)}
        self._id = self._client.create_run(experiment, run_name=folder.name, tags=tags).info.run_id
        keep(folder, "mlflow", self._id)
        given = flatten({"run": facts["run"], "env": facts["env"], **facts["config"]})
        params = [Param(name, str(value)[:LONGEST_PARAM]) for name, value in given.items()]
        for start in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + MOST_PARAMS])

    def write(self, result: Mapping[str, Any]) -> None:
        """Log the numbers of a result at step ``timesteps_total``."""
        now, step = int(1000 * time.time()), int(result.get("timesteps_total") or 0)
        metrics = [Metric(name, float(value), now, step) for name, value in numbers(result).items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MOST_METRICS])

    def close(self) -> None:
        """Say that the run is over."""
        self._client.set_terminated(self._id)


def _experiment(client: mlflow.MlflowClient, name: str) -> str:
    """Return the id of the experiment ``name``, made if it is not there; another process may make it meanwhile."""
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name)
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id
