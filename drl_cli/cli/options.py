"""The options that commands share, and what is done with their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.algorithms import table
from drl_cli.cli import group, shell_words, terminal, values
from drl_cli.errors import InputError

if TYPE_CHECKING:
    import click

    from drl_cli.analysis.loaded_checkpoint import Subject
    from drl_cli.cli.preferences import GroupedOption

COUNT = values.Whole(min=0)
POSITIVE = values.Whole(min=1)


def apply(options: Sequence[Callable]) -> group.Decorator:
    """Return a decorator that adds ``options`` to a command, so that help shows them in the order of the list."""

    def decorate(function: Any) -> group.Decorator:
        for add in reversed(options):
            function = add(function)
        return function

    return decorate


def _set_debug(context: click.Context, _option: GroupedOption, wanted: bool) -> None:
    if wanted:
        context.ensure_object(terminal.Session).debug = True


def _set_no_color(context: click.Context, _option: GroupedOption, wanted: bool) -> None:
    if wanted:
        context.ensure_object(terminal.Session).color = False


speech_options = apply(
    [
        group.option(
            "--no-color",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_no_color,
            help="Do not use colours; same as NO_COLOR=1.",
        ),
        group.option(
            "--debug",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_debug,
            help="Show tracebacks; same as DRL_DEBUG=1.",
        ),
    ]
)


def run_option(heading: str) -> group.Decorator:
    """``--run NAME`` of commands that read a checkpoint, which records its algorithm; RLlib's commands required it."""
    return group.option(
        "--run",
        "--algo",
        "run",
        metavar="NAME",
        group=heading,
        shell_complete=shell_words.algorithms,
        help="Refuse a checkpoint of any other algorithm. Optional: a checkpoint records its own.",
    )


def env_option(heading: str, trained: str) -> group.Decorator:
    """``--env ID`` of commands that play a checkpoint; ``trained``: "it was trained"."""
    return group.option(
        "--env",
        metavar="ID",
        group=heading,
        shell_complete=shell_words.environments,
        help=f"An environment other than the one {trained} on.",
    )


def env_config_option(heading: str) -> group.Decorator:
    """``--config OBJECT`` of commands that play a checkpoint."""
    return group.option(
        "--config",
        metavar="OBJECT",
        group=heading,
        help="env_config and horizon, which override the checkpoint's; an object or @FILE.",
    )


def max_steps_option(heading: str) -> group.Decorator:
    """``--max-steps N`` of commands that play whole episodes."""
    return group.option(
        "--max-steps",
        type=POSITIVE,
        metavar="N",
        group=heading,
        help="Cut an episode after N env steps and count it as it stands. [default: the run's evaluation_max_steps; if null, "
        "10,000 where the environment has no limit of its own]",
    )


def check_run(run: str | None, subjects: Sequence[Subject]) -> None:
    """Raise InputError unless each Subject was trained by the algorithm that ``run`` names (None: any)."""
    if run is None:
        return
    name = table.find(run).name
    for subject in subjects:
        if subject.facts["algorithm"] != name:
            trained_by = subject.facts["algorithm"]
            hint = "Leave --run out: a checkpoint records its algorithm."
            raise InputError(f"--run {name}: {subject.path} was trained by {trained_by}. {hint}")


def quiet_option(text: str = "Print only warnings and errors.") -> group.Decorator:
    """``-q``, whose help is ``text``."""
    return group.option("-q", "--quiet", is_flag=True, help=text)


json_option = group.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def latest_option(heading: str) -> group.Decorator:
    """``--latest`` of commands that take a checkpoint or a run."""
    return group.option(
        "--latest", is_flag=True, group=heading, help="For a run folder, use the newest checkpoint instead of the best."
    )


def import_option(heading: str) -> group.Decorator:
    """``--import MODULE``, under the heading of the command that takes it."""
    return group.option(
        "--import",
        "imports",
        metavar="MODULE",
        multiple=True,
        group=heading,
        help="Import a module that registers environments, algorithms, callbacks, …; repeatable.",
    )


def import_modules(names: tuple[str, ...]) -> None:
    """Import the modules of ``--import``, also from the current folder: what they register is known from then on."""
    for name in names:
        from drl_cli.envs.make import import_module

        import_module(name)


def typed_object(text: str | None, flag: str) -> dict[str, Any]:
    """Return the mapping given to the option ``flag`` (an object or ``@file``), or an empty one."""
    if not text:
        return {}
    from drl_cli.config.assignments import parse_object

    return parse_object(text, flag)[0]
