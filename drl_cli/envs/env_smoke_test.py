"""The first steps of an environment, checked closely. Used by ``envs.make``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from drl_cli.envs.steps import as_action
from drl_cli.errors import EnvError, failure

SIGNATURE = (
    "reset(seed=None, options=None) -> (obs, info) and step(action) -> (obs, reward, terminated, truncated, info)"
)


def try_out(env: gymnasium.Env, env_id: str, mask: Sequence[int] | None = None) -> None:
    """Reset ``env`` and step it once with a sampled action. Raises EnvError, which names ``env_id``, for what is wrong.

    ``mask``: [start, n], where the observation says which actions are allowed, or None.
    """
    try:
        answer = env.reset(seed=0)
    except (Exception, SystemExit) as error:
        _check_flattened(env, env_id)
        raise _raised(env_id, "reset", error) from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise EnvError(f"{env_id}: reset returned {_kind(answer)}; the interface is {SIGNATURE}.")
    _check_obs(answer[0], env, env_id, "reset")
    env.action_space.seed(0)
    try:
        answer = env.step(as_action(_sampled(env.action_space, answer[0], mask)))
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and "to unpack (expected 5" in str(error):
            raise EnvError(f"{env_id}: step does not return five values; the interface is {SIGNATURE}.") from error
        raise _raised(env_id, "step", error) from error
    if not (isinstance(answer, tuple) and len(answer) == 5 and isinstance(answer[4], dict)):
        raise EnvError(f"{env_id}: step returned {_kind(answer)}; the interface is {SIGNATURE}.")
    obs, reward, terminated, truncated, _ = answer
    _check_obs(obs, env, env_id, "step")
    _check_outcome(reward, (terminated, truncated), env_id)


def _raised(env_id: str, method: str, error: BaseException) -> EnvError:
    """What a method raised, in one line; what this program has around the environment says itself what is wrong."""
    return EnvError(
        f"{env_id}: {error}" if isinstance(error, EnvError) else f"{env_id}: {method} raised {failure(error)}"
    )


def _sampled(space: Any, obs: Any, mask: Sequence[int] | None) -> Any:
    if mask is None:
        return space.sample()
    allowed = np.asarray(obs)[mask[0] : mask[0] + mask[1]] > 0.5
    return space.sample(allowed.astype(np.int8)) if allowed.any() else space.sample()


def close(env: Any) -> str | None:
    """Close an environment; return what went wrong, or None. Whatever failed before it matters more."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        return f"close raised {failure(error)}"
    return None


def _check_flattened(env: gymnasium.Env, env_id: str) -> None:
    """After a failed reset: say so where what failed was to flatten an observation that its space does not contain."""
    if not isinstance(env, gymnasium.wrappers.FlattenObservation):
        return
    try:
        obs, space = env.env.reset(seed=0)[0], env.env.observation_space
        fits = space.contains(obs)
    except (Exception, SystemExit):
        return  # it was the reset itself
    if not fits:
        raise EnvError(f"{env_id}: reset returned the observation {obs!r:.60}; its space says {str(space)[:200]}.")


def _check_obs(obs: Any, env: gymnasium.Env, env_id: str, method: str) -> None:
    space = env.observation_space
    try:
        values = np.asarray(obs)
        finite = bool(np.isfinite(values).all())
    except (TypeError, ValueError):
        raise EnvError(f"{env_id}: {method} returned an observation that is not an array of numbers.") from None
    if values.shape != space.shape:
        raise EnvError(
            f"{env_id}: {method} returned an observation of shape {values.shape}; its space says {space.shape}."
        )
    if space.dtype == np.uint8 and values.dtype != np.uint8:
        raise EnvError(f"{env_id}: {method} returned an observation of {values.dtype}; its space says uint8.")
    if not finite:
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        raise EnvError(f"{env_id}: {method} returned an observation whose element {where} is {values.flat[where]}.")


def _check_outcome(reward: Any, ends: tuple[Any, Any], env_id: str) -> None:
    try:
        value = np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError):
        raise EnvError(f"{env_id}: step returned the reward {reward!r:.60}, which is not a number.") from None
    if value.size != 1 or not np.isfinite(value).all():
        raise EnvError(f"{env_id}: step returned the reward {reward!r:.60}; one finite number is needed.")
    for name, end in zip(("terminated", "truncated"), ends, strict=True):
        if not isinstance(end, (bool, np.bool_)):
            raise EnvError(f"{env_id}: step returned {end!r:.60} as {name}, which must be True or False; {SIGNATURE}.")


def _kind(answer: Any) -> str:
    return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
