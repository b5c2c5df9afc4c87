"""The options of ``drl train``, under the headings that its help shows, and those that make it a search.

They follow RLlib's spelling and meaning where it has them. What is typed for ``--config``, ``--stop`` and ``-s`` is not read
here.
"""

from __future__ import annotations

import click
from click.core import ParameterSource

from drl_cli.cli import group, options, rllib_options, shell_words, values

NEWEST = "newest"  # what `--resume` without a run stands for

WHAT, STOP, KEEP, CONTINUE, SCALE = "What to train", "When to stop", "Results and checkpoints", "Resuming", "Ray"
SEARCH = "Many runs at once"
SEARCH_NAMES = (
    "num_samples",
    "seeds",
    "scheduler",
    "scheduler_config",
    "search",
    "search_space",
    "max_failures",
    "resources_per_trial",
    "write",
    "write_top",
    "write_seeds",
)
"""What these options are handed on as."""

SCHEDULERS = ("FIFO", "MedianStoppingRule", "AsyncHyperBand", "HyperBand", "PopulationBasedTraining", "ASHA", "PBT")
SEARCHES = ("grid", "random", "tpe")
"""What a shell completes; the names are those of ``config.sections.schedulers`` and ``experiments.search_choices``."""

_WHAT = [
    group.option(
        "--run",
        "--algo",
        "run",
        metavar="NAME",
        group=WHAT,
        shell_complete=shell_words.algorithms,
        help="Algorithm, such as SAC; without it and without -f, one is chosen for --env.",
    ),
    group.option(
        "--env",
        metavar="ID",
        group=WHAT,
        shell_complete=shell_words.environments,
        help="Environment: a gymnasium id, or module:Id to import it from.",
    ),
    group.option(
        "-f",
        "--config-file",
        metavar="FILE",
        group=WHAT,
        shell_complete=shell_words.experiment_files,
        help="YAML file of experiments: a path, or the name of a tuned file. Other flags override it.",
    ),
    group.option("--config", metavar="OBJECT", group=WHAT, help="Config keys as a JSON or YAML object, or @FILE."),
    group.option(
        "-s",
        "--set",
        metavar="KEY=VALUE",
        multiple=True,
        group=WHAT,
        shell_complete=shell_words.settings,
        help="One config key (a.b=c); repeatable.",
    ),
    group.option(
        "--seed",
        type=options.COUNT,
        metavar="N",
        group=WHAT,
        help="Seed of all randomness; if omitted, drawn at random and recorded.",
    ),
    options.import_option(WHAT),
    group.option(
        "--strict-env",
        is_flag=True,
        group=WHAT,
        help="Refuse a retired environment id instead of running its current version.",
    ),
]
_STOP = [
    group.option(
        "--stop",
        metavar="OBJECT|FIELD=VALUE",
        multiple=True,
        group=STOP,
        help="Stop when a result field reaches a value: an object, @FILE, or FIELD=VALUE; repeatable, the first one met stops.",
    ),
    group.option(
        "--assert",
        "asserts",
        metavar="'FIELD>=VALUE'",
        multiple=True,
        group=STOP,
        help="Exit with 4 unless the last result meets it (>=, <=, >, <; in quotes); repeatable. Does not stop the run.",
    ),
]
_KEEP = [
    group.option(
        "--experiment-name", metavar="NAME", group=KEEP, help="Name of the experiment's folder. [default: default]"
    ),
    group.option(
        "--local-dir",
        metavar="DIR",
        group=KEEP,
        shell_complete=shell_words.folders,
        help="Folder of results. [default: ~/ray_results]",
    ),
    group.option(
        "--storage-path",
        "--upload-dir",
        "storage_path",
        metavar="URI",
        group=KEEP,
        help="Also copy each run to s3://BUCKET/FOLDER, gs://, abfs://, hdfs:// or file://, after each checkpoint.",
    ),
    group.option(
        "--checkpoint-freq",
        type=options.COUNT,
        metavar="N",
        group=KEEP,
        help="Checkpoint every N iterations; the best and the final one are always kept.",
    ),
    group.option(
        "--checkpoint-at-end",
        is_flag=True,
        group=KEEP,
        help="Checkpoint at the end. Always on; accepted for RLlib's sake.",
    ),
    group.option(
        "--keep-checkpoints-num",
        type=options.POSITIVE,
        metavar="N",
        group=KEEP,
        help="Keep only the N best periodic checkpoints and the newest.",
    ),
    group.option(
        "--checkpoint-score-attr",
        metavar="FIELD",
        shell_complete=shell_words.fields,
        group=KEEP,
        help="Field that ranks checkpoints for --keep-checkpoints-num; min-FIELD if lower is better.",
    ),
    group.option(
        "--export-formats",
        metavar="FORMATS",
        group=KEEP,
        help="At the end, export the best policy to the run's folder: model,onnx,tflite.",
    ),
    group.option(
        "--logger",
        "loggers",
        metavar="NAME",
        multiple=True,
        group=KEEP,
        help="Also log results to wandb, mlflow, aim, or a registered logger; repeatable.",
    ),
]
_CONTINUE = [
    group.option(
        "--restore",
        metavar="CHECKPOINT",
        group=CONTINUE,
        shell_complete=shell_words.runs,
        help="Start a new run from a checkpoint.",
    ),
    group.option(
        "--resume",
        metavar="[=RUN]",
        is_flag=False,
        flag_value=NEWEST,
        group=CONTINUE,
        shell_complete=shell_words.runs,
        help="Continue RUN in its folder, or the experiment's newest unfinished run.",
    ),
]
_SCALE = [
    group.option("--ray-address", metavar="ADDRESS", group=SCALE, help="Join a running cluster: auto, or host:port."),
    group.option(
        "--ray-num-cpus",
        type=options.COUNT,
        metavar="N",
        group=SCALE,
        help="CPUs of the Ray instance that the run starts.",
    ),
    group.option(
        "--ray-num-gpus",
        type=options.COUNT,
        metavar="N",
        group=SCALE,
        help="GPUs of the Ray instance that the run starts.",
    ),
    group.option(
        "--ray-object-store-memory",
        type=options.POSITIVE,
        metavar="BYTES",
        group=SCALE,
        help="Size of its object store.",
    ),
    group.option(
        "--queue-trials",
        is_flag=True,
        group=SCALE,
        help="Wait without a time limit while the cluster is full, for example until it scales up.",
    ),
    group.option(
        "--local-mode", is_flag=True, group=SCALE, help="Run everything in this process, without Ray: num_workers 0."
    ),
]
_OUTPUT = [
    group.option("-v", "--verbose", count=True, help="Plain lines and a more detailed log; -vv for everything."),
    options.quiet_option(),
    group.option(
        "--json",
        "as_json",
        is_flag=True,
        help='One JSON object per iteration on stdout, then {"finished": …}.',
    ),
    group.option(
        "--log-format",
        type=values.OneOf(["text", "json"]),
        metavar="json|text",
        help="Format of the run's drl.log. [default: text]",
    ),
]
_SEARCH = [
    group.option(
        "--num-samples",
        type=values.Whole(1, 10_000),
        metavar="N",
        group=SEARCH,
        help="Trials per grid point, each with newly drawn values.",
    ),
    group.option("--seeds", metavar="0..4", group=SEARCH, help="One run per seed: a range, or 1,5,9."),
    group.option(
        "--scheduler",
        metavar="NAME",
        shell_complete=shell_words.one_of(SCHEDULERS),
        group=SEARCH,
        help="FIFO, MedianStoppingRule, AsyncHyperBand (ASHA), HyperBand or PopulationBasedTraining (PBT).",
    ),
    group.option(
        "--scheduler-config",
        metavar="OBJECT",
        group=SEARCH,
        help="Arguments of the scheduler, including metric and mode.",
    ),
    group.option(
        "--search",
        metavar="NAME",
        shell_complete=shell_words.one_of(SEARCHES),
        group=SEARCH,
        help="Search algorithm: grid or random (drawn in advance), or tpe (Optuna, which learns from the trials).",
    ),
    group.option(
        "--search-space",
        type=values.OneOf(("default",)),
        metavar="default",
        group=SEARCH,
        help="Search over the algorithm's most important keys, in ranges from the literature; keys that are given stay.",
    ),
    group.option(
        "--max-failures",
        type=values.Whole(min=-1),
        metavar="N",
        group=SEARCH,
        help="How often a trial that failed or was killed is restarted from its newest checkpoint.",
    ),
    group.option(
        "--resources-per-trial", metavar="OBJECT", group=SEARCH, help="cpu, gpu, extra_cpu, extra_gpu of each trial."
    ),
    group.option(
        "--write",
        metavar="FILE",
        group=SEARCH,
        help="Retrain the best trials on fresh seeds, then write the best of them to a file for -f.",
    ),
    group.option(
        "--write-top",
        type=values.Whole(1, 100),
        metavar="N",
        group=SEARCH,
        help="Number of trials that --write retrains. [default: 3]",
    ),
    group.option(
        "--write-seeds",
        type=values.Whole(1, 100),
        metavar="N",
        group=SEARCH,
        help="Seeds per retrained trial. [default: 3]",
    ),
]

train_options = options.apply(
    [*_WHAT, *_STOP, *_KEEP, *_CONTINUE, *_SCALE, *_OUTPUT, options.speech_options, rllib_options.of("train"), *_SEARCH]
)


def preset() -> list[str]:
    """Return the names of the parameters of the running command that were not typed, but have a person's own default."""
    context = click.get_current_context()
    mine = ParameterSource.DEFAULT_MAP
    return [option.name for option in context.command.params if context.get_parameter_source(option.name) == mine]
