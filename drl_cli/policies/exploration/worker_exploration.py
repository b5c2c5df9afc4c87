"""The exploration of one worker: the random phase first, then the kind that the config names.

Types, keys and meanings are RLlib's (1.0.1), resolved by ``config.sections.exploration``. Deviations:
- Ladders run over all environments of the run from i = 0 on, not over workers (see ``interface``).
- The env steps t of the run are estimated as base + steps·streams: what the run had when the worker began, and what all
  environments have done since if they are as fast as the worker's own. RLlib's workers get the driver's count now
  and then. Thus a worker computes t by itself, and a resumed run goes on with the same.
- While no weights have come actions are uniform: workers start before the learner has loaded.
- ``explore`` false takes greedy actions after the random phase; RLlib drops that phase as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.exploration import TYPES
from drl_cli.config.sections.exploration_settings import exploration_settings
from drl_cli.policies.action_specs import box
from drl_cli.policies.exploration.action_noise import GaussianNoise, OrnsteinUhlenbeckNoise
from drl_cli.policies.exploration.custom_exploration import CustomExploration
from drl_cli.policies.exploration.draws import EpsilonGreedy, HeldActions, Random, SoftQ, StochasticSampling
from drl_cli.policies.exploration.gsde import StateDependentNoise, StateDependentSampling
from drl_cli.policies.exploration.interface import ladder, scheduled
from drl_cli.policies.exploration.parameter_noise import ParameterNoise
from drl_cli.policies.exploration.rnd import RandomNetworkDistillation
from drl_cli.randomness import generator

if TYPE_CHECKING:
    from drl_cli.config.sections.rollout import RolloutKeys
    from drl_cli.policies.exploration.interface import Acted, Exploration, Place
    from drl_cli.policies.nets import State
    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

ALL = slice(None)


def make(config: RolloutKeys, spec: PolicySpec, place: Place, agents: int = 1) -> WorkerExploration:
    """Return the Exploration of a worker.

    ``config``: of an algorithm; ``spec``: PolicySpec; ``place``: dict(stream: index of the worker's first environment
    among all of the run, streams: how many those are, random_steps: uniform steps of each environment, base: env steps
    of the whole run when this worker began). ``agents``: for how many of each environment the policy acts; they are rows one
    after the other, on one rung of a ladder.
    """
    settings = exploration_settings(config)
    count = config.num_envs_per_worker * agents
    if settings["type"] == "RND":
        # What acts begins to fall after the random phase, too.
        sub = settings["sub_exploration"] | {"random_timesteps": settings["random_timesteps"]}
        rng = generator((isinstance(config, CommonKeys) and config.seed) or 0, "rnd", place["stream"])
        acts = _kind(sub, spec, (place, agents), count)
        kind: Exploration = RandomNetworkDistillation(spec.obs_shape[0], count, settings, acts, rng)
    else:
        kind = _kind(settings, spec, (place, agents), count)
    return WorkerExploration(config.explore, place, _held(settings, spec, count), kind)


def _held(settings: Mapping[str, Any], spec: PolicySpec, count: int) -> HeldActions:
    return HeldActions(count, settings.get("hold_steps", 1), spec.action)


def _kind(settings: Mapping[str, Any], spec: PolicySpec, rows: tuple[Place, int], count: int) -> Exploration:
    """``rows``: the worker's place, and how many of its ``count`` rows belong to one environment."""
    name = settings["type"]
    if name not in TYPES:
        return CustomExploration(settings, spec, count)
    if name == "StochasticSampling" and spec.nets[0].sde:
        return StateDependentSampling(spec, count, settings["sde_sample_freq"])
    if name == "StochasticSampling":
        return StochasticSampling()
    if name == "Random":
        return Random(_held(settings, spec, count))
    if name == "SoftQ":
        return SoftQ(settings["temperature"])
    if name == "ParameterNoise":
        # What is laid over begins to fall after the random phase, too.
        sub = settings["sub_exploration"] | {"random_timesteps": settings["random_timesteps"]}
        return ParameterNoise(spec, count, settings["initial_stddev"], sub, _kind(sub, spec, rows, count))
    level = ladder(rows[0], count, rows[1]) if name.startswith("PerWorker") else scheduled(settings)
    if name.endswith("EpsilonGreedy"):
        return EpsilonGreedy(level, _held(settings, spec, count))
    if name.endswith("GaussianNoise"):
        return GaussianNoise(box(spec.action), level, settings["stddev"])
    if name.endswith("OrnsteinUhlenbeckNoise"):
        return OrnsteinUhlenbeckNoise(box(spec.action), count, level, settings)
    return StateDependentNoise(spec, count, level, settings)


class WorkerExploration:
    """Chooses the actions of training for the environments of one worker.

    What the next action depends on beside weights and generator stands in ``memory`` dicts of arrays, which every part
    changes in place: saving and loading are the same for all kinds.
    """

    def __init__(self, explore: bool, place: Place, held: HeldActions, kind: Exploration) -> None:
        """``held``: the HeldActions of the random phase; ``kind``: what explores after it, see ``interface``."""
        self._explore, self._place, self._held, self._kind = explore, place, held, kind

    def act(
        self,
        policy: NumpyPolicy,
        obs: np.ndarray,
        state: State,
        rng: np.random.Generator,
        steps: int,
        env: int | None = None,
    ) -> Acted:
        """Return (action [N, …], next state, columns) for ``obs`` [N, *stacked_shape], all environments in order.

        ``policy``: NumpyPolicy; ``rng``: the worker's generator; ``steps``: steps that each of its environments has
        taken; ``env``: the index of the one environment that ``obs`` [1, …] belongs to, None for all.
        """
        rows = ALL if env is None else slice(env, env + 1)
        if steps < self._place["random_steps"] or not policy.has_weights:
            action = self._held.uniform(policy, rng, obs, rows)
            return action, policy.noted(policy.next_state(obs, state), action), policy.random_columns(obs)
        if not self._explore:
            return policy.act(obs, state, rng, False)
        return self._kind.act(policy, obs, state, rng, (self._now(steps), rows))

    def logp(
        self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, steps: int, env: int | None = None
    ) -> np.ndarray | None:
        """Return how likely the ``action`` was that ``act`` has just chosen with these arguments, or None.

        float32 [N]; of a Box it is the log-density of ``policy.recorded(action)``, in the environment's units. ``state`` is
        the one before the action. It is that of the exploring policy, random actions included. None where there is no
        such number: greedy actions, held ones, noise that is clipped or goes on from step to step. What is not drawn
        again at every step gives no other action a chance, so that nothing can be estimated from it.
        """
        rows = ALL if env is None else slice(env, env + 1)
        if steps < self._place["random_steps"] or not policy.has_weights:
            return policy.random_logp(obs) if self._held.is_free else None
        if not self._explore:
            return None
        found = self._kind.logp(policy, obs, state, policy.recorded(action), (self._now(steps), rows))
        return None if found is None else found.astype(np.float32)

    def bonus(self, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the intrinsic rewards of a fragment, float32 [T, N]; None where exploration brings none, or is off."""
        return (
            self._kind.bonus(columns) if self._explore and isinstance(self._kind, RandomNetworkDistillation) else None
        )

    def ended(self, index: int) -> None:
        """Note that an episode has ended, or was broken off, in environment ``index``."""
        self._held.ended(index)
        self._kind.ended(index)

    def describe(self, steps: int) -> dict[str, float]:
        """Return {name: float}: how strongly the worker explores after ``steps`` of each of its environments."""
        return self._kind.describe(self._now(steps)) if self._explore else {}

    def _now(self, steps: int) -> int:
        return self._place["base"] + steps * self._place["streams"]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts)."""
        arrays = {f"{part}/{name}": array.copy() for part, name, array in self._memories()}
        return arrays, {"kind": self._kind_name, "memory": sorted(arrays)}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from ``state``; where it is that of another kind of exploration, or of other sizes, begin anew."""
        own = {f"{part}/{name}": array for part, name, array in self._memories()}
        fits = facts["kind"] == self._kind_name and facts["memory"] == sorted(own)
        if fits and all(name in arrays and _alike(arrays[name], array) for name, array in own.items()):
            for name, array in own.items():
                array[...] = arrays[name]

    @property
    def _kind_name(self) -> str:
        return self._kind.name if isinstance(self._kind, CustomExploration) else type(self._kind).__name__

    def _memories(self) -> Iterator[tuple[str, str, np.ndarray]]:
        for part, memory in (("held", self._held.memory), ("kind", self._kind.memory)):
            for name, array in memory.items():
                yield part, name, array


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.can_cast(one.dtype, other.dtype, "equiv")
