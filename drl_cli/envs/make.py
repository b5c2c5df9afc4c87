"""Environments by name: which one is meant, how it is made, what its spaces are, whether it works and fits.

Used by ``experiments`` before a run, by workers and testers to make their environments, and by playback. Every failure is
an EnvError with one message; what an environment prints is not captured. Atari games are registered when one is asked for.
Source: gymnasium's registry (its ids are ``[namespace/]name[-vN]``).
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import parse_env_id
from gymnasium.wrappers import TimeLimit

from drl_cli import plugins
from drl_cli.config.env_names import EXTERNAL_ID, TEAM_ID, displayed
from drl_cli.config.episode_metrics import UNBOUNDED_STEPS
from drl_cli.envs import bundled_envs, custom_envs, env_wrappers, mujoco_renderer, preprocessors
from drl_cli.envs.env_smoke_test import close, try_out
from drl_cli.envs.multi_agent import names
from drl_cli.envs.multi_agent.multi_agent_env import SeenAsTeam
from drl_cli.envs.spaces import misfit
from drl_cli.errors import DrlError, EnvError, failure, nearest, suggestion
from drl_cli.extras import load, require

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, Preprocessing
    from drl_cli.envs.spaces import Needs

_GAMES = "ale_py"
_ATARI_ENDINGS = ("NoFrameskip", "Deterministic", "-ram")
_OLDER_GAME = re.compile(r"(\w+?)(-ram)?(Deterministic|NoFrameskip|)-v([04])")
NO_ARGUMENT = re.compile(r"got an unexpected keyword argument '(\w+)'")
_FRAMESKIP = {"Deterministic": 4, "NoFrameskip": 1, "": (2, 5)}
_MUJOCO_NEEDS = ("mujoco", "imageio", "glfw")  # modules that its environments import when they are made
_RESTORED = {}  # id of a game that ale_py no longer registers → what it is


class EnvName(NamedTuple):
    """``id`` is what runs, ``asked`` what was typed, ``notice`` one line that says so where they differ, else None."""

    id: str
    asked: str
    notice: str | None


def import_module(name: str) -> None:
    """Import a module that registers environments, also from the current folder. Only for names from the command line.

    Raises EnvError where it is missing or fails, InputError where a package that it needs is missing.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # after everything else, so that it replaces nothing
    try:
        with mujoco_renderer.naming_one_that_is_installed():
            load(name)
    except DrlError as error:
        # Better than advice to install what was mistyped.
        cause = error.__cause__
        if isinstance(cause, ImportError) and cause.name == name.split(".")[0]:
            here = [file.removesuffix(".py") for file in os.listdir() if file.endswith(".py")]
            hint = suggestion(name, here)
            raise EnvError(
                f"There is no module {name[:60]!r}, neither installed nor in the current folder.{hint} "
                "Go to its folder, or put PYTHONPATH=ITS_FOLDER before drl."
            ) from error
        raise
    except (Exception, SystemExit) as error:
        raise EnvError(f"Importing {name} failed: {failure(error)}") from error


def make_ready(env: Mapping[str, Any]) -> None:
    """Know in this process what another one of the run knows: plug-ins, and the modules that register environments.

    ``env``: dict(imports: names of modules, plugins: of ``plugins.registered``), both optional. Raises as ``import_module``.
    """
    plugins.adopt(env.get("plugins"))
    custom_envs.put_into_gymnasium()
    for module in env.get("imports", ()):
        import_module(module)


def resolve(env_id: str, strict: bool = False, trusted: bool = False) -> EnvName:
    """Return the EnvName of what runs when ``env_id`` is asked for; builds nothing.

    A retired or missing version becomes the newest registered one of the same name (``strict``: is refused).
    ``module:EnvId`` imports the module, if ``trusted``: the name was typed, not read from a file.
    Raises EnvError with the nearest ids.
    """
    module, _, bare = env_id.rpartition(":")
    if module and module != _GAMES:  # which is imported for its ids without the prefix too
        if not trusted:
            raise EnvError(
                f"The environment {env_id[:120]!r} asks to import the module {module[:60]!r}, which only the command line "
                f"may. If you trust it, type: --env {env_id[:120]}"
            )
        import_module(module)
    zoo = names.resolve(bare, strict)
    if zoo is not None:
        return EnvName(f"{module}:{zoo[0]}" if module else zoo[0], env_id, zoo[1])
    if not _is_known(bare):
        plugins.discover()
    if _is_known(bare) and not _is_stub(bare):
        return EnvName(env_id, env_id, _RESTORED.get(bare))
    same = bundled_envs.stands_for(bare)
    if same:
        return EnvName(same, env_id, f"{bare} is {same} here.")
    namespace, name, version = _parsed(bare)
    if version is None and bundled_envs.refusal(bare):
        raise EnvError(bundled_envs.refusal(bare))
    newest = max((v for n, b, v in _registered() if (n, b) == (namespace, name) and v is not None), default=None)
    if newest is None or (version is not None and version > newest):
        raise EnvError(_unknown(bare, namespace, name))
    found = f"{bare.rpartition('-v')[0] if version is not None else bare}-v{newest}"
    what = f"{bare} has no version" if version is None else f"{bare} is retired"
    if strict:
        raise EnvError(f"{what}; its current version is {found}. Ask for that, or leave out --strict-env.")
    whole = f"{module}:{found}" if module else found
    return EnvName(whole, env_id, f"{what} and runs as {found}.")


def registered_ids(with_games: bool = False) -> list[str]:
    """Return the ids of all registered environments; Atari games are among them ``with_games`` or if one was asked for.

    Those of PettingZoo and mpe2 are there where these are installed. ``drl/Team-v1`` and ``drl/External-v1`` are not: they
    stand for others.
    Raises EnvError where ale_py is installed and broken.
    """
    plugins.discover()
    if with_games:
        _is_known("ALE/")  # no environment: whatever the registry lacks has the games registered
    there = [env_id for env_id in gymnasium.registry if not _is_stub(env_id) and env_id not in (TEAM_ID, EXTERNAL_ID)]
    return [*there, *names.listed(with_games)]


def is_game(env_id: str) -> bool:
    """Whether a registered id is that of an Atari game."""
    return preprocessors.is_atari(_spec(env_id))


def make_raw(env_id: str, env_config: Mapping[str, Any], render_mode: str | None = None) -> gymnasium.Env:
    """Return a new gymnasium environment as its package made it.

    ``env_config``: keyword arguments of its constructor. Raises EnvError.
    """
    if ":" not in env_id:
        _is_known(env_id)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*out of date.*")  # ids are chosen in ``resolve``
            # Handed over as None, a render_mode is still an argument, which many constructors do not know.
            rendering = {} if render_mode is None else {"render_mode": render_mode}
            spec = _spec(env_id)
            mujoco_renderer.import_without_renderer(spec and spec.entry_point)
            return gymnasium.make(env_id, disable_env_checker=True, **rendering, **env_config)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvError(_missing(env_id, error)) from error
    except EnvError:  # of an environment of this program, which says all that is to be said
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and error.name in _MUJOCO_NEEDS:
            raise EnvError(_missing(env_id, error)) from error
        unknown = NO_ARGUMENT.search(str(error))
        if unknown and unknown[1] in env_config and _is_of_the_call(error):
            raise EnvError(f"env_config.{unknown[1]}: {env_id} has no such argument. Omit it.") from error
        given = f" with env_config {env_config}" if env_config else ""
        raise EnvError(f"{env_id} cannot be made{given}: {failure(error)}") from error


def _is_of_the_call(error: BaseException) -> bool:
    """Whether it was gymnasium's call of a constructor that failed, and nothing inside it."""
    *_, (frame, _) = traceback.walk_tb((error.__cause__ or error).__traceback__)
    return frame.f_code.co_filename == registration.__file__


def make(
    env_id: str,
    env_config: Mapping[str, Any],
    render_mode: str | None = None,
    preprocessing: Preprocessing | None = None,
) -> gymnasium.Env:
    """Return a new gymnasium environment whose observations are a vector or an image.

    ``env_config``: keyword arguments of its constructor. ``preprocessing``: a plan of ``envs.preprocessors``, or None.
    Raises EnvError.
    """
    env = make_wrapped(env_id, env_config, render_mode, preprocessing)
    try:
        return preprocessors.wrap(env, preprocessing)
    except Exception as error:
        close(env)
        if isinstance(error, EnvError):
            raise EnvError(f"{env_id}: {error}") from error
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            raise EnvError(_missing(env_id, error)) from error
        raise EnvError(f"{env_id}: its observations cannot be prepared: {failure(error)}") from error


def make_wrapped(
    env_id: str,
    env_config: Mapping[str, Any],
    render_mode: str | None = None,
    preprocessing: Preprocessing | None = None,
) -> gymnasium.Env:
    """Return a new gymnasium environment in its ``env_wrappers``, whose observations are as these leave them.

    Arguments: see ``make``. Raises EnvError.
    """
    env = make_raw(env_id, env_config, render_mode)
    try:
        return env_wrappers.wrap(env, env_wrappers.from_plan(preprocessing))
    except BaseException:
        close(env)
        raise


def describe(env: gymnasium.Env) -> EnvSpec:
    """Return the spaces of an environment as plain data: ``{"obs": {...}, "action": {...}}``, see ``spaces``.

    Where it was flattened from a Dict with an action mask, ``"mask": [start, n]`` says where that is; with a board,
    ``"board": [start, height, width, planes]``; with goals, ``"goal": [achieved, desired, n]``; of a team seen as one agent
    ``"team"`` says where what is. Raises EnvError for a mask that does not fit the actions.
    """
    try:
        spaces = preprocessors.described(env)
    except ValueError as error:
        raise EnvError(f"{env.spec.id if env.spec else type(env).__name__}: {error}") from error
    if isinstance(env.unwrapped, SeenAsTeam):
        spaces["team"] = env.unwrapped.team_layout
    return spaces


def check(
    env_id: str,
    env_config: Mapping[str, Any],
    needs: Needs,
    preprocessing: Preprocessing | None = None,
    fitting: Mapping[str, str] | None = None,
) -> EnvSpec:
    """Make the environment once, reset it, step once with a sampled action, close it; return its spaces.

    They are those of ``describe``, and ``frames``, the length of the frame stack that ``preprocessing`` asks for.
    ``needs`` is a row of ``algorithms.table`` (name, actions, observations), ``fitting`` what its ``fitting()`` returns.
    Raises EnvError for spaces that the algorithm cannot use, the old gym interface, wrong shapes, values that are not
    finite, and whatever the environment raises.
    """
    env = make(env_id, env_config, preprocessing=preprocessing)
    try:
        spaces = describe(env)
        spaces["frames"] = preprocessors.frames_of(preprocessing)
        problem = misfit(spaces, needs, fitting)
        if problem:
            raise EnvError(f"{displayed(env_id, env_config)}: {problem}")
        try_out(env, env_id, spaces.get("mask"))
    finally:
        trouble = close(env)
    if trouble:
        raise EnvError(f"{env_id}: {trouble}")
    return spaces


def reward_threshold(env_id: str) -> float | None:
    """Return the mean episode reward at which the registry calls the environment solved, or None."""
    spec = _spec(env_id)
    return spec.reward_threshold if spec else None


def time_limit(env_id: str) -> int | None:
    """Return the env steps after which an episode is truncated, or None."""
    spec = _spec(env_id)
    return spec.max_episode_steps if spec else None


def bound_of(env: gymnasium.Env, asked: int | None) -> int | None:
    """Return the env steps after which an evaluation cuts an episode of ``env``, None: never.

    ``asked``: the config's or the command line's, None: only an environment without a limit of its own gets one.
    """
    own = None
    while isinstance(env, gymnasium.Wrapper):  # whose own spec is a copy of the whole, not always made in silence
        own = own or (isinstance(env, TimeLimit) and env._max_episode_steps)
        env = env.env
    spec = getattr(env, "spec", None)
    # Atari games count frames themselves.
    own = own or (spec and (spec.max_episode_steps or spec.kwargs.get("max_num_frames_per_episode")))
    return asked or (None if own else UNBOUNDED_STEPS)


def _spec(env_id: str) -> Any:
    """Return gymnasium's spec of a registered id; None for one of PettingZoo's."""
    return gymnasium.registry.get(env_id.rpartition(":")[2])


def _is_known(bare: str) -> bool:
    """Whether an id is registered; one that is not may be a game of ale_py, which registers its own when imported."""
    if bare not in gymnasium.registry:
        names.import_provider(bare)
    if bare not in gymnasium.registry and find_spec("ale_py"):
        try:
            atari = require("ale_py")
        except (DrlError, ImportError) as error:
            raise EnvError(f"Importing ale_py failed: {failure(error)}") from error
        gymnasium.register_envs(atari)
        # It would otherwise greet on stderr whenever a game is made, which is for every episode.
        atari.ALEInterface.setLoggerMode(atari.LoggerMode.Error)
        if bare not in gymnasium.registry:
            _restore_older_game(bare)
    return bare in gymnasium.registry


def _restore_older_game(bare: str) -> None:
    """Register an id such as PongDeterministic-v4, which ale_py no longer does, as the game that it was."""
    match = _OLDER_GAME.fullmatch(bare)
    base = gymnasium.registry.get(f"{match[1]}NoFrameskip-v{match[4]}") if match else None
    if match is None or base is None:
        return
    changed = {"frameskip": _FRAMESKIP[match[3]]} | ({"obs_type": "ram"} if match[2] else {})
    kwargs = {**base.kwargs, **changed}
    gymnasium.register(id=bare, entry_point=base.entry_point, kwargs=kwargs, max_episode_steps=base.max_episode_steps)
    sticky = f"repeat_action_probability {kwargs['repeat_action_probability']:g}"
    described = ", ".join([*(f"{name} {value}" for name, value in changed.items()), sticky])
    _RESTORED[bare] = (
        f"{bare} is no longer registered by ale_py, and runs as what it was: ALE/{match[1]}-v5 with {described}."
    )


def _is_stub(env_id: str) -> bool:
    """Whether gymnasium registers an id only to say that it is gone: those of MuJoCo that needed mujoco-py."""
    return "mujoco_py" in getattr(gymnasium.registry[env_id].entry_point, "__name__", "")


def _missing(env_id: str, error: BaseException) -> str:
    """Say what to install; the advice of gymnasium is to install extras of its own, one of which fails to build."""
    text, lower = " ".join(str(error).split()), str(error).lower()
    if any(name in lower for name in _MUJOCO_NEEDS):
        return f"{env_id} needs MuJoCo: pip install 'drl-cli[mujoco]'"
    if "box2d" in lower:
        text = "pip install 'box2d>=2.3.10'"
    elif "opencv" in lower or "cv2" in lower:
        text = "pip install 'drl-cli[atari]'"
    return f"{env_id} needs a package that is not installed: {text}"


def _parsed(env_id: str) -> tuple[str | None, str, int | None]:
    try:
        return parse_env_id(env_id)
    except gymnasium.error.Error as error:
        raise EnvError(
            f"{env_id[:120]!r} is no id of an environment; ids look like Name-v0, or module:Name-v0."
        ) from error


def _registered() -> list[tuple[str | None, str, int | None]]:
    there = [spec for env_id, spec in gymnasium.registry.items() if not _is_stub(env_id)]
    return [(spec.namespace, spec.name, spec.version) for spec in there]


def _unknown(env_id: str, namespace: str | None, name: str) -> str:
    text = f"There is no environment {env_id[:120]!r}."
    games = {spec.name.lower() for spec in gymnasium.registry.values() if preprocessors.is_atari(spec)}
    looks_atari = namespace == "ALE" or name.endswith(_ATARI_ENDINGS) or name.lower() in games
    if looks_atari and not find_spec("ale_py"):
        return f"{text} It looks like an Atari game. These come with: pip install 'drl-cli[atari]'"
    # Hundreds of games resemble anything, so they are proposed for Atari-like ids only.
    known = gymnasium.registry.items()
    real = [(known_id, spec) for known_id, spec in known if not _is_stub(known_id)]
    candidates = [known_id for known_id, spec in real if looks_atari or not preprocessors.is_atari(spec)]
    close = nearest(env_id, candidates) or names.similar(env_id)
    for ending in _ATARI_ENDINGS if looks_atari else ():
        close = close or nearest(f"{name.removesuffix(ending)}-v4", candidates)
    if close:
        return f"{text} Did you mean {' or '.join(map(repr, close))}?"
    return f"{text} If a package of yours registers it, add --import PACKAGE, or write --env PACKAGE:{env_id[:120]}"
