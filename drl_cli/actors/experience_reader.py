"""ExperienceReader: reads recorded steps from files, and hands them on as fragments, as if it had just sampled them.

It has the interface of ``RolloutWorker``: a plain class, a Ray actor where there are workers. A fragment holds whole pieces of
episodes, one after the other, [T, 1]; every piece ends in it: one that is broken off is truncated there, so that its
returns are bootstrapped. Used alone, or by ``mixed_worker`` beside a RolloutWorker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli.actors import fragment_transforms, worker_functions
from drl_cli.actors.fragment_transforms import ClosedFragment
from drl_cli.actors.part_records import ReaderIdentity
from drl_cli.actors.running_filters import Differences
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import streams
from drl_cli.config.sections.replay import shards
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, make, preprocessors
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.errors import CheckpointError, ExperienceError
from drl_cli.experience.columns import Meta, ReadProgress, Token
from drl_cli.experience.recorded.pieces import Layout, Piece, layout_of
from drl_cli.experience.recorded.read import Shuffled, Source
from drl_cli.policies.policy_spec import ActionSpec, CompositeSpec, PolicySpec
from drl_cli.randomness import number

INSIDE = np.float32(1.0 - 1e-6)  # of the bounds of a squashed action: atanh(±1) is infinite


class ExperienceReader:
    """One stream of fragments from files."""

    def __init__(
        self,
        config: BufferedKeys,
        env: Mapping[str, Any],
        spec: PolicySpec,
        identity: ReaderIdentity,
        server: Handle | None = None,
        paths: Sequence[Path | str] | None = None,
    ) -> None:
        """``env``: dict(id, env_config, spaces, preprocessing), and policies (see ``EnvSetup``) of several agents; ``spec``:
        PolicySpec; ``server``: not used, no weights act.

        ``identity``: dict(seed, index, number, incarnation, workers, behind): ``number`` is the worker number that fragments
        carry; of the files that ``config`` names it reads the ``index``-th share of ``workers``, and passes over the first
        ``behind`` fragments, which its predecessor brought. A pass ends with a fragment that is marked, and may be empty.
        ``paths``: those of one stream of a mix instead (see ``reading.Source``): all of them, again and again.
        """
        del server
        make.make_ready(env)
        self._config, self._spec, self._identity = config, spec, identity
        forever = paths is not None
        self._paths = (paths if forever else streams(config)[0].paths) or ()
        self._layout = layout(config, env)
        self._passes = None if forever else 1
        self._source = self._opened()
        self._differences = Differences(config, spec, 1)
        hooks = callbacks.make(config)
        named = {"policy_id": env["policies"][0], "agent_id": None} if "policies" in env else {}
        self._watch = CallbackEpisodes(hooks, identity["index"], named=named) if hooks else None
        rule = preprocessors.reward_rule(config.clip_rewards, env.get("preprocessing"))
        self._transforms = [fragment_transforms.clipped(rule), fragment_transforms.filtered(self._differences)]
        if self._watch:
            self._transforms.insert(1, fragment_transforms.postprocessed(self._watch, config.gamma))
            self._transforms.append(fragment_transforms.finished(self._watch))
        self._least = config.num_envs_per_worker * config.rollout_fragment_length
        self._sequence, self._behind = 0, identity["behind"]

    def _opened(self) -> Source | Shuffled:
        identity = self._identity
        seed, share = identity["seed"], (identity["index"], identity["workers"])
        if self._passes is None:  # every worker reads everything, in an order of its own
            seed, share = number(seed, "files", identity["number"], identity["incarnation"]), (0, 1)
        source, size = Source(self._paths, self._layout, seed, self._passes, share), self._config.shuffle_buffer_size
        return Shuffled(source, size, seed) if size else source

    def collect(
        self, min_version: int = 0, max_version: int | None = None
    ) -> tuple[Token, dict[str, np.ndarray] | None]:
        """Read on for a fragment's steps; returns (Token, columns of data.columns.FRAGMENT, None where nothing was left).

        No weights act here: the versions are not looked at. Raises ExperienceError with file and line.
        """
        began = time.perf_counter()
        while self._behind:
            self._pieces()
            self._behind -= 1
        pieces, ended = self._pieces()
        columns, seen = self._finished(pieces) if pieces else (None, None)
        steps = sum(piece.steps for piece in pieces)
        identity = self._identity
        meta = Meta(identity["number"], identity["incarnation"], self._sequence, 0)
        self._sequence += bool(pieces)
        notes, self._source.notes = tuple(self._source.notes[:3]), []
        episodes = tuple((float(piece.reward.sum()), piece.steps) for piece in pieces if piece.is_whole)
        reading = ReadProgress(len(pieces), episodes, ended)
        seconds = {"total": time.perf_counter() - began}
        return Token(meta, steps, (), 0, notes, seconds, {}, seen, reading), columns

    def _pieces(self) -> tuple[list[Piece], bool]:
        """Return (the next whole pieces, as many as a fragment's steps need, whether the pass ended after them)."""
        found, steps = [], 0
        if self._source.passed == self._passes:
            # The pass that ended was to be the last one; a further call begins another one.
            self._passes = self._source.passed + 1
            before, self._source = self._source, self._opened()
            self._source.load(before.state())
        first = self._source.passed
        while steps < self._least:
            piece = next(self._source, None)
            if piece is None:
                return found, True
            piece = whole(piece)
            if piece is not None:
                self._expect_room(piece)
                found.append(piece)
                steps += piece.steps
            elif not found and self._source.passed > first + 1:
                raise ExperienceError(f"{self._source.files[0].path}: holds no steps to train on.")
        return found, False

    def _expect_room(self, piece: Piece) -> None:
        capacity = self._config.buffer_size // shards(self._config)
        if piece.steps > capacity // 2:
            raise ExperienceError(
                f"{piece.source}: an episode of {piece.steps} steps is more than half of the replay ({capacity} steps). Raise "
                "buffer_size."
            )

    def _finished(self, pieces: Sequence[Piece]) -> tuple[dict[str, np.ndarray], Any]:
        """Return the columns of a fragment that holds ``pieces``, as the transforms leave them, and ``Token.seen``."""
        closed = ClosedFragment(self._columns(pieces))
        for transform in self._transforms:
            transform(closed)
        return closed.columns, closed.seen

    def _columns(self, pieces: Sequence[Piece]) -> dict[str, np.ndarray]:
        """Return the columns of a fragment that holds ``pieces``."""
        spec = self._spec
        ends = np.cumsum([piece.steps for piece in pieces]) - 1
        terminated = np.zeros((ends[-1] + 1, 1), bool)
        terminated[ends, 0] = [piece.terminated for piece in pieces]
        truncated = np.zeros_like(terminated)
        truncated[ends] = ~terminated[ends]
        end_obs = np.stack([piece.end_obs for piece in pieces if piece.end_obs is not None])  # ``whole`` gave each one
        action = np.concatenate([piece.action for piece in pieces])
        return {
            "obs": np.concatenate([piece.obs for piece in pieces])[:, None],
            "action": acted(action, spec).astype(spec.action.dtype, copy=False)[:, None],
            "reward": np.concatenate([piece.reward for piece in pieces])[:, None],
            "terminated": terminated,
            "truncated": truncated,
            "end_obs": end_obs,
            "tail_obs": end_obs[-1:],
            "cut": np.array([self._sequence == 0]),
        }

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        facts = {"source": self._source.state(), "passes": self._passes}
        facts |= {"sequence": self._sequence, "behind": self._behind}
        if self._watch:
            facts["callbacks"] = self._watch.hooks.state()
        return self._differences.state(), facts

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Read on from ``state``; CheckpointError when the files are others than they were."""
        try:
            source, passes = facts["source"], facts["passes"]
            sequence, behind = int(facts["sequence"]), int(facts["behind"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of a reader is incomplete ({error}).") from error
        self._passes = passes
        self._source = self._opened()
        self._source.load(source)
        self._differences.load(arrays)
        self._sequence, self._behind = sequence, behind
        if self._watch:
            self._watch.hooks.load(facts.get("callbacks"))

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return []: files have no environments."""
        return []

    def close(self) -> None:
        """Close the file that is open."""
        self._source.close()


def layout(config: BufferedKeys, env: Mapping[str, Any]) -> Layout:
    """Return the Layout that files must have for a run with ``config`` in the environment ``env``, as ``ExperienceReader``."""
    limits = (env["env_config"].get("max_episode_steps", make.time_limit(env["id"])), config.horizon)
    return layout_of(env["spaces"], limits, config.actions_in_input_normalized, env.get("policies", ()))


def whole(piece: Piece) -> Piece | None:
    """Return ``piece`` with an observation after its last step; None where nothing of it is left.

    Without one the last step goes, and what was seen before it takes its place; after a real end it is not used.
    """
    if piece.end_obs is not None:
        return piece
    if piece.terminated:
        return piece._replace(end_obs=np.zeros_like(piece.obs[0]))
    if piece.steps == 1:
        return None
    logp = None if piece.logp is None else piece.logp[:-1]
    shorter = {"obs": piece.obs[:-1], "action": piece.action[:-1], "reward": piece.reward[:-1], "logp": logp}
    return piece._replace(**shorter, truncated=False, end_obs=piece.obs[-1])


def acted(action: np.ndarray, spec: PolicySpec) -> np.ndarray:
    """Return recorded actions [M, …], Box in the environment's units, as those of the policy of ``spec`` (PolicySpec)."""
    most = INSIDE if spec.distribution in ("squashed_gaussian", "hybrid") else 1.0
    if isinstance(spec.action, CompositeSpec):
        action = action.astype(np.float32)
        for part, at in zip(spec.action.parts, spec.action.slices(), strict=True):
            if isinstance(part, ActionSpec):
                action[:, at] = _box_acted(action[:, at], part, most)
        return action
    return _box_acted(action, spec.action, most) if isinstance(spec.action, ActionSpec) else action


def _box_acted(action: np.ndarray, box: ActionSpec, most: float | np.floating) -> np.ndarray:
    """Return recorded actions [M, A] of a Box as those of the policy; ``most``: how far from the middle, in half ranges."""
    low, high = (np.asarray(side, np.float32) for side in (box.low, box.high))
    half, middle = (high - low) / 2, (high + low) / 2
    unit = np.clip((action - middle) / half, -most, most)
    return unit if box.normalize else unit * half + middle
