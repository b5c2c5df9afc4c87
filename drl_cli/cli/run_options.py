"""What the commands about runs share: where to look for them, filters, spans of time, and how a table is printed."""

import os
import re
import shutil
import sys

import click

from drl_cli.cli import figures, group, options, shell_words, terminal, values

WHICH = "Which runs"
SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
UNLIMITED = 10_000  # columns of a table that nobody cuts


class Span(click.ParamType):
    """A span of time such as 90s, 30m, 12h, 7d, 2w; becomes seconds."""

    name = "span"

    def convert(self, value, param, context):
        """Return the seconds in ``value``."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(s|min|m|h|d|w)", value.strip())
        if not match:
            self.fail(f"{value!r} is no span of time; write 90s, 30m, 12h, 7d or 2w.", param, context)
        return float(match[1]) * SECONDS[match[2]]


def local_dir_option(heading=WHICH):
    """``--local-dir DIR``, repeatable: the folders of results."""
    return group.option(
        "--local-dir",
        "local_dirs",
        metavar="DIR",
        multiple=True,
        group=heading,
        help="Where experiments are; repeatable. [default: ~/ray_results]",
    )


def roots(local_dirs):
    """Return the folders of results that were asked for, as absolute paths."""
    from drl_cli.runs.run_folder import results_folder

    return [results_folder(given) for given in local_dirs if given] or [results_folder(None)]


STATES = ("running", "finished", "interrupted", "failed", "died", "unknown")

filter_options = options.apply(
    [
        group.option(
            "--state",
            "states",
            metavar="STATE",
            type=values.OneOf(STATES),
            multiple=True,
            group=WHICH,
            help="running, finished, interrupted, failed, or died (its process is gone); repeatable.",
        ),
        group.option(
            "--run",
            "algorithms",
            metavar="NAME",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.algorithms,
            help="Algorithm; repeatable.",
        ),
        group.option(
            "--env",
            "envs",
            metavar="PATTERN",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.environments,
            help="Environment, such as 'Lunar*'.",
        ),
        group.option(
            "--experiment-name",
            "experiments",
            metavar="PATTERN",
            multiple=True,
            group=WHICH,
            help="Experiment; repeatable.",
        ),
        group.option(
            "--search",
            "searches",
            metavar="ID",
            multiple=True,
            group=WHICH,
            shell_complete=shell_words.searches,
            help="Trials of a search; repeatable.",
        ),
        group.option(
            "--older-than", type=Span(), metavar="SPAN", group=WHICH, help="Not heard of for 90s, 30m, 12h, 7d, 2w."
        ),
        group.option("--newer-than", type=Span(), metavar="SPAN", group=WHICH, help="Heard of within that time."),
        local_dir_option(),
    ]
)


def wanted(**filters):
    """Return the filters that were typed, by the names that ``runs.select.Wanted`` has."""
    from drl_cli.runs.select import Wanted

    return Wanted(**filters)


def open_runs(words, local_dirs):
    """Return the Run objects that ``words`` mean."""
    from drl_cli.runs import find, run_summary

    return [run_summary.read(path) for path in find.find_runs(words, roots(local_dirs))]


def open_run(word, roots):
    """Return the one Run that ``word`` means."""
    from drl_cli.runs import find, run_summary

    return run_summary.read(find.find_run(word, roots))


def place(word, local_dirs=()):
    """Return a path as it is, and for the id or the name of a run its folder. None stays None. Raises RunFolderError."""
    if word is None or os.sep in word or word.startswith((".", "~")) or os.path.exists(word):
        return word
    from drl_cli.runs.find import find_run

    return str(find_run(word, roots(local_dirs)))


def console(session):
    """Return a rich Console on stdout: as wide as the terminal or COLUMNS; without either, nothing is cut."""
    made = terminal.rich_console(sys.stdout, session)
    if shutil.get_terminal_size((0, 0)).columns == 0 and not terminal.is_terminal(sys.stdout):
        made.width = UNLIMITED
    return made


def rendered(parts, rich_console):
    """Return the lines of what rich prints for each of ``parts``, blanks at their ends cut."""
    with rich_console.capture() as capture:
        for part in parts:
            rich_console.print(part)
    return [line.rstrip() for line in capture.get().rstrip().splitlines()]


def plus_minus(stream):
    """Return the sign for a standard deviation that ``stream`` can carry."""
    return "±" if terminal.is_unicode(stream) else "+/-"


def number(value):
    """A score: one digit behind the point below 1000, none above; ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def interval(low, high):
    """``[1.0, 2.0]``, or an empty text without one."""
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def shorten(text, width, stream):
    """Cut the middle out of ``text`` so that it fits ``width`` on ``stream``."""
    return figures.shorten(text, width, not terminal.is_unicode(stream))
