"""Environments with several agents by name: whether one is, in which form, how it is opened, and whether it works.

Used by ``experiments`` before a run, by workers, testers and playback. ``kind_of`` is asked for every environment, so it
imports nothing for those of gymnasium. Every failure is an EnvError with one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import load_env_creator

from drl_cli.envs import make, mujoco_renderer, preprocessors
from drl_cli.envs.custom_envs import Creator
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.multi_agent import names
from drl_cli.envs.multi_agent.agents_smoke_test import try_out
from drl_cli.envs.multi_agent.copies import Copies
from drl_cli.envs.multi_agent.dictionary import DictionaryEnv
from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
from drl_cli.envs.multi_agent.tuples import TupleAgents
from drl_cli.envs.multi_agent.turns import TurnBased, in_cycles
from drl_cli.envs.spaces import misfit
from drl_cli.errors import DrlError, EnvError, failure
from drl_cli.extras import load

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, Preprocessing
    from drl_cli.envs.spaces import Needs


class Checked(NamedTuple):
    """What ``check`` found.

    ``spaces``: of every agent, in the environment's order; ``is_turn_based``: whether at most one agent acts at a time;
    ``state``: numbers in ``MultiAgentEnv.state``, 0 where there is none; ``notes``: lines for the user.
    """

    spaces: Mapping[str, EnvSpec]
    is_turn_based: bool
    state: int
    notes: Sequence[str]


KINDS = ("parallel", "aec", "dictionary", "tuple", "copies")
_ONE_AGENT = ("gymnasium", "ale_py", "drl_cli")  # packages whose gymnasium environments have one agent
_NAMING = ("possible_agents", "observation_spaces", "get_agent_ids", "_agent_ids")


def kind_of(env_id: str, env_config: Mapping[str, Any]) -> str | None:
    """Return the kind of a resolved id, as ``AgentsSetup`` names kinds; None for an environment with one agent.

    Of PettingZoo's two forms it is "parallel" wherever there is that form. What cannot be seen from a class, an environment of
    a package or of one's own, is made once and closed.
    """
    bare = _registered(env_id)
    if names.is_pettingzoo(bare):
        return names.forms(bare.partition("/")[0])[bare][0]
    try:
        creator = _creator(bare)
        made = creator.create if isinstance(creator, Creator) else creator
        if isinstance(made, type):
            if issubclass(made, gymnasium.Env) and made.__module__.partition(".")[0] in _ONE_AGENT:
                return None
            kind = _kind_of_form(made)
            if kind is not None:
                return kind
        env = raw(env_id, env_config)
    except EnvError:
        return None  # ``envs.make.check`` says why
    try:
        return _kind_of_object(env)
    finally:
        close(env)


def open_env(
    env_id: str,
    env_config: Mapping[str, Any],
    kind: str,
    count: int = 1,
    render_mode: str | None = None,
    preprocessing: Preprocessing | None = None,
) -> MultiAgentEnv:
    """Return a new environment with several agents.

    ``env_id``: a resolved id; ``env_config``: keyword arguments of its constructor; ``kind``: what ``kind_of`` returned, the
    other one of PettingZoo's two forms, or "copies", ``count`` of an environment with one agent. Raises EnvError.
    """
    if kind == "copies":
        return Copies(lambda: make.make(env_id, env_config, render_mode, preprocessing), count)
    env = raw(env_id, env_config, kind, render_mode)
    if isinstance(env, MultiAgentEnv):
        return env
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    try:
        if kind == "tuple":
            return DictionaryEnv(TupleAgents(env), preprocessing)
        limit = spec.max_episode_steps if spec else None
        if kind == "aec":
            return DictionaryEnv(TurnBased(env), preprocessing, limit, lists_present=True, is_turn_based=True)
        if kind == "parallel":
            return DictionaryEnv(in_cycles(env), preprocessing, limit, lists_present=True)
        return DictionaryEnv(env, preprocessing, limit)
    except (Exception, SystemExit) as error:
        close(env)
        said = str(error) if isinstance(error, EnvError) else f"it cannot be opened: {failure(error)}"
        raise EnvError(f"{env_id}: {said}") from error


def open_setup(setup: Mapping[str, Any], render_mode: str | None = None) -> MultiAgentEnv:
    """Return a new environment of a run; ``setup``: as of ``EnvSetup``, with ``agents``. Raises EnvError."""
    agents = setup["agents"]
    plan = setup.get("preprocessing")
    return open_env(setup["id"], setup["env_config"], agents["kind"], agents["count"], render_mode, plan)


def describe(env: MultiAgentEnv) -> dict[str, EnvSpec]:
    """Return the spaces of every agent, as ``envs.make.describe`` returns those of an environment with one."""
    return {agent: env.spaces(agent) for agent in env.agents}


def check(
    env_id: str,
    env_config: Mapping[str, Any],
    kind: str,
    count: int = 1,
    needs: Needs | None = None,
    preprocessing: Preprocessing | None = None,
    fitting: Mapping[str, str] | None = None,
) -> Checked:
    """Open the environment once, step it for a while with sampled actions, close it; return what was found.

    ``env_id`` to ``count``, ``preprocessing``: as for ``open_env``. ``needs``, ``fitting``: as for ``envs.make.check``; without
    ``needs`` any spaces will do. Raises EnvError for spaces that the algorithm cannot use, for whatever the environment raises,
    and for steps that cannot be learnt from; it names the agent.
    """
    env = open_env(env_id, env_config, kind, count, None, preprocessing)
    try:
        spaces = describe(env)
        for agent, spec in spaces.items():
            spec["frames"] = preprocessors.frames_of(preprocessing)
            problem = misfit(spec, needs, fitting) if needs else None
            if problem:
                raise EnvError(f"{env_id}: agent {agent!r}: {problem}")
        state = try_out(env, env_id)
    finally:
        trouble = close(env)
    if trouble:
        raise EnvError(f"{env_id}: {trouble}")
    return Checked(spaces, env.is_turn_based, state, tuple(env.notes))


def _registered(env_id: str) -> str:
    """Return the id without its module, which is imported, as a package that has to register the id is."""
    module, _, bare = env_id.rpartition(":")
    if module and bare not in gymnasium.registry:
        make.import_module(module)
    names.import_provider(bare)
    return bare


def _creator(bare: str) -> Any:
    """Return the class or function that gymnasium calls for a registered id. Raises EnvError where its import fails."""
    spec = gymnasium.registry.get(bare)
    if spec is None:
        raise EnvError(f"There is no environment {bare[:120]!r}.")
    entry = spec.entry_point
    mujoco_renderer.import_without_renderer(entry)
    try:
        return load_env_creator(entry) if isinstance(entry, str) else entry
    except (Exception, SystemExit) as error:
        raise EnvError(f"{bare} cannot be made: {failure(error)}") from error


def raw(env_id: str, env_config: Mapping[str, Any], kind: str | None = None, render_mode: str | None = None) -> Any:
    """Return a new object as its package makes it, in PettingZoo's form ``kind`` where there are both. Raises EnvError."""
    bare = _registered(env_id)
    rendering = {} if render_mode is None else {"render_mode": render_mode}
    try:
        if names.is_pettingzoo(bare):
            return _made_by_pettingzoo(bare, kind or "parallel", {**env_config, **rendering})
        creator, spec = _creator(bare), gymnasium.registry[bare]
        if kind == "tuple":
            return make.make_raw(env_id, env_config, render_mode)
        arguments = {**spec.kwargs, **env_config, **rendering}
        env = creator.made(**arguments) if isinstance(creator, Creator) else creator(**arguments)
        return _in_form(env, kind)
    except EnvError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvError(_cannot_be_made(env_id, env_config, error)) from error


def _made_by_pettingzoo(env_id: str, kind: str, arguments: Mapping[str, Any]) -> Any:
    if env_id.startswith("mpe2/"):
        module = load(names.mpe2_module(env_id))
        return (module.env if kind == "aec" else module.parallel_env)(**arguments)
    return load("pettingzoo:make")(kind, env_id, **arguments)


def _in_form(env: Any, kind: str | None) -> Any:
    """Return an environment of one's own in PettingZoo's form ``kind``, where it comes in the other one."""
    is_turn_based = _kind_of_form(env) == "aec"
    if kind == "parallel" and is_turn_based:
        return load("pettingzoo.utils.conversions:aec_to_parallel")(env)
    if kind == "aec" and not is_turn_based:
        return load("pettingzoo.utils.conversions:parallel_to_aec")(env)
    return env


def _kind_of_form(env: Any) -> str | None:
    """Return the kind of a class or an object by what it is derived from or has; None where that does not say it."""
    bases = {f"{base.__module__}.{base.__name__}" for base in (env if isinstance(env, type) else type(env)).__mro__}
    if "pettingzoo.utils.env.AECEnv" in bases:
        return "aec"
    if "pettingzoo.utils.env.ParallelEnv" in bases:
        return "parallel"
    if any(base.startswith("ray.") and base.endswith(".MultiAgentEnv") for base in bases):
        return "dictionary"
    return None if "gymnasium.core.Env" in bases else "dictionary" if hasattr(env, "step") else None


def _kind_of_object(env: Any) -> str | None:
    kind = _kind_of_form(env)
    if kind == "aec" and env.metadata.get("is_parallelizable"):
        return "parallel"
    if kind is not None or not isinstance(env, gymnasium.Env):
        return kind
    spaces: Any = env.observation_space, env.action_space
    if all(isinstance(space, gymnasium.spaces.Tuple) for space in spaces) and len(spaces[0]) == len(spaces[1]):
        return "tuple"
    own = env.unwrapped
    return "dictionary" if any(hasattr(own, name) for name in _NAMING) or callable(spaces[1]) else None


def _cannot_be_made(env_id: str, env_config: Mapping[str, Any], error: BaseException) -> str:
    missing = error if isinstance(error, ImportError) else error.__cause__
    if isinstance(missing, ModuleNotFoundError):
        extra = "'pettingzoo[atari]'" if env_id.startswith("atari/") else "'drl-cli[multiagent]'"
        return f"{env_id} needs the package {missing.name}, which is not installed. Run: pip install {extra}"
    if isinstance(error, DrlError):
        return str(error)
    unknown = make.NO_ARGUMENT.search(str(error))
    if unknown and unknown[1] in env_config:
        return f"env_config.{unknown[1]}: {env_id} takes no such argument. Leave it out."
    given = f" with env_config {dict(env_config)}" if env_config else ""
    return f"{env_id} cannot be made{given}: {failure(error)}"
