"""``env_wrappers``: gymnasium's wrappers, and registered ones, around each environment of a run.

Used by ``envs.preprocessors.plan``, which carries them as plain data to all that make environments, and by ``envs.make``. They
stand inside of everything of this program: its preprocessing sees what they return, and so do rewards, scores and recordings.
A name is looked up among those below and the registered ones; nothing is imported by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

from drl_cli import plugins
from drl_cli.config.env_names import Wrapper, named_wrappers
from drl_cli.errors import DrlError, EnvError, InputError, NotRegistered, failure, suggestion

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys

GYMNASIUM = (
    *("AddRenderObservation", "AddWhiteNoise", "ClipAction", "ClipReward", "DelayObservation", "DiscretizeAction"),
    *("DiscretizeObservation", "DtypeObservation", "FilterObservation", "FlattenObservation", "FrameStackObservation"),
    *("GrayscaleObservation", "MaxAndSkipObservation", "ObstructView", "OrderEnforcing", "PassiveEnvChecker"),
    *("RescaleAction", "RescaleObservation", "ReshapeObservation", "ResizeObservation", "StickyAction"),
    *("TimeAwareObservation", "TimeLimit"),
)
_FUNCTIONS = "it takes functions; write it as a class and register it: drl_cli.register_env_wrapper"
REFUSED = {
    "NormalizeObservation": "its statistics would be lost with the process; use observation_filter: MeanStdFilter",
    "NormalizeReward": "its statistics would be lost with the process; use reward_scaling: true",
    "AtariPreprocessing": "games are preprocessed by preprocessor_pref and the keys of model",
    "Autoreset": "workers reset the environments themselves",
    "RecordEpisodeStatistics": "results have returns and lengths of episodes without it",
    "RecordVideo": "record with drl rollout CHECKPOINT --video-dir DIR, or record_env",
    "HumanRendering": "show episodes with drl rollout CHECKPOINT --render",
    "RenderCollection": "record with drl rollout CHECKPOINT --video-dir DIR, or record_env",
    **dict.fromkeys(("TransformObservation", "TransformAction", "TransformReward"), _FUNCTIONS),
    **dict.fromkeys(("JaxToNumpy", "JaxToTorch", "NumpyToTorch", "ArrayConversion"), "policies take NumPy arrays"),
}
"""Wrapper of gymnasium → why it is not among these."""


def register_env_wrapper(name: str, wrapper: Callable[..., gymnasium.Env]) -> None:
    """Let ``env_wrappers: [name]`` mean ``wrapper``; one of the same name is replaced.

    ``wrapper(env, **keywords)`` returns a gymnasium.Env around ``env``, as a class derived from gymnasium.Wrapper does;
    ``keywords`` are those of the entry ``{name: {...}}``. Raises InputError for what cannot be called, and for a name of
    gymnasium's.
    """
    if not callable(wrapper):
        raise InputError(f"register_env_wrapper: {name}: {str(wrapper)[:60]!r} is not a class or a function.")
    if name in GYMNASIUM or name in REFUSED:
        raise InputError(f"register_env_wrapper: {name} is the name of a wrapper of gymnasium; take another one.")
    plugins.ENV_WRAPPERS.add(name, wrapper)


def find(name: str) -> Callable[..., gymnasium.Env]:
    """Return the wrapper of this name. Raises InputError with the reason, NotRegistered with the nearest name."""
    if name in GYMNASIUM:
        return getattr(gymnasium.wrappers, name)
    if name in REFUSED:
        raise InputError(f"{name} of gymnasium is not for env_wrappers: {REFUSED[name]}.")
    known = plugins.ENV_WRAPPERS.all()
    if name in known:
        return known[name]
    hint = suggestion(name, [*GYMNASIUM, *known])
    broken = "".join(f" {text}" for text in plugins.failures())
    raise NotRegistered(
        f"There is no wrapper {name[:60]!r}.{hint} It takes those of gymnasium.wrappers, and those that a module registers "
        f"with drl_cli.register_env_wrapper; name that module: --import MODULE.{broken}"
    )


def problems(config: CommonKeys) -> list[str]:
    """Return one line for each wrapper of a config that is not known, [] for none."""
    found = []
    for name, _ in named_wrappers(config.env_wrappers):
        try:
            find(name)
        except InputError as error:
            found.append(f"env_wrappers: {error}")
    return found


def wrap(env: gymnasium.Env, wrappers: Sequence[Sequence[Any]]) -> gymnasium.Env:
    """Return ``env`` in ``wrappers`` [(name, keywords)], the first of them innermost.

    Raises EnvError for a keyword that one does not take, and whatever it raises, in one line.
    """
    for name, keywords in wrappers:
        try:
            wrapper = find(name)
            _check_keywords(name, wrapper, keywords)
            env = wrapper(env, **keywords)
        except EnvError:
            raise
        except DrlError as error:
            raise EnvError(f"env_wrappers: {error}") from error
        except (Exception, SystemExit) as error:
            raise EnvError(f"env_wrappers.{name} cannot be applied: {failure(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise EnvError(f"env_wrappers.{name} returned {type(env).__name__}, which is not a gymnasium.Env.")
    return env


def from_plan(plan: Mapping[str, Any] | None) -> list[Wrapper]:
    """Return the wrappers of a plan of ``envs.preprocessors``; none without a plan."""
    return list((plan or {}).get("wrappers", ()))


def read(data: Any) -> list[Wrapper]:
    """Return the wrappers that a manifest holds, [[name, keywords]]. Raises ValueError for other data."""
    if not isinstance(data, list) or len(data) > 32:
        raise ValueError("wrappers that are no list of at most 32")
    for entry in data:
        if not isinstance(entry, list) or [type(part) for part in entry] != [str, dict]:
            raise ValueError(f"a wrapper {str(entry)[:60]} that is not a name and its keywords")
    return [(name, keywords) for name, keywords in data]


def _check_keywords(name: str, wrapper: Callable[..., Any], keywords: Mapping[str, Any]) -> None:
    """Raise EnvError for a keyword that a wrapper does not take, or one that it lacks."""
    try:
        parameters = list(inspect.signature(wrapper).parameters.values())[1:]  # the first is the environment
    except (TypeError, ValueError):  # something compiled: its call will say what it lacks
        return
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_POSITIONAL]
    for keyword in keywords:
        if keyword not in names:
            takes = f"It takes {', '.join(names)}." if names else "It takes no keywords."
            raise EnvError(
                f"env_wrappers.{name}: unknown keyword {keyword[:60]!r}.{suggestion(keyword, names)} {takes}"
            )
    lacking = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in keywords]
    if lacking:
        raise EnvError(f"env_wrappers.{name} needs {' and '.join(lacking)}: {{{name}: {{{lacking[0]}: ...}}}}")
