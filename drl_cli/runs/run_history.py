"""What is known of a run: before it starts (``Situation``), and from its results so far (``History``).

User: ``runs.diagnosis``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from drl_cli.config.sections.deterministic import sources
from drl_cli.config.sections.exploration_settings import exploration_settings, uses_sde
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.on_policy import OnPolicyKeys, TrajectoryKeys
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.envs import make
from drl_cli.evolution.keys import EvolutionKeys

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys

FALLEN = 8  # evaluations that are kept
NEWEST = 20  # results whose rewards say whether training still rises
EARLY = 5  # results whose rewards say where training began
STILL_RISING = 0.05  # of the spread of rewards so far
NARROWER = "Set model={free_log_std: true, log_std_init: -2}"
NARROW = -1.0  # log standard deviation up to which noise counts as small
_SIZES_OF_NOISE = ("stddev", "ou_base_scale", "initial_stddev", "final_epsilon", "temperature")  # exploration_config


class Situation(NamedTuple):
    """What is known of a run before it starts.

    gamma, streams (environments side by side), limit: steps after which an episode is cut, or None; horizon: the key, which
    may be that limit; target: the reward that is wanted, or None; threshold: that at which the registry calls the environment
    solved, or None; choices: ln of the number of choices of Discrete actions, None for Box; dims: numbers of an action;
    scaled: rewards are learnt from in other units than they are reported in; unscalable: the algorithm refuses that; reads:
    all is read from files, no environment is stepped; fresh: every episode has a new environment; state_std: the policy's
    network gives the standard deviation of Box actions for each state, which model.free_log_std can change; bound: the largest
    bound of observations that are vectors and not filtered, else None; explore: which keys make the run find rewards, wider:
    which makes its actions vary more all along, narrower: which less, each as a sentence without its stop. ``narrower`` is
    empty where the policy does not begin with wide deviations of a Gaussian.
    """

    gamma: float = 0.99
    streams: int = 1
    limit: int | None = None
    horizon: int | None = None
    target: float | None = None
    threshold: float | None = None
    choices: float | None = None
    dims: int = 1
    scaled: bool = False
    unscalable: bool = False
    reads: bool = False
    fresh: bool = False
    state_std: bool = False
    bound: float | None = None
    explore: str = "Explore more"
    wider: str = "Explore more"
    narrower: str = ""


def situation(config: CommonKeys, env: str, env_facts: Mapping[str, Any], goal: float | None = None) -> Situation:
    """Return the Situation of a run; ``env_facts``: those of its spec, ``goal``: the reward at which it stops, or None."""
    choices, dims = _choices((env_facts.get("spaces") or {}).get("action") or {})
    limits = [config.horizon, _registered(make.time_limit, env)]
    threshold = _registered(make.reward_threshold, env)
    return Situation(
        gamma=config.gamma,
        streams=sources(config) * config.num_envs_per_worker,
        limit=min((limit for limit in limits if limit), default=None),
        horizon=config.horizon,
        target=goal if goal is not None else threshold,
        threshold=threshold,
        choices=choices,
        dims=dims,
        reads=reads_only(config),
        fresh=config.fresh_envs,
        state_std=choices is None and _has_state_std(config),
        scaled=bool(config.reward_scaling or config.clip_rewards),
        unscalable=not config.takes_scaled_rewards,
        bound=None
        if config.observation_filter != "NoFilter"
        else _largest_bound((env_facts.get("spaces") or {}).get("obs")),
        explore=_exploration(config),
        wider=_wider(config, choices, dims),
        narrower=NARROWER if choices is None and _has_wide_std(config) else "",
    )


def _largest_bound(obs: Mapping[str, Any] | None) -> float | None:
    """Return the bound of a vector that is farthest from 0, without its sign; None for images, and where there is none."""
    if obs is None or len(obs.get("shape") or ()) != 1:
        return None
    sides = [obs.get("low"), obs.get("high")]
    every = [bound for side in sides for bound in (side if isinstance(side, list) else [side]) if bound is not None]
    return max((abs(float(bound)) for bound in every), default=None)


def _exploration(config: CommonKeys) -> str:
    """Return which key of ``config`` makes a run explore more, as a sentence without its stop."""
    if isinstance(config, OnPolicyKeys):
        return "Raise entropy_coeff"
    if isinstance(config, TrajectoryKeys):
        return "Keep random actions for longer (exploration_config.epsilon_timesteps)"
    if isinstance(config, BufferKeys) and isinstance(config, RolloutKeys):
        return "Hold random actions for some steps (exploration_config.hold_steps), or take more (learning_starts)"
    return "Raise noise_stdev" if isinstance(config, EvolutionKeys) else "Explore more"


def _wider(config: CommonKeys, choices: float | None, dims: int) -> str:
    """Return which key of ``config``, with its value, makes actions vary more all along, as a sentence without its stop."""
    if isinstance(config, SoftKeys):
        name = "target_entropy" if choices is None else "target_entropy_fraction"
        given = getattr(config, name)
        return f"Raise {name} ({-dims if given in (None, 'auto') else given:g})"
    settings = exploration_settings(config) if isinstance(config, RolloutKeys) else {}
    name = next((name for name in _SIZES_OF_NOISE if settings.get(name) is not None), None)
    return f"Raise exploration_config.{name} ({settings[name]:g})" if name else _exploration(config)


def _has_state_std(config: CommonKeys) -> bool:
    if not isinstance(config, OnPolicyKeys) or uses_sde(config):
        return False
    return not (config.model.free_log_std or config.model.custom_action_dist)


def _has_wide_std(config: CommonKeys) -> bool:
    if not isinstance(config, OnPolicyKeys) or uses_sde(config) or config.model.custom_action_dist:
        return False
    return config.model.log_std_init > NARROW


def _registered(look_up: Callable[[str], Any], env_id: str) -> Any:
    try:
        return look_up(env_id)
    except Exception:  # an id that the registry of this process does not know raises one of gymnasium's many
        return None


def _choices(action: Mapping[str, Any]) -> tuple[float | None, int]:
    """Return (ln of the choices, None for Box; numbers of an action)."""
    kind = action.get("kind")
    if kind == "Discrete":
        return math.log(max(2, action["n"])), 1
    if kind == "MultiDiscrete":
        return sum(math.log(max(2, n)) for n in action.get("nvec", [2])), len(action.get("nvec", [2]))
    if kind == "MultiBinary":
        return action["n"] * math.log(2), action["n"]
    if kind == "Composite":
        parts = [_choices(part) for part in action.get("parts", [])]
        choices = [choice for choice, _ in parts]
        total = None if None in choices or not choices else sum(choice for choice in choices if choice is not None)
        return total, sum(count for _, count in parts)
    return None, math.prod(action.get("shape") or [1])


class ScoredEvaluation(NamedTuple):
    """One evaluation: its iteration, the mean, lowest and highest reward, env steps then, and the training reward then."""

    iteration: int
    mean: float
    lowest: float | None
    highest: float | None
    steps: int
    trained: float | None

    @property
    def score(self) -> float | None:
        """The reward of every episode where all had the same, else None."""
        return self.lowest if self.lowest == self.highest else None


class History:
    """What the results of a run have shown so far."""

    def __init__(self) -> None:
        self.rewards: deque[float] = deque(maxlen=NEWEST)  # episode_reward_mean of the newest results
        self.lowest, self.highest = math.inf, -math.inf  # of them all
        self.returns_from, self.returns_to = math.inf, -math.inf  # returns of single training episodes
        self.ended = (0, 0)  # (episodes, env steps) when an episode last ended
        self.evaluations: deque[ScoredEvaluation] = deque(maxlen=FALLEN)
        self.early: list[float] = []  # episode_reward_mean of the first results
        self.first_length: float | None = None  # episode_len_mean of the first result that has it
        self.count = 0  # evaluations so far
        self.first: ScoredEvaluation | None = None
        self.best: ScoredEvaluation | None = None
        self._highs: list[ScoredEvaluation] = []  # each above all before it

    def add(self, result: Mapping[str, Any]) -> None:
        """Take in one nested result."""
        reward = result.get("episode_reward_mean")
        if reward is not None:
            self.rewards.append(reward)
            self.early += [reward] if len(self.early) < EARLY else []
            self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)
        if self.first_length is None:
            self.first_length = result.get("episode_len_mean")
        for name in ("episode_reward_max", "episode_reward_min"):
            value = result.get(name)
            if value is not None:
                self.returns_from, self.returns_to = min(self.returns_from, value), max(self.returns_to, value)
        episodes, steps = result.get("episodes_total") or 0, result.get("timesteps_total") or 0
        if episodes != self.ended[0]:
            self.ended = (episodes, steps)
        self._add_evaluation(result.get("evaluation") or {}, steps, reward)

    def _add_evaluation(self, found: Mapping[str, Any], steps: int, reward: float | None) -> None:
        number, mean = found.get("training_iteration"), found.get("episode_reward_mean")
        if number is None or mean is None or (self.evaluations and self.evaluations[-1].iteration == number):
            return
        range_ = found.get("episode_reward_min"), found.get("episode_reward_max")
        one = ScoredEvaluation(number, mean, *range_, steps, reward)
        self.evaluations.append(one)
        self.count += 1
        self.first = self.first or one
        if self.best is None or one.mean > self.best.mean:
            self.best = one
            self._highs.append(one)

    @property
    def largest_return(self) -> float:
        """The return of a training episode that is farthest from 0, without its sign."""
        return max((abs(value) for value in (self.returns_from, self.returns_to) if math.isfinite(value)), default=0.0)

    @property
    def is_rising(self) -> bool:
        """Whether training rewards have risen lately, by what is worth mentioning of their spread."""
        if len(self.rewards) < NEWEST:
            return True  # too early to say that they do not
        half = NEWEST // 2
        before, after = list(self.rewards)[:half], list(self.rewards)[half:]
        return sum(after) / half - sum(before) / half > STILL_RISING * (self.highest - self.lowest)

    @property
    def is_where_it_began(self) -> bool:
        """Whether training rewards have never risen above those of the first results by what is worth mentioning.

        That is a twentieth of what single episodes differ by.
        """
        if len(self.rewards) < NEWEST or len(self.early) < EARLY:
            return False
        return self.highest - sum(self.early) / EARLY <= STILL_RISING * (self.returns_to - self.returns_from)

    def needs_noise(self, count: int, share: float) -> bool:
        """Whether the newest ``count`` evaluations, which are greedy, are below training by ``share`` of what training rose.

        Not while training still rises.
        """
        newest = list(self.evaluations)[-count:]
        if len(newest) < count or self.is_rising or self.is_where_it_began:
            return False
        gain = self.highest - sum(self.early) / EARLY
        return all(one.trained is not None and one.trained - one.mean > share * gain for one in newest)

    def training_below(self, count: int) -> float:
        """By how much training was below each of the newest ``count`` evaluations, at least; -inf where there are fewer."""
        below = [one.mean - one.trained for one in list(self.evaluations)[-count:] if one.trained is not None]
        return min(below) if len(below) == count else -math.inf

    def gains_nothing(self, count: int) -> bool:
        """Whether the newest ``count`` evaluations gained next to nothing, and rose no longer, where the first episodes cost.

        Next to nothing is a quarter of that cost; to rise is to rise by a tenth of it.
        """
        means = [one.mean for one in list(self.evaluations)[-count:]]
        cost = -sum(self.early) / len(self.early) if self.early else 0.0
        if len(means) < count or cost <= 0:
            return False
        return max(map(abs, means)) <= 0.25 * cost and means[-1] - means[0] <= 0.1 * cost

    def last_rise(self, by: float) -> ScoredEvaluation | None:
        """The newest evaluation that was above the highest rise before it by ``by`` or more; the first where none was."""
        found: ScoredEvaluation | None = None
        for one in self._highs:
            if found is None or one.mean >= found.mean + by:
                found = one
        return found

    @property
    def only_return(self) -> float | None:
        """The return of every training episode so far where all had the same, else None."""
        return self.returns_to if self.returns_to == self.returns_from else None

    def has_reached(self, target: float | None) -> bool:
        """Whether the reward that is wanted was seen: such a run is neither stuck nor lost."""
        return target is not None and max(self.highest, self.best.mean if self.best else -math.inf) >= target

    def common_score(self, count: int) -> float | None:
        """The reward of every episode of the newest ``count`` evaluations where all had the same, else None."""
        newest = list(self.evaluations)[-count:]
        scores = {one.score for one in newest}
        return scores.pop() if len(newest) == count and len(scores) == 1 else None
