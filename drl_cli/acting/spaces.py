"""Spaces as plain data, and whether an algorithm can use them.

Used by ``acting.envs``. Works on any object with gymnasium's attributes (shape, dtype, low, high, n), so it imports
none.

    {"kind": "Box", "shape": [8], "dtype": "float32", "low": [...], "high": [...]}     null where there is no bound
    {"kind": "Discrete", "n": 4, "start": 0, "shape": [], "dtype": "int64"}
    {"kind": "Dict", "text": "Dict('a': Discrete(2))"}                                 what is not described further
"""

import numpy as np

IMAGE_SIDE = 8  # a Box with height and width of at least this many pixels is taken for an image

WOULD_FIT = {"Box": "SAC, TD3, DDPG and PPO", "Discrete": "DQN, PPO and A2C"}
"""Algorithms by the kind of actions they take; all but SAC are not built yet."""


def describe_space(space):
    """Return a space as plain data that strict JSON can hold."""
    kind = type(space).__name__
    if kind == "Box":
        return {
            "kind": "Box",
            "shape": [int(size) for size in space.shape],
            "dtype": str(space.dtype),
            "low": _bounds(space.low),
            "high": _bounds(space.high),
        }
    if kind == "Discrete":
        return {"kind": kind, "n": int(space.n), "start": int(space.start), "shape": [], "dtype": str(space.dtype)}
    return {"kind": kind, "text": str(space)[:200]}


def misfit(spaces, needs):
    """Return what keeps an algorithm (``needs``: name, actions, observations) from these spaces, or None."""
    action, obs = spaces["action"], spaces["obs"]
    return _action_misfit(action, needs) or _obs_misfit(obs, needs)


def _bounds(values):
    """Return nested lists with null for no bound; one number where all are equal and there are many."""
    finite = np.isfinite(values)
    if values.size > 64 and finite.all() and (values == values.flat[0]).all():
        return values.flat[0].item()
    return np.where(finite, values.astype(object), None).tolist()


def _each(bounds, size):
    """Undo the shortening of ``_bounds`` for a vector of ``size`` elements."""
    return bounds if isinstance(bounds, list) else [bounds] * size


def _action_misfit(action, needs):
    kind = action["kind"]
    wants = f"{needs.name} needs a continuous action space: a Box of one dimension with finite bounds"
    if kind not in needs.actions:
        fitting = WOULD_FIT.get(kind)
        advice = (
            f"{fitting} take such actions (not built yet)." if fitting else "No algorithm here takes such actions yet."
        )
        return f"{wants}; its actions are {_text(action)}. {advice}"
    if kind != "Box":
        return None
    if len(action["shape"]) != 1 or action["shape"][0] < 1:
        return f"{wants}; its actions are a Box of shape {tuple(action['shape'])}. Reshape them in a wrapper."
    if not action["dtype"].startswith("float"):
        return f"{wants}; its actions are whole numbers ({action['dtype']})."
    size = action["shape"][0]
    for index, (low, high) in enumerate(zip(_each(action["low"], size), _each(action["high"], size), strict=True)):
        if low is None or high is None:
            return (
                f"{wants}; action {index} has the bounds [{_side(low, '-')}, {_side(high, '')}]. Rescale the "
                "actions with "
                "gymnasium.wrappers.RescaleAction, or clip them to finite bounds in a wrapper."
            )
        if not low < high or high - low > float(np.finfo(np.float32).max):
            return f"{wants}; action {index} has the bounds [{low}, {high}], which span no usable range."
    return None


def _obs_misfit(obs, needs):
    kind, shape = obs["kind"], obs.get("shape", [])
    if "Box1d" not in needs.observations or (kind == "Box" and len(shape) == 1 and shape[0] > 0):
        return None
    wants = f"{needs.name} needs observations that are vectors (a Box of one dimension)"
    if kind != "Box":
        return (
            f"{wants}; its observations are {_text(obs)}. gymnasium.wrappers.FlattenObservation in a wrapper would fit."
        )
    if len(shape) in (2, 3) and min(shape[:2]) >= IMAGE_SIDE:
        return f"{wants}; its observations are images of shape {tuple(shape)}, which are not supported yet."
    return f"{wants}; its observations have the shape {tuple(shape)}. gymnasium.wrappers.FlattenObservation would fit."


def _text(space):
    return (
        f"Discrete({space['n']})" if space["kind"] == "Discrete" else space.get("text") or f"a Box of {space['shape']}"
    )


def _side(bound, sign):
    return f"{sign}infinity" if bound is None else bound
