"""``drl evaluate RUN --against OPPONENT``: games of one policy against another, counted by ``analysis.matches``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.cli import figures, rich_tables, run_options, terminal
from drl_cli.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from drl_cli.analysis.loaded_checkpoint import Subject


def opponent_of(word: str, flags: Mapping[str, Any], subjects: Sequence[Subject]) -> Subject | str:
    """Return whom ``--against`` means: an opponent by name, or the policy of a run or checkpoint. Raises ConfigError."""
    from drl_cli.analysis.loaded_checkpoint import open_subject
    from drl_cli.envs.multi_agent import scripted

    if word in scripted.names():
        return word
    try:
        path = run_options.place(word)
    except RunFolderError as error:
        known = ", ".join(scripted.names())
        raise ConfigError(
            f"--against: {word[:60]!r} is neither an opponent by name ({known}) nor a run: {error}"
        ) from error
    return open_subject(path, flags["env"] and subjects[0].env, None, False, "drl evaluate")


def rows(
    subjects: Sequence[Subject], opponent: Subject | str, flags: Mapping[str, Any], seeds: Sequence[int]
) -> list[Any]:
    """Return {"path", "against", MATCH} for each subject; every pair of seeds is one game on each side. Raises ConfigError."""
    from drl_cli.actors import agents_tester
    from drl_cli.analysis import matches

    found = []
    for subject in [matches.opposed(subject, opponent) for subject in subjects]:
        setting = {**subject.setup(), "explore": flags["explore"], "max_steps": flags["max_steps"] or subject.max_steps}
        envs = agents_tester.OpenEnvs(setting)
        try:
            episodes = agents_tester.play(subject.policies, setting, seeds, envs)
        finally:
            envs.close()
        against = opponent if isinstance(opponent, str) else str(opponent.path)
        found.append({"path": str(subject.path), "env": subject.env, "against": against, **matches.match(episodes)})
    return found


def write(session: Any, found: Sequence[Mapping[str, Any]], explore: bool, as_json: bool) -> None:
    """Write the games as a table, or as JSON."""
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps({"explore": explore, "matches": list(found)}, allow_nan=False))
        return
    console = terminal.rich_console(sys.stdout, session)
    grid = rich_tables.ruled(
        ("", "games", "won", "drawn", "lost", "won % [95 %]", "lost % [95 %]"), [], (1, 0), console
    )
    for number, row in enumerate(found, 1):
        grid.add_row(
            str(number),
            f"{row['games']:,}",
            f"{row['won']:,}",
            f"{row['drawn']:,}",
            f"{row['lost']:,}",
            _share(row, "win"),
            _share(row, "loss"),
        )
    rich_tables.widen(console, grid)
    heads = [
        f"{number}  {row['path']}\n   against {row['against']} in {row['env']}" for number, row in enumerate(found, 1)
    ]
    for line in rich_tables.rendered([*heads, grid], console):
        output.line(line)


def _share(row: Mapping[str, Any], which: str) -> str:
    low, high = 100 * row[f"{which}_low"], 100 * row[f"{which}_high"]
    return f"{100 * row[f'{which}_rate']:.1f} {figures.interval(low, high)}"
