"""Learner and replay on the node that has what they need: its GPU, its memory, custom resources of Ray.

Used by ``runtime.assembly``. Without the keys of this module both stay on the run's own node, so that losing another one costs
workers only. With them a part is placed wherever its resources are: on the run's node if that has them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from drl_cli import events
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.replay import BufferKeys, replay_resources, shards
from drl_cli.config.sections.resources import gpus
from drl_cli.contracts import Cluster, Handle
from drl_cli.errors import ClusterUnavailable, suggestion

PLACEMENT_S, NOTE_S = 120.0, 10.0
"""Seconds after which a part without a place ends the run, and between two lines about it."""


def learner_options(config: CommonKeys) -> dict[str, Any]:
    """Return the resources of ``spawn`` for the learner."""
    custom = dict(config.custom_resources_for_learner)
    if not (config.learner_actor and (custom or gpus(config))):
        return {"pinned": True, "num_gpus": gpus(config)}
    return {"near": True, "num_gpus": gpus(config), "resources": custom}


def replay_options(config: BufferKeys) -> dict[str, Any]:
    """Return the resources of ``spawn`` for a shard of the replay."""
    wanted = replay_resources(config)
    if not wanted:
        return {"pinned": True}
    memory = {"memory": int(wanted.pop("memory"))} if "memory" in wanted else {}
    return {"near": True, "resources": wanted, **memory}


def check(config: CommonKeys, cluster: Cluster) -> None:
    """Raise ClusterUnavailable unless some node has what the learner, and what a shard of the replay, requests.

    Nothing is refused where nodes without room are waited for (``--queue-trials``): they may still join.
    """
    if cluster.is_patient:
        return
    if config.learner_actor:
        own, gpu = config.custom_resources_for_learner, {"GPU": gpus(config)} if gpus(config) else {}
        _expect_a_node("the learner", "custom_resources_for_learner" if own else "num_gpus", {**own, **gpu}, cluster)
    if isinstance(config, BufferKeys):
        key = "custom_resources_for_replay" if config.custom_resources_for_replay else "memory_for_replay"
        what = "the replay" if shards(config) == 1 else f"each of the {shards(config)} shards of the replay"
        _expect_a_node(what, key, replay_resources(config), cluster)


def _expect_a_node(what: str, key: str, wanted: Mapping[str, float], cluster: Cluster) -> None:
    if not wanted:
        return
    nodes = cluster.nodes()
    if any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
        return
    custom = sorted({name for node in nodes for name in node if not name.startswith(("node:", "object_store"))})
    unknown = next((name for name in wanted if name not in custom), None)
    hint = suggestion(unknown, custom) if unknown else ""
    most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in wanted}
    there = ", ".join(f"{_amount(name, amount)} {name}" for name, amount in most.items())
    asks = ", ".join(f"{_amount(name, amount)} {name}" for name, amount in wanted.items())
    raise ClusterUnavailable(
        f"{key}: no node has what {what} requests ({asks}); the most that a node has: {there}.{hint} Resources of a node are "
        "named when it is started: ray start --resources '{\"NAME\": 1}'. --queue-trials waits for a node that joins."
    )


def _amount(name: str, amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if name == "memory" else f"{amount:g}"


def await_place(handle: Handle, cluster: Cluster) -> None:
    """Wait until the process of a part that is placed by its resources runs.

    Raises ClusterUnavailable after ``PLACEMENT_S`` seconds, unless nodes are waited for without end.
    """
    began, noted = time.monotonic(), time.monotonic()
    ready = handle.ready()
    while not cluster.wait([ready], 0.5):
        now = time.monotonic()
        if now - began > PLACEMENT_S and not cluster.is_patient:
            raise ClusterUnavailable(
                f"After {PLACEMENT_S:.0f} s {handle.name} has found no place: the nodes that have its resources are taken. "
                "Free them, or wait for longer with --queue-trials."
            )
        if now - noted > NOTE_S:
            noted = now
            events.report("warning", text=f"waiting for {handle.name} to be placed")
    ready.result()
