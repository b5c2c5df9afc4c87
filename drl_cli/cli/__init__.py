"""The ``drl`` command: its table of commands, its help, and ``main``.

Used by the console script and ``python -m drl_cli`` (``entry``). A command lives in a file of its own and is loaded when it is
typed, so that ``drl --help`` imports click and nothing heavier. Exit codes, error messages and logs are
``endings.py``; how help is laid out is ``group.py``.

Belongs here: one file a command: options, what is printed, exit codes; screens.

Not here: computation: a command calls what other rooms offer.

Read first: ``group.py``
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

import drl_cli.cli.endings as endings
import drl_cli.cli.group as group
import drl_cli.cli.terminal as terminal
from drl_cli import process
from drl_cli.stop_request import StopRequest
from drl_cli.version import __version__

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

COMMANDS = {  # name -> (where it lives, its line in `drl --help`)
    "train": ("drl_cli.cli.train:train", "Train an agent, watch it learn, keep its checkpoints."),
    "rollout": ("drl_cli.cli.rollout:rollout", "Play a checkpoint: rewards, a window, videos, transitions."),
    "evaluate": ("drl_cli.cli.evaluate:evaluate", "Evaluate checkpoints on fixed seeds, with confidence intervals."),
    "checkpoint": ("drl_cli.cli.checkpoint:checkpoint", "Inspect, verify, export, pack and unpack checkpoints."),
    "runs": ("drl_cli.cli.runs:runs", "List the runs on disk, or remove some."),
    "watch": ("drl_cli.cli.watch:watch", "Watch a run live from another terminal."),
    "diff": ("drl_cli.cli.diff:diff", "Show where two runs or files differ."),
    "compare": (
        "drl_cli.cli.compare:compare",
        "Compare algorithms over seeds: mean, IQM, published scores.",
    ),
    "plot": ("drl_cli.cli.plot:plot", "Plot learning curves to a file or in the terminal."),
    "report": ("drl_cli.cli.report:report", "Write a report of runs: one HTML file that opens offline."),
    "example": ("drl_cli.cli.example:example", "List, show and run the tuned files that come with drl."),
    "algorithms": ("drl_cli.cli.algorithms:algorithms", "List the algorithms, or every config key of one."),
    "envs": ("drl_cli.cli.envs:envs", "List the installed environments and the algorithms they suit."),
    "env": ("drl_cli.cli.env:env", "Check an environment: seeding, spaces, episode ends, speed."),
    "explain": ("drl_cli.cli.explain:explain", "Show every setting of a run or file, and where it was set."),
    "new": ("drl_cli.cli.new:new", "Write a file to start from: an experiment or an environment."),
    "schema": ("drl_cli.cli.schema:schema", "Print the JSON Schema of tuned files, for editors."),
    "doctor": ("drl_cli.cli.doctor:doctor", "Find what is missing or misconfigured here, and how to fix it."),
    "help": ("drl_cli.cli.help:help_", "Show the help of a command, as drl COMMAND --help does."),
    "completion": ("drl_cli.cli.completion:completion", "Print the completion script for bash, zsh or fish."),
}

EXAMPLES = """
drl train -f lunarlander-continuous-sac
drl train --run SAC --env LunarLanderContinuous-v3 --stop evaluation/episode_reward_mean=200
drl rollout RUN_FOLDER --video-dir videos
drl evaluate RUN_FOLDER RUN_FOLDER/checkpoint_000010 --episodes 50
drl train --resume
"""


def _print_version(context: click.Context, _option: click.Option, wanted: bool) -> None:
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
def drl(context: click.Context) -> None:
    """Train, watch and score deep-reinforcement-learning agents, on one laptop or on a Ray cluster."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``drl`` with ``arguments`` (default: those of the process) and return the exit code; never raises."""
    process.prepare()
    session = terminal.Session(arguments=list(sys.argv[1:] if arguments is None else arguments))
    return endings.exit_code_of(lambda: _run(session), session)


def entry() -> int:
    """Run ``drl`` as a process of its own, and end it.

    Once interrupted it ends at once, also where it had just finished: unloading TensorFlow takes seconds, and C++ ends badly
    where a thread is still busy.
    """
    code = main()
    if code in endings.INTERRUPTED or StopRequest.has_come or process.busy_threads:
        process.leave(code)
    return code


def _run(session: Session) -> int | None:
    """Parse and run; click's own ``main`` would answer Ctrl-C and a closed stdout in its own way."""
    if "_DRL_COMPLETE" in os.environ:  # a shell asks for completions
        return drl.main(session.arguments, "drl", obj=session)
    try:
        with drl.make_context("drl", session.arguments, obj=session) as context:
            return drl.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
