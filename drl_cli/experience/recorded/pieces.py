"""What recorded experience is made of: ``Piece``, a part of one episode in time order, and ``Layout``, what it must fit.

Every reader yields pieces, every learner from files and every estimate takes them.
"""

from typing import Any, NamedTuple

import numpy as np


class Piece(NamedTuple):
    """One episode, or a part of one, in time order.

    Neither ``terminated`` nor ``truncated``: it is broken off; its episode goes on elsewhere or was lost.
    """

    obs: (
        np.ndarray
    )  # [T, …] single observations as the policy sees them: float32 vectors, uint8 or float32 images [H, W, C]
    action: np.ndarray  # [T, …] Box: float32 in the environment's units, not clipped; else int32, counted from 0
    reward: np.ndarray  # [T] float32, as the environment gave it
    terminated: bool  # of the last step
    truncated: bool  # of the last step
    end_obs: np.ndarray | None  # the observation behind the last step; None where the file has none
    logp: np.ndarray | None  # [T] float32 log-probability (density) of ``action`` as it stands here, of what acted
    start: int  # how many steps of its episode come before it
    episode: int | str  # which episode it belongs to
    source: str  # "file:line" of its first step, for messages

    @property
    def steps(self):
        """Steps T."""
        return len(self.reward)

    @property
    def is_whole(self):
        """Whether it is an episode from its beginning to its end."""
        return self.start == 0 and (self.terminated or self.truncated)


class Layout(NamedTuple):
    """What observations and actions look like in an environment; see ``layout_of``."""

    obs_shape: tuple  # of a single observation
    obs_dtype: str  # "float32" or "uint8"
    action: dict  # the described action space, see ``envs.spaces``
    limits: tuple = ()  # lengths of episodes at which a file's `dones` are time limits
    frames: int = 1  # single observations in a stack of which a file may hold
    normalized: bool = False  # whether Box actions in files are within ±1 of their bounds, and to be stretched

    @property
    def action_shape(self):
        """Shape of one action of the policy."""
        return tuple(self.action["shape"])

    @property
    def is_box(self):
        """Whether actions are numbers within bounds."""
        return self.action["kind"] == "Box"

    def bounds(self):
        """Return (low, high) of Box actions, float32 [A] each."""
        shape = self.action_shape
        return tuple(
            np.broadcast_to(np.asarray(self.action[side], np.float32), shape).copy() for side in ("low", "high")
        )


def layout_of(spaces: dict, limits=(), normalized: bool = False) -> Layout:
    """Return the Layout of an environment.

    ``spaces``: as ``envs.make.check`` describes them, with "obs", "action" and maybe "frames"; ``limits``: lengths at which
    episodes are cut (the registry's time limit, ``horizon``), None among them is passed over; ``normalized``: the key
    ``actions_in_input_normalized``.
    """
    obs: Any = spaces["obs"]
    known = tuple(sorted({int(limit) for limit in limits if limit is not None}))
    return Layout(
        tuple(obs["shape"]), obs["dtype"], spaces["action"], known, int(spaces.get("frames", 1)), bool(normalized)
    )
