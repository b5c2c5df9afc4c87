"""Runs that are replicates of one another: the same algorithm, environment and config, other seeds.

Used by ``drl compare`` and ``drl plot``. Of a run, ``path``, ``id``, ``algorithm``, ``env``, ``experiment``,
``seed`` and ``config`` (a nested dict) are read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drl_cli.runs.run_summary import Run

IDLE = ("seed", "env", "log_level")  # config keys that change nothing about what is learnt, or are the seed itself
MAX_KEYS = 3  # shown in a label
FIRST = (  # what a reader asks for first, in this order; a key's last part counts
    "lr", "actor_lr", "critic_lr", "entropy_lr", "alpha_lr", "actor_learning_rate", "critic_learning_rate",
    "entropy_learning_rate", "lr_schedule", "fcnet_hiddens", "use_lstm", "gamma", "lambda", "n_step",
    "training_intensity", "train_batch_size", "sgd_minibatch_size", "num_sgd_iter", "rollout_fragment_length",
    "clip_param", "entropy_coeff", "vf_loss_coeff", "grad_clip", "tau", "target_network_update_freq", "buffer_size",
    "learning_starts",
)  # fmt: skip
BOOKKEEPING = re.compile(  # how a run is measured, recorded and placed: shown only where nothing else differs
    r"evaluation_.*|in_evaluation|custom_eval_function|metrics_.*|timesteps_per_iteration|min_.*_per_iteration|min_iter_time_s"
    r"|(input_)?(record|render|monitor)_.*|record_env|render_env|output.*|checkpoint_.*|store_buffer_in_checkpoints"
    r"|compress_observations|log_.*|num_cpus.*|num_gpus.*|custom_resources.*|memory_.*|_fake_gpus|xla|.*tf_session_args.*"
    r"|extra_python_environs.*|ignore_worker_failures|recreate_.*|num_envs_per_worker|num_workers|remote_worker_envs"
)


@dataclass
class Group:
    """Replicates: a label that no other group has, algorithm, env, and the runs."""

    label: str
    algorithm: str
    env: str
    runs: list[Run]

    @property
    def seeds(self) -> list[int | None]:
        """The seeds of the runs, in their order."""
        return [run.seed for run in self.runs]

    @property
    def repeated(self) -> list[int]:
        """Seeds that more than one run has: not independent."""
        return sorted({seed for seed in self.seeds if seed is not None and self.seeds.count(seed) > 1})


def group(runs: Sequence[Run], by: str = "config", labels: Mapping[Path, str] | None = None) -> list[Group]:
    """Return the Groups of ``runs`` in the order of their first runs, those of one environment side by side.

    ``by``: "config" (the same algorithm and config but for the seed), "algorithm", "experiment" (the same algorithm in
    the same experiment), "run" (every run for itself). ``labels``: {path of a run: its label}; then runs of one label are
    a group, whatever ``by`` says.
    """
    found = {}
    for place, run in enumerate(runs):
        key = labels[run.path] if labels else _key(run, by, place)
        found.setdefault((run.env, run.algorithm, key), []).append(run)
    groups = [Group("", algorithm, env, members) for (env, algorithm, _), members in found.items()]
    environments = list(dict.fromkeys(one.env for one in groups))
    groups.sort(key=lambda one: environments.index(one.env))
    for one in groups:
        one.runs.sort(key=lambda run: (run.seed is None, run.seed))
    for one in groups:
        alike = [other for other in groups if (other.algorithm, other.env) == (one.algorithm, one.env)]
        one.label = labels[one.runs[0].path] if labels else _label(one, alike, by)
    return _made_unique(groups)


def _key(run: Run, by: str, place: int) -> str | int:
    if by == "algorithm":
        return ""
    if by == "experiment":
        return run.experiment
    if by == "run":
        return place
    return json.dumps({k: v for k, v in run.config.items() if k not in IDLE}, sort_keys=True)


def _label(one: Group, alike: Sequence[Group], by: str) -> str:
    if by == "run" and len({other.runs[0].seed for other in alike}) == len(alike):
        return f"{one.algorithm} seed {one.runs[0].seed}"
    if len(alike) == 1:
        return one.algorithm
    if by == "experiment":
        return f"{one.algorithm} {one.runs[0].experiment}"
    settings = [{**_flat(other.runs[0].config), "seed": other.runs[0].seed} for other in alike]
    own = {**_flat(one.runs[0].config), "seed": one.runs[0].seed}
    shown = [
        f"{key.rpartition('.')[2]}={_shortest(own.get(key), [flat.get(key) for flat in settings])}"
        for key in _differing_keys(settings, by == "run")
    ]
    return " ".join([one.algorithm, *shown])


def _differing_keys(settings: Sequence[Mapping[str, Any]], with_seed: bool) -> list[str]:
    """Return at most ``MAX_KEYS`` keys in which flat configs differ, the most important first, each only if it separates more.

    ``with_seed``: and the seed after them, if it does.
    """
    keys = sorted({key for flat in settings for key in flat} - set(IDLE), key=_rank)
    differing = [key for key in keys if len({_text(flat.get(key)) for flat in settings}) > 1]
    meant = [key for key in differing if not BOOKKEEPING.fullmatch(key.rpartition(".")[2])] or differing
    chosen, parts = [], 1
    for key in [*meant, *(["seed"] if with_seed else [])]:
        separated = len({tuple(_text(flat.get(name)) for name in (*chosen, key)) for flat in settings})
        if separated > parts and (len(chosen) < MAX_KEYS or key == "seed"):
            chosen, parts = [*chosen, key], separated
    return chosen


def _rank(key: str) -> tuple[int, str]:
    last = key.rpartition(".")[2]
    return (FIRST.index(last) if last in FIRST else len(FIRST), key)


def _made_unique(groups: list[Group]) -> list[Group]:
    """Add the id of its (first) run to each label that another group of the environment has too."""
    alike = Counter((one.label, one.env) for one in groups)
    for one in groups:
        if alike[one.label, one.env] > 1:
            one.label = f"{one.label} {one.runs[0].id}"
    return groups


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _shortest(value: Any, others: Iterable[Any]) -> str:
    """Return a number to four digits where it still differs from ``others`` then, everything else in full."""
    if not isinstance(value, float):
        return _text(value)
    short = f"{value:.4g}"
    same = {other for other in others if isinstance(other, float) and f"{other:.4g}" == short}
    return short if same <= {value} else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
