"""Options of ``rllib`` that have no effect here: each is answered in one line, never with "no such option".

Used by the commands that replace ``rllib train``, ``rollout`` and ``evaluate``. Some are accepted, because what they request
happens anyway; the others are refused with what to type instead. The help does not show them; ``docs/keys.rst`` lists them
all. Source: RLlib 0.8 to 2.3.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from drl_cli.cli import group, terminal
from drl_cli.config.rllib.ignored_keys import GRAPHS, IDLE
from drl_cli.errors import InputError


class Old(NamedTuple):
    """``text``: the message; ``{rollout}`` in it is the command as it was typed, with rollout for its name. ``takes``: the
    metavar of its value, None for a flag. ``fits``: the values that are accepted, None: none is, () for a flag: it is.
    ``is_answered``: whether an accepted value gets the message too.
    """

    text: str
    takes: str | None = None
    fits: tuple[str, ...] | None = None
    is_answered: bool = False


_VIDEO = "Write videos with --video-dir DIR."
_SCORES = "drl evaluate only scores, over complete episodes; drl rollout plays. Type: {rollout}"
_GRAPHS = f"has no effect: {GRAPHS}."
_ON_DISK = "a checkpoint is complete on the run's own disk before training continues."
_ONE_PROCESS = "it always plays in a single process, without Ray."

TRAIN = {
    "--framework": Old(_GRAPHS, "NAME", IDLE[("framework",)].words, is_answered=True),
    "--torch": Old(_GRAPHS, None, ()),
    "--eager": Old(_GRAPHS, None, ()),
    "--trace": Old(_GRAPHS, None, ()),
    "--sync-on-checkpoint": Old(_ON_DISK, None, ()),
    "--no-sync-on-checkpoint": Old(_ON_DISK, None, ()),
    "--no-checkpoint-at-end": Old(
        "a run always writes a final checkpoint; in a file, checkpoint_at_end: false disables it."
    ),
    "--log-info": Old("type -v."),
    "--log-debug": Old("type -vv."),
    "--ray-num-nodes": Old(
        "several nodes on one machine are no faster than more workers: raise num_workers. For several machines type ray "
        "start --head on one, ray start --address HOST:PORT on the others, and --ray-address HOST:PORT here.",
        "N",
        ("1",),
    ),
    "--ray-memory": Old(
        "limit the replay buffer with buffer_size, the object store with --ray-object-store-memory.", "BYTES"
    ),
    "--ray-redis-max-memory": Old("Ray no longer uses Redis. Omit the option.", "BYTES"),
    "--no-ray-ui": Old("a Ray instance started by a run has no dashboard.", None, ()),
    "--ray-ui": Old(
        "a Ray instance started by a run has no dashboard, which would open a port. Follow the run with drl watch or "
        "TensorBoard, or join a cluster that has one, with --ray-address."
    ),
}

ROLLOUT = {
    "--monitor": Old(_VIDEO),
    "--use-shelve": Old("shelve uses pickle, which can run code when it is read. --out FILE writes JSON lines."),
    "--local-mode": Old(_ONE_PROCESS, None, ()),
}

EVALUATE = {
    "--render": Old(_SCORES),
    "--no-render": Old("an evaluation renders nothing.", None, ()),
    "--video-dir": Old(_SCORES, "DIR"),
    "--monitor": Old("drl evaluate only scores. Record videos with: drl rollout CHECKPOINT --video-dir DIR"),
    "--steps": Old(f"{_SCORES}; or score with --episodes N.", "N"),
    "--out": Old(_SCORES, "FILE"),
    "--save-info": Old(_SCORES),
    "--use-shelve": Old("drl evaluate only scores. Record transitions with: drl rollout CHECKPOINT --out FILE"),
    "--track-progress": Old("progress is always printed to stderr. Omit the option."),
    "--local-mode": Old(_ONE_PROCESS, None, ()),
}

TABLES = {"train": TRAIN, "rollout": ROLLOUT, "evaluate": EVALUATE}
"""Command → option → Old."""


def of(command: str) -> group.Decorator:
    """Return a decorator that adds the options of ``TABLES[command]`` to a command, hidden from its help."""

    def decorate(function: Any) -> Any:
        for name, old in TABLES[command].items():
            function = _option(name, old)(function)
        return function

    return decorate


def _option(name: str, old: Old) -> group.Decorator:
    kind: dict[str, Any] = {"is_flag": True} if old.takes is None else {"metavar": old.takes}
    return group.option(name, expose_value=False, hidden=True, callback=_answer(name, old), **kind)


def _answer(name: str, old: Old) -> Callable[[click.Context, click.Parameter, Any], None]:
    def answer(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value is None or value is False or context.resilient_parsing:
            return
        is_accepted = old.fits is not None and (old.takes is None or value in old.fits)
        if not is_accepted:
            if old.is_answered:
                raise InputError(f"{name}: {value!r} is not one of {', '.join(old.fits or ())}.")
            raise InputError(f"{name}: {old.text.replace('{rollout}', _as_rollout(context))}")
        if old.takes is None or old.is_answered:
            terminal.say(f"{name}: {old.text}")

    return answer


def _as_rollout(context: click.Context) -> str:
    """Return the command that is running as it was typed, with ``rollout`` in the place of its own name."""
    words = [word for word in context.ensure_object(terminal.Session).arguments if word != context.info_name]
    return shlex.join(["drl", "rollout", *words])
