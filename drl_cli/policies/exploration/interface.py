"""What every exploration has in common: the Protocol that a worker calls, and levels, how strongly to explore.

A level is called with ``(t, rows)`` (env steps of the run, slice of the worker's environments) and returns a number, or a
float64 array with one for each row. It falls with the env steps of the run, or every environment has one of its own (a ladder).

Sources: RLlib's schedules and per-worker ladders (1.0.1); the ladder is that of Horgan et al. 2018 (arXiv 1803.00933),
section 4.1: ε_i = ε^(1 + α·i/(N−1)), ε = 0.4, α = 7. Deviations: i counts all environments of the run from 0 on, so that one
or two workers get a sane spread. RLlib counts workers; its noise ladders begin at i = 1, which leaves a single worker
with 0.4⁸ = 0.0007, almost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict

import numpy as np

from drl_cli.policies.nets import Heads, State
from drl_cli.schedules import value_at

if TYPE_CHECKING:
    from drl_cli.policies.numpy_policy import NumpyPolicy

LARGEST, ALPHA = 0.4, 7.0

Level: TypeAlias = "Callable[[int, slice], Any]"  # a float, or float64 [n]
At: TypeAlias = "tuple[int, slice]"
"""(env steps of the run so far, the slice of the worker's environments that the rows belong to)."""
Acted: TypeAlias = "tuple[np.ndarray, State, Heads]"
"""(action [n, …], next recurrent state, the column "logp" or the heads of which ``NumpyPolicy.scores`` makes it)."""


class Place(TypedDict):
    """A worker's place in the run.

    ``stream``: index of its first environment among all of the run, of which there are ``streams``; ``random_steps``: uniform
    steps of each environment; ``base``: env steps of the whole run when the worker began.
    """

    stream: int
    streams: int
    random_steps: int
    base: int


class Exploration(Protocol):
    """How training actions differ from greedy ones, for the environments of one worker.

    ``memory``: what the next action depends on beside weights and generator, {name: array}, changed in place: it is saved
    and restored by the worker.
    """

    memory: dict[str, np.ndarray]

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """Choose actions for ``obs`` [n, …] of the environments in ``at``."""
        ...

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """Return how likely the recorded ``action`` was, [n], None where there is no such number."""
        ...

    def ended(self, index: int) -> None:
        """Note that an episode has ended in environment ``index``."""
        ...

    def describe(self, t: int) -> dict[str, float]:
        """Return {name: float}: how strongly it explores at env step ``t`` of the run, for the results."""
        ...


def ladder(place: Place, count: int, agents: int = 1) -> Level:
    """Return the constant levels of a worker's ``count`` rows, of which ``agents`` belong to each environment."""
    rung = place["stream"] + np.arange(count) // agents
    values = LARGEST ** (1.0 + ALPHA * rung / max(1, place["streams"] - 1))
    return lambda t, rows: values[rows]


def scheduled(settings: Mapping[str, Any]) -> Level:
    """Return the level of ``epsilon_schedule`` or ``scale_schedule``, or of the keys beside it, whichever there is.

    Epsilon falls from env step 0 on, the scale of noise after the random phase.
    """
    if "initial_epsilon" in settings:
        begin, points = 0, settings["epsilon_schedule"]
        first, last, steps = (settings[name] for name in ("initial_epsilon", "final_epsilon", "epsilon_timesteps"))
    else:
        begin, points = settings["random_timesteps"], settings["scale_schedule"]
        first, last, steps = (settings[name] for name in ("initial_scale", "final_scale", "scale_timesteps"))
    points = points or ((begin, first), (begin + steps, last))
    return lambda t, rows: value_at(points, t)
