"""One policy in a multi-agent worker: computes the actions of its streams and stores their steps in its fragment.

A stream is one agent in one environment: number env·A + i for the i-th of the A agents that the policy may act for. All
streams go through the network in one batch of constant size, whichever agents act: the rounding of a matrix product depends on
the number of rows, and an action must not depend on which other agents act. In turn-based environments, where at most half
of the streams act at a time, blocks of constant size hold those that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from drl_cli.actors import fragment_transforms
from drl_cli.actors.agent_fragment import AgentFragment
from drl_cli.actors.agents_recorder import NOTED, PolicyRecording
from drl_cli.actors.fragment_transforms import ClosedFragment, RewardRule, Transform
from drl_cli.actors.part_records import SampledConfig
from drl_cli.actors.running_filters import Differences
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.envs import preprocessors
from drl_cli.envs.env_spec import EnvSetup, agents_of
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.multi_agent.agents_callbacks import PolicyCallbacks
from drl_cli.policies import exploration
from drl_cli.policies.exploration.interface import Place
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

BLOCK = 32  # of a net of 2x256 units, 128 rows take 1.3 times as long as in one block, and 5 rows a third


class PolicySetup(NamedTuple):
    """What a policy is made of: the run's config with the keys in which the policy differs, and its spec."""

    config: Any  # a SampledConfig
    spec: PolicySpec
    agents: tuple[str, ...]  # that it may act for, in the environment's order
    is_trained: bool


class PolicySlots:
    """The streams of one policy in one worker."""

    def __init__(
        self,
        setup: PolicySetup,
        env: EnvSetup,
        envs: int,
        place: Place,
        watch: PolicyCallbacks | None = None,
        recording: PolicyRecording | None = None,
    ) -> None:
        """``envs``: environments of the worker; ``place``: the worker's place in the run, see ``exploration.make``.

        ``watch``: the callbacks that see the policy's steps; ``recording``: what writes them down; or None.
        """
        config: SampledConfig = setup.config
        self.setup, self.place = setup, place
        self._config, self._agents = config, {agent: index for index, agent in enumerate(setup.agents)}
        self.count = envs * len(setup.agents)
        self.policy = NumpyPolicy(setup.spec)
        self._block = min(BLOCK, envs) if agents_of(env)["is_turn_based"] and self.policy.has_blocks else None
        self.exploration = exploration.make(config, setup.spec, place, len(setup.agents))
        self._differences = Differences(config, setup.spec, self.count)
        self.frames = FrameStack(self.count, setup.spec.obs_shape, setup.spec.obs_dtype, setup.spec.frames)
        self._state = self.policy.initial_state(self.count)
        self._position = np.zeros(self.count, np.int32)
        is_whole = isinstance(config, TrajectoryKeys) and config.batch_mode == "complete_episodes"
        self._watch, self._recording = watch, recording
        noted = NOTED if recording else {}
        self.fragment = AgentFragment(setup.spec, config.rollout_fragment_length, self.count, is_whole, noted)
        rule = preprocessors.reward_rule(config.clip_rewards, env.get("preprocessing"))
        self._transforms = list(self._transforms_of(rule))

    def _transforms_of(self, rule: RewardRule) -> Iterator[Transform]:
        """Yield what happens to each closed fragment, in this order; ``rule``: of clipping rewards."""
        recording, watch = self._recording, self._watch
        if recording:
            yield lambda closed: recording.add(closed.columns, self.policy)
        yield fragment_transforms.clipped(rule)
        if watch:
            yield fragment_transforms.postprocessed(watch, self._config.gamma)
        yield fragment_transforms.filtered(self._differences)
        if watch:
            yield fragment_transforms.finished(watch)

    def stream(self, env: int, agent: str) -> int:
        """Return the stream of ``agent`` in environment ``env``."""
        return env * len(self._agents) + self._agents[agent]

    def adopt(self, weights: Mapping[str, np.ndarray]) -> None:
        """Act with ``weights`` from now on."""
        self.policy.set_weights(weights)

    def use_own_filter(self) -> None:
        """Act with the worker's own filter, where it has one."""
        if self._differences.are_apart and self.policy.has_weights:
            self.policy.set_weights(self._differences.acting(self.policy.weights))

    def act(
        self,
        streams: Sequence[int],
        rng: np.random.Generator,
        steps: int,
        given: Mapping[int, np.ndarray] = MappingProxyType({}),
    ) -> np.ndarray:
        """Return the actions of ``streams`` in the environment's units, [n, …].

        ``streams``: n stream numbers; ``steps``: env steps of each environment so far, for exploration schedules. ``given``:
        by stream, actions in the policy's units that were chosen elsewhere, and take the place of the policy's.
        """
        rows = np.asarray(streams)
        stacked = self.frames.stacked()
        policy = self.policy if self._block is None else self.policy.for_rows(rows, self._block)
        action, after, scores = self.exploration.act(policy, stacked, self._state, rng, steps)
        scores = scores if "logp" in scores else policy.scores(scores, action)
        if given:
            for stream, chosen_elsewhere in given.items():
                action[stream] = chosen_elsewhere
            after = self.policy.noted(after, action)
        before = [part[rows] for part in self._state]
        chosen = {name: column[rows] for name, column in scores.items()}
        if self._recording:
            logp = self.exploration.logp(self.policy, stacked, self._state, action, steps)
            chosen |= self._recording.noted(rows, None if logp is None else logp[rows])
        if self._watch:
            self._watch.acted(streams)
        self.fragment.open(rows, stacked[rows], action[rows], chosen, (self._position[rows], before))
        for part, new in zip(self._state, after, strict=True):
            part[rows] = new[rows]
        self._position[rows] += 1
        return self.policy.to_env(action)[rows]

    def began(self, stream: int, frame: np.ndarray) -> None:
        """Begin an agent's episode in ``stream`` with its first observation, ``frame`` [*obs_shape]."""
        self._forget(stream)
        self.frames.begin(stream, self.frames.seen(frame))

    def observed(self, stream: int, frame: np.ndarray) -> None:
        """Close the open step of ``stream``, whose agent acts again on ``frame`` [*obs_shape]."""
        self._note_reward(stream)
        self.fragment.closed(stream)
        self.frames.push(stream, self.frames.seen(frame))

    def rewarded(self, stream: int, reward: float) -> None:
        """Add to the reward of the open step of ``stream``."""
        self.fragment.rewarded(stream, reward)

    def ended(self, stream: int, ends: tuple[bool, bool], frame: np.ndarray) -> None:
        """End the episode of ``stream``; ``ends``: (terminated, truncated), ``frame`` [*obs_shape]: the final observation."""
        seen_as = (False, True) if self._config.no_done_at_end else ends
        self._note_reward(stream)
        state = [part[stream].copy() for part in self._state]
        self.fragment.ended(stream, seen_as, self.frames.seen(frame), state)
        self._forget(stream)

    def broken(self, stream: int) -> None:
        """Truncate the episode of ``stream``, which an environment error has ended; its open step is discarded."""
        if self._watch and self.fragment.is_open[stream]:
            self._watch.taken_back(stream)
        state = [part[stream].copy() for part in self._state]
        self.fragment.broken(stream, self.frames.newest(slice(stream, stream + 1))[0], state)
        self._forget(stream)

    def _note_reward(self, stream: int) -> None:
        if self.setup.spec.previous:
            self.policy.rewarded(self._state, self.fragment.open_reward(stream), slice(stream, stream + 1))

    def _forget(self, stream: int) -> None:
        self.exploration.ended(stream)
        self._position[stream] = 0
        for part in self._state:
            part[stream] = 0.0

    def close(self) -> ClosedFragment:
        """Return the fragment of all closed steps with its transforms applied; open steps become the first of the next one."""
        columns, self.fragment = self.fragment.close(self.frames.newest(), self._state)
        closed = ClosedFragment(columns, self.policy.weights)
        for transform in self._transforms:
            transform(closed)
        return closed

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): all that the next fragment depends on."""
        arrays = {f"open/{name}": array for name, array in self.fragment.state().items()}
        arrays |= {f"state_{index}": part.copy() for index, part in enumerate(self._state)}
        arrays |= {"position": self._position.copy(), "frames": self.frames.stacked()} | self._differences.state()
        if self._recording:
            arrays |= {f"recording/{name}": array for name, array in self._recording.state().items()}
        explored, facts = self.exploration.state()
        arrays |= {f"exploration/{name}": array for name, array in explored.items()}
        return arrays, {"place": dict(self.place), "exploration": facts}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from ``state``. Raises KeyError or ValueError for what is no state of such streams."""
        self.fragment.load(_under("open/", arrays))
        if self._watch:
            self._watch.load(self.fragment.is_open)
        if self._recording:
            self._recording.load(_under("recording/", arrays))
        for index, part in enumerate(self._state):
            part[...] = arrays[f"state_{index}"]
        self._position[...] = arrays["position"]
        self.frames.load(arrays["frames"])
        self._differences.load(arrays)
        self.place = facts["place"]
        self.exploration = exploration.make(self._config, self.setup.spec, self.place, len(self.setup.agents))
        self.exploration.load(_under("exploration/", arrays), facts["exploration"])


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
