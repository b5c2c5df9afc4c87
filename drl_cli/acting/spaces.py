"""Spaces as plain data, and whether an algorithm can use them.

Used by ``acting.envs``. Works on any object with gymnasium's attributes (shape, dtype, low, high, n), so it imports
none. What ``acting.preprocessing`` makes of observations is a Box of one dimension or an image [H, W, C].

    {"kind": "Box", "shape": [8], "dtype": "float32", "low": [...], "high": [...]}     null where there is no bound
    {"kind": "Discrete", "n": 4, "start": 0, "shape": [], "dtype": "int64"}
    {"kind": "Dict", "text": "Dict('a': Discrete(2))"}                                 what is not described further
"""

import numpy as np

IMAGE_SIDE = 8  # a Box with height and width of at least this many pixels is taken for an image

_ACTIONS = {
    ("Box",): "a continuous action space: a Box of one dimension with finite bounds",
    ("Discrete",): "a Discrete action space",
}
_OBSERVATIONS = {"Box1d": "vectors (a Box of one dimension)", "Image": "images [height, width, channels]"}


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


def describe_obs(space):
    """Return an observation space as plain data, with the dtype in which observations are kept (``seen_dtype``)."""
    described = describe_space(space)
    return described | {"dtype": seen_dtype(space)} if described["kind"] == "Box" else described


def is_image(shape):
    """Whether a Box of this ``shape`` is an image: [H, W] or [H, W, C] with at least 8 pixels each way."""
    return len(shape) in (2, 3) and min(shape[:2]) >= IMAGE_SIDE


def seen_dtype(space):
    """Return the dtype in which observations of ``space`` are kept: images of bytes as "uint8", all else "float32"."""
    return "uint8" if is_image(space.shape) and space.dtype == np.uint8 else "float32"


def misfit(spaces, needs, fitting=None):
    """Return what keeps an algorithm from these spaces, or None.

    ``needs``: name, actions, observations (a row of ``algorithms.table``). ``fitting``: {kind: names of the algorithms
    that take it, as text} for the kinds Box, Discrete, Box1d and Image, for the advice.
    """
    fitting = fitting or {}
    return _action_misfit(spaces["action"], needs, fitting) or _obs_misfit(spaces["obs"], needs, fitting)


def _bounds(values):
    """Return nested lists with null for no bound; one number, or null, where all are equal and there are many."""
    finite = np.isfinite(values)
    if values.size > 64 and (values == values.flat[0]).all():
        return values.flat[0].item() if finite.flat[0] else None
    return np.where(finite, values.astype(object), None).tolist()


def _each(bounds, size):
    """Undo the shortening of ``_bounds`` for a vector of ``size`` elements."""
    return bounds if isinstance(bounds, list) else [bounds] * size


def _action_misfit(action, needs, fitting):
    kind = action["kind"]
    wants = f"{needs.name} needs {_ACTIONS.get(tuple(needs.actions), 'a Discrete or a continuous (Box) action space')}"
    if kind not in needs.actions:
        if kind in fitting:
            advice = f"Algorithms for such actions: {fitting[kind]}."
        else:
            advice = "No algorithm here takes such actions; make them one Discrete or one Box in a wrapper."
        return f"{wants}; its actions are {_text(action)}. {advice}"
    return None if kind == "Discrete" else _bounds_misfit(action, wants)


def _bounds_misfit(action, wants):
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


def _obs_misfit(obs, needs, fitting):
    wants = (
        f"{needs.name} needs observations that are {' or '.join(_OBSERVATIONS[kind] for kind in needs.observations)}"
    )
    if obs["kind"] != "Box":
        return f"{wants}; its observations are {_text(obs)}, which cannot be flattened. Do it in a wrapper."
    shape = obs["shape"]
    if min(shape, default=0) < 1:
        return f"{wants}; its observations are empty, of shape {tuple(shape)}."
    kind = "Box1d" if len(shape) == 1 else "Image"
    if kind in needs.observations:
        return None
    what = "vectors" if kind == "Box1d" else "images"
    advice = f" Algorithms for {what}: {fitting[kind]}." if kind in fitting else f" No algorithm here takes {what} yet."
    return f"{wants}; its observations are {what} of shape {tuple(shape)}.{advice}"


def _text(space):
    return (
        f"Discrete({space['n']})" if space["kind"] == "Discrete" else space.get("text") or f"a Box of {space['shape']}"
    )


def _side(bound, sign):
    return f"{sign}infinity" if bound is None else bound
