"""How strongly to explore: a level that falls with the env steps of the run, or one of its own for every environment.

A level is called with ``(t, rows)`` (env steps of the run, slice of the worker's environments) and returns a number, or a
float64 array with one for each row.

Sources: RLlib's schedules and per-worker ladders (1.0.1); the ladder is that of Horgan et al. 2018 (arXiv 1803.00933),
section 4.1: ε_i = ε^(1 + α·i/(N−1)), ε = 0.4, α = 7. Deviations: i counts all environments of the run from 0 on, so that one
or two workers get a sane spread. RLlib counts workers; its noise ladders begin at i = 1, which leaves a single worker
with 0.4⁸ = 0.0007, almost nothing.
"""

import numpy as np

from drl_cli.schedules import value_at

LARGEST, ALPHA = 0.4, 7.0


def ladder(place, count):
    """Return the constant levels of a worker's ``count`` environments; ``place``: dict(stream, streams)."""
    rung = place["stream"] + np.arange(count)
    values = LARGEST ** (1.0 + ALPHA * rung / max(1, place["streams"] - 1))
    return lambda t, rows: values[rows]


def scheduled(settings):
    """Return the level of ``epsilon_schedule`` or ``scale_schedule``, or of the keys beside it, whichever there is.

    Epsilon falls from env step 0 on, the scale of noise behind the random phase.
    """
    if "initial_epsilon" in settings:
        begin, points = 0, settings["epsilon_schedule"]
        first, last, steps = (settings[name] for name in ("initial_epsilon", "final_epsilon", "epsilon_timesteps"))
    else:
        begin, points = settings["random_timesteps"], settings["scale_schedule"]
        first, last, steps = (settings[name] for name in ("initial_scale", "final_scale", "scale_timesteps"))
    points = points or ((begin, first), (begin + steps, last))
    return lambda t, rows: value_at(points, t)
