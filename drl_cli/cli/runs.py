"""``drl runs``: the runs on disk as a table or as JSON; ``drl runs rm`` removes some.

Reading and removing them is the work of ``runs/``. Loads neither TensorFlow nor Ray.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drl_cli.cli import figures, group, options, rich_tables, run_options, run_table, shell_words, terminal, values
from drl_cli.errors import suggestion

if TYPE_CHECKING:
    from drl_cli.runs.run_summary import Run
    from drl_cli.runs.search_folders import ListedSearch

EXAMPLES = """
drl runs
drl runs --state running --sort best
drl runs --env 'Lunar*' --run SAC --newer-than 2d --json
drl runs ~/ray_results/sac td3
drl runs --local-dir ~/ray_results --local-dir /data/results
drl runs --search 1a2b3 --sort best
drl runs rm 1a2b3c4d
drl runs rm --state died --older-than 7d --keep-best 1
"""
TABLE = {
    "rm": ("drl_cli.cli.runs_rm:rm", "Remove runs; asks first, and never removes a running one."),
}
SORTS = ("started", "best", "steps", "time", "size", "algorithm", "env", "state")
ORDER = "Order and output"


class _RunsGroup(group.CommandTable):
    """``drl runs`` lists by itself; its help shows its own options, then the commands below it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``; ``drl runs list`` and ``drl runs ls`` are ``drl runs``; words that are no command are RUNs."""
        args = args[1:] if args[:1] in (["list"], ["ls"]) else args
        is_mistyped = any(suggestion(word, self.table) and not os.path.exists(word) for word in args[:1])
        if ctx.resilient_parsing or is_mistyped or any(word in self.table for word in args):
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        return click.Command.parse_args(self, ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions: the commands and options, then runs."""
        words = () if incomplete.startswith("-") else shell_words.runs(ctx, self.params[0], incomplete)
        found = [CompletionItem(one) if isinstance(one, str) else one for one in words]
        return super().shell_complete(ctx, incomplete) + found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the options under their headings, and the commands."""
        group.write_options(self, self.examples, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])


@click.group(
    "runs",
    cls=_RunsGroup,
    table=TABLE,
    examples=EXAMPLES,
    invoke_without_command=True,
    subcommand_metavar="[RUN]...",
    context_settings=group.CONTEXT_SETTINGS,
)
@run_options.filter_options
@group.option(
    "--sort",
    type=values.OneOf(SORTS),
    default="started",
    group=ORDER,
    help="Largest or newest first.",
)
@group.option("--all", "unfolded", is_flag=True, group=ORDER, help="List the trials of searches one by one.")
@group.option("--reverse", is_flag=True, group=ORDER, help="Reverse the order.")
@group.option("-n", "--limit", type=options.POSITIVE, metavar="N", group=ORDER, help="Only the first N.")
@options.quiet_option("Print only the folders, one per line.")
@options.json_option
@options.speech_options
@click.pass_context
def runs(
    context: click.Context,
    sort: str,
    unfolded: bool,
    reverse: bool,
    limit: int | None,
    quiet: bool,
    as_json: bool,
    local_dirs: tuple[str, ...],
    **filters: Any,
) -> None:
    """List runs, newest first: what they are, whether they are still running, their scores and progress. drl runs list
    and drl runs ls do the same. RUN is an id, a name, a path, or a folder of runs; without one, all runs are listed.

    Commands that take a RUN accept the id in the first column. The id of a search stands for all of its trials, which share
    a line: how many of them have ended, their best score, and the sums of their steps, time and size. --all lists them one
    by one, --search ID those of one search. "died" means that the process of a run ended without reporting why; best is the
    highest greedy evaluation, or without evaluations the best mean of training episodes; now is the mean of the last
    training episodes; time is training time.

    JSON: {"runs": [{"path", "id", "experiment", "algorithm", "env", "seed", "state", "exit_code", "text", "started",
    "updated", "training_iteration", "timesteps_total", "time_total_s", "episode_reward_mean", "best", "best_metric",
    "best_checkpoint", "checkpoints": [...], "size", "pid", "host", "search", "trial"}], "searches": [{"id", "path",
    "experiment", "algorithm", "env", "state", "started", "updated", "trials", "over", "runs": [ids], "metric", "best",
    "best_run", "timesteps_total", "time_total_s", "size"}], "size", "left_out": [...]}; started and updated are seconds since
    the epoch, size is in bytes. runs has the trials too, each with its search's id (else null); -n counts them.
    """
    from drl_cli.runs import find, search_folders, select

    if context.invoked_subcommand is not None:
        _refuse_misplaced(context)
        return
    session = context.obj
    words, roots = context.args, run_options.roots(local_dirs)
    found, left_out = (run_options.open_runs(words, local_dirs), []) if words else find.read_all(roots)
    chosen = select.order(select.select(found, run_options.filters_of(**filters)), sort, reverse)
    output = terminal.Stdout(session)
    if as_json:
        listed = [{**run_table.facts(run), **_trial(run)} for run in chosen[:limit]]
        folded = search_folders.folded(chosen[:limit])
        groups = [run_table.search_facts(one) for one in folded if isinstance(one, search_folders.ListedSearch)]
        total = sum(run.size for run in chosen[:limit])
        output.json_line({"runs": listed, "searches": groups, "size": total, "left_out": left_out})
        return
    if quiet:
        for run in chosen[:limit]:
            output.line(str(run.path))
        return
    is_folded = not (unfolded or filters["searches"])
    rows = (select.order(search_folders.folded(chosen), sort, reverse) if is_folded else chosen)[:limit]
    for line in run_table.table(rows, rich_tables.console(session)) if rows else ():
        output.line(line)
    for line in left_out:
        terminal.say(line)
    terminal.say(_summary(rows, found, [] if words else roots, filters))
    searches = [row.id for row in rows if hasattr(row, "trials")]
    if searches:
        terminal.say(f"The trials of a search, a line each: drl runs --search {searches[0]}")


def _refuse_misplaced(context: click.Context) -> None:
    """``drl runs --state failed rm`` would remove everything if the options before rm were dropped in silence."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.expose_value and source is click.core.ParameterSource.COMMANDLINE:
            name, below = parameter.opts[0], context.invoked_subcommand
            context.fail(f"{name} stands before {below}. Options of {below} come after it: drl runs {below} {name} …")


def _summary(
    rows: Sequence[Run | ListedSearch], found: Sequence[Run], roots: Sequence[Path], filters: Mapping[str, Any]
) -> str:
    where = f" in {', '.join(str(root) for root in roots)}" if roots else ""
    if not found:
        return f"No runs{where}. Start one: drl train -f lunarlander-continuous-sac"
    if not rows:
        return f"None of the {len(found)} runs{where} matches the filters.{_meant(found, filters)}"
    from drl_cli.runs.search_folders import ListedSearch

    shown = sum(len(row.runs) if isinstance(row, ListedSearch) else 1 for row in rows)
    size = figures.size(sum(row.size for row in rows))
    part = f"{shown} of {len(found)}" if shown < len(found) else f"{shown}"
    return f"{part} run{'s' if len(found) > 1 else ''}{where}, {size}."


def _meant(found: Sequence[Run], filters: Mapping[str, Any]) -> str:
    """Return the nearest of what there is to the first filter that no run passes for its spelling."""
    from drl_cli.runs.search_folders import trial_of

    of_runs = {
        "algorithms": [run.algorithm for run in found],
        "envs": [run.env for run in found],
        "experiments": [run.experiment for run in found],
        "searches": [trial[0] for run in found if (trial := trial_of(run.path))],
    }
    typed = [(word, there) for name, there in of_runs.items() for word in filters[name] if word not in there]
    return next((text for word, there in typed if (text := suggestion(word, there))), "")


def _trial(run: Run) -> dict[str, Any]:
    from drl_cli.runs.search_folders import trial_of

    search, number = trial_of(run.path) or (None, None)
    return {"search": search, "trial": number}
