"""The options of ``drl train`` that make it a search, under their heading of the help; RLlib's spelling where it has one."""

from drl_cli.cli import group, shell_words, values

SEARCH = "Many runs at once"
NAMES = (
    "num_samples",
    "seeds",
    "scheduler",
    "scheduler_config",
    "search",
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

_OPTIONS = [
    group.option(
        "--num-samples",
        type=values.Whole(1, 10_000),
        metavar="N",
        group=SEARCH,
        help="Trials of each point of the grid, with newly drawn values.",
    ),
    group.option("--seeds", metavar="0..4", group=SEARCH, help="One run for each seed: a range, or 1,5,9."),
    group.option(
        "--scheduler",
        metavar="NAME",
        shell_complete=shell_words.one_of(SCHEDULERS),
        group=SEARCH,
        help="FIFO, MedianStoppingRule, AsyncHyperBand (ASHA), HyperBand or PopulationBasedTraining (PBT).",
    ),
    group.option("--scheduler-config", metavar="OBJECT", group=SEARCH, help="Its keys; metric and mode too."),
    group.option(
        "--search",
        metavar="NAME",
        shell_complete=shell_words.one_of(SEARCHES),
        group=SEARCH,
        help="Where values come from: grid or random (drawn before), or tpe (Optuna learns from the trials).",
    ),
    group.option(
        "--max-failures",
        type=values.Whole(min=-1),
        metavar="N",
        group=SEARCH,
        help="Restarts of a trial that failed or was killed, from its newest checkpoint.",
    ),
    group.option(
        "--resources-per-trial", metavar="OBJECT", group=SEARCH, help="cpu, gpu, extra_cpu, extra_gpu of each trial."
    ),
    group.option(
        "--write",
        metavar="FILE",
        group=SEARCH,
        help="Train the best again on fresh seeds, then write the best of them as a file for -f.",
    ),
    group.option(
        "--write-top", type=values.Whole(1, 100), metavar="N", group=SEARCH, help="How many for --write. [default: 3]"
    ),
    group.option(
        "--write-seeds", type=values.Whole(1, 100), metavar="N", group=SEARCH, help="Seeds of each. [default: 3]"
    ),
]


def search_options(function):
    """Add the options of a search to a command."""
    for add in reversed(_OPTIONS):
        function = add(function)
    return function
