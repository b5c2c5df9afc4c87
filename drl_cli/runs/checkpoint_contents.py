"""What a checkpoint holds, as plain data: what it learnt, how far it got, its policy, its arrays, what can be done with it.

Used by ``drl checkpoint info``, whose help lists the keys. Reads headers and JSON; needs neither TensorFlow nor Ray.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli import checkpoints
from drl_cli.checkpoints import Checkpoint
from drl_cli.checkpoints.files import COMMIT
from drl_cli.config.env_names import displayed
from drl_cli.errors import CheckpointError, InputError, RunFolderError
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.nets import Residual
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.runs import retention
from drl_cli.runs.run_folder import is_locked, read_record

if TYPE_CHECKING:
    from drl_cli.policies.nets import Layer, NetSpec
    from drl_cli.policies.policy_spec import PolicySpec

PACKAGES = ("numpy", "tensorflow", "ray", "gymnasium")


def holding(path: Path | str, latest: bool = False) -> dict[str, Any]:
    """Return what the checkpoint that ``path`` means holds: the dict of ``drl checkpoint info --json``.

    path: as ``retention.find`` takes it. Raises CheckpointError for damage outside of the replay.
    """
    found = checkpoints.load(retention.find(path, latest))
    facts, run = found.facts, _run_of(found.path)
    specs, why_not = _specs(facts)
    return {
        "path": str(found.path),
        "run": run and str(run),
        "saved": _time(found.path / COMMIT),
        "algorithm": facts.get("algorithm"),
        "env": facts.get("env") and displayed(facts["env"], facts.get("env_config")),
        "seed": facts.get("seed"),
        "training_iteration": found.number,
        "counters": facts.get("counters") or {},
        "score": facts.get("score") or {},
        "versions": _versions(facts, run),
        "size": sum(entry["size"] for entry in found.listing.values()),
        "files": [{"name": name, **entry} for name, entry in sorted(found.listing.items())],
        "policy": _policy(specs[DEFAULT_POLICY], facts.get("spaces")) if DEFAULT_POLICY in specs else None,
        **({"policies": _policies(specs, facts["agents"])} if specs and facts.get("agents") else {}),
        "arrays": _arrays(found),
        "replay": _replay(found),
        "can": _can(found, run, specs, why_not),
    }


def _run_of(path: Path) -> Path | None:
    """The folder of the run that a checkpoint is in, or None."""
    try:
        params = read_record(path.absolute().parent / "params.json")
    except RunFolderError:  # as a run without one
        return None
    return path.absolute().parent if params and isinstance(params.get("run"), str) else None


def _time(path: Path) -> str:
    when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc)
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _specs(facts: Mapping[str, Any]) -> tuple[dict[str, PolicySpec], str | None]:
    """Return ({policy id: PolicySpec}, None), or ({}, why they cannot be read)."""
    try:
        return policy_from_manifest.policy_specs(facts), None
    except InputError as error:  # damage, or a custom network that is not registered here
        return {}, str(error)


def _versions(facts: Mapping[str, Any], run: Path | None) -> dict[str, Any]:
    """What it was made with: drl, and of a checkpoint in its run Python and the packages that matter."""
    found = {"drl": facts.get("drl_version")}
    try:
        made = (run and read_record(run / "versions.json")) or {}
    except RunFolderError:  # a damaged record costs its lines, not the rest
        return found
    packages = made.get("packages")
    if isinstance(made.get("python"), str):
        found["python"] = made["python"]
    if isinstance(packages, dict):
        found |= {name: packages[name] for name in PACKAGES if isinstance(packages.get(name), str)}
    return found


def _policies(specs: Mapping[str, PolicySpec], agents: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each policy by its id, with the agents that it may act for and whether it learns."""
    found = {}
    for name, spec in specs.items():
        own = agents["policies"][name]
        facts = {"agents": list(own["agents"]), "trained": own["is_trained"], "differs_in": own["config"]}
        found[name] = facts | _policy(spec, own["spaces"])
    return found


def _policy(spec: PolicySpec, spaces: Mapping[str, Any] | None) -> dict[str, Any]:
    space = (spaces or {}).get("obs") or {}
    action = {name: value for name, value in spec.to_dict()["action"].items() if name != "kind"}
    return {
        "distribution": spec.custom[0] if spec.custom else spec.distribution,
        "obs": {
            "shape": list(spec.obs_shape),
            "dtype": spec.obs_dtype,
            "frames": spec.frames,
            "mask": list(spec.mask) or None,
            "low": space.get("low"),
            "high": space.get("high"),
        },
        "action": {"kind": spec.action.kind, **action},
        "filter": spec.filter,
        "scaled_rewards": spec.scaled,
        "memory": [list(shape) for shape in spec.state],
        "sees_previous": spec.previous,
        "values": spec.to_dict()["value"],
        "team": _team(spaces or {}),
        "nets": [_net(net) for net in spec.nets],
        "weights": sum(math.prod(shape) for shape in spec.weight_shapes().values()),
    }


def _team(spaces: Mapping[str, Any]) -> list[str] | None:
    """Return the agents that the policy of a team acts for all at once; None of one agent."""
    team = spaces.get("team")
    agents = team.get("agents") if isinstance(team, dict) else None
    return [str(agent) for agent in agents] if isinstance(agents, list) else None


def _net(net: NetSpec) -> dict[str, Any]:
    return {
        "name": net.name,
        "inputs": dict(net.inputs),
        "image": list(net.image) or None,
        "custom": net.custom[0] if net.custom else None,
        "convs": [[conv.filters, conv.kernel, conv.stride] for conv in net.convs],
        "layers": [units for layer in net.layers for units in _units(layer)],
        "residual": any(isinstance(layer, Residual) for layer in net.layers),
        "activations": sorted({layer.activation for layer in (*net.convs, *net.layers)}),
        "lstm": net.lstm,
        "heads": dict(net.heads),
        "copies": net.copies,
        "weights": sum(math.prod(shape) for shape in net.weight_shapes().values()),
    }


def _units(layer: Layer) -> list[int]:
    """Return the units of a layer, of residual blocks those of each."""
    return [layer.units] * layer.blocks if isinstance(layer, Residual) else [layer.units]


def _arrays(found: Checkpoint) -> list[dict[str, Any]]:
    """Every array of every file: name, dtype, shape, bytes it takes in the file."""
    stems = [entry["name"].removesuffix(".safetensors") for entry in _safetensors(found)]
    return [
        {"file": f"{stem}.safetensors", "name": name, "dtype": dtype, "shape": list(shape), "bytes": size}
        for stem in stems
        for name, (dtype, shape, size) in found.listed(stem).items()
    ]


def _safetensors(found: Checkpoint) -> list[dict[str, Any]]:
    return [{"name": name, **entry} for name, entry in sorted(found.listing.items()) if name.endswith(".safetensors")]


def _replay(found: Checkpoint) -> dict[str, Any] | None:
    """Rows (steps, and the observations after episodes' ends) and bytes of the replay, None without one."""
    shards = found.files("replay")
    if not shards:
        return None
    size = sum(entry["size"] for entry in found.listing.values() if entry["part"] == "replay")
    rows = [found.listed(stem).get("link") for stem in shards if f"{stem}.safetensors" in found.listing]
    counts = [one.shape[0] for one in rows if one is not None]
    is_whole = bool(rows) and len(counts) == len(rows)
    return {"shards": len(shards), "rows": sum(counts) if is_whole else None, "bytes": size}


def _can(
    found: Checkpoint, run: Path | None, specs: Mapping[str, PolicySpec], why_not: str | None
) -> dict[str, dict[str, Any]]:
    """Whether it can be played, restored from (a new run) and resumed (its run continues), and why not."""
    weights = set(found.listed("weights")) if found.has("weights") else set()
    missing = _missing(specs, weights)
    play = why_not or (f"Its weights lack {missing}." if missing else None)
    restore = play or (
        None if found.has("state") else "It holds no state.json: counters and random states are missing."
    )
    reasons = {"play": play, "restore": restore, "resume": restore or _not_resumed(found, run)}
    return {name: {"possible": why is None, "why": why} for name, why in reasons.items()}


def _missing(specs: Mapping[str, PolicySpec], weights: set[str]) -> str | None:
    named = ((policy, name) for policy, spec in specs.items() for name in spec.weight_names())
    return next((name for policy, name in named if f"{policy}/{name}" not in weights), None)


def _not_resumed(found: Checkpoint, run: Path | None) -> str | None:
    """Why ``drl train --resume`` would not continue from here, or None."""
    if run is None:
        return "It is not in the folder of its run. Start a new run from it: drl train --restore"
    if is_locked(run):
        return "Its run goes on."
    first = next((path for path in _by_age(run) if _goes_on_from(path, found)), None)
    if first is None or first.resolve() != found.path.resolve():
        return f"Its run would go on from {first.name if first else 'another one'}."
    return None


def _by_age(run: Path) -> list[Path]:
    return [path for _, path in reversed(retention.numbers(run))]


def _goes_on_from(path: Path, found: Checkpoint) -> bool:
    """Whether a run is resumed from ``path``: the newest whole one, with a replay where its run stores one."""
    try:
        other = checkpoints.load(path)
    except CheckpointError:
        return False
    stores = (found.facts.get("config") or {}).get("store_buffer_in_checkpoints")
    return other.has("state") and (other.has("replay") or not stores or not _any_replay(path.parent))


def _any_replay(run: Path) -> bool:
    for path in _by_age(run):
        try:
            if checkpoints.load(path).has("replay"):
                return True
        except CheckpointError:
            continue
    return False
