"""EvolutionWorker: plays whole episodes with perturbed weights and sends their returns.

A plain class: in the run's own process with ``num_workers: 0``, a Ray actor otherwise. A block of directions is tried at once,
each on either side, one episode each: the perturbed policies are the copies of one net, run as one batched product in NumPy.
What comes out depends on the block and the weights alone, not on the worker: the successor of a dead one sends the same.

Sources: Salimans et al. 2017 (arXiv 1703.03864), algorithm 2 with mirrored sampling; RLlib 1.0.1 (``agents/es/es.py``).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from drl_cli.actors import node_weights, worker_functions
from drl_cli.actors.fragment_transforms import RewardRule, clipped_rewards
from drl_cli.actors.part_records import WorkerIdentity
from drl_cli.actors.recorder import Recorder, whole_episode
from drl_cli.actors.rollout_worker import LONGEST_EPISODE
from drl_cli.actors.weight_pulls import WeightWait
from drl_cli.actors.whole_episodes import Episodes
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, make, preprocessors
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.errors import RunFailed
from drl_cli.evolution import noise_table
from drl_cli.evolution.directions import Block, Evaluated
from drl_cli.evolution.keys import ARSConfig, EvolutionKeys
from drl_cli.evolution.net import Flat
from drl_cli.experience.columns import Meta
from drl_cli.policies.filters import merged, moments, nothing
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.randomness import generator

UNPERTURBED = 2  # stands where 0 is θ + σε and 1 is θ − σε, in the keys of episodes
NOTED_STEPS = 256  # after which observations are added up for the filter


class EvolutionWorker:
    """One player of blocks; ``collect`` plays one, over as many calls as it takes. ``check``: see RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(
        self, config: EvolutionKeys, env: Mapping[str, Any], spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """See RolloutWorker; of ``identity`` seed, index and incarnation are used, and output, the folder to record into."""
        make.make_ready(env)
        self._config, self._identity, self._weights = config, identity, node_weights.source(server)
        hooks = callbacks.make(config)
        self._watch = CallbackEpisodes(hooks, identity["index"]) if hooks else None
        self._episodes = Episodes({**env, "fresh_envs": config.fresh_envs}, config.horizon, self._watch)
        self._reward_rule = preprocessors.reward_rule(config.clip_rewards, env.get("preprocessing"))
        self._policy = NumpyPolicy(spec)
        self._flat = Flat(spec.nets[0].weight_shapes())
        self._noise = noise_table.make(config, self._flat.size)
        folder = identity.get("output")
        self._recorder = Recorder(config, folder, identity, self._policy, 1) if folder else None
        self._version = self._sequence = 0
        self._playing = None  # the _Playing of the block that is under way

    def collect(
        self, min_version: int, max_version: int | None, block: Block
    ) -> tuple[Evaluated, dict[str, np.ndarray]]:
        """Play ``block``, or go on with it, for up to ``rollout_fragment_length`` steps; returns (Evaluated, results).

        ``results``, when all episodes have ended, else {}: "index" int64 [K], "fitness" float64 [K, 2] of θ + σε and θ − σε,
        "length" int64 [K, 2]. A block begins with weights of ``min_version`` or newer, none beyond ``max_version``.
        """
        began = time.perf_counter()
        seconds = {"env": 0.0, "policy": 0.0}
        if self._playing is None or self._playing.block != block:
            self._adopt(min_version, max_version)
            self._playing = self._begin(block)
        playing, episodes = self._playing, self._episodes
        playing.play(self._config.rollout_fragment_length, seconds, self.check)
        meta = Meta(self._identity["index"], self._identity["incarnation"], self._sequence, self._version)
        self._sequence += 1
        whole = not playing.going
        if whole and self._recorder is not None:
            self._record(self._recorder, playing)
        notes, episodes.notes = tuple(episodes.notes[:3]), []
        bad, episodes.bad_steps = episodes.bad_steps, 0
        seconds["making"] = episodes.take_making_s()
        seconds["total"] = time.perf_counter() - began
        played = playing.take_played()
        metrics = self._watch.take() if self._watch else ()
        given = (meta, played["steps"], played["episodes"], bad, notes, seconds, {}, played["seen"])
        if whole:
            self._playing = None
        return Evaluated(*given, block, whole, playing.unperturbed(), told=metrics), playing.results() if whole else {}

    def _record(self, recorder: Recorder, playing: _Playing) -> None:
        """Write a block's episodes down, now that it is whole: the successor of a dead worker plays all of them again."""
        for episode in playing.recorded:
            recorder.add(whole_episode(*episode))
        self._episodes.notes = [*recorder.notes, *self._episodes.notes]
        recorder.notes = []

    def _adopt(self, min_version: int, max_version: int | None) -> None:
        waiting = WeightWait(self._identity["index"], min_version)
        while True:
            found = self._weights.pull(self._version, max_version).result()
            if found is not None:
                self._version, weights = found
                self._policy.set_weights(weights[DEFAULT_POLICY])
            if self._version >= max(1, min_version):
                return
            waiting.pause(self._version)

    def _begin(self, block: Block) -> _Playing:
        config, seed = self._config, self._identity["seed"]
        theta = self._flat.vector(self._policy.weights)
        indices = range(block.first, block.first + block.count)
        rows, keys = [], []
        for index in indices:
            step = np.float32(config.noise_stdev) * self._noise.direction(block.round, index)
            rows += [theta + step, theta - step]
            keys += [(seed, block.round, index)] * 2  # both sides begin alike: what differs is what was done
        for index in indices:
            extra = unperturbed_episodes(config.eval_prob, seed, block.round, index)
            rows += [theta] * extra
            keys += [(seed, block.round, index, UNPERTURBED, count) for count in range(extra)]
        self._episodes.begin(keys)
        policy = perturbed(self._policy, self._flat, np.stack(rows))
        return _Playing(block, policy, self._episodes, config, self._reward_rule, bool(self._recorder))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts) of the recording and of callbacks, if there are any, and of nothing else.

        Between two steps of the learner no episode is under way, and none depends on the past.
        """
        kept = {"callbacks": self._watch.hooks.state()} if self._watch else {}
        if not self._recorder:
            return {}, kept
        arrays, facts = self._recorder.state()
        return arrays, kept | {"recorder": facts}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self._playing = None
        if self._recorder and "recorder" in facts:
            self._recorder.load(arrays, facts["recorder"])
        if self._watch:
            self._watch.hooks.load(facts.get("callbacks"))

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of the environments of the last round, none before the first."""
        return worker_functions.to_envs(function, self._episodes.objects())

    def close(self) -> None:
        """Close the environments and give the noise back."""
        self._episodes.close()
        self._noise.close()
        if self._recorder:
            self._recorder.close()


class _Playing:
    """The episodes of a block: the first 2K are its directions' two sides, unperturbed ones follow."""

    def __init__(
        self,
        block: Block,
        policy: NumpyPolicy,
        episodes: Episodes,
        config: EvolutionKeys,
        rule: RewardRule,
        keeps: bool = False,
    ) -> None:
        """``keeps``: whether steps are kept, for ``recorded``."""
        self.block, self._policy, self._episodes, self._config = block, policy, episodes, config
        self._rule, self._offset = rule, config.offset if isinstance(config, ARSConfig) else 0.0
        count = len(episodes.lengths)
        self.going = list(range(count))
        self._returns, self._fitness, self._discount = np.zeros(count), np.zeros(count), np.ones(count)
        self._lengths = np.zeros(count, np.int64)
        is_noisy = policy.is_box and config.action_noise_std > 0
        self._rng = generator(config.seed or 0, "noise", block.round, block.first, UNPERTURBED) if is_noisy else None
        self._steps, self._ended, self._obs, self._seen = 0, [], [], None
        self._keeps = keeps
        self._kept: list[list[tuple]] = [[] for _ in range(count)]  # (obs, action, reward) of the running episodes
        self.recorded = []  # those that have ended, see ``recorder.whole_episode``

    def play(self, steps: int, seconds: dict[str, float], check: Callable[[], None]) -> None:
        """Take up to ``steps`` steps of every episode that goes on; ``check`` is called before each."""
        for _ in range(steps):
            if not self.going:
                break
            check()
            self._step(seconds)
        self._note()
        if self.going and self._episodes.lengths[self.going].max() > LONGEST_EPISODE:
            raise RunFailed(
                f"An episode has not ended after {LONGEST_EPISODE} steps. The complete return is needed: set horizon."
            )

    def _step(self, seconds: dict[str, float]) -> None:
        began = time.perf_counter()
        episodes, going = self._episodes, self.going
        if self._policy.spec.filter:
            newest = episodes.newest()
            self._obs.append(newest if len(going) == len(newest) else newest[going])
            if len(self._obs) == NOTED_STEPS:
                self._note()
        action, _, _ = self._policy.act(episodes.stacked(), (), None, False)
        if self._rng is not None:
            action = self._blurred(action, self._rng)
        given = self._policy.to_env(action)
        before = episodes.newest() if self._keeps else None
        acted = time.perf_counter()
        rewards, ended, broken = episodes.step(given, going)
        self._steps += len(going) - len(broken)
        if before is not None:
            self._keep(before, action, rewards, ended, broken)
        self._count(rewards)
        for index in broken:
            self._returns[index] = self._fitness[index] = 0.0
            self._discount[index] = 1.0
        if ended:
            self._end(ended)
        seconds["policy"] += acted - began
        seconds["env"] += time.perf_counter() - acted

    def _keep(
        self, obs: np.ndarray, action: np.ndarray, rewards: np.ndarray, ended: Collection[int], broken: Collection[int]
    ) -> None:
        """Keep a step of every episode that goes on; what a broken one has done is not kept."""
        last = self._episodes.newest()
        for index in self.going:
            self._kept[index].append((obs[index], action[index], rewards[index]))
        for index in broken:
            self._kept[index] = []
        for index in sorted(ended):
            self.recorded.append((self._kept[index], last[index], bool(self._episodes.terminated[index])))
            self._kept[index] = []

    def _count(self, rewards: np.ndarray) -> None:
        """Add a step's rewards, 0 for those that stood still, to returns, and to what is compared."""
        self._returns += rewards
        counted = clipped_rewards(rewards, self._rule)
        if self._offset:
            counted = counted.copy()
            counted[self.going] -= self._offset
        if self._config.gamma == 1:
            self._fitness += counted
        else:
            self._fitness += self._discount * counted
            self._discount[self.going] *= self._config.gamma

    def _blurred(self, action: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """``action`` with noise on the rows that are perturbed."""
        low, high = self._policy.bounds()
        drawn = rng.standard_normal(action.shape, dtype=np.float32)
        drawn[2 * self.block.count :] = 0.0
        return action + np.float32(self._config.action_noise_std) * (high - low) / 2 * drawn

    def _end(self, ended: Collection[int]) -> None:
        for index in sorted(ended):
            self._lengths[index] = self._episodes.lengths[index]
            self._ended.append((float(self._returns[index]), int(self._lengths[index])))
        self.going = [index for index in self.going if index not in ended]

    def _note(self) -> None:
        """Add what was seen since the last time to the filter's statistics."""
        if self._obs:
            seen = moments(np.concatenate(self._obs))
            self._seen = merged(self._seen or nothing(seen.mean.shape), seen)
            self._obs = []

    def take_played(self) -> dict[str, Any]:
        """Return what was played since the last time: dict(steps, episodes, seen)."""
        played = {"steps": self._steps, "episodes": tuple(self._ended), "seen": self._seen and {"obs": self._seen}}
        self._steps, self._ended, self._seen = 0, [], None
        return played

    def results(self) -> dict[str, np.ndarray]:
        """Return what the learner gets, see ``EvolutionWorker.collect``."""
        first, count = self.block.first, self.block.count
        return {
            "index": np.arange(first, first + count),
            "fitness": self._fitness[: 2 * count].reshape(count, 2),
            "length": self._lengths[: 2 * count].reshape(count, 2),
        }

    def unperturbed(self) -> tuple[float, ...]:
        """Return the returns of the unperturbed episodes, when all episodes have ended."""
        return () if self.going else tuple(self._returns[2 * self.block.count :].tolist())


def perturbed(policy: NumpyPolicy, flat: Flat, vectors: np.ndarray) -> NumpyPolicy:
    """Return a policy whose i-th row acts with the weights ``vectors[i]``, for ``vectors`` [N, size] with N > 1.

    ``flat``: the Flat of the acting net's weights. The filter is that of ``policy``, for all rows.
    """
    net = dataclasses.replace(policy.spec.nets[0], copies=len(vectors))
    return policy.with_net(_EachItsOwn(Forward(net, flat.weights(vectors))))


class _EachItsOwn:
    """Copies of a net, each for one row."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def __call__(self, x: np.ndarray, rng: np.random.Generator | None = None) -> dict[str, np.ndarray]:
        """Map float32 [N, I] to {head: float32 [N, size]}."""
        return {head: values[:, 0] for head, values in self._forward(x[:, None], rng).items()}


def unperturbed_episodes(share: float, seed: int, number: int, index: int) -> int:
    """Return the unperturbed episodes beside direction ``index`` of round ``number``: ``share`` of all, on average."""
    if not share:
        return 0
    return int(2 * share / (1 - share) + generator(seed, "tester", number, index).random())
