"""The resources a run would take: processes, memory, disk, time, and whether they suffice. User: ``drl train --plan``.

Sizes come from ``runtime.footprint``, times from ``checks.run_time``. A search is planned by its largest trial, times the
number in parallel, which follows from the CPUs (and GPUs) of a trial, as ``search.run_search`` starts Ray. The size of a
running Ray cluster is not known here: it is taken to be that of this machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drl_cli.algorithms import table
from drl_cli.checks import cluster_scale, run_time
from drl_cli.checks.cluster_scale import ClusterShape
from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding
from drl_cli.config.sections.common import steps_per_iteration
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.resources import learners, total
from drl_cli.envs import make
from drl_cli.runtime import assembly, footprint, loop_kinds, machine
from drl_cli.runtime.footprint import sized

if TYPE_CHECKING:
    from drl_cli.algorithms.row import Algorithm
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.experiments.search_spec import SearchSpec
    from drl_cli.experiments.spec import ExperimentSpec
    from drl_cli.runtime.assembly import RunSetup

OBJECT_STORE = 256 * 2**20  # of the Ray that a run starts
SCALE_PROBE_WORKERS = 2  # that send what is measured for ``--scale``
LOG_ROW = 6_000  # bytes of result.json and progress.csv for each iteration
LOGS = 40 * 2**20  # drl.log with its older parts, TensorBoard's file


@dataclass(frozen=True)
class Trials:
    """The trials of a search: how many there are, how many run side by side, which of them is planned."""

    count: int
    at_once: int
    trial: int


def plan(
    spec: ExperimentSpec,
    probe: bool = True,
    progress: Callable[[str], object] = lambda text: None,
    trials: Trials | None = None,
    scale: ClusterShape | None = None,
) -> dict[str, Any]:
    """Return the plan of an ExperimentSpec as plain data, see ``drl train --plan``.

    ``probe``: whether to measure its speed. ``progress(text)`` is called before that, since it takes a while. ``trials``:
    the Trials of a search, of which ``spec`` is one: memory, disk and time are then those of the search. ``scale``: the
    cluster of which is said what saturates first.
    """
    row, config = table.find(spec.run), spec.config
    setup = assembly.setup_of(row, config, spec.env_facts)
    numbers, weights = _weights(setup)
    document = {
        "run": spec.run,
        "env": spec.env,
        "experiment": spec.name,
        "stop": dict(spec.stop),
        "config": config.model_dump(mode="json", by_alias=True),
        "weights": numbers,
        "policies": _acting(spec),
        "processes": [
            {"what": what, "count": count, "bytes_each": size}
            for what, count, size in footprint.processes(row, config, spec.ray, trials and trials.at_once)
        ],
        "trials": trials and dataclasses.asdict(trials),
    }
    document["memory"], findings = _memory(setup, spec, document["processes"], trials)
    document["disk"], more = _disk(spec, weights, document["memory"], trials)
    findings += more + (_side_by_side(trials) if trials else _processors(row, config))
    document["probe"], document["time"], document["scale"] = None, None, None
    if reads_only(config):
        findings.append(Finding("time", NOTE, "is not estimated for offline data"))
    if probe and not reads_only(config) and all(one.state != FAIL for one in findings):
        progress(f"measuring its speed: a few seconds, up to {run_time.PROBE_LIMIT_S:.0f} where compiling takes long")
        measured, problem = run_time.probed(spec)
        document["probe"] = measured
        if problem:
            findings.append(problem)
        elif measured is not None:
            limits = [config.horizon, make.time_limit(spec.env)]
            measured["episode_limit"] = min((limit for limit in limits if limit), default=None)
            document["time"] = _time(row, spec, measured, trials)
            if scale is not None:
                document["scale"], told = _scaled(spec, measured, scale, document["memory"], progress)
                findings.append(told)
    document["findings"] = [one._asdict() for one in findings]
    document["fits"] = all(one.state != FAIL for one in findings)
    return document


def _time(row: Algorithm, spec: ExperimentSpec, probe: Mapping[str, Any], trials: Trials | None) -> dict[str, Any]:
    """Return what ``run_time.expected`` returns of a run; of a search, whose trials come in rounds, with the seconds of all."""
    if trials is None:
        return run_time.expected(row, spec.config, spec.stop, probe, machine.cores())
    at_once = max(1, trials.at_once)
    expected = run_time.expected(row, spec.config, spec.stop, probe, max(1, machine.cores() // at_once))
    if expected["seconds"] is None:
        return expected
    rounds = math.ceil(trials.count / at_once)
    return expected | {
        "seconds": rounds * expected["seconds"],
        "how": f"{rounds} x the time of a trial; {expected['how']}",
    }


def _scaled(
    spec: ExperimentSpec,
    probe: Mapping[str, Any],
    shape: ClusterShape,
    memory: Mapping[str, Any],
    progress: Callable[[str], object],
) -> tuple[dict[str, Any] | None, Finding]:
    """Return (what ``cluster_scale.expected`` says, or None, a Finding); ``memory``: of this machine, see ``_memory``."""
    row = table.find(spec.run)
    told = cluster_scale.unknown(row)
    if told is None and not probe["env_steps_per_s"]:
        told = Finding("scale", NOTE, "is not estimated: nothing was sampled in the probe")
    if told is not None:
        return None, told
    progress(f"measuring what passes between processes, with {SCALE_PROBE_WORKERS} workers")
    traffic, problem = run_time.probed(spec, SCALE_PROBE_WORKERS)
    if traffic is None:
        return None, problem or Finding("scale", NOTE, "is not estimated: nothing was measured")
    held = cluster_scale.held(row, spec, shape, memory, traffic)
    found = cluster_scale.expected(row, spec.config, shape, probe, traffic, held)
    return found, cluster_scale.finding(row, spec.config, found)


def _memory(
    setup: RunSetup,
    spec: ExperimentSpec,
    processes: Sequence[Mapping[str, Any]],
    trials: Trials | None,
) -> tuple[dict[str, Any], list[Finding]]:
    """Return (dict of bytes, Findings)."""
    config, at_once = spec.config, trials.at_once if trials else 1
    replay = footprint.replays(setup, spec.stop)
    own_ray = (trials or assembly.needs_ray(config)) and not spec.ray.get("address")
    store = int(spec.ray.get("object_store_memory") or OBJECT_STORE) if own_ray else 0
    sizes = {
        "processes": sum(one["count"] * one["bytes_each"] for one in processes),
        "replay": at_once * replay.used_bytes if replay else 0,
        "replay_full": at_once * replay.full_bytes if replay else 0,
        "bytes_per_env_step": replay.row if replay else None,
        "batches": at_once * _blocks(setup),
        "object_store": store,
        "total": 0,
        "free": machine.memory_free(),
        "of": machine.memory_total(),
    }
    sizes["total"] = sum(sizes[name] for name in ("processes", "replay", "batches", "object_store"))
    return sizes, [*_fits_memory(sizes), *_fits_shared(store, setup)]


def _fits_memory(sizes: Mapping[str, Any]) -> list[Finding]:
    if sizes["of"] is None:
        return [
            Finding("memory", NOTE, f"about {sized(sizes['total'])}; the available memory cannot be determined here")
        ]
    text = f"about {sized(sizes['total'])} of {sized(sizes['of'])}, {sized(sizes['free'])} of them free now"
    if sizes["total"] > sizes["of"]:
        largest = max(("replay", "processes", "batches"), key=lambda name: sizes[name])
        return [Finding("memory", FAIL, f"does not fit: {text}. Most is for: {largest}", _smaller(largest))]
    if sizes["total"] > sizes["free"]:
        return [Finding("memory", WARN, f"{text}: free some memory first")]
    return [Finding("memory", OK, text)]


def _smaller(largest: str) -> str:
    words = {"replay": "-s buffer_size=…", "processes": "-s num_workers=…", "batches": "-s train_batch_size=…"}
    return f"drl train … {words[largest]}"


def _acting(spec: ExperimentSpec) -> dict[str, list[str]] | None:
    """Return the agents that each policy may act for, by its id; None with one agent."""
    agents = spec.env_facts.get("agents")
    return agents and {policy: list(own["agents"]) for policy, own in agents["policies"].items()}


def _weights(setup: RunSetup) -> tuple[int, int]:
    """Return (numbers of the nets that act, bytes of a checkpoint's weights) of all policies; see ``footprint.weights``."""
    each = [footprint.weights(setup.row, config, spec) for config, spec, _ in footprint.learning(setup)]
    return sum(numbers for numbers, _ in each), sum(size for _, size in each)


def _blocks(setup: RunSetup) -> int:
    return sum(footprint.blocks(setup.row, config, spec) * n for config, spec, n in footprint.learning(setup))


def _fits_shared(store: int, setup: RunSetup) -> list[Finding]:
    if not store:
        return []
    total, free = machine.shared_memory()
    row, config, step = setup.row, setup.config, 0
    for _, policy, agents in footprint.learning(setup):
        step += agents * (math.prod(policy.obs_shape) * (1 if policy.obs_dtype == "uint8" else 4) + 40)
    fragment = assembly.fragment_steps(config) * step
    flying = 2 * max(1, config.num_workers) * fragment if row.postprocess != "fitness" else 0
    if flying > store:
        text = f"fragments in flight take {sized(flying)}, the object store has {sized(store)}"
        return [Finding("shared memory", FAIL, text, f"drl train … --ray-object-store-memory {2 * flying}")]
    if total is not None and total < store:
        text = f"the object store of {sized(store)} does not fit into /dev/shm ({sized(total)})"
        mend = f"drl train … --ray-object-store-memory {int(total * 0.8)}"
        return [Finding("shared memory", FAIL if flying > total else WARN, f"{text}; Ray will use the disk", mend)]
    left = "" if free is None else f" of {sized(free)} free"
    return [Finding("shared memory", OK, f"{sized(store)}{left} for Ray's object store")]


def _disk(
    spec: ExperimentSpec, weights: int, memory: Mapping[str, Any], trials: Trials | None
) -> tuple[dict[str, Any], list[Finding]]:
    """Return (dict, Findings): a checkpoint, how many are kept, and room for them."""
    config, iterations, count = spec.config, _iterations(spec), trials.count if trials else 1
    stored = memory["replay"] if isinstance(config, BufferKeys) and config.store_buffer_in_checkpoints else 0
    stored //= max(1, trials.at_once) if trials else 1
    periodic = 0
    if spec.checkpoint_freq:
        periodic = math.inf if iterations is None else iterations // spec.checkpoint_freq
        periodic = min(periodic, spec.keep_checkpoints_num or math.inf)
    kept = 2 + periodic  # the best and the newest
    logs = LOGS + LOG_ROW * (iterations or 0)
    # While the newest is written the one before is still there, with its replay.
    total = None if kept == math.inf else int(count * ((kept + 1) * weights + 2 * stored + logs))
    free = machine.disk_free(spec.local_dir)
    sizes = {
        "checkpoint": weights,
        "replay": stored,
        "kept": None if kept == math.inf else kept,
        "logs": logs,
        "total": total,
        "free": free,
        "folder": str(spec.local_dir),
    }
    return sizes, [_fits_disk(sizes, spec)]


def _fits_disk(sizes: Mapping[str, Any], spec: ExperimentSpec) -> Finding:
    one = f"{sized(sizes['checkpoint'])} a checkpoint"
    if sizes["replay"]:
        one += f", and up to {sized(sizes['replay'])} for the replay in the newest"
    if sizes["total"] is None:
        text = f"{one}; one every {spec.checkpoint_freq} iterations is kept, without limit"
        return Finding("disk", NOTE, text, "drl train … --keep-checkpoints-num 5")
    text = f"{one}: at most {sized(sizes['total'])} of {sized(sizes['free'] or 0)} free in {sizes['folder']}"
    if sizes["free"] is not None and sizes["total"] > sizes["free"]:
        mend = "-s store_buffer_in_checkpoints=false" if sizes["replay"] else "--keep-checkpoints-num 5"
        return Finding("disk", FAIL, f"does not fit: {text}", f"drl train … {mend}")
    return Finding("disk", OK, text)


def _processors(row: Algorithm, config: CommonKeys) -> list[Finding]:
    cores = machine.cores()
    more = learners(config) - 1
    has_learner = loop_kinds.kind_of(row).learner is not None
    busy = max(1, config.num_workers) + (1 if config.num_workers and row.tensorflow and has_learner else 0) + more
    if config.num_workers > cores:
        text = f"{config.num_workers} workers{' and the learner' if has_learner else ''} share {cores} cores"
        return [Finding("CPU", WARN, text, f"drl train … -s num_workers={cores}")]
    if more and busy > cores:
        text = f"{more + 1} learners and {config.num_workers} workers share {cores} cores"
        return [Finding("CPU", WARN, text, "drl train … -s num_learners=1")]
    return [
        Finding("CPU", OK, f"{busy} busy process{'es' if busy > 1 else ''} on {cores} core{'s' if cores > 1 else ''}")
    ]


def _side_by_side(trials: Trials) -> list[Finding]:
    cores = machine.cores()
    if trials.at_once < 1:
        return [Finding("CPU", FAIL, "a trial needs more CPUs or GPUs than Ray has", "drl train … -s num_workers=0")]
    side = "one at a time" if trials.at_once == 1 else f"{trials.at_once} in parallel"
    return [Finding("CPU", OK, f"{trials.count} trials, {side}, on {cores} core{'s' if cores > 1 else ''}")]


def _iterations(spec: ExperimentSpec) -> int | None:
    """Return how many iterations the stop rules allow, None for no bound."""
    bounds = []
    if "training_iteration" in spec.stop:
        bounds.append(math.ceil(spec.stop["training_iteration"]))
    if "timesteps_total" in spec.stop:
        bounds.append(math.ceil(spec.stop["timesteps_total"] / steps_per_iteration(spec.config)))
    return min(bounds, default=None)


def largest(found: SearchSpec) -> tuple[ExperimentSpec, Trials]:
    """Return (the ExperimentSpec whose run takes the most memory, Trials) of a search."""
    spec = max(found.specs, key=_trial_memory)
    trial = found.specs.index(spec)
    asked, ray = total(found.data["bundles"]), found.data["ray"]
    count = found.data["num_trials"]
    there = {"CPU": ray.get("num_cpus") or max(machine.cores(), math.ceil(asked.get("CPU", 0)))}
    if ray.get("num_gpus") is not None:
        there["GPU"] = ray["num_gpus"]
    fit = min((int(there[name] / asked[name] + 1e-9) for name in there if asked.get(name)), default=count)
    return spec, Trials(count, min(count, fit), trial)


def _trial_memory(spec: ExperimentSpec) -> int:
    """Return the bytes of the processes, the replay and the batches of one trial."""
    setup = assembly.setup_of(table.find(spec.run), spec.config, spec.env_facts)
    replay = footprint.replays(setup, spec.stop)
    processes = sum(count * size for _, count, size in footprint.processes(setup.row, spec.config, spec.ray))
    return processes + (replay.used_bytes if replay else 0) + _blocks(setup)
