"""Options of ``rllib`` that have no work to do here: each is answered in one line, never with "no such option".

Used by the commands that took over ``rllib train``, ``rollout`` and ``evaluate``. Some are accepted, because what they ask
for happens anyway; the others are refused with what to type instead. They are not shown in the help; ``docs/keys.rst`` lists
them all. Source: RLlib 0.8 to 2.3.
"""

from typing import NamedTuple

from drl_cli.cli import group, terminal
from drl_cli.errors import InputError

GRAPHS = "drl is graphs only (TensorFlow 1 style), of which one call makes hundreds of updates. Leave it out."


class Old(NamedTuple):
    """``text``: what is said. ``takes``: the metavar of its value, None for a flag. ``fits``: the values that are accepted,
    None: none is, () for a flag: it is.
    """

    text: str
    takes: str | None = None
    fits: tuple | None = None


_VIDEO = "Write videos with --video-dir DIR."
_SCORES = "drl evaluate scores; drl rollout plays. Type: drl rollout CHECKPOINT"
_ONE_PROCESS = "it plays in this one process anyway, without Ray."

TRAIN = {
    "--framework": Old(GRAPHS, "NAME", ("tf",)),
    "--torch": Old(GRAPHS),
    "--eager": Old(GRAPHS),
    "--trace": Old(GRAPHS),
    "--upload-dir": Old(
        "results are written under --local-dir, which may be a mounted folder. Copy them from there with the tool of your "
        "storage, such as: aws s3 sync RUN_FOLDER URI",
        "URI",
        ("",),
    ),
    "--sync-on-checkpoint": Old("a checkpoint is complete on the run's own disk before training goes on.", None, ()),
    "--ray-num-nodes": Old(
        "nodes that share one machine are no faster than workers that do: raise num_workers. For several machines type ray "
        "start --head on one, ray start --address HOST:PORT on the others, and --ray-address HOST:PORT here.",
        "N",
        ("1",),
    ),
    "--ray-memory": Old("limit the replay with buffer_size, the store with --ray-object-store-memory.", "BYTES"),
    "--ray-redis-max-memory": Old("Ray has no Redis any more. Leave it out.", "BYTES"),
    "--no-ray-ui": Old("a Ray that the run starts has no dashboard.", None, ()),
    "--ray-ui": Old(
        "a Ray that the run starts has no dashboard, which would listen on a port. Watch the run with drl or TensorBoard, or "
        "join a Ray of your own that has one, with --ray-address."
    ),
}

ROLLOUT = {
    "--monitor": Old(_VIDEO),
    "--use-shelve": Old(
        "a shelf is Python's pickle, which can run code when it is read. --out FILE writes JSON lines."
    ),
    "--local-mode": Old(_ONE_PROCESS, None, ()),
}

EVALUATE = {
    "--render": Old(f"{_SCORES} --render"),
    "--no-render": Old("nothing is drawn.", None, ()),
    "--video-dir": Old(f"{_SCORES} --video-dir DIR", "DIR"),
    "--monitor": Old(f"{_SCORES} --video-dir DIR"),
    "--steps": Old("a score is a mean over whole episodes. Type --episodes N.", "N"),
    "--out": Old(f"{_SCORES} --out FILE", "FILE"),
    "--save-info": Old(f"{_SCORES} --out FILE --save-info"),
    "--use-shelve": Old(f"{_SCORES} --out FILE"),
    "--track-progress": Old("each score is said on stderr as it begins. Leave it out."),
    "--local-mode": Old(_ONE_PROCESS, None, ()),
}

TABLES = {"train": TRAIN, "rollout": ROLLOUT, "evaluate": EVALUATE}
"""Command → option → Old."""


def of(command):
    """Return a decorator that adds the options of ``TABLES[command]`` to a command, hidden from its help."""

    def decorate(function):
        for name, old in TABLES[command].items():
            function = _option(name, old)(function)
        return function

    return decorate


def _option(name, old):
    kind = {"is_flag": True} if old.takes is None else {"metavar": old.takes}
    return group.option(name, expose_value=False, hidden=True, callback=_answer(name, old), **kind)


def _answer(name, old):
    def answer(context, _option, value):
        if value is None or value is False or context.resilient_parsing:
            return
        is_accepted = old.fits is not None and (old.takes is None or value in old.fits)
        if not is_accepted:
            raise InputError(f"{name}: {old.text}")
        if old.takes is None:
            terminal.say(f"{name}: {old.text}")

    return answer
