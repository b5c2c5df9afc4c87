"""The options that commands share, and those of ``drl train`` under the headings its help shows.

``train_options`` follows RLlib's spelling and meaning. Texts of ``--config``, ``--stop`` and ``-s`` are not read here.
"""

import click
from click.core import ParameterSource

from drl_cli.algorithms import table
from drl_cli.cli import group, rllib_options, shell_words, terminal, values
from drl_cli.errors import InputError

NEWEST = "newest"  # what `--resume` without a run stands for

WHAT, STOP, KEEP, CONTINUE, SCALE, OUTPUT = (
    "What to train",
    "When to stop",
    "Results and checkpoints",
    "Going on",
    "Ray",
    "Output",
)
COUNT = values.Whole(min=0)
POSITIVE = values.Whole(min=1)


def apply(options):
    """Return a decorator that adds ``options`` to a command, so that help shows them in the order of the list."""

    def decorate(function):
        for add in reversed(options):
            function = add(function)
        return function

    return decorate


def _set_debug(context, _option, wanted):
    if wanted:
        context.find_object(terminal.Session).debug = True


def _set_no_color(context, _option, wanted):
    if wanted:
        context.find_object(terminal.Session).color = False


speech_options = apply(
    [
        group.option(
            "--no-color",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_no_color,
            group=OUTPUT,
            help="No colours; so does NO_COLOR=1.",
        ),
        group.option(
            "--debug",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_debug,
            group=OUTPUT,
            help="Show tracebacks; so does DRL_DEBUG=1.",
        ),
    ]
)


def run_option(heading):
    """``--run NAME`` of commands that read a checkpoint, which knows its algorithm; RLlib had to be told."""
    return group.option(
        "--run",
        "--algo",
        "run",
        metavar="NAME",
        group=heading,
        shell_complete=shell_words.algorithms,
        help="Refuse a checkpoint of another algorithm; a checkpoint knows its own.",
    )


def max_steps_option(heading):
    """``--max-steps N`` of commands that play whole episodes."""
    return group.option(
        "--max-steps",
        type=POSITIVE,
        metavar="N",
        group=heading,
        help="Cut an episode after N env steps and count it as it stands. [default: the run's evaluation_max_steps; if null, "
        "10,000 where the environment has no limit of its own]",
    )


def check_run(run, subjects):
    """Raise InputError unless each Subject was trained by the algorithm that ``run`` names (None: any)."""
    if run is None:
        return
    name = table.find(run).name
    for subject in subjects:
        if subject.facts["algorithm"] != name:
            trained_by = subject.facts["algorithm"]
            raise InputError(f"--run {name}: {subject.path} was trained by {trained_by}. Leave --run out, it is known.")


quiet_option = group.option(
    "-q", "--quiet", is_flag=True, group=OUTPUT, help="Nothing on stderr but warnings and errors."
)


def import_option(heading):
    """``--import MODULE``, under the heading of the command that takes it."""
    return group.option(
        "--import",
        "imports",
        metavar="MODULE",
        multiple=True,
        group=heading,
        help="Import a module that registers environments, algorithms, callbacks, …; repeatable.",
    )


_WHAT = [
    group.option(
        "--run",
        "--algo",
        "run",
        metavar="NAME",
        group=WHAT,
        shell_complete=shell_words.algorithms,
        help="Algorithm, such as SAC.",
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
        help="YAML file of experiments: a path, or the name of a shipped one. Flags given beside it override it.",
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
        "--seed", type=COUNT, metavar="N", group=WHAT, help="Seed of everything random; drawn and recorded if left out."
    ),
    import_option(WHAT),
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
        help="Stop when a result field reaches a value: an object, @FILE, or FIELD=VALUE; repeatable, the first stops.",
    ),
    group.option(
        "--assert",
        "asserts",
        metavar="'FIELD>=VALUE'",
        multiple=True,
        group=STOP,
        help="Exit with 4 unless the last result meets it (>=, <=, >, <; in quotes); repeatable. Stops nothing.",
    ),
]
_KEEP = [
    group.option("--experiment-name", metavar="NAME", group=KEEP, help="Folder of the experiment. [default: default]"),
    group.option(
        "--local-dir",
        metavar="DIR",
        group=KEEP,
        shell_complete=shell_words.folders,
        help="Where experiments go. [default: ~/ray_results]",
    ),
    group.option(
        "--checkpoint-freq",
        type=COUNT,
        metavar="N",
        group=KEEP,
        help="Checkpoint every N iterations; best and final are kept anyway.",
    ),
    group.option(
        "--checkpoint-at-end",
        is_flag=True,
        group=KEEP,
        help="Checkpoint at the end; always done, accepted as RLlib spells it.",
    ),
    group.option(
        "--keep-checkpoints-num",
        type=POSITIVE,
        metavar="N",
        group=KEEP,
        help="Keep the N best periodic checkpoints, and the newest.",
    ),
    group.option(
        "--checkpoint-score-attr",
        metavar="FIELD",
        shell_complete=shell_words.fields,
        group=KEEP,
        help="What best means for --keep-checkpoints-num; min-FIELD for lower is better.",
    ),
    group.option(
        "--export-formats",
        metavar="FORMATS",
        group=KEEP,
        help="When finished, export the best policy into the run's folder: model,onnx,tflite.",
    ),
    group.option(
        "--logger",
        "loggers",
        metavar="NAME",
        multiple=True,
        group=KEEP,
        help="Send results also to wandb, mlflow, aim, or a registered logger; repeatable.",
    ),
]
_CONTINUE = [
    group.option(
        "--restore",
        metavar="CHECKPOINT",
        group=CONTINUE,
        shell_complete=shell_words.runs,
        help="Go on from a checkpoint in a new run.",
    ),
    group.option(
        "--resume",
        metavar="[=RUN]",
        is_flag=False,
        flag_value=NEWEST,
        group=CONTINUE,
        shell_complete=shell_words.runs,
        help="Go on in the folder of RUN, or of the experiment's newest unfinished run.",
    ),
]
_SCALE = [
    group.option("--ray-address", metavar="ADDRESS", group=SCALE, help="Join a running cluster: auto, or host:port."),
    group.option("--ray-num-cpus", type=COUNT, metavar="N", group=SCALE, help="CPUs of the Ray that the run starts."),
    group.option("--ray-num-gpus", type=COUNT, metavar="N", group=SCALE, help="GPUs of the Ray that the run starts."),
    group.option(
        "--ray-object-store-memory", type=POSITIVE, metavar="BYTES", group=SCALE, help="Size of its object store."
    ),
    group.option(
        "--queue-trials",
        is_flag=True,
        group=SCALE,
        help="Wait without end for a cluster that is full, as when it grows.",
    ),
    group.option(
        "--local-mode", is_flag=True, group=SCALE, help="Everything in this one process, without Ray: num_workers 0."
    ),
]
_OUTPUT = [
    group.option("-v", "--verbose", count=True, group=OUTPUT, help="Plain lines and more log; -vv for everything."),
    group.option("-q", "--quiet", is_flag=True, group=OUTPUT, help="Only warnings and errors."),
    group.option(
        "--json",
        "as_json",
        is_flag=True,
        group=OUTPUT,
        help='One JSON object per iteration on stdout, then {"finished": …}.',
    ),
    group.option(
        "--log-format",
        type=values.OneOf(["text", "json"]),
        metavar="json|text",
        group=OUTPUT,
        help="Lines of the run's drl.log. [default: text]",
    ),
]

train_options = apply(
    [*_WHAT, *_STOP, *_KEEP, *_CONTINUE, *_SCALE, *_OUTPUT, speech_options, rllib_options.of("train")]
)


def preset():
    """Return the names of the parameters of the running command that were not typed, but have a person's own default."""
    context = click.get_current_context()
    mine = ParameterSource.DEFAULT_MAP
    return [option.name for option in context.command.params if context.get_parameter_source(option.name) == mine]


def import_modules(names):
    """Import the modules of ``--import``, also from the current folder: what they register is known from then on."""
    for name in names:
        from drl_cli.envs.make import import_module

        import_module(name)


def typed_object(text, flag):
    """Return the mapping that was typed behind ``flag`` (an object, ``<…>`` or ``@file``), or an empty one."""
    if not text:
        return {}
    from drl_cli.config.assignments import parse_object

    return parse_object(text, flag)[0]
