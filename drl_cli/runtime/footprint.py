"""What a run will take before it has begun: memory of its replay and processes, disk of its checkpoints.

Used by ``experiment`` (a replay that cannot fit is refused) and by ``checks.run_plan``. Sizes of arrays are computed
from what the parts would allocate; those of processes were measured once (2 cores, Python 3.11, Ray 2.60, TensorFlow
2.21) and rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from drl_cli.actors import replay_buffer
from drl_cli.algorithms import table
from drl_cli.algorithms.impala import StreamKeys
from drl_cli.algorithms.table import Algorithm
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.deterministic import sources
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.config.sections.replay import BufferKeys, shards
from drl_cli.config.sections.resources import compiles, learners
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.errors import ResourcesExhausted
from drl_cli.evolution.keys import ESConfig
from drl_cli.experience.columns import BATCH
from drl_cli.extras import load
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.runtime import assembly, loop_kinds, machine
from drl_cli.runtime.assembly import RunSetup

MB = 2**20
PLAIN, TENSORFLOW = 80 * MB, 700 * MB  # a process with NumPy; one that has loaded TensorFlow and compiled a graph (XLA)
# The memory of such a process without the pages of libraries, which the kernel reads again when it needs them: less is too
# little. Measured 248 with uncompiled updates; compiled 399 (DQN) and 456 (SAC).
LEAST, LEAST_COMPILED = 250 * MB, 400 * MB
RAY_DAEMONS, ACTOR = 350 * MB, 90 * MB  # gcs, raylet, agents; an actor that acts in NumPy, without its environments
ENV_PROCESS = 40 * MB  # of remote_worker_envs: NumPy, gymnasium and Box2D; measured 35 of its own
PER_ENV = 2 * MB  # Box2D's; a game of Atari takes 10
BLOCKS = 3  # batches of a replay under way: prepared, running, and what is drawn for the next
PACKED = 0.15  # of an image's bytes once it is compressed; measured 0.04 to 0.27 over five games


class Replay(NamedTuple):
    """``row``: bytes of an env step; ``capacity``: env steps; ``used``: those that the run will fill; bytes of both.

    ``is_packed``: rows are compressed, so that their bytes are an estimate.
    """

    row: float
    capacity: int
    used: int
    is_packed: bool

    @property
    def full_bytes(self) -> int:
        """Bytes of the full replay."""
        return int(self.row * self.capacity)

    @property
    def used_bytes(self) -> int:
        """Bytes of what the run fills."""
        return int(self.row * self.used)


def replay(row: Algorithm, config: CommonKeys, policy: PolicySpec, stop: Mapping[str, float]) -> Replay | None:
    """Return the Replay of an algorithm (``row`` of the table), None where it has none.

    ``policy``: PolicySpec; ``stop``: the stop rules, of which env steps bound what is filled.
    """
    if not table.learns_from_replay(row) or not isinstance(config, BufferedKeys):
        return None
    size = replay_buffer.bytes_per_step(config, policy)
    is_packed = config.compress_observations
    if is_packed:
        obs = math.prod(policy.obs_shape) * (1 if policy.obs_dtype == "uint8" else 4)
        # What remains of an image, and the object that each row is; a vector does not shrink.
        size += (PACKED * obs if len(policy.obs_shape) == 3 else obs) + 49 - obs
    ends = stop.get("timesteps_total")
    used = config.buffer_size if ends is None else min(config.buffer_size, math.ceil(ends))
    return Replay(size, config.buffer_size, used, is_packed)


def learning(setup: RunSetup) -> list[tuple[CommonKeys, PolicySpec, int]]:
    """Return (config, spec, agents) of every policy that learns."""
    if setup.policies is None:
        return [(setup.config, setup.spec, 1)]
    return [(own.config, own.spec, len(own.agents)) for own in setup.policies.values() if own.is_trained]


def replays(setup: RunSetup, stop: Mapping[str, float]) -> Replay | None:
    """Return the replays of all policies as one, in env steps of which each has a row of every agent; None without any."""
    row = full = used = 0.0
    is_packed = False
    for config, spec, agents in learning(setup):
        ends = {"timesteps_total": agents * stop["timesteps_total"]} if "timesteps_total" in stop else {}
        own = replay(setup.row, config, spec, ends)
        if own is None:
            return None
        row, full, used = row + agents * own.row, full + own.full_bytes, used + own.used_bytes
        is_packed = is_packed or own.is_packed
    return Replay(row, round(full / row), round(used / row), is_packed)


def blocks(row: Algorithm, config: CommonKeys, policy: PolicySpec) -> int:
    """Return the bytes of the batches that are staged for the learner, or of the trajectories that it learns from."""
    obs = math.prod(policy.obs_shape) * policy.frames * (1 if policy.obs_dtype == "uint8" else 4)
    action = 4 * max(1, math.prod(policy.action.shape))
    if isinstance(config, BufferKeys):
        steps = config.updates_per_call * config.train_batch_size
        return BLOCKS * steps * (2 * obs + action + 4 * len(BATCH))
    queue = config.learner_queue_size if isinstance(config, StreamKeys) else 1
    # A3C's gradient is of one fragment; evolution has no batch.
    steps = config.train_batch_size if isinstance(config, (TrajectoryKeys, ESConfig)) else 0
    steps = assembly.fragment_steps(config) if steps is None else steps
    return 2 * max(1, queue) * steps * (obs + action + 40)


def weights(row: Algorithm, config: CommonKeys, policy: PolicySpec) -> tuple[int, int]:
    """Return (numbers of the nets, bytes of a checkpoint's weights with targets and Adam's moments)."""
    first = load(row.nets).initial_weights(config, policy, config.seed or 0)
    whole = sum(array.nbytes for array in first.values())
    acting = sum(first[name].size for name in policy.weight_names() if name in first)
    return acting, 3 * whole


def processes(
    row: Algorithm, config: CommonKeys, options: Mapping[str, Any], at_once: int | None = None
) -> list[tuple[str, int, int]]:
    """Return [(what, count, bytes each)] of the processes of a run, its own first; ``options``: those of Ray.

    ``at_once``: of a search that has so many trials side by side, all on one Ray.
    """
    if at_once is not None:
        trial = processes(row, config, {**options, "address": "the search's"})
        own_ray = [] if options.get("address") else [("Ray's own", 1, RAY_DAEMONS)]
        return [("the search", 1, ACTOR), *((what, at_once * count, size) for what, count, size in trial), *own_ray]
    in_workers = loop_kinds.kind_of(row).learner is None
    learns_here = not config.learner_actor and not in_workers
    base = TENSORFLOW if row.tensorflow and (learns_here or not config.num_workers) else PLAIN
    envs = math.ceil(sources(config) / max(1, config.num_workers)) * config.num_envs_per_worker * PER_ENV
    elsewhere = []
    if isinstance(config, RolloutKeys) and config.remote_worker_envs and config.num_envs_per_worker > 1:
        elsewhere = [("environments", sources(config) * config.num_envs_per_worker, ENV_PROCESS)]
    if not assembly.needs_ray(config):
        return [("the run: learner, sampling, evaluation", 1, base + envs), *elsewhere]
    inside = ["driver", *(["learner"] if learns_here else [])]
    apart = isinstance(config, BufferKeys) and bool(config.num_workers and config.num_replay_shards)
    if table.learns_from_replay(row) and not apart:
        inside.append("replay")
    found = [(f"the run: {', '.join(inside)}", 1, base)]
    if config.learner_actor:
        found.append(("learner", 1, TENSORFLOW if row.tensorflow else ACTOR))
    if learners(config) > 1:
        found.append(("more learners", learners(config) - 1, TENSORFLOW))
    if isinstance(config, StreamKeys) and config.num_aggregation_workers:
        found.append(("aggregators", config.num_aggregation_workers, ACTOR))
    if config.num_workers:
        found.append(("workers", config.num_workers, (TENSORFLOW if in_workers else ACTOR) + envs))
    found += elsewhere
    found += [("parameter server", 1, ACTOR), ("tester", 1 if config.evaluation_interval else 0, ACTOR + 16 * PER_ENV)]
    if apart and isinstance(config, BufferKeys):
        found.append(("replay shards", shards(config), ACTOR))
    if not options.get("address"):
        found.append(("Ray's own", 1, RAY_DAEMONS))
    return [entry for entry in found if entry[1]]


def check_replay(setup: RunSetup, stop: Mapping[str, float]) -> None:
    """Raise ResourcesExhausted, with the numbers, where what a run puts into its replay cannot fit into memory at all."""
    total = machine.memory_total()
    if total is None or reads_only(setup.config):  # files may be far smaller than the buffer
        return
    found = replays(setup, stop)
    if found is None:
        return
    base = _least(setup)
    room = total - base
    if found.used_bytes <= room:
        return
    if room < found.row:
        raise ResourcesExhausted(_without_room(setup, base, total))
    most = int(max(total - TENSORFLOW, room / 2) / found.row)
    advice = f"{most:,} fit with room to spare: -s buffer_size={most}"
    if setup.spec.sees_images and not found.is_packed:
        advice += ", or -s compress_observations=true"
    raise ResourcesExhausted(
        f"buffer_size {found.capacity:,} does not fit into memory: {found.used:,} env steps of {found.row:,.0f} bytes are "
        f"{sized(found.used_bytes)}, this machine has {sized(total)}, {sized(room)} of them for a replay. {advice}."
    )


def _least(setup: RunSetup) -> int:
    """Return the bytes without which the run's own process cannot be, beside its replay."""
    if not setup.row.tensorflow:
        return PLAIN
    return LEAST_COMPILED if compiles(setup.config, setup.spec.sees_images) else LEAST


def _without_room(setup: RunSetup, base: int, total: int) -> str:
    what = "a run with TensorFlow" if setup.row.tensorflow else "a run"
    smaller = f"-s xla=false needs {sized(LEAST)}; or raise" if base == LEAST_COMPILED and total > LEAST else "Raise"
    return (
        f"{what} takes at least {sized(base)} of memory beside its replay, and this machine has {sized(total)}. {smaller} "
        "the limit of the container (docker run --memory), or use a larger machine."
    )


def sized(count: int) -> str:
    """Return bytes as people read them: 73 MB, 1.4 GB."""
    for size, name in ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {name}" if count < 100 * size else f"{count / size:,.0f} {name}"
    return f"{count:,.0f} bytes"
