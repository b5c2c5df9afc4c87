"""``run_search``: many trials of one experiment over Ray from Python, as ``tune.run`` in RLlib's tutorials.

    from drl_cli import run_search

    found = run_search(
        "PPO",
        env="CartPole-v1",
        config={"lr": {"loguniform": [1e-4, 1e-2]}},
        num_samples=8,
        scheduler="ASHA",
        stop={"timesteps_total": 50_000},
    )
    print(found.best.values, found.best.checkpoint)

The trials are those of ``drl train``: their folders, the record beside them and ``drl train --resume`` are the same. Nothing is
printed, and no signal handler changed.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drl_cli import process
from drl_cli.api.python_experiment import OWN, SEARCH, tree_of
from drl_cli.errors import InputError, RunFailed
from drl_cli.experiments import config_tree, search_spec
from drl_cli.search import run_search as search_runs
from drl_cli.search import trial_ranks
from drl_cli.search.search_record import Record
from drl_cli.stop_request import StopCondition

INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class SearchTrial:
    """One trial: ``values`` by the keys searched over, ``score`` (NaN without one), its last ``result`` by field.

    ``state``: "finished", "stopped" (by the scheduler), "failed" or "interrupted"; ``text``: why it ended. ``run_folder`` and
    ``checkpoint`` (its best one) are None where there is none.
    """

    number: int
    values: Mapping[str, Any]
    state: str
    text: str
    score: float
    result: Mapping[str, float]
    run_folder: Path | None
    checkpoint: Path | None


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search has found: ``trials``, the best first, then those without a score; ``metric``, which compares them.

    ``record``: the file that ``drl train --resume`` takes; ``text``: what went wrong, or nothing.
    """

    trials: Sequence[SearchTrial]
    metric: str
    record: Path
    text: str

    @property
    def best(self) -> SearchTrial:
        """The best trial. Raises RunFailed when none has a score."""
        if not self.trials or math.isnan(self.trials[0].score):
            raise RunFailed(f"no trial has a score: {self.text or 'see ' + str(self.record)}")
        return self.trials[0]


def run_search(
    algorithm: str,
    env: str | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    imports: Sequence[str] = (),
    experiment_name: str = "default",
    **settings: Any,
) -> SearchResult:
    """Run the trials to their end and return the SearchResult; the calling program waits.

    ``algorithm``, ``env``, ``config``, ``settings``: as for ``Trainer``; values of ``config`` may be lists and ranges, as on
    the command line (``{"grid_search": [1, 2]}``, ``{"uniform": [0, 1]}``). ``settings`` also takes the options of
    ``drl train`` for searches: num_samples, seeds ("0..4", or a list of whole numbers), scheduler, scheduler_config (a
    mapping), search, search_space. ``imports``: modules that register what the trials need; trials are processes of their
    own, so that classes and functions cannot be passed.

    Raises ConfigError, EnvError or another InputError with everything that is wrong, ClusterUnavailable when Ray cannot start.
    Ctrl-C raises KeyboardInterrupt; the record can then be resumed.
    """
    process.prepare()
    _refuse_objects(env, config or {})
    config_tree.import_modules({"imports": list(imports)})
    options = {name: settings.pop(name) for name in SEARCH if name in settings}
    tree, flags = tree_of("run_search", algorithm, env, config, experiment_name, settings)
    if isinstance(options.get("seeds"), Sequence) and not isinstance(options["seeds"], str):
        options["seeds"] = ",".join(str(seed) for seed in options["seeds"])
    if isinstance(options.get("scheduler_config"), Mapping):
        options["scheduler_config"] = json.dumps(options["scheduler_config"])
    spec = search_spec.of_tree(tree, {**flags, "imports": list(imports)}, options, "what run_search was given")
    record = Record.new(spec.data)
    try:
        outcome = search_runs.run(record, StopCondition(), " ".join(flags["command"]))
    except KeyboardInterrupt:
        record.interrupt(INTERRUPTED, search_runs.ENDED)
        raise
    return SearchResult(_trials(record), record.data["metric"], record.path, outcome.text)


def _refuse_objects(env: Any, config: Mapping[str, Any]) -> None:
    given = {"env": env, **{f"config[{key!r}]": config.get(key) for key in ("env", *OWN)}}
    for name, value in given.items():
        if value is None or isinstance(value, str):
            continue
        raise InputError(
            f"run_search: {name} {str(value)[:60]!r} is no name, and trials are processes of their own. Register it in a "
            f"module, pass its name, and the module's in imports=[…]."
        )


def _trials(record: Record) -> list[SearchTrial]:
    best = trial_ranks.ranked(record.data, record.trials)
    return [_trial(record, number) for number in [*best, *(set(record.trials) - set(best))]]


def _trial(record: Record, number: int) -> SearchTrial:
    trial = record.trials[number]
    result, folder, best = trial.get("result") or {}, trial.get("run_folder"), trial.get("best")
    score = trial_ranks.score_of(record.data, result)
    return SearchTrial(
        number,
        trial["point"]["values"],
        trial["state"],
        trial.get("text") or "",
        math.nan if score is None else score,
        result,
        Path(folder) if folder else None,
        Path(best) if best else None,
    )
