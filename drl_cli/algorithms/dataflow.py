"""What each loop does, in words, for ``drl algorithms``: what it learns from, and which part waits for which."""

import inspect

from drl_cli.algorithms.row import Algorithm
from drl_cli.algorithms.table import loop_name

DATAFLOW = {
    "replay": (
        "replay",
        "Workers fill a replay buffer while the learner samples from it. training_intensity is enforced in both directions: "
        "the learner makes no more updates than it allows, and workers stay only a small lead ahead.",
    ),
    "sync": (
        "synchronous",
        "All workers sample with one version of the weights, then the learner learns from all of it, and no worker "
        "samples meanwhile.",
    ),
    "stream": (
        "stream",
        "Workers sample without waiting, with the newest weights that they have received; the learner takes the oldest batch "
        "of a bounded queue and corrects for how old it is (V-trace).",
    ),
    "gradients": (
        "gradients",
        "Every worker differentiates the loss of its own fragment; the learner applies gradients as they arrive, each worker "
        "goes on when its own has been applied.",
    ),
    "decentralized": (
        "decentralized",
        "Every worker samples with its own copy of the weights and learns in its own process; the workers average their "
        "gradients at every step, so that the copies stay equal. Those that sample slowly are cut off.",
    ),
    "evolution": (
        "evolution",
        "Workers play episodes with perturbed weights and send their returns; a round is closed when all of its "
        "directions were tried, then the learner makes one step, in NumPy.",
    ),
    "reading": (
        "files",
        "Recorded experience is read from files into a replay, which the learner draws from; no worker samples, unless "
        "input names a mix of both.",
    ),
}
"""Name of a loop's module, "reading" for what learns from files → (its short name, a sentence or two)."""


def of(row: Algorithm) -> tuple[str, str]:
    """Return (short name, sentences) of the loop of a row; for a loop of a plug-in the first paragraph of its docstring."""
    name = "reading" if row.reads else loop_name(row)
    if name in DATAFLOW:
        return DATAFLOW[name]
    about = "" if isinstance(row.loop, str) else inspect.getdoc(row.loop) or ""
    return name, " ".join(about.partition("\n\n")[0].split())
