"""How one agent's policy sees its observations: the preprocessing of environments with one agent, agent by agent.

Used by the adapters of this package. An agent's spaces are put into an environment of their own, which
``envs.preprocessors`` wraps as any other; its observations then go through the same wrappers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from drl_cli.envs import preprocessors
from drl_cli.envs.composite_actions import FlatActions
from drl_cli.envs.steps import as_action
from drl_cli.errors import EnvError

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, Preprocessing


class _Spaces(gymnasium.Env):
    """The spaces of an agent where wrappers look for them; it is never stepped."""

    def __init__(self, obs_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = obs_space, action_space


class AgentView:
    """The spaces of an agent as its policy sees them, and the way there."""

    def __init__(
        self, spec: EnvSpec, transforms: Sequence[Callable[[Any], Any]] = (), given: FlatActions | None = None
    ) -> None:
        """``transforms``: what an observation goes through, in order; ``given``: what an action goes through, if anything."""
        self.spec = spec
        self._transforms, self._given = transforms, given
        self._dtype, self._shape = np.dtype(spec["obs"].get("dtype", "float32")), tuple(spec["obs"].get("shape", ()))

    def obs(self, raw: Any) -> np.ndarray:
        """Return an observation as the policy sees it, uint8 or float32; a copy.

        Raises ValueError for another shape than the space's, and what the wrappers raise.
        """
        for transform in self._transforms:
            raw = transform(raw)
        seen = np.array(raw, self._dtype)
        if seen.shape != self._shape:
            raise ValueError(f"an observation of shape {seen.shape}; its space says {self._shape}")
        return seen

    def action(self, action: np.ndarray) -> Any:
        """Return an action as the agent's space wants it: an int for Discrete, else an array that may be written to.

        A dict or tuple where the space is one.
        """
        if self._given is not None:
            return self._given.action(action)
        return as_action(np.array(action))


def view_of(obs_space: Any, action_space: Any, preprocessing: Preprocessing | None) -> AgentView:
    """Return the view of an agent with these spaces under a plan of ``envs.preprocessors``, or None.

    Raises EnvError for spaces that cannot be prepared.
    """
    for name, space in (("observation", obs_space), ("action", action_space)):
        if not isinstance(space, gymnasium.Space):
            raise EnvError(f"its {name} space is {str(space)[:60]!r}; a space of gymnasium is needed.")
    try:
        env = preprocessors.wrap(_Spaces(obs_space, action_space), preprocessing)
        spec = preprocessors.described(env)
    except ValueError as error:
        raise EnvError(str(error)) from error
    transforms: list[Callable[[Any], Any]] = []
    while isinstance(env, gymnasium.ObservationWrapper):
        transforms.insert(0, env.observation)
        env = env.env
    return AgentView(spec, transforms, env if isinstance(env, FlatActions) else None)
