"""ExternalWorker: brings the steps of simulators that ask for actions, instead of stepping environments.

The counterpart of ``rollout_worker`` for ``input: policy_server``. Each running episode of a client has one of
``num_envs_per_worker`` streams, stored by ``policy_slots`` as an agent that acts at its own times. Requests are answered while
``collect`` runs, all that wait with one forward pass; between two calls (an update of an on-policy algorithm) clients wait.
A fragment has up to ``num_envs_per_worker`` × ``rollout_fragment_length`` steps, of on-policy algorithms exactly so many.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli import events
from drl_cli.actors import worker_functions
from drl_cli.actors.experience_reader import acted
from drl_cli.actors.part_records import SampledConfig, WorkerIdentity
from drl_cli.actors.policy_server import PolicyServer, Refused, Request, token_of
from drl_cli.actors.policy_slots import PolicySetup, PolicySlots
from drl_cli.actors.weight_pulls import WeightPulls
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.contracts import Handle
from drl_cli.envs import make as envs
from drl_cli.envs.env_spec import EnvSetup, SpaceSpec
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Columns, Meta, Token, end_to_end
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import generator, set_state, state_of

CLIENT = "client"
PATIENCE_S = 0.25  # after which a call of collect returns with what has come
LOOK_S = 0.05  # between two looks for a stop while nothing comes
_NO_TIME = {"env": 0.0, "policy": 0.0, "making": 0.0, "total": 0.0}


class _Episode:
    """A running episode of a client."""

    def __init__(self, stream: int, slots: PolicySlots, is_trained: bool, now: float) -> None:
        self.stream, self.slots, self.is_trained, self.touched = stream, slots, is_trained, now
        self.total, self.length = 0.0, 0
        self.has_begun = False  # whether it has been observed


class ExternalWorker:
    """Serves clients on ``policy_server.port`` plus its index. ``check``: see RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(
        self, config: SampledConfig, env: EnvSetup, spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """See RolloutWorker; ``env`` with ``spaces``. Raises ConfigError, ClusterUnavailable."""
        envs.make_ready(env)
        self._config, self._identity, self._spec = config, identity, spec
        self._rng = generator(identity["seed"], "worker", identity["index"], identity["incarnation"])
        self._count = config.num_envs_per_worker
        self._most = self._count * config.rollout_fragment_length
        self._is_on_policy = isinstance(config, TrajectoryKeys)
        own = config.model_copy(update={"rollout_fragment_length": self._most})
        self._slots = self._made(own, env, identity["random_steps"], is_trained=True)
        # Episodes that are only scored: greedy, and what they bring is not learnt from.
        self._scored_slots = self._made(own.model_copy(update={"explore": False}), env, 0, is_trained=False)
        self._episodes: dict[str, _Episode] = {}
        self._free = list(range(self._count))
        self._held: list[Request] = []  # that came when the fragment was full
        self._ended: list[tuple[float, int]] = []  # (return, length) of the episodes that have ended
        self._scored: list[tuple[float, int]] = []
        self._notes: list[str] = []
        self._seconds = dict(_NO_TIME)  # since the last fragment
        self._pulls = WeightPulls(server, identity["index"])
        self._sequence, self._steps = 0, 0
        self._served_s = (
            0.0  # in which requests were answered: silence counts against clients then, and at no other time
        )
        self._spaces = env["spaces"]  # type: ignore[typeddict-item]
        keys = config.policy_server
        port = keys.port + identity["index"] if keys.port else 0
        about = {"protocol": 1, "observation_space": self._spaces["obs"], "action_space": self._spaces["action"]}
        numbers = math.prod(spec.obs_shape) + math.prod(spec.action.shape)
        self._server = PolicyServer((keys.address, port), token_of(keys), self._read, about, numbers)
        events.report("notice", text=f"policy server: {self.url[7:]}, up to {self._count} episodes at once")

    def _made(self, config: SampledConfig, env: EnvSetup, random_steps: int, is_trained: bool) -> PolicySlots:
        place: Any = {name: self._identity[name] for name in ("stream", "streams", "base")}
        setup = PolicySetup(config, self._spec, (CLIENT,), is_trained)
        seen_as: Any = {**env, "agents": {"is_turn_based": True}}  # few streams act at a time
        return PolicySlots(setup, seen_as, self._count, place | {"random_steps": random_steps})

    @property
    def policy(self) -> NumpyPolicy:
        """The policy that acts."""
        return self._slots.policy

    @property
    def url(self) -> str:
        """Where clients reach the server, http://HOST:PORT."""
        return self._server.url

    def collect(self, min_version: int = 0, max_version: int | None = None) -> tuple[Token, Columns | None]:
        """Answer clients until a fragment is full, or for ``PATIENCE_S``; returns (Token, columns), None for no steps."""
        began = time.perf_counter()
        self._pulls.adopt(min_version, max_version, self._take)
        self._slots.use_own_filter()
        meta = Meta(self._identity["index"], self._identity["incarnation"], self._sequence, self._pulls.version)
        self._seconds["policy"] += self._serve(began + PATIENCE_S)
        exploring = self._slots.exploration.describe(self._steps // self._count)
        steps = self._closed_steps()
        if not steps or (self._is_on_policy and steps < self._most):
            self._seconds["total"] += time.perf_counter() - began
            return Token(meta, 0, (), 0, (), dict(_NO_TIME), exploring), None
        closed = self._slots.close()
        columns = closed.columns
        if self._is_on_policy:
            columns = end_to_end(columns, (self._config.rollout_fragment_length, self._count))
        self._sequence += 1
        self._steps += steps
        ended, self._ended = tuple(self._ended), []
        scored, self._scored = tuple(self._scored), []
        notes, self._notes = tuple(self._notes[:3]), []
        seconds, self._seconds = self._seconds, dict(_NO_TIME)
        seconds["total"] += time.perf_counter() - began
        seconds["env"] = seconds["total"] - seconds["policy"]  # in which clients were waited for
        return Token(meta, steps, ended, 0, notes, seconds, exploring, closed.seen, scored=scored), columns

    def _take(self, weights: Mapping[str, Any]) -> None:
        self._slots.adopt(weights[DEFAULT_POLICY])
        self._scored_slots.adopt(weights[DEFAULT_POLICY])

    def _closed_steps(self) -> int:
        return int(self._slots.fragment.length.sum())

    # -- requests -----------------------------------------------------------------------------------------------

    def _serve(self, until: float) -> float:
        """Answer requests until the fragment is full or the time ``until``; returns the seconds spent on answers."""
        acting_s, last = 0.0, time.perf_counter()
        while self._closed_steps() < self._most and last < until:
            self.check()
            requests, self._held = [*self._held, *self._server.pending(LOOK_S)], []
            began = time.perf_counter()
            self._served_s += began - last
            self._answer(requests)
            self._end_silent()
            if self._scored_slots.fragment.length.max() >= self._most - 1:
                self._scored_slots.close()
            last = time.perf_counter()
            acting_s += last - began
        return acting_s

    def _answer(self, requests: list[Request]) -> None:
        """Carry out ``requests`` in their order; those that come after the fragment is full are held for the next one."""
        acting: dict[str, tuple[_Episode, Request]] = {}
        for place, request in enumerate(requests):
            if self._closed_steps() >= self._most:
                self._held = requests[place:]
                break
            try:
                if request.episode_id in acting:
                    raise Refused(409, "Another request of this episode is not answered yet.")
                self._carry_out(request, acting)
            except Refused as error:
                request.refuse(error.status, str(error))
        for slots in (self._slots, self._scored_slots):
            group = [entry for entry in acting.values() if entry[0].slots is slots]
            if group:
                self._act(slots, group)

    def _carry_out(self, request: Request, acting: dict[str, tuple[_Episode, Request]]) -> None:
        """Carry out one request; one that needs an action is added to ``acting``, the others are answered."""
        fields, command = request.fields, request.command
        if command == "start_episode":
            self._start(request)
            return
        episode = self._episodes.get(request.episode_id)
        if episode is None:
            raise Refused(404, "There is no such episode: it was never started, has ended or was silent for too long.")
        episode.touched = self._served_s
        if fields["reward"]:
            episode.total += fields["reward"]
            episode.slots.rewarded(episode.stream, fields["reward"])
        if command == "log_returns":
            request.answer()
            return
        obs = fields["observation"]
        if command == "end_episode":
            ends = (not fields["truncated"], fields["truncated"])
            episode.slots.ended(episode.stream, ends, obs)
            self._leave(request.episode_id)
            if episode.length:
                (self._ended if episode.is_trained else self._scored).append((episode.total, episode.length))
            request.answer()
            return
        if episode.has_begun:
            episode.slots.observed(episode.stream, obs)
        else:
            episode.slots.began(episode.stream, obs)
            episode.has_begun = True
        acting[request.episode_id] = episode, request

    def _start(self, request: Request) -> None:
        name = request.episode_id
        if name in self._episodes:
            raise Refused(409, f"The episode {name!r} is running; choose another episode_id.")
        if not self._free:
            raise Refused(
                503, f"{self._count} episodes are running, the most at once (num_envs_per_worker); try again."
            )
        slots = self._slots if request.fields["training_enabled"] else self._scored_slots
        is_trained = slots is self._slots
        self._episodes[name] = _Episode(self._free.pop(0), slots, is_trained, self._served_s)
        request.answer(episode_id=name)

    def _act(self, slots: PolicySlots, group: list[tuple[_Episode, Request]]) -> None:
        """Choose the actions of ``group`` with one forward pass, or take over those that a client chose."""
        given = {e.stream: request.fields["action"] for e, request in group if request.command == "log_action"}
        streams = [episode.stream for episode, _ in group]
        chosen = slots.act(streams, self._rng, self._steps // self._count, given)
        for (episode, request), action in zip(group, chosen, strict=True):
            episode.length += 1
            if request.command == "log_action":
                request.answer()
            else:
                request.answer(action=action.tolist())

    def _end_silent(self) -> None:
        limit = self._config.policy_server.episode_timeout_s
        for name, episode in list(self._episodes.items()):
            if self._served_s - episode.touched > limit:
                episode.slots.broken(episode.stream)
                self._leave(name)
                self._notes.append(f"policy server: the episode {name!r} was truncated: no request for {limit:g} s.")

    def _leave(self, name: str) -> None:
        self._free.append(self._episodes.pop(name).stream)

    def _read(self, command: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a request; called in the threads of connections. Raises Refused."""
        if command == "start_episode":
            return {"training_enabled": _flag(body, "training_enabled", True)}
        reward = body.get("reward", 0.0)
        if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
            raise Refused(400, "reward must be one finite number.")
        fields: dict[str, Any] = {"reward": float(reward)}
        if command != "log_returns":
            fields["observation"] = self._observation(body.get("observation"))
        if command == "log_action":
            fields["action"] = self._action(body.get("action"))
        if command == "end_episode":
            fields["truncated"] = _flag(body, "truncated", False)
        return fields

    def _observation(self, given: Any) -> np.ndarray:
        spec = self._spec
        obs = _numbers(given, "observation", tuple(spec.obs_shape))
        if spec.obs_dtype == "uint8" and ((obs < 0) | (obs > 255)).any():
            raise Refused(400, "observation: the bytes of an image are from 0 to 255.")
        return obs.astype(spec.obs_dtype)

    def _action(self, given: Any) -> np.ndarray:
        """Return an action that a client has chosen, in the policy's own units."""
        if self._is_on_policy:
            raise Refused(400, "log_action: this algorithm learns only from actions of its own policy; use get_action.")
        space: SpaceSpec = self._spaces["action"]
        action = _numbers(given, "action", tuple(space["shape"]))
        low, high = _bounds(space)
        if (action < low).any() or (action > high).any():
            raise Refused(400, f"action: {str(given)[:60]} is not within the action space, from {low} to {high}.")
        if space["kind"] == "Box":
            return acted(action.astype(np.float32), self._spec)
        if (action != np.floor(action)).any():
            raise Refused(400, f"action: {str(given)[:60]} is no whole number.")
        return (action - low).astype(self._spec.action.dtype)

    # -- state --------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts). Running episodes are with the clients: they are not part of it."""
        arrays, slots = self._slots.state()
        facts = {"rng": state_of(self._rng), "slots": slots, "running": len(self._episodes)}
        return arrays, facts | {"sequence": self._sequence, "steps": self._steps}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> int:
        """Continue from ``state``; returns how many episodes were running then: their clients have to begin anew."""
        try:
            self._slots.load(arrays, facts["slots"])
            set_state(self._rng, facts["rng"])
            self._sequence, self._steps, running = facts["sequence"], facts["steps"], int(facts["running"])
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"The state of a worker does not fit this policy: {error}") from error
        for stream in range(self._count):
            self._slots.broken(stream)
        return running

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return []: the environments are the clients'."""
        return []

    def close(self) -> None:
        """Stop serving."""
        for request in self._held:
            request.abandon()
        self._held = []
        self._server.close()


def _flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise Refused(400, f"{name} must be true or false.")
    return value


def _numbers(given: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``given`` as float64 of ``shape``. Raises Refused for what is no array of finite numbers of that shape."""
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Refused(400, f"{name} must be a JSON array of numbers of shape {list(shape)}.") from None
    if array.shape != shape:
        raise Refused(400, f"{name} has the shape {list(array.shape)}; the space says {list(shape)}.")
    if not (np.abs(array) <= np.finfo(np.float32).max).all():
        raise Refused(400, f"{name} holds numbers that are not finite.")
    return array


def _bounds(space: SpaceSpec) -> tuple[Any, Any]:
    """Return (low, high) of an action space, a number each or an array of its shape."""
    if space["kind"] == "Box":
        return np.asarray(space["low"], np.float64), np.asarray(space["high"], np.float64)
    if space["kind"] == "Discrete":
        return space["start"], space["start"] + space["n"] - 1
    if space["kind"] == "MultiBinary":
        return 0, 1
    start = np.asarray(space["start"])
    return start, start + np.asarray(space["nvec"]) - 1
