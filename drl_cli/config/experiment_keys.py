"""The keys of one experiment in a file, beside its ``config``; the flags of the same names fill the same keys.

Used by ``experiments.spec``. Names and meanings are RLlib's (its experiment YAML; of its ``export_formats`` h5 is Keras's, and
is not here).
"""

from collections.abc import Container, Iterable, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from drl_cli.config import storage_uri
from drl_cli.config.rllib.other_libraries import FIELDS, KEYS, STOPS
from drl_cli.config.schema import PlainMapping, Section, Whole, key
from drl_cli.extras import installation

FORMATS = {"model": "savedmodel", "savedmodel": "savedmodel", "onnx": "onnx", "tflite": "tflite"}
"""Name → the format of ``drl checkpoint export``; "checkpoint" is what a run keeps anyway."""
PACKAGES = {"onnx": ("onnx", "onnxruntime")}
"""Format → the packages of the extra of its name, without which it cannot be made."""


def listed_formats(value: Any) -> Any:
    """Return ``model`` and ``model,onnx``, as typed, as lists; anything else as it is."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Formats = Annotated[
    tuple[Literal["checkpoint", "model", "savedmodel", "onnx", "tflite"], ...],
    BeforeValidator(listed_formats),
    Field(strict=False),
]

Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(strict=False, max_length=20)]


class ExperimentKeys(Section):
    """One experiment: algorithm, environment, when it stops, what is kept."""

    run: str | None = key(None, "The algorithm; the same as --run.", allowed="the name of an algorithm")
    env: str | None = key(None, "The gymnasium id of the environment; the same as --env.", allowed="a gymnasium id")
    config: PlainMapping = key({}, "Keys of the algorithm's config.")
    stop: PlainMapping | None = key(
        None, "Result field → threshold; the run stops when any is reached. {} never stops it."
    )
    pass_criteria: PlainMapping = key(
        {},
        "Result field → threshold that the run must reach. Thresholds on rewards are stop rules as well; a run that "
        "ends without reaching them has failed its criterion.",
    )
    checkpoint_freq: Whole = key(
        0, "Iterations between two periodic checkpoints; 0 keeps only the best and the last.", "iterations", ge=0
    )
    checkpoint_at_end: bool = key(
        True,
        "Whether a run writes a checkpoint when it ends, for whatever reason.",
        rllib=False,
        why="a run without a checkpoint cannot be used",
    )
    keep_checkpoints_num: Whole | None = key(
        None, "Checkpoints to keep; null keeps all. The best and the newest are always kept.", "checkpoints", ge=1
    )
    checkpoint_score_attr: str | None = key(
        None,
        "Result field by which checkpoints are ranked, prefixed with min- if lower is better; null uses the mean "
        "reward of the newest greedy evaluation, or episode_reward_mean without evaluations.",
        allowed="a result field, with or without the prefix min-",
        rllib="training_iteration",
        why="the newest checkpoint is often not the best one",
    )
    local_dir: str | None = key(
        None, "Folder of all results; null uses TUNE_RESULT_DIR, or ~/ray_results.", min_length=1
    )
    storage_path: Annotated[str, Field(min_length=1), AfterValidator(storage_uri.checked)] | None = key(
        None,
        "Where each run is copied as well, after each checkpoint and at its end, while it trains: a URI of "
        "pyarrow.fs (s3://bucket/folder, gs://, abfs://, hdfs://, file://) or a folder. null: nowhere.",
        allowed="a URI, a folder, or null",
    )
    export_formats: Formats = key(
        (),
        "Formats in which the policy of the best checkpoint is exported to the run's folder when the run has "
        "finished: model (or savedmodel), onnx, tflite; see drl checkpoint export. checkpoint is accepted, since a "
        "run always keeps checkpoints.",
        allowed="a list of checkpoint, model, savedmodel, onnx, tflite",
    )
    loggers: Names = key(
        (),
        "Where results go in addition to result.json, progress.csv and TensorBoard: wandb, mlflow, aim (each an "
        "extra), and loggers registered by a module of --import (drl_cli.register_logger).",
        allowed="a list of names",
    )
    restore: str | None = key(None, "Checkpoint from which a new run starts.", min_length=1)
    num_samples: Whole = key(
        1,
        "Number of trials, or of trials per grid point, each with newly sampled values.",
        "trials",
        ge=1,
        le=10_000,
    )
    max_failures: Whole = key(
        0,
        "How often a trial that failed or was killed is restarted from its newest checkpoint; -1: without limit.",
        "restarts",
        ge=-1,
    )
    resources_per_trial: PlainMapping | None = key(
        None,
        "Resources that each trial of a search requests from Ray: cpu and gpu for its own process, extra_cpu and "
        "extra_gpu for its workers; null requests one CPU and what num_workers and related keys need.",
    )


NOT_YET = {
    "trial_name_creator": "it is a Python function. Runs are named by algorithm, environment and time.",
    "scheduler": "type --scheduler.",
    "search_alg": "type --search.",
    "resume": "type drl train --resume.",
    "verbose": "type -v or -vv.",
    "experiment_name": "the experiment's name is the key above it.",
    "name": "the experiment's name is the key above it.",
}
"""Keys of RLlib's experiments that are not supported yet, with what helps instead."""


def refusal(path: Sequence[str], config_keys: Container[str] = frozenset()) -> str | None:
    """Return why a field is refused and what is written instead, or None for an unknown name.

    ``config_keys``: the keys of all algorithms, which belong one level deeper.
    """
    name = path[-1]
    if name in NOT_YET:
        hint = NOT_YET[name]
        return f"not supported: {hint}" if hint else "not supported yet"
    if name in FIELDS:
        return f"no field of an experiment. Write {FIELDS[name]}"
    if name in config_keys:
        return f"a key of the config. Indent it under config: {{{name}: …}}"
    if name in STOPS:
        return f"no field of an experiment. Write stop: {{{STOPS[name]}: …}}"
    if name in KEYS:
        return f"a name of {KEYS[name].origin}. Write config: {{{' or '.join(key for key, _ in KEYS[name].here)}: …}}"
    return None


def exported_formats(names: Iterable[str]) -> tuple[str, ...]:
    """Return the formats of ``drl checkpoint export`` among ``names``, each once."""
    return tuple(dict.fromkeys(FORMATS[name] for name in names if name in FORMATS))


def missing_packages(names: Iterable[str], place: str) -> list[str]:
    """Return a line for each format whose packages are missing; ``place``: where the format is named."""
    missing = {
        form: [name for name in PACKAGES.get(form, ()) if find_spec(name) is None] for form in exported_formats(names)
    }
    return [
        f"export_formats: {form} needs the package {lacking[0]}, which is not installed ({place}). Run: "
        f"{installation(lacking[0])}"
        for form, lacking in missing.items()
        if lacking
    ]
