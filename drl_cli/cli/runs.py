"""``drl runs``: the runs on disk as a table or as JSON; ``drl runs rm`` takes some away.

Reading and removing are ``runs/``; here they are shown. Loads neither TensorFlow nor Ray.
"""

import sys
import time

import click

from drl_cli.cli import figures, group, options, run_options, terminal, values
from drl_cli.errors import suggestion

EXAMPLES = """
drl runs
drl runs --state running --sort best
drl runs --env 'Lunar*' --run SAC --newer-than 2d --json
drl runs --local-dir ~/ray_results --local-dir /data/results
drl runs --search 1a2b3 --sort best
drl runs rm 1a2b3c4d
drl runs rm --state died --older-than 7d --keep-best 1
"""
TABLE = {
    "rm": ("drl_cli.cli.runs_rm:rm", "Remove runs; asks first, never a running one."),
}
SORTS = ("started", "best", "steps", "time", "size", "algorithm", "env", "state")
STYLES = {"running": "cyan", "finished": "green", "interrupted": "yellow", "failed": "red", "died": "red"}
SHORTEST_ENV = 12
ORDER = "Order and output"


class _RunsGroup(group.CommandTable):
    """``drl runs`` lists by itself; its help shows its own options, then the commands below it."""

    def parse_args(self, context: click.Context, args: list) -> list:
        """Parse ``args``; ``drl runs list`` and ``drl runs ls`` are ``drl runs``."""
        return super().parse_args(context, args[1:] if args[:1] in (["list"], ["ls"]) else args)

    def format_options(self, context, formatter):
        """Write the examples, the options under their headings, and the commands."""
        group.Command.format_options(self, context, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])


@click.group(
    "runs",
    cls=_RunsGroup,
    table=TABLE,
    examples=EXAMPLES,
    invoke_without_command=True,
    context_settings=group.CONTEXT_SETTINGS,
)
@run_options.filter_options
@group.option(
    "--sort",
    type=values.OneOf(SORTS),
    default="started",
    show_default=True,
    group=ORDER,
    help="Largest or newest first.",
)
@group.option("--all", "unfolded", is_flag=True, group=ORDER, help="The trials of searches, a line each.")
@group.option("--reverse", is_flag=True, group=ORDER, help="The other way round.")
@group.option("-n", "--limit", type=options.POSITIVE, metavar="N", group=ORDER, help="Only the first N.")
@group.option("-q", "--quiet", is_flag=True, help="Only the folders, one a line.")
@group.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@options.speech_options
@click.pass_context
def runs(context, sort, unfolded, reverse, limit, quiet, as_json, local_dirs, **filters):
    """List runs, the newest first: what they are, whether they still go on, how well and how far they got; so do drl
    runs list and drl runs ls.

    A RUN that another command takes may be written as the id in the first column; the id of a search stands for all of its
    trials, which share a line: how many of them are over, the best of their bests, and the sums of their steps, time and
    size. --all shows them one by one, --search ID those of one search. "died" means that the process of a run is gone
    without a word; best is the highest greedy evaluation, or without evaluations the best mean of training
    episodes; now is the mean of the last training episodes; time is that of training.

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
    found, left_out = find.read_all(run_options.roots(local_dirs))
    chosen = select.order(select.select(found, run_options.wanted(**filters)), sort, reverse)
    output = terminal.Stdout(session)
    if as_json:
        listed = [{**facts(run), **_trial(run)} for run in chosen[:limit]]
        groups = [search_facts(one) for one in search_folders.folded(chosen[:limit]) if hasattr(one, "trials")]
        total = sum(run.size for run in chosen[:limit])
        output.json_line({"runs": listed, "searches": groups, "size": total, "left_out": left_out})
        return
    if quiet:
        for run in chosen[:limit]:
            output.line(str(run.path))
        return
    is_folded = not (unfolded or filters["searches"])
    rows = (select.order(search_folders.folded(chosen), sort, reverse) if is_folded else chosen)[:limit]
    for line in table(rows, run_options.console(session)) if rows else ():
        output.line(line)
    for line in left_out:
        terminal.say(line)
    terminal.say(_summary(rows, found, run_options.roots(local_dirs), filters))
    searches = [row.id for row in rows if hasattr(row, "trials")]
    if searches:
        terminal.say(f"The trials of a search, a line each: drl runs --search {searches[0]}")


def _refuse_misplaced(context):
    """``drl runs --state failed rm`` would remove everything if the options before rm were dropped in silence."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.expose_value and source is click.core.ParameterSource.COMMANDLINE:
            name, below = parameter.opts[0], context.invoked_subcommand
            context.fail(f"{name} stands before {below}. Options of {below} come after it: drl runs {below} {name} …")


def _summary(rows, found, roots, filters):
    where = ", ".join(str(root) for root in roots)
    if not found:
        return f"No runs in {where}. Start one: drl train -f lunarlander-continuous-sac"
    if not rows:
        return f"None of the {len(found)} runs in {where} fits the filters.{_meant(found, filters)}"
    shown = sum(len(getattr(row, "runs", (row,))) for row in rows)
    size = figures.size(sum(row.size for row in rows))
    part = f"{shown} of {len(found)}" if shown < len(found) else f"{shown}"
    return f"{part} run{'s' if len(found) > 1 else ''} in {where}, {size}."


def _meant(found, filters):
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


def _trial(run):
    from drl_cli.runs.search_folders import trial_of

    search, number = trial_of(run.path) or (None, None)
    return {"search": search, "trial": number}


def search_facts(search):
    """Return a Search (see ``runs.search_folders``) as the plain data of ``--json``."""
    told = (
        "id",
        "experiment",
        "algorithm",
        "env",
        "state",
        "started",
        "updated",
        "trials",
        "over",
        "metric",
        "best",
        "best_run",
    )
    facts = {"path": str(search.path), **{name: getattr(search, name) for name in told}}
    return facts | {
        "runs": [run.id for run in search.runs],
        "timesteps_total": search.steps,
        "time_total_s": search.seconds,
        "size": search.size,
    }


def facts(run):
    """Return a Run as the plain data of ``--json``."""
    return {
        "path": str(run.path),
        "id": run.id,
        "experiment": run.experiment,
        "algorithm": run.algorithm,
        "env": run.env,
        "seed": run.seed,
        "state": run.state,
        "exit_code": run.exit_code,
        "text": run.text,
        "started": run.started,
        "updated": run.updated,
        "training_iteration": run.iteration,
        "timesteps_total": run.steps,
        "time_total_s": run.seconds,
        "episode_reward_mean": run.reward,
        "best": run.best,
        "best_metric": run.best_metric,
        "best_checkpoint": run.best_checkpoint,
        "checkpoints": list(run.checkpoints),
        "size": run.size,
        "pid": run.pid,
        "host": run.host,
    }


def table(chosen, console, now=None):
    """Return the lines of the table of ``chosen`` (Runs), as many columns as fit the console's width."""
    from rich.table import Table
    from rich.text import Text

    now = time.time() if now is None else now
    columns = _columns(chosen, now)
    widths = {name: max(len(name), *(len(cell) for cell in cells)) for name, (_, _, cells) in columns.items()}
    room = console.width - sum(widths[name] + 2 for name, (rank, _, _) in columns.items() if rank == 0) + 2
    for rank in range(1, 1 + max(rank for rank, _, _ in columns.values())):
        (name,) = [name for name, (own, _, _) in columns.items() if own == rank]
        if room < widths[name] + 2:
            del columns[name]
        else:
            room -= widths[name] + 2
    env_width = widths["environment"] + min(0, room)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, (_, justify, _) in columns.items():
        grid.add_column(name, justify=justify, no_wrap=True)
    for place in range(len(chosen)):
        cells = {name: cells[place] for name, (_, _, cells) in columns.items()}
        cells["environment"] = run_options.shorten(cells["environment"], max(SHORTEST_ENV, env_width), sys.stdout)
        cells["state"] = Text(cells["state"], style=STYLES.get(cells["state"], ""))
        grid.add_row(*cells.values())
    console.width = max(console.width, grid.__rich_measure__(console, console.options.update(max_width=10_000)).maximum)
    return run_options.rendered([grid], console)


def _columns(chosen, now):
    """{heading: (rank, justify, cells)}; columns of rank 0 always show, the others in the order of their ranks."""

    def cells(show):
        return [show(run) for run in chosen]

    trials = cells(lambda run: f"{run.over}/{run.trials}" if hasattr(run, "trials") else "")

    return {
        "id": (0, "left", cells(lambda run: run.id)),
        "state": (0, "left", cells(lambda run: run.state)),
        **({"trials": (0, "right", trials)} if any(trials) else {}),
        "run": (0, "left", cells(lambda run: run.algorithm)),
        "environment": (0, "left", cells(lambda run: run.env)),
        "best": (0, "right", cells(lambda run: figures.reward(run.best))),
        "now": (2, "right", cells(lambda run: figures.reward(run.reward))),
        "steps": (0, "right", cells(lambda run: figures.count(run.steps))),
        "time": (0, "right", cells(lambda run: figures.clock(run.seconds))),
        "size": (0, "right", cells(lambda run: figures.size(run.size))),
        "started": (1, "right", cells(lambda run: "-" if run.started is None else figures.ago(now - run.started))),
        "seed": (3, "right", cells(lambda run: "-" if run.seed is None else str(run.seed))),
        "experiment": (4, "left", cells(lambda run: run.experiment)),
        "folder": (5, "left", cells(lambda run: str(run.path))),
    }
