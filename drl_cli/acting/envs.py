"""Environments by name: which one is meant, how it is made, what its spaces are, whether it works and fits.

Used by ``experiment`` before a run, by workers and testers to make their environments, and by playback. The only file
that imports gymnasium. Every failure is an EnvError with one message; what an environment prints is its own affair.
Source: gymnasium's registry (its ids are ``[namespace/]name[-vN]``).
"""

import os
import sys
import traceback
import warnings
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import parse_env_id

from drl_cli.acting.spaces import describe_space, misfit
from drl_cli.errors import DrlError, EnvError, nearest
from drl_cli.loading import load

SIGNATURE = (
    "reset(seed=None, options=None) -> (obs, info) and step(action) -> (obs, reward, terminated, truncated, info)"
)
_OWN_FOLDERS = (os.path.dirname(gymnasium.__file__), os.path.dirname(os.path.dirname(__file__)))
_ATARI_ENDINGS = ("NoFrameskip", "Deterministic", "-ram")


class EnvName(NamedTuple):
    """``id`` is what runs, ``asked`` what was typed, ``notice`` one line that says so where they differ, else None."""

    id: str
    asked: str
    notice: str | None


def import_module(name):
    """Import a module that registers environments, also from the current folder. Only for names from the command line.

    Raises EnvError where it is missing or fails, InputError where a package that it needs is missing.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # behind everything else, so that it replaces nothing
    try:
        load(name)
    except DrlError as error:
        if (
            getattr(error.__cause__, "name", None) == name.split(".")[0]
        ):  # better than advice to install what was mistyped
            raise EnvError(f"There is no module {name[:60]!r}, neither installed nor in the current folder.") from error
        raise
    except (Exception, SystemExit) as error:
        raise EnvError(f"Importing {name} failed: {_failure(error)}") from error


def resolve(env_id, strict=False, trusted=False):
    """Return the EnvName of what runs when ``env_id`` is asked for; builds nothing.

    A retired or missing version becomes the newest registered one of the same name (``strict``: is refused).
    ``module:EnvId`` imports the module, if ``trusted``: the name was typed, not read from a file.
    Raises EnvError with the nearest ids.
    """
    module, _, bare = env_id.rpartition(":")
    if module:
        if not trusted:
            raise EnvError(
                f"The environment {env_id[:120]!r} asks to import the module {module[:60]!r}, which only the "
                "command line "
                f"may. If you trust it, type: --env {env_id[:120]}"
            )
        import_module(module)
    if bare in gymnasium.registry:
        return EnvName(env_id, env_id, None)
    namespace, name, version = _parsed(bare)
    newest = max((v for n, b, v in _registered() if (n, b) == (namespace, name) and v is not None), default=None)
    if newest is None or (version is not None and version > newest):
        raise EnvError(_unknown(bare, namespace, name))
    found = f"{bare.rpartition('-v')[0] if version is not None else bare}-v{newest}"
    what = f"{bare} has no version" if version is None else f"{bare} is retired"
    if strict:
        raise EnvError(f"{what}; its current version is {found}. Ask for that, or leave out --strict-env.")
    whole = f"{module}:{found}" if module else found
    return EnvName(whole, env_id, f"{what} and runs as {found}.")


def make(env_id, env_config, render_mode=None):
    """Return a new gymnasium environment. ``env_config``: keyword arguments of its constructor. Raises EnvError."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*out of date.*")  # ids are chosen in ``resolve``
            # Handed over as None, a render_mode is still an argument, which many constructors do not know.
            rendering = {} if render_mode is None else {"render_mode": render_mode}
            return gymnasium.make(env_id, disable_env_checker=True, **rendering, **env_config)
    except gymnasium.error.DependencyNotInstalled as error:
        text = "pip install 'box2d>=2.3.10'" if "box2d" in str(error).lower() else " ".join(str(error).split())
        raise EnvError(f"{env_id} needs a package that is not installed: {text}") from error
    except (Exception, SystemExit) as error:
        given = f" with env_config {env_config}" if env_config else ""
        raise EnvError(f"{env_id} cannot be made{given}: {_failure(error)}") from error


def describe(env):
    """Return the spaces of an environment as plain data: ``{"obs": {...}, "action": {...}}``, see ``spaces``."""
    return {"obs": describe_space(env.observation_space), "action": describe_space(env.action_space)}


def check(env_id, env_config, needs):
    """Make the environment once, reset it, step once with a sampled action, close it; return its spaces.

    ``needs`` is a row of ``algorithms.table`` (name, actions, observations). Raises EnvError for spaces that the
    algorithm cannot use, the old gym interface, wrong shapes, values that are not finite, and whatever the
    environment raises.
    """
    env = make(env_id, env_config)
    try:
        spaces = describe(env)
        problem = misfit(spaces, needs)
        if problem:
            raise EnvError(f"{env_id}: {problem}")
        _try_out(env, env_id)
    finally:
        failure = _close(env)
    if failure:
        raise EnvError(f"{env_id}: {failure}")
    return spaces


def reward_threshold(env_id):
    """Return the mean episode reward at which the registry calls the environment solved, or None."""
    return _spec(env_id).reward_threshold


def time_limit(env_id):
    """Return the env steps after which an episode is truncated, or None."""
    return _spec(env_id).max_episode_steps


def _spec(env_id):
    return gymnasium.spec(env_id.rpartition(":")[2])


def _parsed(env_id):
    try:
        return parse_env_id(env_id)
    except gymnasium.error.Error as error:
        raise EnvError(
            f"{env_id[:120]!r} is no id of an environment; ids look like Name-v0, or module:Name-v0."
        ) from error


def _registered():
    return [(spec.namespace, spec.name, spec.version) for spec in gymnasium.registry.values()]


def _unknown(env_id, namespace, name):
    text = f"There is no environment {env_id[:120]!r}."
    if namespace == "ALE" or name.endswith(_ATARI_ENDINGS):
        return (
            f"{text} It looks like an Atari game: pip install ale-py, and add --import ale_py. Images are not "
            "supported yet."
        )
    close = nearest(env_id, gymnasium.registry)
    if close:
        return f"{text} Did you mean {' or '.join(map(repr, close))}?"
    return f"{text} If a package of yours registers it, add --import PACKAGE, or write --env PACKAGE:{env_id[:120]}"


def _try_out(env, env_id):
    """One reset and one step, looked at closely."""
    try:
        answer = env.reset(seed=0)
    except (Exception, SystemExit) as error:
        raise EnvError(f"{env_id}: reset raised {_failure(error)}") from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise EnvError(f"{env_id}: reset returned {_kind(answer)}; the interface is {SIGNATURE}.")
    _check_obs(answer[0], env, env_id, "reset")
    env.action_space.seed(0)
    try:
        answer = env.step(env.action_space.sample())
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and "to unpack (expected 5" in str(error):
            raise EnvError(f"{env_id}: step does not return five values; the interface is {SIGNATURE}.") from error
        raise EnvError(f"{env_id}: step raised {_failure(error)}") from error
    if not (isinstance(answer, tuple) and len(answer) == 5 and isinstance(answer[4], dict)):
        raise EnvError(f"{env_id}: step returned {_kind(answer)}; the interface is {SIGNATURE}.")
    obs, reward, terminated, truncated, _ = answer
    _check_obs(obs, env, env_id, "step")
    _check_outcome(reward, (terminated, truncated), env_id)


def _check_obs(obs, env, env_id, method):
    space = env.observation_space
    try:
        values = np.asarray(obs)
        finite = bool(np.isfinite(values).all())
    except (TypeError, ValueError):
        raise EnvError(f"{env_id}: {method} returned an observation that is no array of numbers.") from None
    if values.shape != space.shape:
        raise EnvError(
            f"{env_id}: {method} returned an observation of shape {values.shape}; its space says {space.shape}."
        )
    if not finite:
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        raise EnvError(f"{env_id}: {method} returned an observation whose element {where} is {values.flat[where]}.")


def _check_outcome(reward, ends, env_id):
    try:
        value = np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError):
        raise EnvError(f"{env_id}: step returned the reward {reward!r:.60}, which is no number.") from None
    if value.size != 1 or not np.isfinite(value).all():
        raise EnvError(f"{env_id}: step returned the reward {reward!r:.60}; one finite number is needed.")
    for name, end in zip(("terminated", "truncated"), ends, strict=True):
        if not isinstance(end, (bool, np.bool_)):
            raise EnvError(f"{env_id}: step returned {end!r:.60} as {name}, which must be True or False; {SIGNATURE}.")


def _close(env):
    """Close an environment; return what went wrong, or None. Whatever failed before it matters more."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        return f"close raised {_failure(error)}"
    return None


def _kind(answer):
    return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


def _failure(error):
    """Return what was raised and the last line of code of the user's that it passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [
        frame for frame in frames if not frame.filename.startswith(_OWN_FOLDERS) and "<frozen" not in frame.filename
    ]
    text = " ".join(str(error).split())[:300]
    place = foreign[-1] if foreign else frames[-1]
    return f"{type(error).__name__}: {text} ({place.filename}:{place.lineno}, in {place.name})."
