"""GroupLearner and GroupReplay: one learner and one replay buffer per policy, with the interface of a single one.

A loop has one learner and one replay buffer, whatever the number of policies: each update of the loop updates every policy
that has experience. Columns, blocks, priorities and filter statistics are dictionaries by policy id here. The weights of all
policies have one version. The learners import TensorFlow when they are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli import checkpoints
from drl_cli.actors.multi_agent_worker import AgentColumns
from drl_cli.actors.opponent_pool import OpponentPool
from drl_cli.actors.part_records import BatchUpdateResult, LearnerIdentity, UpdateResult
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.contracts import Handle
from drl_cli.envs.multi_agent.policy_choice import ODDS
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Token
from drl_cli.extras import load


class _Pushed:
    """The completed call of a push."""

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> int:
        del timeout
        return 0


class _Outbox:
    """Takes the place of the parameter server for one learner: holds its weights until those of all are pushed together."""

    name, is_remote = "outbox", False

    def __init__(self) -> None:
        self.weights: Mapping[str, np.ndarray] | None = None
        self.scored: Mapping[str, np.ndarray] | None = None  # in place of the weights

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Take the weights of a ``push`` or ``load``, {policy id: {name: array}}: see ``ParameterServer``."""
        if method not in ("push", "load") or returns != 1:
            raise ValueError(f"a learner of one policy pushes; it does not {method}")
        (self.weights,) = args[0].values()
        (self.scored,) = (args[2] if len(args) > 2 and args[2] else {"": None}).values()
        return _Pushed()


class GroupLearner:
    """The learners of several policies. ``prepare`` must come before the first ``learn``."""

    def __init__(
        self,
        kind: Any,
        policies: Mapping[str, PolicySetup],
        graph: Any,
        initial: Mapping[str, Mapping[str, np.ndarray]],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """``kind``: dotted name of the class of the learners; ``initial``: {policy id: {name: array}} of the first weights."""
        self._policies, self._server = policies, server
        self._outboxes = {name: _Outbox() for name, setup in policies.items() if setup.is_trained}
        self._fixed = {name: initial[name] for name, setup in policies.items() if not setup.is_trained}
        self._weights: dict[str, Mapping[str, np.ndarray]] = {
            name: {one: initial[name][one] for one in setup.spec.weight_names()} for name, setup in policies.items()
        }
        made: Any = load(kind)
        self._learners: dict[str, Any] = {}
        for index, (name, outbox) in enumerate(self._outboxes.items()):
            setup = policies[name]
            own: LearnerIdentity = {**identity, "policy": name, "seed": identity["seed"] + 7919 * index}
            self._learners[name] = made(setup.config, setup.spec, graph, initial[name], own, outbox)
        self._pool: OpponentPool | None = None
        if "self_play" in identity:
            self._learner_id, pool_config = identity["self_play"]["learner"], next(iter(policies.values())).config
            self._pool = OpponentPool(pool_config.multiagent.self_play, identity["self_play"])
        self.version = 1

    def prepare(self, streams: int | None = None, steps: int = 0) -> float:
        """Build the graphs of all policies; see ``Learner`` and ``BatchLearner``. Returns the seconds that it took."""
        began = time.perf_counter()
        for name, learner in self._learners.items():
            learner.prepare(*(() if streams is None else (streams * len(self._policies[name].agents), steps)))
        return time.perf_counter() - began

    def learn(self, *args: Any) -> Any:
        """Learn from blocks (count, env steps), or from the fragments of a batch: see ``Learner`` and ``BatchLearner``."""
        if isinstance(args[0], Mapping):
            return self._learn_blocks(*args)
        return self._learn_fragments(*args)

    def _learn_blocks(self, blocks: Mapping[str, Mapping[str, np.ndarray]], count: int, env_steps: int) -> UpdateResult:
        began = time.perf_counter()
        results = {
            name: learner.learn(blocks[name], count, env_steps)
            for name, learner in self._learners.items()
            if name in blocks
        }
        self._send_changed(env_steps)
        result: UpdateResult = {
            "updates": count,
            "stats": _stats(results) | self._pool_stats(),
            "seconds": time.perf_counter() - began,
            "version": self.version,
        }
        judged = {name: one for name, one in results.items() if "priority" in one}
        if judged:
            result["serial"] = {name: one["serial"] for name, one in judged.items()}  # type: ignore[typeddict-item]
            result["priority"] = {name: one["priority"] for name, one in judged.items()}  # type: ignore[typeddict-item]
        return result

    def _learn_fragments(
        self, env_steps: int, seen: Sequence[Any] | None, *fragments: AgentColumns
    ) -> BatchUpdateResult:
        began = time.perf_counter()
        results = {}
        self._note_games(seen or ())
        for name, learner in self._learners.items():
            own = [fragment.policies[name] for fragment in fragments]
            if any(_has_steps(one) for one in own):  # rows without steps stay: each number of rows is compiled once
                results[name] = learner.learn(env_steps, _seen_of(seen or (), name), *_alike(own))
        self._send_changed(env_steps)
        return {
            "updates": max((one["updates"] for one in results.values()), default=0),
            "stats": _stats(results) | self._pool_stats(),
            "seconds": time.perf_counter() - began,
            "version": self.version,
            "steps": sum(fragment.steps for fragment in fragments),
        }

    def observe(self, seen: Sequence[Any]) -> None:
        """Take note of what workers saw, a list of ``Token.seen``, each by policy id."""
        self._note_games(seen)
        for name, learner in self._learners.items():
            learner.observe(_seen_of(seen, name))

    def _note_games(self, seen: Sequence[Any]) -> None:
        for one in seen:
            if self._pool is not None and one is not None and ODDS in one:
                self._pool.note(one[ODDS])

    def _pool_stats(self) -> dict[str, float]:
        return {} if self._pool is None else _stats({self._learner_id: {"stats": self._pool.stats()}})

    def _send_changed(self, env_steps: int) -> None:
        changed = {name: box for name, box in self._outboxes.items() if box.weights is not None}
        if changed:
            self._send(keep=False, env_steps=env_steps)

    def _freeze(self, env_steps: int) -> None:
        """Copy the learner's newest weights to an opponent if ``freeze_interval`` says so after ``env_steps``."""
        place = None if self._pool is None else self._pool.freeze(env_steps)
        if place is not None:
            copied = {name: np.array(array) for name, array in self._weights[self._learner_id].items()}
            self._weights[place] = copied
            self._fixed[place] = {**self._fixed[place], **copied}

    def _send(self, keep: bool, env_steps: int | None = None) -> Any:
        for name, box in self._outboxes.items():
            if box.weights is not None:
                self._weights[name], box.weights = box.weights, None
        if env_steps is not None:
            self._freeze(env_steps)
        self.version += 1
        odds = {} if self._pool is None else self._pool.pushed()
        scored = {name: box.scored for name, box in self._outboxes.items() if box.scored is not None}
        if not (keep and scored):
            return self._server.call("push", {**self._weights, **odds}, keep)
        return self._server.call("push", {**self._weights, **odds}, keep, {**self._weights, **odds, **scored})

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates of all policies by ``factor`` from now on."""
        for learner in self._learners.values():
            learner.scale_rates(factor)

    def publish(self) -> tuple[int, dict[str, np.ndarray]]:
        """Push the present weights to be scored; returns (version, state) of the same moment, for a checkpoint."""
        for learner in self._learners.values():
            learner.push(keep=True)
        self._send(keep=True).result()
        return self.version, self.state()

    def push(self) -> int:
        """Push the present weights; returns their version."""
        for learner in self._learners.values():
            learner.push()
        self._send(keep=False).result()
        return self.version

    def state(self) -> dict[str, np.ndarray]:
        """Return {policy id/name: array} of every variable, and of the weights of policies that are not trained."""
        arrays = {f"{name}/{one}": array for name, own in self._fixed.items() for one, array in own.items()}
        for learner in self._learners.values():
            arrays |= learner.state()
        return arrays if self._pool is None else arrays | self._pool.state()

    def load(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Continue from ``state``, after the push of ``version``. CheckpointError when it does not fit."""
        for name, learner in self._learners.items():
            learner.load({full: array for full, array in arrays.items() if full.startswith(name + "/")}, version)
        for name, setup in self._policies.items():
            try:
                self._weights[name] = {one: arrays[f"{name}/{one}"] for one in setup.spec.weight_names()}
                if name in self._fixed:
                    self._fixed[name] = {one: arrays[f"{name}/{one}"] for one in self._fixed[name]}
            except KeyError as error:
                raise CheckpointError(f"The checkpoint lacks the weights {error} of the policy {name}.") from error
        if self._pool is not None:
            self._pool.load(arrays)
        sampled = {name: box.weights for name, box in self._outboxes.items() if box.weights is not None}
        if sampled:
            self._weights |= sampled
            odds = {} if self._pool is None else self._pool.pushed()
            self._server.call("load", {**self._weights, **odds}, version).result()
        self.version = version


class GroupReplay:
    """The replay buffers of several policies, filled from the same fragments."""

    def __init__(self, policies: Mapping[str, PolicySetup], seed: int, index: int = 0) -> None:
        """See ``ReplayBuffer``."""
        self._index = index
        self._replays = {
            name: ReplayBuffer(setup.config, setup.spec, seed + 7919 * number, index, len(setup.agents))
            for number, (name, setup) in enumerate(policies.items())
            if setup.is_trained
        }

    def add(self, token: Token, columns: AgentColumns) -> int:
        """Store the fragments of all policies; returns the env steps, 0 for what was stored before."""
        own = {name: columns.policies[name] for name in self._replays if name in columns.policies}
        stored = [self._replays[name].add(token, one) for name, one in own.items()]
        is_new = any(stored) or not any(_has_steps(one) for one in own.values())
        return columns.steps if is_new else 0

    def sample(
        self, count: int, least: Mapping[str, float] | None = None
    ) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, float] | None]:
        """Return ({policy id: block}, {policy id: smallest probability} or None) of the policies with enough experience."""
        blocks, smallest = {}, {}
        for name, replay in self._replays.items():
            if replay.has_batch():
                blocks[name], own = replay.sample(count, (least or {}).get(name))
                if own is not None:
                    smallest[name] = own
        return blocks, smallest or None

    def prioritize(self, serial: Mapping[str, np.ndarray], priority: Mapping[str, np.ndarray]) -> None:
        """See ``ReplayBuffer.prioritize``; by policy id."""
        for name, own in serial.items():
            self._replays[name].prioritize(own, priority[name])

    def cut(self, worker: int) -> None:
        """End the streams of ``worker``."""
        for replay in self._replays.values():
            replay.cut(worker)

    def forget_streams(self) -> None:
        """End all streams and expect new ones."""
        for replay in self._replays.values():
            replay.forget_streams()

    def size(self) -> int:
        """Return the rows in use."""
        return sum(replay.size() for replay in self._replays.values())

    def memory(self) -> int:
        """Return the bytes that the rows in use take."""
        return sum(replay.memory() for replay in self._replays.values())

    def save(self, folder: Path, compress: bool, check: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Write one file for all policies, see ``ReplayBuffer.save``; returns the facts that ``load`` needs beside it."""
        arrays, facts = {}, {}
        for name, replay in self._replays.items():
            own, facts[name] = replay.state()
            arrays |= {f"{name}/{what}": array for what, array in own.items()}
        checkpoints.write_arrays(folder / f"replay-{self._index}.safetensors", arrays, compress, check)
        return {"policies": facts}

    def facts(self) -> dict[str, Any]:
        """Return what is kept even where the contents are not."""
        return {"policies": {name: replay.facts() for name, replay in self._replays.items()}}

    def load(self, arrays: Mapping[str, np.ndarray] | None, facts: Mapping[str, Any]) -> None:
        """Continue from ``save``; with ``arrays`` None only from its ``facts``. CheckpointError when it does not fit."""
        known = facts.get("policies")
        if not isinstance(known, dict) or set(known) != set(self._replays):
            raise CheckpointError(f"The replay is of other policies than {', '.join(self._replays)}.")
        for name, replay in self._replays.items():
            prefix = f"{name}/"
            own = None
            if arrays is not None:
                own = {what.removeprefix(prefix): array for what, array in arrays.items() if what.startswith(prefix)}
            replay.load(own, known[name])


def _stats(results: Mapping[str, Any]) -> dict[str, float]:
    return {f"{name}/{what}": value for name, one in results.items() for what, value in one["stats"].items()}


def _seen_of(seen: Sequence[Any], name: str) -> list[Any]:
    return [None if one is None else one.get(name) for one in seen]


def _has_steps(columns: Mapping[str, np.ndarray]) -> bool:
    lengths = columns.get("length", columns.get("steps"))
    return lengths is None or bool(lengths.any())


def _alike(fragments: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Return fragments of equal length, padded to the longest, where they differ: their rows make one batch.

    Complete episodes are laid end to end, whatever their lengths.
    """
    longest = max(len(own["reward"]) for own in fragments)
    if "length" in fragments[0] or all(len(own["reward"]) == longest for own in fragments):
        return fragments
    return [_padded(own, longest) for own in fragments]


def _padded(columns: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    own, streams = columns["reward"].shape
    if own == steps:
        return columns
    padded = dict(columns)
    for name in ("obs", "action", "reward", "terminated", "truncated", "logp", "position", *columns):
        if name in columns and (name in _STEPPED or name.startswith("state_")):
            more = np.zeros((steps - own, *columns[name].shape[1:]), columns[name].dtype)
            padded[name] = np.concatenate([columns[name], more])
    return {"steps": np.full(streams, own, np.int64), **padded}


_STEPPED = ("obs", "action", "reward", "terminated", "truncated", "logp", "position")
