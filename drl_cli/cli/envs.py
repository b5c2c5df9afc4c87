"""``drl envs [PATTERN]``: the installed environments, their spaces, and the algorithms that support them.

``checks.env_catalogue`` makes them one by one in another process; listing ids alone makes none.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import endings, group, options, shell_words, tables, terminal

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl envs
drl envs lander
drl envs LunarLanderContinuous-v2
drl envs --import my_package my_package/ --json
"""


@click.command("envs", cls=group.Command, examples=EXAMPLES)
@click.argument("pattern", required=False, shell_complete=shell_words.environments)
@group.option(
    "--ids",
    "only_ids",
    is_flag=True,
    group="Which",
    help="Print only the ids, one per line, without making the environments.",
)
@group.option(
    "--all", "every", is_flag=True, group="Which", help="Every version of each environment, not only the newest."
)
@options.import_option("Which")
@options.json_option
@options.speech_options
@click.pass_obj
def envs(
    session: Session, pattern: str | None, only_ids: bool, every: bool, imports: tuple[str, ...], as_json: bool
) -> None:
    """List the environments whose id contains PATTERN, or matches it if written as 'Lunar*' (without PATTERN, all but
    Atari games).

    A retired id is looked up under its current version. Environments that cannot be made are listed with the reason. Each
    is made once, in another process; with --ids none is made.

    JSON: {"notices": [...], "environments": [{"id", "spaces": {"obs", "action"}, "text": {"obs", "action"}, "fits": [...],
    "max_episode_steps", "reward_threshold"} or {"id", "error"}]}; with several agents also "agents": {agent: spaces}, "kind",
    "is_turn_based", "state" (its numbers) and "notes"; with --ids the entries are {"id"}.
    """
    from drl_cli.checks import env_catalogue

    options.import_modules(imports)
    ids, notices = env_catalogue.matching(pattern, every)
    output = terminal.Stdout(session)
    if only_ids:
        found = [{"id": one} for one in ids]
    else:
        found = []
        with endings.at_once():
            for number, one in enumerate(env_catalogue.looked_at(ids, imports), 1):
                found.append(one)
                if number % 20 == 0 and len(ids) > 20:
                    terminal.say(f"{number} of {len(ids)} checked")
    if as_json:
        output.line(json.dumps({"notices": notices, "environments": found}))
        return
    for notice in notices:
        terminal.say(notice)
    width, color = terminal.width(), terminal.use_color(sys.stdout, session)
    for line in ids if only_ids else listing(found, width, color):
        output.line(line)


def listing(found: Sequence[Mapping[str, Any]], width: int, color: bool = False) -> list[str]:
    """Return the lines for the entries of ``checks.env_catalogue``: those that work and what fits, then those that fail."""
    good, bad = [one for one in found if "error" not in one], [one for one in found if "error" in one]
    lines = []
    if good:
        sets = list(dict.fromkeys(tuple(one["fits"]) for one in good))
        letters = dict(zip(sets, string.ascii_uppercase, strict=False))
        rows = [[one["id"], *_about(one), letters.get(tuple(one["fits"]), "?")] for one in good]
        headings = ["environment", "observes", "actions", "steps", "goal", "fits"]
        lines += tables.grid(headings, rows, width, (3, 4), color)
        lines.append("")
        for names, letter in letters.items():
            text = (
                ", ".join(names)
                or "no algorithm supports these actions; make them one Box or one Discrete in a wrapper"
            )
            lines += tables.paragraph(text, width, 4, letter)
    reasons = {}
    for one in bad:
        reasons.setdefault(one["error"], []).append(one["id"])
    for reason, ids in reasons.items():
        title = f"Cannot be made: {', '.join(ids)}"
        lines += ["", *tables.paragraph(title, width, 4, ""), *tables.paragraph(reason, width, 4)]
    return lines[1:] if lines[:1] == [""] else lines


def _about(one: Mapping[str, Any]) -> tuple[str, str, str, str]:
    limit, solved = one["max_episode_steps"], one["reward_threshold"]
    spaces = one["spaces"]
    count = len(one.get("agents", ()))
    return (
        f"{count} x {_space(spaces['obs'])}" if count else _space(spaces["obs"]),
        _space(spaces["action"]),
        "-" if limit is None else f"{limit:,}",
        "-" if solved is None else f"{solved:g}",
    )


def _space(space: Mapping[str, Any]) -> str:
    kind = space["kind"]
    if kind == "Box":
        size = "x".join(map(str, space["shape"]))
        return f"{'image' if len(space['shape']) == 3 else 'Box'} {size}"
    if kind == "MultiDiscrete" and "nvec" in space:
        return f"MultiDiscrete {space['nvec']}"[:28]
    if kind == "Composite":
        parts = [_space(part) for part in space["parts"]]
        return f"{space['text'].partition('(')[0]} of {', '.join(parts)}"[:40]
    return f"{kind} {space['n']}" if "n" in space else kind
