"""The state of a whole run, written as a checkpoint. ``runtime.run_restore`` is the way back.

Every part hands over its own state as arrays and plain data, the replay writes its own file; ``state.json`` holds all plain
data (counters, random states, windows of metrics), ``workers.safetensors`` the actions of running episodes. Used by
``runtime.driver``.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from drl_cli import checkpoints
from drl_cli.config.plain_data import redact
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.contracts import Call, Handle
from drl_cli.errors import Overdue
from drl_cli.runs import retention
from drl_cli.runtime.assembly import Parts, RunSetup
from drl_cli.version import __version__

STATE_S = 0.5  # for the state of a learner that is idle


class Counters(TypedDict):
    """What names a moment of a run."""

    training_iteration: int
    timesteps_total: int
    episodes_total: int
    num_updates: int
    time_total_s: float


class RunMoment(TypedDict):
    """The plain data that belongs to what the learner holds at that moment."""

    counters: Counters
    loop: dict[str, Any]  # of ``Loop.state``
    version: int  # of the newest weights


class _Driven(RunMoment):
    scoring: dict[str, Any]  # of ``Scoring.state``
    incarnations: dict[str, int]  # {worker index: how often it was replaced}


class RunState(_Driven, total=False):
    """What ``state.json`` holds of the driver; of the parts it holds ``replay``, ``workers`` and ``exact`` too."""

    callbacks: Any  # what the driver's object of callbacks keeps
    task: list[Any]  # a list with the task of a curriculum


def save(
    setup: RunSetup,
    parts: Parts,
    run_folder: Path,
    state: RunState,
    scored: dict[str, Any] | None,
    check: Callable[[], object],
) -> Path:
    """Write a checkpoint of a run whose loop is at rest; returns its path. OSError when the disk refuses.

    ``state``: of the driver; ``scored``: the newest evaluation. ``check`` is called again and again; what it raises ends the
    save, of which nothing is left.
    """
    config, replay = setup.config, parts.replay
    with checkpoints.Writer(run_folder, state["counters"]["training_iteration"], check) as writer:
        arrays = parts.learner.call("state").result()
        checkpoints.write_arrays(writer.folder / "weights.safetensors", arrays)
        workers = parts.pool.states()
        if replay is None:
            shards = None
        elif isinstance(config, BufferKeys) and config.store_buffer_in_checkpoints:
            shards = replay.save(writer.folder, config.checkpoint_compress, check)
        else:
            shards = replay.facts()
        facts, stored = {}, {}
        for index, (own, facts[str(index)]) in workers.items():
            stored.update({f"{index}/{name}": array for name, array in own.items()})
        checkpoints.write_arrays(writer.folder / "workers.safetensors", stored)
        whole = len(facts) == parts.pool.size
        checkpoints.write_json(
            writer.folder / "state.json", {**state, "replay": shards, "workers": facts, "exact": whole}
        )
        return writer.commit(manifest(setup, state, scored))


def save_learner(
    setup: RunSetup, run_folder: Path, arrays: Mapping[str, np.ndarray], state: RunState, scored: dict[str, Any] | None
) -> Path:
    """Write a checkpoint of the learner alone, ``arrays`` of the moment of ``state``: no replay, no running episodes."""
    with checkpoints.Writer(run_folder, state["counters"]["training_iteration"]) as writer:
        checkpoints.write_arrays(writer.folder / "weights.safetensors", arrays)
        checkpoints.write_arrays(writer.folder / "workers.safetensors", {})
        checkpoints.write_json(writer.folder / "state.json", {**state, "replay": None, "workers": {}, "exact": False})
        return writer.commit(manifest(setup, state, scored))


class StatesAtHand:
    """States of the learner that can be saved although it is busy: those that were requested between iterations."""

    def __init__(self) -> None:
        self._asked: list[tuple[Call, RunMoment]] = []

    def ask(self, learner: Handle, moment: RunMoment) -> None:
        """Ask for the state of ``moment``, which is the present one; the newest two are kept."""
        self._asked = [*self._asked[-1:], (learner.call("state"), moment)]

    def known(self) -> list[tuple[Mapping[str, np.ndarray], RunMoment]]:
        """Return [(arrays, moment)] of those that have come."""
        return [(call.result(), moment) for call, moment in self._asked if call.done()]


def at_once(learner: Handle, moment: Callable[[], RunMoment]) -> list[tuple[Mapping[str, np.ndarray], RunMoment]]:
    """Return [(arrays, ``moment()``)] of a learner that is idle, [] of one that is busy."""
    with contextlib.suppress(concurrent.futures.TimeoutError):  # it is busy after all
        return [(learner.call("state").result(STATE_S), moment())]
    return []


def newest(
    known: list[tuple[Mapping[str, np.ndarray], RunMoment]], run_folder: Path
) -> tuple[Mapping[str, np.ndarray], RunMoment]:
    """Return the state with the most updates; Overdue where none is newer than the checkpoints of ``run_folder``."""
    saved = max((number for number, _ in retention.numbers(run_folder)), default=-1)
    found = max(known, key=lambda one: one[1]["counters"]["num_updates"], default=None)
    if found is not None:
        counters = found[1]["counters"]
        if counters["num_updates"] and counters["training_iteration"] > saved:
            return found
    raise Overdue("What was learnt since the last checkpoint is not saved: the learner is busy.")


def manifest(setup: RunSetup, state: RunMoment, scored: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts of a checkpoint for ``manifest.json``."""
    scored, config, env = scored or {}, setup.config, setup.env
    confirmed, mean = scored.get("confirmed_reward_mean"), scored.get("episode_reward_mean")
    return {
        "drl_version": __version__,
        "algorithm": setup.row.name,
        "env": env["id"],
        "env_asked": env["asked"],
        "env_config": redact(env["env_config"]),
        "horizon": config.horizon,
        "spaces": env["spaces"],
        "preprocessing": env.get("preprocessing"),
        "policies": {name: spec.to_dict() for name, spec in setup.specs.items()},
        **({"agents": env["agents"]} if env.get("agents") else {}),
        "config": redact(config.model_dump(mode="json", by_alias=True)),
        "counters": state["counters"],
        "score": {
            "episode_reward_mean": state["loop"]["meters"]["reward_mean"],
            "evaluation_reward_mean": mean if confirmed is None else confirmed,
        },
        "seed": config.seed,
    }
