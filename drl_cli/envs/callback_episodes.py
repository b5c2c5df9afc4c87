"""The episodes of a batch of environments as callbacks see them, and the parts of episodes in a fragment.

``env_batch``, ``actors.whole_episodes`` and ``actors.tester``, which step environments, call it for every event; workers
call it with their fragments. Without callbacks there is no CallbackEpisodes, and none of this is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drl_cli.envs.composite_actions import CompositeSpace
from drl_cli.envs.plugin_calls import number
from drl_cli.errors import PluginFailed, suggestion

if TYPE_CHECKING:
    import gymnasium

    from drl_cli.envs.callbacks import Hooks

EpisodeMetrics: TypeAlias = "tuple[dict[str, float], dict[str, list[float]]]"
"""(custom_metrics, hist_data) of an episode that has ended."""


OWN_HISTS = ("episode_reward", "episode_lengths")  # names in hist_stats that are taken
FIXED = ("terminated", "truncated", "cut", "length", "steps")  # columns that say how a fragment hangs together


class CallbackEpisode:
    """One episode, from its reset to its end; what hooks are given as ``episode``.

    ``env``: the environment (``env.unwrapped``: as its author made it); ``worker_index``, ``env_index``: which worker's (0 of a
    tester) which environment; ``in_evaluation``: whether the tester plays it; ``length``: env steps so far;
    ``total_reward``: their raw rewards; ``last_action`` (as the environment got it: a dict or tuple where its space is one),
    ``last_reward``, ``last_info``: of the last step, None before it.
    ``custom_metrics``: {name: number}, ``hist_data``: {name: list of numbers}: filled by hooks, reported when the episode ends.
    ``user_data``: a dict for the hooks' own use.
    """

    def __init__(self, watch: CallbackEpisodes, index: int, env: gymnasium.Env, look: Callable[[], np.ndarray]) -> None:
        self.env, self.worker_index, self.env_index = env, watch.worker_index, index
        self.in_evaluation = watch.in_evaluation
        self.length, self.total_reward = 0, 0.0
        self.last_action = self.last_reward = self.last_info = None
        self.custom_metrics, self.hist_data, self.user_data = {}, {}, {}
        self._watch, self._look = watch, look
        space = getattr(env, "action_space", None)
        self._composite = space if isinstance(space, CompositeSpace) else None

    def as_given(self, action: Any) -> Any:
        """Return ``action``, a vector where actions are a Dict or Tuple, as the environment got it."""
        return action if self._composite is None else self._composite.structured(np.asarray(action))

    @property
    def last_obs(self) -> np.ndarray:
        """The newest observation, as the policy gets it (without stacks of frames): float32 or uint8 of its shape."""
        return self._look()

    @property
    def is_replayed(self) -> bool:
        """Whether this call repeats what was there before the run was stopped and resumed."""
        return self._watch.is_replaying

    def over(self) -> None:
        """Keep the last observation, since the environment goes on to others."""
        obs = self._look()
        self._look = lambda: obs


class CallbackEpisodes:
    """Calls the hooks of one object of callbacks for the episodes of one batch of environments."""

    def __init__(
        self,
        hooks: Hooks,
        worker_index: int = 0,
        in_evaluation: bool = False,
        named: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``hooks``: a ``callbacks.Hooks``; ``named``: what hooks of steps get beside the steps."""
        self._named = named
        self.hooks, self.worker_index, self.in_evaluation = hooks, worker_index, in_evaluation
        self.is_replaying = False
        self.worker: Any = None  # what hooks are given beside the episode: the worker
        self.policy: Any = None  # and its policy
        self._running = {}  # environment's index -> CallbackEpisode
        self._ended: list[EpisodeMetrics] = []  # (custom_metrics, hist_data) of the episodes that have ended
        self._rows = {}  # environment's index -> the episode of each of its steps in the fragment that is being made
        self._keeps_rows = hooks.has("on_postprocess") and not in_evaluation

    def began(self, index: int, env: gymnasium.Env, look: Callable[[], np.ndarray]) -> None:
        """An episode has begun in ``env``; ``look()`` returns its newest observation."""
        self.start(index, CallbackEpisode(self, index, env, look))

    def start(self, index: int, episode: Any) -> None:
        """Begin ``episode`` in environment ``index``: a CallbackEpisode, or one of several agents."""
        self._running[index] = episode
        self.hooks.call("on_episode_start", self._more(episode), episode=episode)

    def _more(self, episode: Any) -> dict[str, Any]:
        return {"worker": self.worker, "policy": self.policy, "env": episode.env}

    def running(self, index: int) -> Any:
        """Return the running episode of environment ``index``."""
        return self._running[index]

    def stepped(self, index: int, action: Any, reward: float, info: dict[str, Any]) -> None:
        """Environment ``index`` has taken a step that counts."""
        episode = self._running[index]
        episode.length += 1
        episode.total_reward += reward
        episode.last_action, episode.last_reward, episode.last_info = episode.as_given(action), reward, info
        if self._keeps_rows:
            self._rows.setdefault(index, []).append(episode)
        self.hooks.call("on_episode_step", self._more(episode), episode=episode)

    def ended(self, index: int) -> EpisodeMetrics:
        """The episode of environment ``index`` is over; returns (custom_metrics, hist_data) as plain data."""
        episode = self._running[index]
        episode.over()
        self.hooks.call("on_episode_end", self._more(episode), episode=episode)
        metrics = self._metrics(episode), self._hist(episode)
        if any(metrics) and not self.is_replaying:
            self._ended.append(metrics)
        return metrics

    def take(self) -> tuple[EpisodeMetrics, ...]:
        """Return the metrics of the episodes that have ended since the last call."""
        metrics, self._ended = tuple(self._ended), []
        return metrics

    def _metrics(self, episode: CallbackEpisode) -> dict[str, float]:
        what = f"callbacks {self.hooks.name!r}: custom_metrics"
        return {str(name): number(value, f"{what}[{name!r}]") for name, value in episode.custom_metrics.items()}

    def _hist(self, episode: CallbackEpisode) -> dict[str, list[float]]:
        found = {}
        for name, values in episode.hist_data.items():
            what = f"callbacks {self.hooks.name!r}: hist_data[{name!r}]"
            if name in OWN_HISTS:
                raise PluginFailed(f"{what}: hist_stats already has this name. Choose another one.")
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise PluginFailed(f"{what} is {str(values)[:60]!r}; a list of numbers is needed.")
            found[str(name)] = [number(value, f"{what}: an element") for value in values]
        return found

    # -- fragments ----------------------------------------------------------------------------------------------

    def postprocess(self, columns: dict[str, np.ndarray], gamma: float) -> None:
        """Call ``on_postprocess`` for every part of an episode in the fragment ``columns`` (``experience.columns``)."""
        rows, self._rows = self._rows, {}
        if self._keeps_rows:
            postprocess(
                self.hooks,
                columns,
                gamma,
                lambda env, step: {"episode": rows[env][step] if env in rows else None, **self._named},
            )

    def sampled(self, columns: dict[str, np.ndarray]) -> None:
        """Call ``on_sample_end`` with the finished fragment."""
        policy = {name: value for name, value in self._named.items() if name == "policy_id"}
        sampled(self.hooks, columns, worker_index=self.worker_index, **policy)

    # -- going on exactly ---------------------------------------------------------------------------------------

    def replaying(self, state: Any, replay: Callable[[], object]) -> None:
        """Call ``replay()``, which plays the running episodes again; the object has ``state`` before and after that."""
        self.hooks.load(state)
        self.is_replaying = True
        replay()
        self.is_replaying = False
        self._rows = {}
        self.hooks.load(state)


def postprocess(
    hooks: Hooks, columns: dict[str, np.ndarray], gamma: float, arguments: Callable[[int, int], Mapping[str, Any]]
) -> None:
    """Call ``on_postprocess`` for every part of an episode in the fragment ``columns``.

    ``arguments(stream, first step)``: what the hook gets beside the steps and ``gamma``. Raises PluginFailed.
    """
    what = f"callbacks {hooks.name!r}: on_postprocess"
    for stream, start, stop, last_obs in parts(columns):
        views = _steps(columns, stream, start, stop)
        given = dict(views) | {"next_obs": np.concatenate([columns["obs"][start + 1 : stop, stream], last_obs[None]])}
        hooks.call("on_postprocess", steps=given, gamma=gamma, **arguments(stream, start))
        del given["next_obs"]
        _write_back(given, views, what)
    if not np.isfinite(columns["reward"]).all():
        raise PluginFailed(f"{what} left a reward that is not finite.")


def _forms(columns: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], np.dtype] | None]:
    """Return (shape, dtype) of each column, None of what is no array."""
    return {name: (one.shape, one.dtype) if isinstance(one, np.ndarray) else None for name, one in columns.items()}


def sampled(hooks: Hooks, columns: dict[str, np.ndarray], **arguments: Any) -> None:
    """Call ``on_sample_end`` with the finished fragment ``columns``, and ``arguments``. Raises PluginFailed."""
    if not hooks.has("on_sample_end"):
        return
    before = _forms(columns)
    fixed = [columns[name] for name in FIXED if name in columns]
    _set_writeable(fixed, False)
    hooks.call("on_sample_end", samples=columns, **arguments)
    _set_writeable(fixed, True)
    after = _forms(columns)
    if after != before:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        raise PluginFailed(
            f"callbacks {hooks.name!r}: on_sample_end left {', '.join(changed)} with another shape or "
            f"dtype, or removed it. Modify columns in place: samples[name][...] = …"
        )


def parts(columns: dict[str, np.ndarray]) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """Yield (stream, first step, step after the last, observation after it) of each part of an episode in a fragment."""
    ended = columns["terminated"] | columns["truncated"]
    order = {(int(step), int(env)): row for row, (step, env) in enumerate(np.argwhere(ended))}
    lengths = columns.get("length", columns.get("steps"))
    for env in range(ended.shape[1]):
        total, start = len(ended) if lengths is None else int(lengths[env]), 0
        for stop in [*(np.flatnonzero(ended[:total, env]) + 1).tolist(), total]:
            if stop > start:
                row = order.get((stop - 1, env))
                yield env, start, stop, columns["tail_obs"][env] if row is None else columns["end_obs"][row]
            start = stop


def _steps(columns: dict[str, np.ndarray], env: int, start: int, stop: int) -> dict[str, np.ndarray]:
    """Return views [L, …] of the columns that have a row for each step."""
    shape, views = columns["reward"].shape, {}
    for name, array in columns.items():
        if array.shape[:2] == shape and not name.startswith(("end_", "tail_", "stack")):
            views[name] = array[start:stop, env]
            if name in FIXED:
                views[name].flags.writeable = False
    return views


def _write_back(given: dict[str, np.ndarray], views: dict[str, np.ndarray], what: str) -> None:
    """Take over the arrays that stand in ``given`` in the place of ``views``."""
    for name, array in given.items():
        if name not in views:
            raise PluginFailed(f"{what}: steps have no {name!r}.{suggestion(name, views)}")
        if array is views[name]:
            continue
        if name in FIXED or np.shape(array) != views[name].shape:
            was = "cannot be replaced" if name in FIXED else f"has the shape {np.shape(array)}, not {views[name].shape}"
            raise PluginFailed(f"{what}: {name} {was}.")
        views[name][...] = array


def _set_writeable(arrays: Iterable[np.ndarray], wanted: bool) -> None:
    for array in arrays:
        array.flags.writeable = wanted
