"""A checkpoint made ready to act: which one a path means, its policy, and the environment to act in.

Used by ``drl rollout`` and ``drl evaluate``. Imports neither TensorFlow nor Ray. Nothing that the checkpoint names is
imported: an environment with a module in its id needs that id on the command line.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli import checkpoints, plugins
from drl_cli.algorithms import table
from drl_cli.config.env_names import displayed
from drl_cli.config.rllib.ignored_keys import ANYWAY, IDLE
from drl_cli.envs import env_wrappers, make
from drl_cli.envs import preprocessors as preprocessing
from drl_cli.envs.env_spec import AgentsSetup, EnvSpec, Preprocessing
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
from drl_cli.envs.multi_agent.team import laid_over
from drl_cli.envs.spaces import part_name
from drl_cli.errors import CheckpointError, ConfigError, DrlError, EnvError, InputError, NotRegistered, suggestion
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy, policies_from_checkpoint, policy_from_checkpoint
from drl_cli.runs import retention, run_folder

if TYPE_CHECKING:
    import gymnasium

OVERRIDES = ("env_config", "horizon")
TYPED_INSTEAD = {
    "explore": "--explore",
    "render_env": "--render",
    "record_env": "--video-dir DIR",
    "monitor": "--video-dir DIR",
}
"""Keys of a config that are options of the commands which play."""
DEFAULT_FPS = 30.0  # of videos, where an environment does not say


@dataclass(frozen=True)
class Subject:
    """What plays, and where: a policy and its environment, or the policies of several agents.

    path: the checkpoint folder. facts: its manifest's facts. policies: by id, they act in NumPy. agents: who they act for, None
    where there is one agent. env, env_config, horizon: the
    environment's id and keywords, and the number of steps after which an episode is cut (None: never). max_steps: of its
    evaluations, see ``envs.make.bound_of``. preprocessing: the plan for scoring (see ``envs.preprocessors``), or None.
    notice: a line about a retired id, or None. render_modes, frames_per_second: what the environment says of its pictures.
    """

    path: Path
    facts: dict[str, Any]
    policies: Mapping[str, NumpyPolicy]
    agents: AgentsSetup | None
    env: str
    env_config: dict[str, Any]
    horizon: int | None
    max_steps: int | None
    preprocessing: Preprocessing | None
    notice: str | None
    render_modes: tuple[str, ...]
    frames_per_second: float

    @property
    def policy(self) -> NumpyPolicy:
        """The policy of a single agent, of several agents the first one."""
        return next(iter(self.policies.values()))

    @property
    def several(self) -> AgentsSetup:
        """The agents. Raises ValueError where there is one."""
        if self.agents is None:
            raise ValueError(f"{self.env} has one agent")
        return self.agents

    @property
    def frames(self) -> int:
        """How many of the last observations the policy acts on."""
        return preprocessing.frames_of(self.preprocessing)

    @property
    def env_name(self) -> str:
        """The environment as screens name it."""
        return displayed(self.env, self.env_config)

    @property
    def fresh_envs(self) -> bool:
        """Whether every episode has a new environment, as in training."""
        return (self.facts.get("config") or {}).get("fresh_envs") is True

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env:
        """Return a new environment to play in."""
        return make.make(self.env, self.env_config, render_mode, self.preprocessing)

    def make_agents_env(self, render_mode: str | None = None) -> MultiAgentEnv:
        """Return a new environment with several agents."""
        return open_envs.open_setup(self.setup(), render_mode)

    def setup(self) -> dict[str, Any]:
        """Return what ``actors.agents_tester`` needs to know of an environment with several agents; see ``play`` there."""
        return {
            "id": self.env,
            "env_config": self.env_config,
            "agents": self.several,
            "preprocessing": self.preprocessing,
            "horizon": self.horizon,
            "max_steps": self.max_steps,
            "fresh_envs": self.fresh_envs,
        }

    @property
    def iteration(self) -> int:
        """The training iteration whose weights these are."""
        return self.facts["counters"]["training_iteration"]


def open_subject(
    path: Path | str,
    env: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    latest: bool = False,
    command: str = "drl rollout",
) -> Subject:
    """Find, verify and load the checkpoint that ``path`` means.

    path: a checkpoint folder, a file in it, or a run folder (its best; ``latest``: its newest). env: an id typed by the
    user, may name a module. overrides: {"env_config": {…}, "horizon": n} laid over what the checkpoint stored, and over the
    run's ``evaluation_config``.
    command: shown where the user has to type something else. Raises CheckpointError, ConfigError, EnvError.
    """
    found, facts, policies = open_policies(path, latest)
    overrides, notices = _read_overrides(overrides or {}, facts)
    asked = env or facts["env"]
    if env is None and ":" in asked:
        allow = shlex.join([*command.split(), str(path), "--env", asked])
        raise EnvError(f"{found}: its environment {asked} would import a module. If you trust it, run: {allow}")
    try:
        name = make.resolve(asked, trusted=env is not None)
    except EnvError as error:
        if env is not None:
            raise
        raise EnvError(f"{found}: {error}{_imported_by_run(found)}") from error
    evaluated = _evaluation(facts)
    env_config = dict(facts.get("env_config") or {})
    for over in (evaluated.get("env_config") or {}, overrides.get("env_config", {})):
        env_config = laid_over(name.id, env_config, over)
    plan = preprocessing.for_scoring(_plan(found, facts))
    _check_registered(found, plan)
    for policy in policies.values():
        if policy.spec.frames != preprocessing.frames_of(plan):
            raise CheckpointError(
                f"{found}: its policy acts on {policy.spec.frames} observations at a time, its preprocessing stacks "
                f"{preprocessing.frames_of(plan)}."
            )
    agents: AgentsSetup | None = facts.get("agents")
    if agents is None:
        shown = _fitting(found, facts, name.id, make.make(name.id, env_config, preprocessing=plan))
    else:
        agents, shown = _agents_fitting(found, facts, (name.id, env_config), plan)
    return Subject(
        path=found,
        facts=facts,
        policies=policies,
        agents=agents,
        env=name.id,
        env_config=env_config,
        horizon=overrides.get("horizon", evaluated.get("horizon") or facts.get("horizon")),
        max_steps=_max_steps(facts),
        preprocessing=plan,
        notice="\n".join([*([name.notice] if name.notice else []), *notices]) or None,
        **shown,
    )


def _evaluation(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``evaluation_config`` of the run: what it was scored in is what plays, as in RLlib's rollout command."""
    config = facts.get("config")
    found = config.get("evaluation_config") if isinstance(config, dict) else None
    held = found.items() if isinstance(found, dict) else ()
    forms = {"env_config": dict, "horizon": int}  # a config is not checked as long as it only plays
    return {name: value for name, value in held if type(value) is forms.get(name)}


def _max_steps(facts: Mapping[str, Any]) -> int | None:
    config = facts.get("config")
    asked = config.get("evaluation_max_steps") if isinstance(config, dict) else None
    return asked if type(asked) is int and asked >= 1 else None


def open_policy(path: Path | str, latest: bool = False) -> tuple[Path, dict[str, Any], NumpyPolicy]:
    """Find, verify and load the checkpoint that ``path`` means, as ``open_subject``, without any environment.

    Returns (its folder, its manifest's facts, its NumpyPolicy). Raises CheckpointError.
    """
    found = retention.find(Path(path).expanduser(), latest=latest)
    loaded = checkpoints.load(found)
    facts = loaded.require_facts()
    with _saying_what_to_import(found):
        return found, facts, policy_from_checkpoint(loaded)


def open_policies(path: Path | str, latest: bool = False) -> tuple[Path, dict[str, Any], dict[str, NumpyPolicy]]:
    """Return what ``open_policy`` returns, with {policy id: NumpyPolicy}: there may be several."""
    found = retention.find(Path(path).expanduser(), latest=latest)
    loaded = checkpoints.load(found)
    facts = loaded.require_facts()
    with _saying_what_to_import(found):
        return found, facts, policies_from_checkpoint(loaded)


@contextlib.contextmanager
def _saying_what_to_import(path: Path) -> Iterator[None]:
    """Let a CheckpointError about a name that is not registered end with what the run of the checkpoint had imported."""
    try:
        yield
    except CheckpointError as error:
        if not isinstance(error.__cause__, NotRegistered):
            raise
        raise CheckpointError(f"{error}{_imported_by_run(path)}") from error


def _imported_by_run(path: Path) -> str:
    """Return words that say which modules the run of a checkpoint had imported, "" where it had or is none."""
    try:
        params = run_folder.read_record(path.parent / "params.json")
    except DrlError:
        return ""
    imports = params.get("imports") if params and run_folder.is_params(params) else None
    shown = [name for name in imports or [] if all(part.isidentifier() for part in name.split("."))]
    return f" The run had {' '.join(f'--import {name}' for name in shown)}" if shown else ""


def _check_registered(path: Path, plan: Preprocessing | None) -> None:
    """Raise CheckpointError where a wrapper or the preprocessor that the policy was trained with is not registered here."""
    key = "env_wrappers"
    with _saying_what_to_import(path):
        try:
            for name, _ in env_wrappers.from_plan(plan):
                env_wrappers.find(name)
            key = "model.custom_preprocessor"
            if plan and "preprocessor" in plan:
                plugins.PREPROCESSORS.find(plan["preprocessor"][0])
        except InputError as error:
            raise CheckpointError(f"{path}: {key}: {error}") from error


def _plan(path: Path, facts: Mapping[str, Any]) -> Preprocessing | None:
    try:
        return preprocessing.from_facts(facts.get("preprocessing"))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _fitting(path: Path, facts: Mapping[str, Any], env_id: str, env: gymnasium.Env) -> dict[str, Any]:
    """Compare the spaces of ``env`` with the trained ones, close it, return what it says of its pictures."""
    try:
        offered = make.describe(env)
        metadata = env.metadata or {}
    finally:
        env.close()
    _expect_spaces(path, facts, env_id, facts["spaces"], offered)
    return _pictures(metadata)


def _expect_spaces(
    path: Path, facts: Mapping[str, Any], env_id: str, trained: Mapping[str, Any], offered: EnvSpec, agent: str = ""
) -> None:
    for name in ("obs", "action"):
        wanted, given = essence(name, trained[name]), essence(name, offered[name])
        if wanted != given:
            raise CheckpointError(
                f"{path} was trained on {facts['env']}, {name} {agent}of {wanted}; {env_id} has {given}. "
                "Choose an environment that fits with --env."
            )


def _pictures(metadata: Mapping[str, Any]) -> dict[str, Any]:
    modes, fps = metadata.get("render_modes") or (), metadata.get("render_fps") or DEFAULT_FPS
    return {"render_modes": tuple(modes), "frames_per_second": float(fps)}


def _agents_fitting(
    path: Path, facts: Mapping[str, Any], env: tuple[str, dict[str, Any]], plan: Preprocessing | None
) -> tuple[AgentsSetup, dict[str, Any]]:
    """Compare the agents of ``env`` (id, env_config) with the trained ones; return them, and what it says of its pictures."""
    agents: AgentsSetup = facts["agents"]
    env_id, env_config = env
    if agents["kind"] != "copies" and env_id != facts["env"]:
        kind = open_envs.kind_of(env_id, env_config)
        if kind is None:
            raise CheckpointError(f"{path}: its policies act for several agents, and {env_id} has one.")
        agents = {**agents, "kind": kind}
    made = open_envs.open_env(env_id, env_config, agents["kind"], agents["count"], None, plan)
    try:
        offered, metadata = open_envs.describe(made), made.metadata
    finally:
        made.close()
    if set(offered) != set(agents["spaces"]):
        trained, found = (", ".join(list(names)[:8]) for names in (agents["spaces"], offered))
        raise CheckpointError(f"{path} was trained with the agents {trained}; those of {env_id} are {found}.")
    for agent, spaces in offered.items():
        _expect_spaces(path, facts, env_id, agents["spaces"][agent], spaces, f"of agent {agent} ")
    return agents, _pictures(metadata)


def essence(name: str, space: Mapping[str, Any]) -> str:
    """Return in words what a policy depends on in a space: sizes, whether images are bytes, which numbers are actions."""
    if space.get("kind") == "MultiBinary":
        return f"{space.get('n')} switches"
    if space.get("kind") == "Composite":
        return "parts " + ", ".join(f"{part_name(part)} of {essence(name, part)}" for part in space.get("parts", []))
    if "n" in space:
        return f"{space['n']} numbers from {space.get('start', 0)}"
    if "nvec" in space:
        return f"choices among {space['nvec']} numbers from {space.get('start')}"
    whole = name == "obs" and space.get("dtype") == "uint8"
    return f"shape {list(space.get('shape') or ())}{' of bytes' if whole else ''}"


def _read_overrides(given: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return ({"env_config", "horizon"} of what was typed, notices). Other keys of a config have no part in playing."""
    over = given.get("evaluation_config")
    if isinstance(over, dict):
        given = {**over, **{key: value for key, value in given.items() if key != "evaluation_config"}}
    kept, idle = {}, []
    known = _known_keys(str(facts.get("algorithm"))) if set(given) - set(OVERRIDES) else ()
    for key, value in given.items():
        if key in OVERRIDES:
            kept[key] = value
        elif key in TYPED_INSTEAD and value is True:
            raise ConfigError(f"--config: {key} true: type {TYPED_INSTEAD[key]}.")
        elif key in known:
            idle.append(key)
        else:
            raise ConfigError(
                f"--config: '{key}' cannot be set here.{suggestion(key, OVERRIDES)} Keys: {', '.join(OVERRIDES)}."
            )
    if not isinstance(kept.get("env_config", {}), dict):
        raise ConfigError(f"--config: env_config must be an object, not {kept['env_config']!r}.")
    horizon = kept.get("horizon")
    if horizon is not None and (type(horizon) is not int or horizon < 1):
        raise ConfigError(f"--config: horizon must be a whole number of at least 1, or null, not {horizon!r}.")
    have = "has" if len(idle) == 1 else "have"
    text = (
        f"--config: {', '.join(idle)} {have} no part in playing a checkpoint: one process plays its policy, in NumPy."
    )
    return kept, [text] if idle else []


def _known_keys(algorithm: str) -> set[str]:
    """Return the keys of the algorithm's config and those of RLlib's that change nothing."""
    from drl_cli.config.key_description import fields_of  # loads pydantic

    keys = {path[0] for path in (*ANYWAY, *IDLE)}
    try:
        return keys | set(fields_of(load(table.find(algorithm).config)))
    except InputError:  # one that a module registers which was not imported
        return keys
