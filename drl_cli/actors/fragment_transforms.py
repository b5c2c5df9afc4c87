"""What happens to a fragment between the step that closes it and the replay or the learner: a list of transforms, in order.

Used by ``rollout_worker``, ``policy_slots`` and ``experience_reader``, which say which transforms apply. A transform is a
function of a ``ClosedFragment``, whose columns it may replace or add to. The order matters: a recording holds raw rewards,
callbacks see clipped ones, filters take note of what callbacks leave, first priorities are of rewards as they are learnt from.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli.actors.fragment import Fragment
from drl_cli.actors.recorder import Recorder
from drl_cli.actors.running_filters import Differences
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.multi_agent.agents_callbacks import PolicyCallbacks
from drl_cli.policies.numpy_policy import NumpyPolicy

RewardRule = bool | float | tuple[float, float] | list[float] | None
"""None or False: rewards stay as they are; True: signs; x: within ±x; (low, high)."""


@dataclasses.dataclass
class ClosedFragment:
    """A fragment that holds all of its steps."""

    columns: dict[str, np.ndarray]  # ``experience.columns.FRAGMENT``
    weights: Mapping[str, np.ndarray] | None = None  # that acted; None before the first, and where files are read
    fragment: Fragment | None = None  # where it was sampled: it knows the stacks of frames
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)  # of the worker's time
    seen: dict[str, Any] | None = None  # ``Token.seen``
    scale: np.float32 = np.float32(1.0)  # by what rewards are still to be divided


Transform = Callable[[ClosedFragment], None]


def recorded(recorder: Recorder) -> Transform:
    """Write the fragment to files."""
    return lambda closed: recorder.add(closed.columns)


def clipped(rule: RewardRule) -> Transform:
    """Clip rewards."""

    def apply(closed: ClosedFragment) -> None:
        closed.columns["reward"] = clipped_rewards(closed.columns["reward"], rule)

    return apply


def postprocessed(watch: CallbackEpisodes | PolicyCallbacks, gamma: float) -> Transform:
    """Call ``on_postprocess`` of the callbacks."""
    return lambda closed: watch.postprocess(closed.columns, gamma)


def rewarded_for_novelty(bonus: Callable[[dict[str, np.ndarray]], np.ndarray | None]) -> Transform:
    """Add the intrinsic rewards that an exploration gives for a fragment's columns, where it gives any."""

    def apply(closed: ClosedFragment) -> None:
        intrinsic = bonus(closed.columns)
        if intrinsic is not None:
            closed.columns["reward"] = closed.columns["reward"] + intrinsic

    return apply


def filtered(differences: Differences) -> Transform:
    """Take note of what the filters' statistics need, and divide rewards that are not replayed by their deviation."""

    def apply(closed: ClosedFragment) -> None:
        closed.seen, closed.scale = differences.note(closed.columns, closed.weights)

    return apply


def prioritized(policy: NumpyPolicy, envs: EnvBatch, window: tuple[float, int]) -> Transform:
    """Add first priorities, for a fragment that is to have them; ``window``: (gamma, n_step)."""

    def apply(closed: ClosedFragment) -> None:
        fragment = closed.fragment
        if fragment is None or not fragment.is_judged:
            return
        began = time.perf_counter()
        fragment.judge(policy, envs.stacked(), window, closed.scale)
        closed.seconds["policy"] += time.perf_counter() - began

    return apply


def finished(watch: CallbackEpisodes | PolicyCallbacks) -> Transform:
    """Call ``on_sample_end`` of the callbacks."""
    return lambda closed: watch.sampled(closed.columns)


def clipped_rewards(reward: np.ndarray, rule: RewardRule) -> np.ndarray:
    """Return the rewards to learn from."""
    if rule is None or rule is False:
        return reward
    if rule is True:
        return np.sign(reward)
    low, high = rule if isinstance(rule, (tuple, list)) else (-rule, rule)
    return np.clip(reward, low, high).astype(np.float32)
