"""The ``drl`` command: its table of commands, its help, and ``main``.

Used by the console script and ``python -m drl_cli`` (``entry``). A command lives in a file of its own and is loaded when it is
typed, so that ``drl --help`` imports click and nothing heavier. How a command ends (exit codes, messages, logs) is
``endings.py``; how help is laid out is ``group.py``.

Belongs here: one file a command: options, what is printed, exit codes; screens.

Not here: computation: a command calls what other rooms offer.

Read first: ``group.py``
"""

import os
import sys

import click

import drl_cli.cli.endings as endings
import drl_cli.cli.group as group
import drl_cli.cli.terminal as terminal
from drl_cli import process
from drl_cli.version import __version__

COMMANDS = {  # name -> (where it lives, its line in `drl --help`)
    "train": ("drl_cli.cli.train:train", "Train an agent, watch it learn, keep its checkpoints."),
    "rollout": ("drl_cli.cli.rollout:rollout", "Play a checkpoint: rewards, a window, videos, transitions."),
    "evaluate": ("drl_cli.cli.evaluate:evaluate", "Score checkpoints on stated seeds, with intervals."),
    "checkpoint": ("drl_cli.cli.checkpoint:checkpoint", "What a checkpoint holds; verify, export, pack, unpack."),
    "runs": ("drl_cli.cli.runs:runs", "List the runs on disk; remove some."),
    "watch": ("drl_cli.cli.watch:watch", "The live screen of a run, from another terminal."),
    "diff": ("drl_cli.cli.diff:diff", "Two runs or files side by side, only what differs."),
    "compare": ("drl_cli.cli.compare:compare", "Algorithms over seeds: mean, IQM, intervals, published figures."),
    "plot": ("drl_cli.cli.plot:plot", "Learning curves as a picture, or in the terminal."),
    "example": ("drl_cli.cli.example:example", "The tuned files that come with drl: list, show, run."),
    "algorithms": ("drl_cli.cli.algorithms:algorithms", "What runs, on which spaces; every key of one algorithm."),
    "envs": ("drl_cli.cli.envs:envs", "The installed environments, their spaces, which algorithms fit."),
    "env": ("drl_cli.cli.env:env", "Check one environment: seeds, spaces, ends, speed."),
    "explain": ("drl_cli.cli.explain:explain", "Each value of a run or a file, and where it came from."),
    "doctor": ("drl_cli.cli.doctor:doctor", "What is missing or misconfigured here, and how to fix it."),
    "help": ("drl_cli.cli.help:help_", "The help of a command; so does drl COMMAND --help."),
    "completion": ("drl_cli.cli.completion:completion", "Print what makes bash, zsh or fish complete drl's words."),
}

EXAMPLES = """
drl train -f lunarlander-continuous-sac
drl train --run SAC --env LunarLanderContinuous-v3 --stop evaluation/episode_reward_mean=200
drl rollout RUN_FOLDER --video-dir videos
drl evaluate RUN_FOLDER RUN_FOLDER/checkpoint_000010 --episodes 50
drl train --resume
"""


def _print_version(context, _option, wanted):
    if wanted and not context.resilient_parsing:
        click.echo(f"drl {__version__}")
        context.exit()


@click.group(
    cls=group.CommandTable,
    table=COMMANDS,
    examples=EXAMPLES,
    closing=endings.EXIT_CODES_HELP,
    invoke_without_command=True,
    context_settings=group.CONTEXT_SETTINGS,
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def drl(context):
    """Train, watch and score deep-reinforcement-learning agents, on one laptop or on a Ray cluster."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments=None):
    """Run ``drl`` with ``arguments`` (default: those of the process) and return the exit code; never raises."""
    process.prepare()
    session = terminal.Session(arguments=list(sys.argv[1:] if arguments is None else arguments))
    return endings.exit_code_of(lambda: _run(session), session)


def entry():
    """Run ``drl`` as a process of its own, and end it.

    Once interrupted it ends at once: unloading TensorFlow takes seconds, and C++ ends badly where a thread is still busy.
    """
    code = main()
    if code in endings.INTERRUPTED or process.busy_threads:
        process.leave(code)
    return code


def _run(session):
    """Parse and run; click's own ``main`` would answer Ctrl-C and a closed stdout in its own way."""
    if "_DRL_COMPLETE" in os.environ:  # a shell asks for completions
        return drl.main(session.arguments, "drl", obj=session)
    try:
        with drl.make_context("drl", session.arguments, obj=session) as context:
            return drl.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
