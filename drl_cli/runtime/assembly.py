"""From a config to the parts of a run and where they live.

On one machine the learner (in a thread) and the replay live in the driver's process; parameter server, workers and
tester are Ray actors. ``learner_actor`` and ``num_replay_shards`` make those two Ray actors as well, which
``runtime.placement`` may put on other nodes. With ``num_workers: 0`` and neither of these no Ray is imported.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from drl_cli import events, process
from drl_cli.actors import policy_server
from drl_cli.actors.part_records import LearnerIdentity, ReaderIdentity, WorkerIdentity
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.algorithms import table
from drl_cli.algorithms.impala import StreamKeys
from drl_cli.algorithms.table import Algorithm
from drl_cli.config.environment_variables import as_strings
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.deterministic import has_blocks, is_deterministic, sources
from drl_cli.config.sections.estimates import methods
from drl_cli.config.sections.exploration_settings import exploration_settings
from drl_cli.config.sections.multi_agent import config_of_policy
from drl_cli.config.sections.offline import reads, reads_only
from drl_cli.config.sections.replay import BufferKeys, relabels_goals, replay_resources, shards
from drl_cli.config.sections.resources import gpus, learners, num_cpus_per_learner
from drl_cli.config.sections.rollout import RolloutKeys, on_loss
from drl_cli.config.sections.served_input import is_served
from drl_cli.contracts import Cluster, Handle
from drl_cli.envs.multi_agent.team import laid_over
from drl_cli.envs.preprocessors import for_scoring, frames_of
from drl_cli.errors import ConfigError
from drl_cli.extras import load
from drl_cli.policies import filters
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.runtime import loop_kinds, placement, xla_cache
from drl_cli.runtime.block_pool import BlockPool, SamplePool
from drl_cli.runtime.cluster import ACTOR, HERE, THREAD, InlineCluster
from drl_cli.runtime.leader import Leader
from drl_cli.runtime.loop_kinds import Loop
from drl_cli.runtime.pool import Standing, WorkerPool
from drl_cli.runtime.pool_rules import PoolRules
from drl_cli.runtime.replay_shards import Shards
from drl_cli.runtime.testers import ManyTesters
from drl_cli.runtime.worker_files import WorkerFiles

HELD = 64  # versions of the weights; fragments under way are of fewer
OUTSTANDING = 2  # calls per worker: the next one is waiting when it has finished one


class RunSetup(NamedTuple):
    """What a run is made of, and what does not change while it goes on."""

    row: Algorithm
    config: CommonKeys
    env: Mapping[str, Any]  # id, asked, env_config, spaces, imports; and maybe preprocessing, plugins, videos, agents
    spec: PolicySpec  # of several policies the first one's
    policies: Mapping[str, PolicySetup] | None = None  # by id, where there are several agents

    @property
    def specs(self) -> dict[str, PolicySpec]:
        """The spec of each policy by its id."""
        if self.policies is None:
            return {DEFAULT_POLICY: self.spec}
        return {name: policy.spec for name, policy in self.policies.items()}

    @property
    def seed(self) -> int:
        """The seed of the run. Raises ValueError where the config has none: a run is made with one."""
        if self.config.seed is None:
            raise ValueError("the config of a run must have its seed set")
        return self.config.seed


class Parts(NamedTuple):
    """Handles of the parts (the replay's as Shards, None for a row without), the pool of workers and the loop over them."""

    server: Handle
    learner: Handle
    replay: Shards | None
    pool: SamplePool
    loop: Loop


def needs_ray(config: CommonKeys) -> bool:
    """Whether a part of the run is a Ray actor."""
    return bool(config.num_workers or config.learner_actor)


def learns_here(row: Algorithm, config: CommonKeys) -> bool:
    """Return whether TensorFlow learns in the run's own process; without Ray everything is there."""
    return row.tensorflow and loop_kinds.kind_of(row).learner is not None and not config.learner_actor


def fragment_steps(config: CommonKeys) -> int:
    """Return the env steps of one fragment."""
    return config.num_envs_per_worker * config.rollout_fragment_length


def open_cluster(
    config: CommonKeys,
    ray_options: Mapping[str, Any],
    with_tensorflow: bool = True,
    sees_images: bool = False,
    here: bool = True,
) -> Cluster:
    """Return the cluster for ``config``; starts or joins Ray when it needs one.

    ``with_tensorflow``: the algorithm learns with it; ``here``: in this process, so that it is loaded meanwhile;
    ``sees_images``: its nets have convolutions.
    """
    threads = config.tf_session_args
    process.prepare_tensorflow(
        threads.intra_op_parallelism_threads,
        threads.inter_op_parallelism_threads,
        gpus(config),
        config.log_level,
        sees_images=sees_images,
    )
    if with_tensorflow and config.xla and not gpus(config):
        xla_cache.prepare()
    if not needs_ray(config):
        if with_tensorflow:
            events.report("phase", text="loading TensorFlow")
        return InlineCluster()
    address = ray_options.get("address")
    workers = f"{config.num_workers} worker" + ("" if config.num_workers == 1 else "s")
    events.report("phase", text=f"joining Ray at {address}, {workers}" if address else f"starting Ray, {workers}")
    if not address:
        process.prepare_ray()
        cores = len(os.sched_getaffinity(0))
        if config.num_workers > cores:
            events.report("warning", text=f"{workers} share {cores} cores; Ray counts as many CPUs as they ask for")
    from drl_cli.runtime import ray_cluster

    if with_tensorflow and here:
        # Loading TensorFlow takes longer than starting Ray, most of which this process sleeps through.
        threading.Thread(target=load, args=(loop_kinds.LEARNER,), name="load", daemon=True).start()
    others = (learners(config) - 1) * num_cpus_per_learner(config)
    demand = math.ceil(config.num_workers * config.num_cpus_per_worker + others + config.num_cpus_for_driver) + 1
    return ray_cluster.RayCluster({**ray_options, "log_to_driver": config.log_level == "DEBUG"}, demand)


def make_parts(setup: RunSetup, cluster: Cluster, output: str | None = None) -> Parts:
    """Make every part but the workers and the tester. The first weights have then been pushed.

    ``output``: the folder that workers record into, or None.
    """
    row, config, env = setup.row, setup.config, setup.env
    placement.check(config, cluster)
    initial = first_weights(setup)
    pinned = {"pinned": True}
    dtype = config.broadcast_dtype if isinstance(config, RolloutKeys) else "float32"
    # What is computed again after the loss of a worker needs the weights that it was requested with.
    held = HELD if has_blocks(config) else 2
    server = cluster.spawn("parameter server", loop_kinds.SERVER, (dtype, held), ACTOR, pinned)
    specs = setup.specs
    pushed = server.call("push", {p: {name: initial[p][name] for name in specs[p].weight_names()} for p in specs})
    replay = _make_replay(setup, cluster) if table.learns_from_replay(row) else None
    identity: LearnerIdentity = {"seed": setup.seed, "with_ray": cluster.is_remote, "plugins": env.get("plugins")}
    if callable(row.postprocess):
        identity["postprocess"] = row.postprocess
    if env.get("agents") and "self_play" in env["agents"]:
        identity["self_play"] = env["agents"]["self_play"]
    kind, worker = loop_kinds.kind_of(row).learner, _worker_of(row, config, is_several=setup.policies is not None)
    single = (config, setup.spec, row.graph, initial[DEFAULT_POLICY]) if setup.policies is None else ()
    if single and learners(config) > 1:
        identity["replicas"] = _make_replicas(config, cluster, (*single, identity.copy()))
        identity["is_patient"] = cluster.is_patient
    several = (kind, setup.policies, row.graph, initial)
    learner = None
    if kind is not None:
        learner = cluster.spawn(
            "learner",
            kind if single else loop_kinds.GROUP_LEARNER,
            (*(single or several), identity, server),
            ACTOR if config.learner_actor else THREAD,
            placement.learner_options(config),
        )
        if config.custom_resources_for_learner:
            placement.await_place(learner, cluster)
    remote_workers = config.num_workers > 0
    make = WorkerMaker(worker, setup, cluster, server, output)
    most = config.max_sample_requests_in_flight_per_worker if isinstance(config, StreamKeys) else OUTSTANDING
    # A reader may have come to the end of its files: its last fragment decides whether there is another call. A worker that
    # learns itself samples no fragment before it has learnt from its last one.
    most = most if remote_workers and learner and not reads_only(config) else 1
    rules = PoolRules(on_loss(config), config.memory_per_worker, config.env_timeout_s)
    pool = WorkerPool(cluster, make, max(1, config.num_workers), most, rules=rules)
    sampled = BlockPool(pool, cluster, sources(config)) if has_blocks(config) else pool
    learner = learner or Leader(server, pool)
    loop = loop_kinds.make(row, cluster, sampled, replay, learner, config)
    if not cluster.is_remote:
        pushed.result()
    return Parts(server, learner, replay, sampled, loop)


def _make_replicas(config: CommonKeys, cluster: Cluster, args: tuple) -> list[Handle]:
    """Make the learners beside the run's own; one that dies is started again, and its call repeated."""
    resources = {"num_cpus": num_cpus_per_learner(config), "restarts": True}
    names = [f"learner {index}" for index in range(1, learners(config))]
    return [cluster.spawn(name, loop_kinds.REPLICA, args, ACTOR, resources) for name in names]


def setup_of(row: Algorithm, config: CommonKeys, env: Mapping[str, Any]) -> RunSetup:
    """Return what a run is made of; its policies are described, without TensorFlow."""
    if is_deterministic(config) and (row.team or env.get("agents")):
        raise ConfigError(
            "deterministic: it is for one agent; leave it out. Runs with num_workers 0 are reproducible too."
        )
    describe = load(row.nets).policy_spec
    frames = {"frames": frames_of(env.get("preprocessing"))}
    if not env.get("agents"):
        return RunSetup(row, config, env, describe(config, env["spaces"] | frames))
    if learners(config) > 1:
        raise ConfigError("num_learners: several policies have one learner each; set it to 1, or train one policy.")
    if isinstance(config, StreamKeys) and config.num_aggregation_workers:
        raise ConfigError("num_aggregation_workers: it is for one policy; set it to 0.")
    policies = {}
    for name, own in env["agents"]["policies"].items():
        keys = config_of_policy(config, name, own["config"])
        policies[name] = PolicySetup(
            keys, describe(keys, own["spaces"] | frames), tuple(own["agents"]), own["is_trained"]
        )
    first = next(iter(policies.values()))
    return RunSetup(row, config, env, first.spec, policies)


def first_weights(setup: RunSetup) -> dict[str, dict[str, np.ndarray]]:
    """Return {policy id: {name: array}} of the weights that a run begins with; each policy draws its own."""
    initial = load(setup.row.nets).initial_weights
    configs = [setup.config] if setup.policies is None else [own.config for own in setup.policies.values()]
    return {
        name: initial(config, spec, setup.seed + 7919 * index) | filters.first_weights(spec)
        for index, ((name, spec), config) in enumerate(zip(setup.specs.items(), configs, strict=True))
    }


def _make_replay(setup: RunSetup, cluster: Cluster) -> Shards:
    """Make the shards: Ray actors when there are workers elsewhere, in the run's process otherwise."""
    config, spec = setup.config, setup.spec
    if not isinstance(config, BufferKeys):
        raise ConfigError(
            f"{setup.row.name}: the config of an algorithm that learns from a replay needs the keys of BufferKeys."
        )
    apart = config.num_replay_shards and config.num_workers and not has_blocks(config)
    count, place = shards(config), ACTOR if apart else HERE
    kind, made_of, more = loop_kinds.REPLAY, (config, spec), ()
    if setup.policies is not None:
        kind, made_of = loop_kinds.GROUP_REPLAY, (setup.policies,)
    elif relabels_goals(config):
        more = (1, setup.env)
    is_elsewhere = bool(replay_resources(config))
    first, kind = ((kind,), loop_kinds.REPLAY_ELSEWHERE) if is_elsewhere else ((), kind)
    handles = [
        cluster.spawn(
            f"replay {index}" if count > 1 else "replay",
            kind,
            (*first, *made_of, config.seed, index, *more),
            place,
            placement.replay_options(config),
        )
        for index in range(count)
    ]
    for handle in handles if is_elsewhere else ():
        placement.await_place(handle, cluster)
    return Shards(handles, is_elsewhere)


def _worker_of(row: Algorithm, config: CommonKeys, is_several: bool) -> Any:
    """Return the dotted name of the worker's class: one that samples, reads, does both, or serves; ``is_several``: agents."""
    if is_served(config):
        return loop_kinds.SERVED
    if has_blocks(config):
        return loop_kinds.BLOCKS
    if not reads(config):
        return loop_kinds.AGENTS_WORKER if is_several else loop_kinds.kind_of(row).worker
    if not reads_only(config):
        return loop_kinds.MIXED
    return loop_kinds.AGENTS_READER if is_several else loop_kinds.READER


class WorkerMaker:
    """Spawns worker ``index`` as its ``incarnation``-th."""

    def __init__(
        self, worker: Any, setup: RunSetup, cluster: Cluster, server: Handle, output: str | None = None
    ) -> None:
        """``worker``: its class, or the dotted name of it; ``output``: the folder to record into."""
        self._worker, self._setup, self._cluster, self._server = worker, setup, cluster, server
        self._files = WorkerFiles(setup.config, setup.env, cluster, output)

    def __call__(self, index: int, incarnation: int, standing: Standing) -> Handle:
        """Return the handle of the worker."""
        config, env = self._setup.config, self._env()
        identity = self._identity(index, incarnation, standing)
        resources: dict[str, Any] = {
            "num_cpus": config.num_cpus_per_worker,
            "num_gpus": config.num_gpus_per_worker,
            "resources": dict(config.custom_resources_per_worker),
        }
        if config.memory_per_worker:
            resources["memory"] = config.memory_per_worker
        resources |= started_with(config)
        place = ACTOR if config.num_workers else HERE
        if is_served(config) and self._cluster.is_remote:
            policy_server.announce(config.policy_server, index, config.num_envs_per_worker)  # type: ignore[attr-defined]
        args = (config, env, self._setup.policies or self._setup.spec, identity, self._server)
        return self._cluster.spawn(f"worker {index}", self._worker, args, place, resources)

    def _identity(self, index: int, incarnation: int, standing: Standing) -> WorkerIdentity | ReaderIdentity:
        config = self._setup.config
        streams = sources(config) * config.num_envs_per_worker
        exploring = exploration_settings(config) if isinstance(config, RolloutKeys) else {}
        left = max(0, exploring.get("random_timesteps", 0) - standing.sampled)
        identity: WorkerIdentity = {
            "seed": self._setup.seed,
            "index": index,
            "incarnation": incarnation,
            "random_steps": math.ceil(left / streams),
            "stream": index * config.num_envs_per_worker,
            "streams": streams,
            "base": standing.sampled,
        }
        if self._files.output is not None:
            identity["output"] = self._files.output
        if (keeper := self._files.keeper()) is not None:
            identity["keeper"] = keeper
        if loop_kinds.kind_of(self._setup.row).learner is None:
            identity["learns"] = {"graph": self._setup.row.graph, "nets": self._setup.row.nets}
        if not reads(config):
            return identity
        return {**identity, "number": index, "workers": max(1, config.num_workers), "behind": standing.behind}

    def _env(self) -> dict[str, Any]:
        given = self._setup.env
        env = {name: given.get(name, ()) for name in ("id", "env_config", "imports", "plugins")}
        env["preprocessing"] = given.get("preprocessing")
        if given.get("task"):
            env["task"] = given["task"]
        if given.get("videos"):
            env["videos"] = given["videos"]
        if reads(self._setup.config) or is_served(self._setup.config):
            env["spaces"] = given["spaces"] | {"frames": self._setup.spec.frames}
        if given.get("agents"):
            env["agents"] = given["agents"]
        return env


def make_tester(setup: RunSetup, cluster: Cluster, server: Handle) -> Handle | ManyTesters:
    """Make the tester, or the testers, that the config asks for; theirs is the run's with ``evaluation_config`` over it."""
    config, env = setup.config, setup.env
    over = config.evaluation_config
    setting = {
        "id": env["id"],
        "env_config": laid_over(env["id"], env["env_config"], over.env_config or {}),
        "imports": env.get("imports", ()),
        "plugins": env.get("plugins"),
        "horizon": over.horizon if over.horizon is not None else config.horizon,
        "max_steps": config.evaluation_max_steps,
        "explore": over.explore,
        "preprocessing": for_scoring(env.get("preprocessing")),
        "fresh_envs": config.fresh_envs,
        "config": config if methods(config) else None,
        "callbacks": config.callbacks,
        "custom_eval_function": config.custom_eval_function,
    }
    if env.get("task"):
        setting["task"] = env["task"]
    kind, spec = loop_kinds.TESTER, setup.spec
    if setup.policies is not None:
        kind, spec, setting["agents"] = loop_kinds.AGENTS_TESTER, setup.specs, env["agents"]
    count = config.evaluation_num_workers
    if count <= 1 or not cluster.is_remote:
        return cluster.spawn("tester", kind, (setting, spec, server), ACTOR, started_with(config))
    names = [f"tester {index}" for index in range(count)]
    return ManyTesters(
        cluster.spawn(name, kind, (setting, spec, server), ACTOR, started_with(config)) for name in names
    )


def started_with(config: CommonKeys) -> dict[str, Any]:
    """Return the resources of ``spawn`` with which an actor's process has the variables for workers."""
    given = as_strings(config.extra_python_environs_for_worker)
    return {"runtime_env": {"env_vars": given}} if given else {}
