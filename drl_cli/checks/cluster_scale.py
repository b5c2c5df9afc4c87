"""Which part of a run saturates first on a larger cluster, from measured costs. User: ``drl train --plan --scale``.

A part carries so many env steps per second: workers what one of them samples times their number, the learner what its updates
allow, the driver a fragment per so many microseconds of its thread, the network of the learner's node the bytes of fragments
that come from other nodes and of weights that go there, and the memory of the nodes so many workers. Nodes are taken to be like
this machine, and nothing else to run there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from drl_cli.algorithms import table
from drl_cli.algorithms.impala import StreamKeys
from drl_cli.checks.findings import NOTE, OK, WARN, Finding
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.replay import BufferKeys, intensity
from drl_cli.config.sections.resources import LearnerKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.runtime import assembly, footprint
from drl_cli.runtime.footprint import sized

if TYPE_CHECKING:
    from drl_cli.algorithms.row import Algorithm
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.experiments.spec import ExperimentSpec

NAMES = {
    "fragments": "network into the learner's node",
    "weights": "network out of the learner's node",
    "memory": "memory of the nodes",
}
PER_WORKER = (
    "workers",
    "environments",
)  # of ``footprint.processes``; the others are taken to be on the node of the run
GIB = 2**30
LOOPS = ("sync", "stream", "replay")  # in which workers send fragments


class ClusterShape(NamedTuple):
    """The cluster that is asked about."""

    workers: int
    nodes: int
    cores: int  # of a node
    gbit: float  # per second, in each direction, of a node's network
    gib: float  # memory of a node


class Held(NamedTuple):
    """Bytes of memory: ``worker``: of one with its environments; ``run``: of all else on the node of the run.

    ``replay``: of ``run``; ``store``: of the fragments that are under way at once, in the object store of that node.
    """

    worker: int
    run: int
    replay: int
    store: int


def held(
    row: Algorithm, spec: ExperimentSpec, shape: ClusterShape, memory: Mapping[str, Any], traffic: Mapping[str, Any]
) -> Held:
    """Return what a run of ``shape`` holds in memory; ``memory``: bytes of "replay" and "batches", see ``checks.run_plan``."""
    config = spec.config.model_copy(update={"num_workers": shape.workers})
    parts = footprint.processes(row, config, spec.ray)
    each = sum(count * size for what, count, size in parts if what in PER_WORKER)
    rest = sum(count * size for what, count, size in parts if what not in PER_WORKER)
    calls = config.max_sample_requests_in_flight_per_worker if isinstance(config, StreamKeys) else assembly.OUTSTANDING
    under_way = shape.workers * calls * assembly.fragment_steps(config) * traffic["bytes_per_env_step"]
    own = rest + memory["replay"] + memory["batches"]
    return Held(each // shape.workers, own, memory["replay"], round(under_way))


def expected(
    row: Algorithm,
    config: CommonKeys,
    shape: ClusterShape,
    probe: Mapping[str, Any],
    traffic: Mapping[str, Any],
    memory: Held,
) -> dict[str, Any]:
    """Return {"cluster", "parts", "env_steps_per_s", "first", "measured", "memory"}.

    ``probe``, ``traffic``: rates in one process and costs between processes, see ``checks.run_probe``. "parts": [{"part",
    "env_steps_per_s": that it carries, null without bound, "workers": that saturate it, "why"}], the tightest first; "first":
    the first part to saturate with more and more workers, or "workers" where sampling is the bound on this cluster.
    """
    each = probe["env_steps_per_s"]
    places = max(1, min(shape.workers, shape.nodes * shape.cores - 1))  # the run takes a core itself
    sampling = places * each
    parts = {
        "workers": (sampling, _why_sampling(shape, places, each)),
        "learner": _learner(row, config, probe),
        "driver": _driver(config, traffic),
        "fragments": _inwards(shape, traffic),
        "weights": _outwards(config, shape, traffic),
        "memory": _memory(shape, memory, each),
    }
    rate, takes_turns = sampling, table.loop_name(row) == "sync"
    learner = parts["learner"][0]
    if takes_turns and learner:
        rate = 1 / (1 / sampling + 1 / learner)
    bounds = {name: value for name, (value, _) in parts.items() if value is not None and name != "workers"}
    first = min(bounds, key=lambda name: bounds[name], default="workers")
    if not bounds or bounds[first] >= sampling:
        first = "workers"
    others = [value for name, value in bounds.items() if not (takes_turns and name == "learner")]
    return {
        "cluster": shape._asdict(),
        "parts": [
            {"part": name, "env_steps_per_s": value, "workers": None if value is None else value / each, "why": why}
            for name, (value, why) in sorted(parts.items(), key=_tightest)
        ],
        "env_steps_per_s": min([rate, *others]),
        "first": first,
        "measured": dict(traffic),
        "memory": memory._asdict(),
    }


def finding(row: Algorithm, config: CommonKeys, found: Mapping[str, Any]) -> Finding:
    """Return the Finding that says what saturates first, and what would move it."""
    workers, first = found["cluster"]["workers"], found["first"]
    bounds = [one for one in found["parts"] if one["part"] != "workers" and one["workers"] is not None]
    if first == "workers":
        then = min(bounds, key=lambda one: one["workers"], default=None)
        later = f"; the {NAMES.get(then['part'], then['part'])} would, with {then['workers']:,.0f}" if then else ""
        return Finding("scale", OK, f"nothing saturates with {workers:,} workers{later}")
    at = next(one["workers"] for one in bounds if one["part"] == first)
    text = f"the {NAMES.get(first, first)} saturates first: {at:,.1f} of {workers:,} workers are enough for it"
    if first == "learner" and table.loop_name(row) == "sync":
        text = (
            f"workers and learner take turns: with {at:,.1f} of {workers:,} workers learning takes as long as sampling"
        )
    if first == "memory" and not at:
        text = f"the run does not fit into the memory of its node: {found['parts'][0]['why']}"
    half_is_replay = 2 * found["memory"]["replay"] > found["memory"]["run"]
    return Finding("scale", WARN, text, _mend(first, config, half_is_replay))


def unknown(row: Algorithm) -> Finding | None:
    """Return the Finding for a row whose workers send no fragments, None for the others."""
    if table.loop_name(row) in LOOPS:
        return None
    text = f"is not estimated for {row.name}: its workers send gradients or scores, not fragments"
    return Finding("scale", NOTE, text)


def _why_sampling(shape: ClusterShape, places: int, each: float) -> str:
    fewer = f" (there are cores for no more of the {shape.workers:,})" if places < shape.workers else ""
    return f"{places:,}{fewer}, {each:,.0f} env steps/s each"


def _learner(row: Algorithm, config: CommonKeys, probe: Mapping[str, Any]) -> tuple[float | None, str]:
    updates, asked = probe["updates_per_s"], probe["updates_per_env_step"]
    if table.learns_from_replay(row) and isinstance(config, BufferKeys):
        asked = intensity(config) / config.train_batch_size
    if not updates or not asked:
        return None, "no update was measured"
    return updates / asked, f"{updates:,.0f} updates/s, one for {1 / asked:,.4g} env steps"


def _driver(config: CommonKeys, traffic: Mapping[str, Any]) -> tuple[float | None, str]:
    steps, cost = assembly.fragment_steps(config), traffic["driver_us"]
    return (1e6 * steps / cost if cost else None), f"{cost:,.0f} microseconds for a fragment of {steps:,} env steps"


def _inwards(shape: ClusterShape, traffic: Mapping[str, Any]) -> tuple[float | None, str]:
    """Fragments that come from other nodes."""
    size, away = traffic["bytes_per_env_step"], (shape.nodes - 1) / shape.nodes
    why = f"{size:,.0f} bytes an env step, {away:.0%} of them from other nodes"
    return (_bytes(shape) / (size * away) if size and away else None), why


def _outwards(config: CommonKeys, shape: ClusterShape, traffic: Mapping[str, Any]) -> tuple[float | None, str]:
    """Weights that go to other nodes, a version once to each; a worker takes one at most once per fragment."""
    size, versions, away = traffic["weights_bytes"], traffic["versions_per_env_step"], (shape.nodes - 1) / shape.nodes
    per_step = size * min(versions * (shape.nodes - 1), away / assembly.fragment_steps(config))
    why = f"weights of {sized(size)} to a node, {per_step:,.1f} bytes an env step"
    return (_bytes(shape) / per_step if per_step else None), why


def _memory(shape: ClusterShape, memory: Held, each: float) -> tuple[float, str]:
    """Workers that fit: on the node of the run beside all else of it, on the others beside Ray's own processes."""
    room, run = shape.gib * GIB, memory.run + memory.store
    beside = max(0, int((room - run) // memory.worker))
    others = (shape.nodes - 1) * max(0, int((room - footprint.RAY_DAEMONS) // memory.worker))
    fit = beside + others if room >= run else 0
    why = (
        f"{fit:,} workers of {sized(memory.worker)} fit into {shape.nodes:,} x {shape.gib:,.4g} GiB, of which the run takes "
        f"{sized(memory.run)} ({sized(memory.replay)} of replay), fragments under way up to {sized(memory.store)}"
    )
    return fit * each, why


def _tightest(part: tuple[str, tuple[float | None, str]]) -> float:
    return float("inf") if part[1][0] is None else part[1][0]


def _bytes(shape: ClusterShape) -> float:
    return shape.gbit * 1e9 / 8


def _mend(first: str, config: CommonKeys, half_is_replay: bool) -> str | None:
    if first == "memory" and half_is_replay and isinstance(config, BufferedKeys):
        return f"drl train … -s buffer_size={config.buffer_size // 2}"
    if first == "driver":
        return f"drl train … -s rollout_fragment_length={4 * config.rollout_fragment_length}"
    if first == "weights" and isinstance(config, RolloutKeys):
        return "drl train … -s broadcast_dtype=float16"
    if first != "learner":
        return None
    if isinstance(config, BufferKeys):
        return f"drl train … -s training_intensity={intensity(config) / 2:g}"
    return "drl train … -s num_learners=2" if isinstance(config, LearnerKeys) else None
