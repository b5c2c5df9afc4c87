"""The lines that end a run: what it reached, where it is, and the commands to type next.

Used by ``drl train`` and ``drl watch``; ``drl train`` as a search takes its commands from here too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drl_cli.cli import figures, run_options
from drl_cli.cli.view import GOALS
from drl_cli.config.env_names import EXTERNAL_ID
from drl_cli.errors import InputError
from drl_cli.experiments import next_steps

if TYPE_CHECKING:
    from drl_cli.cli.view import RunView


class RunEnding(NamedTuple):
    """How a run ended: its state, why, its folder, and the paths of its final and its best checkpoint, or None."""

    state: str
    text: str
    run_folder: str
    final: str | None
    best: str | None


def summary(ending: RunEnding, view: RunView, imports: tuple[str, ...] = ()) -> list[str]:
    """Return the lines that end a run: what it reached, where it is, and the commands that come next.

    ``imports``: modules of ``--import``, which the next commands need too.
    """
    extra = next_steps.needed(imports, view.env)
    why = f": {ending.text}" if ending.state == "finished" else "."  # an error has been printed already
    lines = [
        "",
        f"{view.algorithm} on {view.env} {ending.state}{why}",
        f"  Results   {figures.with_tilde(str(ending.run_folder))}",
    ]
    if ending.best:
        lines.append(f"  Best      {os.path.basename(str(ending.best))}{_score(view.best)}")
    if ending.final:
        lines.append(f"  Final     {os.path.basename(str(ending.final))}")
    if ending.best or ending.final:
        run = word_of(ending.run_folder)
        if view.env == EXTERNAL_ID:  # its simulator is a client's
            lines += ["", f"  Export    {command('checkpoint', 'export', run, '-o', 'policy', *extra)}"]
        else:
            play, score = command("rollout", run, *extra), command("evaluate", run, *extra)
            lines += ["", f"  Play it   {play}", f"  Score it  {score}"]
        if ending.state != "finished" and ending.final:
            lines += [f"  Resume    {command('train', '--resume', run, *extra)}"]
    if modules := next_steps.modules_of_this_folder(imports, view.env):
        where = shlex.quote(os.getcwd())
        lines.append(f"  Needs     {', '.join(modules)} of {where}; elsewhere put PYTHONPATH={where} before drl")
    return lines


def _score(best: Mapping[str, Any] | None) -> str:
    """The score of the best checkpoint as best.json holds it, which is what ``drl runs`` shows."""
    if best is None or best.get("value") is None:
        return ""
    kind = "evaluation" if best.get("metric") == GOALS[0] else "training reward"
    return f"  ({kind} {figures.reward(best['value'])})"


def word_of(run_folder: os.PathLike | str) -> str:
    """Return what the other commands call the run: its id where they find it by that, else its path."""
    path = Path(run_folder).absolute()
    try:
        found = run_options.place(path.name.rpartition("_")[2])
    except InputError:
        return str(path)
    return path.name.rpartition("_")[2] if Path(found) == path else str(path)


def command(*words: object) -> str:
    """Return ``drl`` and ``words`` as they can be pasted into a shell."""
    return shlex.join(["drl", *(str(word) for word in words)])
