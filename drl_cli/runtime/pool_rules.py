"""What a pool of workers does about those that die or do not answer."""

from typing import NamedTuple


class PoolRules(NamedTuple):
    """What holds for all workers.

    ``on_loss``: what becomes of one that dies: "replace"; "drop": the others go on; "fail": the run ends. ``memory``: the bytes
    that each asks for, 0: none. ``first_s``: how long one may take for its first fragment, None: without a limit.
    """

    on_loss: str = "replace"
    memory: int = 0
    first_s: float | None = 300.0


USUAL = PoolRules()
