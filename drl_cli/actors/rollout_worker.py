"""RolloutWorker: steps environments with the newest policy that it has pulled, and sends fragments of experience.

A plain class: in the run's own process with ``num_workers: 0``, a Ray actor otherwise. It keeps one pull of weights
outstanding with the parameter server and adopts it when it has come; only ``min_version`` waits.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from drl_cli.actors import fragment_transforms, worker_functions
from drl_cli.actors.file_keeper import film_sender
from drl_cli.actors.fragment import Fragment
from drl_cli.actors.fragment_transforms import ClosedFragment, RewardRule, Transform
from drl_cli.actors.part_records import SampledConfig, WorkerIdentity
from drl_cli.actors.recorder import Recorder
from drl_cli.actors.running_filters import Differences
from drl_cli.actors.weight_pulls import WeightPulls
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.config.sections.replay import ReplayKeys, SequenceReplay
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, preprocessors, render
from drl_cli.envs import make as envs
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.envs.steps import success_of
from drl_cli.errors import CheckpointError, RunFailed
from drl_cli.experience.columns import Meta, Token
from drl_cli.policies import exploration
from drl_cli.policies.exploration.interface import Place
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import generator, set_state, state_of

LONGEST_EPISODE = 200_000  # steps beyond the fragment's length for which the end of an episode is waited for


class RolloutWorker:
    """One stream of fragments from ``num_envs_per_worker`` environments.

    ``check`` is called before every step of them; in the run's own process it raises when the run cannot wait any longer.
    ``is_cut`` is called after every step: true ends the fragment there, of complete episodes with the running ones.
    """

    check: Callable[[], None] = staticmethod(lambda: None)
    is_cut: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(
        self, config: SampledConfig, env: EnvSetup, spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """``env``: dict(id, env_config, imports, preprocessing, videos: folder for films of the first worker).

        ``identity``: dict(seed, index, incarnation), its place in the run, see ``exploration.make``: random_steps, stream,
        streams, base; and maybe output: the folder to record into. ``server`` is a handle of the parameter server:
        ``server.call("pull", version)`` returns a reference.
        """
        envs.make_ready(env)
        self._config, self._identity = config, identity
        key = (identity["seed"], identity["index"], identity["incarnation"])
        self._rng = generator(key[0], "worker", key[1], key[2])
        self._whole_episodes = isinstance(config, TrajectoryKeys) and config.batch_mode == "complete_episodes"
        # An incarnation has its own environment seeds: a restarted worker must not repeat its predecessor's episodes.
        stream = identity["index"] + 100_003 * identity["incarnation"]
        seen_by = render.make(config, env, identity["index"], functools.partial(film_sender, identity))
        hooks = callbacks.make(config)
        self._watch = CallbackEpisodes(hooks, identity["index"]) if hooks else None
        ways = (config.horizon, config.soft_horizon, seen_by, self._watch)
        made_as: EnvSetup = {**env, "remote": config.remote_worker_envs, "fresh_envs": config.fresh_envs}
        made_as["timeout_s"] = config.env_timeout_s
        self._envs = EnvBatch(made_as, config.num_envs_per_worker, (key[0], stream), *ways)
        self._policy = NumpyPolicy(spec)
        if self._watch:
            self._watch.worker, self._watch.policy = self, self._policy
        self._differences = Differences(config, spec, config.num_envs_per_worker)
        folder = identity.get("output")
        self._recorder = (
            Recorder(config, folder, identity, self._policy, config.num_envs_per_worker) if folder else None
        )
        self._judges = isinstance(config, ReplayKeys) and config.worker_side_prioritization
        rule = preprocessors.reward_rule(config.clip_rewards, env.get("preprocessing"))
        self._transforms = list(self._transforms_of(rule))
        self._explore_at(
            {
                "random_steps": identity["random_steps"],
                "stream": identity["stream"],
                "streams": identity["streams"],
                "base": identity["base"],
            }
        )
        self._state = self._policy.initial_state(config.num_envs_per_worker)
        self._keeps_states = not (isinstance(config, SequenceReplay) and config.zero_init_states)
        self._pulls = WeightPulls(server, identity["index"])
        self._sequence, self._steps = 0, 0
        self._cut = np.zeros(config.num_envs_per_worker, bool)  # environments whose next step continues nothing
        self._returns = [0.0] * config.num_envs_per_worker
        self._successes: list[bool] = []  # of episodes that have ended since the last fragment
        self._began = [
            0
        ] * config.num_envs_per_worker  # after how many of the worker's steps the running episodes began
        self._position = np.zeros(config.num_envs_per_worker, np.int32)  # in what is learnt from as an episode: a life
        self._started = False

    @property
    def policy(self) -> NumpyPolicy:
        """The NumpyPolicy that acts, with the weights that the last fragment was made with."""
        return self._policy

    def _explore_at(self, place: Place) -> None:
        self._place = place
        self._exploration = exploration.make(self._config, self._policy.spec, place)

    def collect(self, min_version: int = 0, max_version: int | None = None) -> tuple[Token, dict[str, np.ndarray]]:
        """Step every environment ``rollout_fragment_length`` times; returns (Token, columns of data.columns.FRAGMENT).

        With ``batch_mode: complete_episodes`` each goes on from there until its episode ends. Waits for weights of
        ``min_version`` or newer; does not adopt any beyond ``max_version``.
        """
        began = time.perf_counter()
        if not self._started:
            self._envs.reset()
            self._started = True
        self._pulls.adopt(min_version, max_version, self._take)
        if self._differences.are_apart and self._policy.weights is not None:
            self._policy.set_weights(self._differences.acting(self._policy.weights))
        meta = Meta(self._identity["index"], self._identity["incarnation"], self._sequence, self._pulls.version)
        closed, episodes = self._fragment()
        columns, seconds, seen = closed.columns, closed.seconds, closed.seen
        self._sequence += 1
        notes, self._envs.notes = tuple(self._envs.notes[:3]), []
        if self._recorder:
            notes, self._recorder.notes = (*notes, *self._recorder.notes), []
        bad, self._envs.bad_steps = self._envs.bad_steps, 0
        seconds["making"], self._envs.making_s = self._envs.making_s, 0.0
        seconds["total"] = time.perf_counter() - began
        exploring = self._exploration.describe(self._steps)
        steps = int(columns["length"].sum()) if self._whole_episodes else columns["reward"].size
        metrics = self._watch.take() if self._watch else ()
        reached, self._successes = tuple(self._successes), []
        token = Token(
            meta, steps, tuple(episodes), bad, notes, seconds, exploring, seen, told=metrics, successes=reached
        )
        return token, columns

    def _take(self, weights: Mapping[str, Any]) -> None:
        self._policy.set_weights(weights[DEFAULT_POLICY])

    def _transforms_of(self, rule: RewardRule) -> Iterator[Transform]:
        """Yield what happens to each closed fragment, in this order; ``rule``: of clipping rewards."""
        config = self._config
        if self._recorder:
            yield fragment_transforms.recorded(self._recorder)
        yield fragment_transforms.clipped(rule)
        if self._watch:
            yield fragment_transforms.postprocessed(self._watch, config.gamma)
        if config.exploration_config.type == "RND":
            yield fragment_transforms.rewarded_for_novelty(lambda columns: self._exploration.bonus(columns))
        yield fragment_transforms.filtered(self._differences)
        if isinstance(config, ReplayKeys) and config.worker_side_prioritization:
            yield fragment_transforms.prioritized(self._policy, self._envs, (config.gamma, config.n_step))
        if self._watch:
            yield fragment_transforms.finished(self._watch)

    def _fragment(self) -> tuple[ClosedFragment, list[tuple[float, int]]]:
        config, envs, policy = self._config, self._envs, self._policy
        judged = self._judges and policy.has_weights  # before the first weights there is nothing to judge by
        # The first fragment of an incarnation continues nothing.
        shape = (config.rollout_fragment_length, envs.count)
        fragment = Fragment(policy.spec, shape, self._cut | (self._sequence == 0), judged)
        self._cut[:] = False
        episodes, seconds = [], {"env": 0.0, "policy": 0.0}
        lengths = self._complete(fragment, episodes, seconds) if self._whole_episodes else None
        for step in range(0 if self._whole_episodes else shape[0]):
            self._step(step, fragment, episodes, seconds)
            if step + 1 < shape[0] and self.is_cut():
                fragment.shorten(step + 1)
                break
        columns = fragment.close(envs.obs(), self._state, lengths, policy.scores)
        closed = ClosedFragment(columns, policy.weights, fragment, seconds)
        for transform in self._transforms:
            transform(closed)
        return closed, episodes

    def _complete(self, fragment: Fragment, episodes: list[tuple[float, int]], seconds: dict[str, float]) -> np.ndarray:
        """Step until every environment has ended an episode after the fragment's length; returns the steps of each."""
        least = self._config.rollout_fragment_length
        lengths, going = np.zeros(self._envs.count, np.int64), list(range(self._envs.count))
        while going:
            step = int(lengths.max())
            if step == fragment.shape[0]:
                fragment.grow()
            if step == least + LONGEST_EPISODE:
                raise endless_episode()
            ended = self._step(step, fragment, episodes, seconds, going)
            lengths[going] += 1
            if step + 1 >= least or self.is_cut():
                going = [env for env in going if env not in ended]
        return lengths

    def _step(
        self,
        step: int,
        fragment: Fragment,
        episodes: list[tuple[float, int]],
        seconds: dict[str, float],
        going: list[int] | None = None,
    ) -> set[int]:
        """Take one step of all environments, or of those ``going``; returns the indices of those whose episode ended."""
        self.check()
        began = time.perf_counter()
        envs, policy, state = self._envs, self._policy, self._state
        obs = envs.stacked()
        action, self._state, scores = self._exploration.act(policy, obs, state, self._rng, self._steps)
        if self._recorder:
            self._recorder.scored(step, self._exploration.logp(policy, obs, state, action, self._steps))
        env_action = policy.to_env(action)
        acted = time.perf_counter()
        fragment.acted(step, obs, action, scores)
        if state:
            fragment.remember(step, self._position, state if self._keeps_states else ())
        rewards, ends, broken = envs.step_all(env_action, going)
        for env in broken:
            rewards[env], end = self._again(step, env, fragment)
            ends += end
        fragment.rewarded(step, rewards)
        policy.rewarded(self._state, rewards)
        for env, reward in enumerate(rewards):
            self._returns[env] += reward
        self._steps += 1
        if state:
            self._position += 1
        for env, terminated, truncated, last_obs in ends:
            seen_as = (False, True) if self._config.no_done_at_end else (terminated, truncated)
            fragment.ended(step, env, seen_as, last_obs, self._state)
            self._end(env, episodes)
        if going is not None and len(going) < envs.count:
            for env in set(range(envs.count)).difference(going):  # it stands still at the beginning of its next episode
                self._forget(env)
                self._began[env] += 1
        seconds["policy"] += acted - began
        seconds["env"] += time.perf_counter() - acted
        return {env for env, *_ in ends}

    def _again(self, step: int, env: int, fragment: Fragment) -> tuple[float, list[tuple[int, bool, bool, np.ndarray]]]:
        """Step one environment, whose step broke, in new episodes until one does not; returns (reward, its end if any)."""
        outcome = None
        while outcome is None:
            fragment.broken(step, env)
            self._forget(env)
            self._returns[env], self._began[env] = 0.0, self._steps
            obs = self._envs.one_stacked(env)
            state = tuple(part[env : env + 1].copy() for part in self._state)
            chosen, after, scores = self._exploration.act(self._policy, obs, state, self._rng, self._steps, env)
            fragment.acted(step, obs, chosen, scores, env)
            if self._recorder:
                found = self._exploration.logp(self._policy, obs, state, chosen, self._steps, env)
                self._recorder.scored(step, found, env)
            if state:
                fragment.remember(step, 0, state if self._keeps_states else (), env)
            for part, new in zip(self._state, after, strict=True):
                part[env] = new[0]
            outcome = self._envs.step(env, self._policy.to_env(chosen)[0])
        reward, terminated, truncated, next_obs = outcome
        return reward, [(env, terminated, truncated, next_obs)] if terminated or truncated else []

    def _end(self, env: int, episodes: list[tuple[float, int]]) -> None:
        """What is learnt from as an episode has ended."""
        self._forget(env)
        if self._envs.is_mid_game(env):
            return  # a life was lost: an end to learn from, but the score is the whole game's
        episodes.append((self._returns[env], self._steps - self._began[env]))
        success = success_of(self._envs.infos[env])
        if success is not None:
            self._successes.append(success)
        self._returns[env], self._began[env] = 0.0, self._steps

    def _forget(self, env: int) -> None:
        """What is learnt from as an episode has ended, or was broken off, in environment ``env``: the next begins afresh."""
        self._exploration.ended(env)
        self._position[env] = 0
        for part in self._state:
            part[env] = 0.0

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        if not self._started:
            self._envs.reset()
            self._started = True
        arrays, envs = self._envs.state()
        arrays["returns"], arrays["lengths"] = np.array(self._returns), self._steps - np.array(self._began, np.int64)
        arrays["cut"] = self._cut.copy()
        if self._state:
            arrays |= {f"state_{index}": part.copy() for index, part in enumerate(self._state)}
            arrays["position"] = self._position.copy()
        arrays |= self._differences.state()
        explored, exploring = self._exploration.state()
        arrays |= {f"exploration/{name}": array for name, array in explored.items()}
        facts = {"rng": state_of(self._rng), "envs": envs, "sequence": self._sequence, "steps": self._steps}
        if self._recorder:
            recorded, facts["recorder"] = self._recorder.state()
            arrays |= {f"recorder/{name}": array for name, array in recorded.items()}
        if self._watch:
            facts["callbacks"] = self._watch.hooks.state()
        return arrays, facts | {"place": self._place, "exploration": exploring}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> int:
        """Continue from ``state``; returns how many running episodes could not be brought back, and begin anew.

        Raises CheckpointError for what is no state of such a worker.
        """
        try:
            stored = facts["place"]
            place: Place = {
                "random_steps": stored["random_steps"],
                "stream": stored["stream"],
                "streams": stored["streams"],
                "base": stored["base"],
            }
            rng, sequence, steps, exploring = (facts[name] for name in ("rng", "sequence", "steps", "exploration"))
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"The state of a worker is incomplete ({error}).") from error
        if self._state:
            self._remember(arrays)
        self._differences.load(arrays)
        differing = self._load_envs(arrays, facts)
        self._started = True
        set_state(self._rng, rng)
        self._returns, self._began = arrays["returns"].tolist(), (steps - arrays["lengths"]).tolist()
        self._sequence, self._steps = sequence, steps
        self._explore_at(place)
        self._exploration.load(_under("exploration/", arrays), exploring)
        if self._recorder and "recorder" in facts:
            self._recorder.load(_under("recorder/", arrays), facts["recorder"])
        self._cut[:] = arrays.get("cut", False)  # older checkpoints do not have it
        for env in differing:
            self._envs.restart(env)
            self._forget(env)
            self._returns[env], self._began[env], self._cut[env] = 0.0, self._steps, True
        return len(differing)

    def _load_envs(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> list[int]:
        if not self._watch:
            return self._envs.load(arrays, facts["envs"])
        differing = []
        self._watch.replaying(facts.get("callbacks"), lambda: differing.extend(self._envs.load(arrays, facts["envs"])))
        return differing

    def _remember(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the recurrent state of ``state``."""
        mine = {f"state_{index}": part for index, part in enumerate(self._state)} | {"position": self._position}
        for name, part in mine.items():
            if name not in arrays or (arrays[name].shape, arrays[name].dtype) != (part.shape, part.dtype):
                raise CheckpointError(f"The state of a worker lacks {name}, or has one of another shape.")
            part[...] = arrays[name]

    def set_task(self, task: Any) -> None:
        """Set the task of all environments. Raises PluginFailed."""
        self._envs.set_task(task)

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of the environments."""
        if not self._started:
            self._envs.reset()
            self._started = True
        return worker_functions.to_envs(function, self._envs.objects())

    def close(self) -> None:
        """Close the environments, and the recording."""
        self._envs.close()
        if self._recorder:
            self._recorder.close()


def endless_episode() -> RunFailed:
    """Return the error of an episode for whose end no worker waits."""
    return RunFailed(
        f"An episode goes on after {LONGEST_EPISODE} steps. batch_mode complete_episodes needs episodes that "
        "end: set horizon, or batch_mode truncate_episodes."
    )


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
