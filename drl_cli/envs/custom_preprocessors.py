"""``register_preprocessor``: what observations become before all other preprocessing, under a name that a config takes.

``model: {custom_preprocessor: NAME}`` names one. A registered class, or function, is called with (space, options): the
observation space of the environment, in its ``env_wrappers``, and the plain data of ``model.custom_model_config``. What it
returns has

    observation_space       a gymnasium Box of one dimension, or an image [height, width(, channels)]
    transform(obs)          what an observation becomes: an array of that shape

as classes for RLlib have. ``transform`` has no state: the same observation always becomes the same array, whatever was seen
before, in another process and after a resume; what needs a memory is a wrapper (``env_wrappers``), or ``model.use_lstm``.

A Dict observation with an ``action_mask`` (``envs.spaces.find_mask``) is given without it, and the mask is put after the vector
that ``transform`` returns: what is allowed is the environment's to say, and a preprocessor cannot lose it.

Used by ``envs.preprocessors``, whose plan carries name and options to all that make environments. Source of the key: RLlib
(MODEL_DEFAULTS, 1.0.1), where, as here, Atari games get no other wrappers beside it. Deviation: what is made still passes
``model.dim``, ``grayscale`` and ``framestack`` where these are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from drl_cli import plugins
from drl_cli.envs.plugin_calls import called
from drl_cli.envs.spaces import MASK, find_mask, is_image
from drl_cli.errors import EnvError, InputError, PluginFailed


def register_preprocessor(name: str, preprocessor: Callable[..., Any]) -> None:
    """Let ``model: {custom_preprocessor: name}`` mean ``preprocessor``, see the module; one of the same name is replaced.

    Raises InputError for what is no class or function, and for a class without ``transform``.
    """
    where = f"register_preprocessor({str(name)[:60]!r})"
    if not callable(preprocessor):
        raise InputError(f"{where}: {str(preprocessor)[:60]!r} is not a class or a function.")
    if isinstance(preprocessor, type) and plugins.lacking(preprocessor, "transform"):
        raise InputError(f"{where}: the class {preprocessor.__name__} has no method transform(obs).")
    plugins.PREPROCESSORS.add(name, preprocessor)


class Preprocessed(gymnasium.ObservationWrapper):
    """An environment whose observations a registered preprocessor transforms; whatever that does wrong is one line.

    ``mask``: [start, n], where the vector holds the action mask of a Dict observation; None without one.
    """

    def __init__(self, env: gymnasium.Env, name: str, options: Mapping[str, Any]) -> None:
        """Raises EnvError for an unknown name, for what the class raises, and for spaces that are no vector or image.

        EnvError too for an action mask that does not fit the actions, or that would stand beside an image.
        """
        super().__init__(env)
        self._about, self._is_checked = f"model.custom_preprocessor {name}", False
        given, self.mask = env.observation_space, None
        try:
            mask = find_mask(given, env.action_space, lambda space: 0)
        except ValueError as error:
            raise EnvError(str(error)) from error
        if isinstance(given, gymnasium.spaces.Dict) and mask is not None:
            self._mask_space = given[MASK]
            given = gymnasium.spaces.Dict({key: part for key, part in given.items() if key != MASK})
        try:
            self._own = called(self._about, plugins.PREPROCESSORS.find(name), given, dict(options))
        except PluginFailed as error:
            raise EnvError(str(error)) from error
        except InputError as error:
            raise EnvError(f"model.custom_preprocessor: {error}") from error
        space = getattr(self._own, "observation_space", None)
        if plugins.lacking(self._own, "transform"):
            raise EnvError(f"{self._about} has no transform(obs); it returned {type(self._own).__name__}.")
        if not isinstance(space, gymnasium.spaces.Box):
            raise EnvError(
                f"{self._about}: its observation_space is {str(space)[:60]!r}; it must be a gymnasium.spaces.Box."
            )
        if min(space.shape, default=0) < 1 or not (len(space.shape) == 1 or is_image(space.shape)):
            raise EnvError(
                f"{self._about}: its observation_space has the shape {space.shape}; it must have one dimension, or be an image "
                "[height, width, channels] of 8 or more pixels each way."
            )
        self.observation_space: gymnasium.Space = space
        self._shape, self._dtype = space.shape, space.dtype
        if mask is not None:
            if len(space.shape) != 1:
                raise EnvError(
                    f"{self._about}: its observation_space is an image, and the environment's observations have an {MASK}, "
                    "which has no place there. Return a vector, or drop the mask in a wrapper (env_wrappers)."
                )
            self.mask = [space.shape[0], mask[1]]
            none, all_ = np.zeros(mask[1], np.float32), np.ones(mask[1], np.float32)
            low, high = np.concatenate([space.low, none]), np.concatenate([space.high, all_])
            self.observation_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))

    def observation(self, observation: Any) -> np.ndarray:
        """Return what ``observation`` becomes, of the shape and dtype of the space.

        Raises EnvError for other shapes, dtypes, numbers that are not finite, and a second answer that differs from the first.
        """
        if self.mask is None:
            return self._checked(observation)
        rest = {key: part for key, part in observation.items() if key != MASK}
        allowed: Any = gymnasium.spaces.flatten(self._mask_space, observation[MASK])
        return np.concatenate([self._checked(rest), allowed], dtype=np.float32, casting="unsafe")

    def _checked(self, observation: Any) -> np.ndarray:
        found = self._transformed(observation)
        if not self._is_checked:
            self._is_checked = True
            first = found.copy()
            if not np.array_equal(first, self._transformed(observation)):
                raise EnvError(
                    f"{self._about}: transform makes two different things of the same observation, or modifies it; it must "
                    "have no state. What needs a memory is a wrapper: env_wrappers."
                )
        return found

    def _transformed(self, obs: Any) -> np.ndarray:
        try:
            found = np.asarray(called(f"{self._about}: transform", self._own.transform, obs))
        except PluginFailed as error:
            raise EnvError(str(error)) from error
        except ValueError as error:  # lists of different lengths
            raise EnvError(f"{self._about}: transform returned no array ({error}).") from error
        if found.shape != self._shape:
            raise EnvError(
                f"{self._about}: transform returned an array of shape {found.shape}; its observation_space says {self._shape}."
            )
        whole = self._dtype.kind in "iu"
        if found.dtype.kind not in ("iub" if whole else "iubf") or (
            self._dtype == np.uint8 and found.dtype != np.uint8
        ):
            raise EnvError(
                f"{self._about}: transform returned an array of {found.dtype}; its observation_space says {self._dtype}."
            )
        if not whole and not np.isfinite(found).all():
            raise EnvError(f"{self._about}: transform returned a number that is not finite (NaN or infinity).")
        return found.astype(self._dtype, copy=False)


def read(data: Any) -> tuple[str, dict[str, Any]]:
    """Return the (name, options) that a manifest holds, [name, options]. Raises ValueError for other data."""
    if not isinstance(data, list) or [type(part) for part in data] != [str, dict]:
        raise ValueError(f"a preprocessor {str(data)[:60]} that is not a name and its options")
    return data[0], data[1]
