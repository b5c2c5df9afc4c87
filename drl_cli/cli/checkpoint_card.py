"""``drl checkpoint card``: what a checkpoint is, in Markdown, for a README or a model hub. No TensorFlow, no Ray."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import checkpoint, figures, group, options, run_options, shell_words, terminal
from drl_cli.errors import RunFolderError

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl checkpoint card RUN > README.md
drl checkpoint card ~/ray_results/default/RUN/checkpoint_000010
"""
LICENCE = "Not stated: the publisher of this checkpoint chooses a licence and states it here."


@click.command("card", cls=group.Command, examples=EXAMPLES)
@click.argument("path", shell_complete=shell_words.runs)
@options.latest_option("Which")
@options.import_option("Which")
@options.speech_options
@click.pass_obj
def card(session: Session, path: str, latest: bool, imports: tuple[str, ...]) -> None:
    """Print a card of the checkpoint PATH in Markdown: what it is, how it was trained, its scores and their conditions, how
    to play it, versions.

    PATH is a checkpoint folder or a run (its best checkpoint). What only the run records, such as settings and evaluations,
    is left out of the card of a checkpoint without its run. The licence is left to you.
    """
    from drl_cli.runs.checkpoint_contents import holding

    options.import_modules(imports)
    held = holding(run_options.place(path), latest)
    output = terminal.Stdout(session)
    for line in lines_of(held, Path(held["run"]) if held["run"] else None):
        output.line(line)


def lines_of(held: Mapping[str, Any], run: Path | None) -> list[str]:
    """Return the lines of the card of what ``runs.checkpoint_contents`` found; ``run``: the folder of its run, or None."""
    name = Path(held["path"]).name
    place = f"{Path(held['run']).name}/{name}" if held["run"] else name
    size = figures.size(held["size"])
    about = (
        f"Trained by {held['algorithm']} on `{_code(held['env'])}` with `drl`; checkpoint `{_code(place)}` ({size})."
    )
    lines = [f"# {_plain(held['algorithm'])} on {_plain(held['env'])}", "", about, "", *_policies(held)]
    lines += ["## Training", "", *_training(held, run), "", "## Scores", "", *_scores(held, run), ""]
    lines += ["## Use", "", "```", f"drl rollout {_code(place)} --episodes 3"]
    lines += [f"drl evaluate {_code(place)} --episodes 50", f"drl checkpoint verify {_code(place)}", "```", ""]
    return [*lines, "## Versions", "", *_versions(held["versions"]), "", "## Licence", "", LICENCE]


def _policies(held: Mapping[str, Any]) -> list[str]:
    """Return what ``drl checkpoint info`` says of the policies: what they see and do, their networks."""
    policy = held["policy"]
    facts = (
        checkpoint.of_policies(held["policies"])
        if "policies" in held
        else checkpoint.of_policy(policy)
        if policy
        else ()
    )
    lines = [f"- {_plain(name)}: {_plain(text)}" for name, text in facts]
    return [*lines, ""] if lines else []


def _training(held: Mapping[str, Any], run: Path | None) -> list[str]:
    counters = held["counters"]
    facts = [("iteration", held["training_iteration"]), ("environment steps", counters.get("timesteps_total"))]
    facts += [("updates", counters.get("num_updates")), ("seed", held["seed"])]
    lines = [f"- {name}: {value:,}" for name, value in facts if isinstance(value, int)]
    if isinstance(counters.get("time_total_s"), (int, float)):
        lines.append(f"- time: {counters['time_total_s']:,.0f} s of training")
    lines.append(f"- saved: {held['saved']}")
    versions = _record(run, "versions.json")
    if isinstance(versions.get("command"), list):
        lines.append(f"- command: `{_code(' '.join(map(str, versions['command'])))}`")
    if versions.get("platform"):
        lines.append(f"- machine: {_plain(versions['platform'])}")
    rows = _given(run)
    if rows:
        lines += ["", "| key | value | where from |", "| --- | --- | --- |"]
        lines += [f"| `{_code(key)}` | `{_code(value)}` | {_plain(source)} |" for key, value, source in rows]
    return lines


def _given(run: Path | None) -> list[tuple[str, str, str]]:
    """Return (key, value, source) of the settings that were given or derived."""
    from drl_cli.experiments import provenance

    if run is None:
        return []
    (explained,) = provenance.of_run(run)
    rows = [row for row in explained["rows"] if row["from"] is not None]
    # Of a file the name is enough: its folder is a matter of the machine.
    return [
        (row["key"].removeprefix("config."), json.dumps(row["value"]), str(row["from"]).rpartition("/")[2])
        for row in rows
    ]


def _scores(held: Mapping[str, Any], run: Path | None) -> list[str]:
    from drl_cli.runs.loggers.tables import read_rows

    rows = [] if run is None else read_rows(run)
    known = (row.get("evaluation") or {} for row in rows)
    found = next((one for one in known if one.get("training_iteration") == held["training_iteration"]), None)
    lines = []
    if found and found.get("episode_reward_mean") is not None:
        lines.append(
            f"- greedy evaluation during training: mean return {figures.reward(found['episode_reward_mean'])} over "
            f"{figures.episodes(found.get('episodes_this_iter'))}"
        )
        if found.get("confirmed_reward_mean") is not None:
            fresh = figures.episodes(found.get("confirmed_episodes"))
            mean = figures.reward(found["confirmed_reward_mean"])
            lines.append(f"- confirmed: mean return {mean} over {fresh} that did not choose the checkpoint")
    elif held["score"].get("evaluation_reward_mean") is not None:
        score = figures.reward(held["score"]["evaluation_reward_mean"])
        lines.append(f"- last greedy evaluation before it was saved: mean return {score}")
    if held["score"].get("episode_reward_mean") is not None:
        score = figures.reward(held["score"]["episode_reward_mean"])
        lines.append(f"- last training episodes, exploration included: mean return {score}")
    return lines or ["None yet: drl evaluate measures one."]


def _versions(versions: Mapping[str, Any]) -> Sequence[str]:
    return [f"- {name} {_plain(version)}" for name, version in versions.items() if version]


def _record(run: Path | None, name: str) -> dict[str, Any]:
    from drl_cli.runs.run_folder import read_record

    try:
        return (run and read_record(run / name)) or {}
    except RunFolderError:  # a damaged record costs its lines, not the card
        return {}


def _plain(value: object) -> str:
    """Return ``value`` as text of one line, in which Markdown and HTML mean nothing."""
    text = " ".join(str(value).split())
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)


def _code(value: object) -> str:
    """Return ``value`` as it may stand between backticks, also in a table."""
    return " ".join(str(value).split()).replace("`", "'").replace("|", "¦")
