"""A policy that computes one action at a time, for a program that steps an environment of its own. User: ``api.trainer``.

Observations are taken as an environment, in its ``env_wrappers``, gives them (dictionaries, numbers, images of any size), or as
the wrappers of ``envs.preprocessors`` make them. The state of a policy, recurrent state and stacked frames, goes in and out as
a list, as in RLlib's ``compute_action``: the caller keeps one for each of its episodes.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from drl_cli.envs import make, preprocessors
from drl_cli.envs.composite_actions import CompositeSpace, FlatActions, structure_of
from drl_cli.envs.env_spec import Preprocessing, SpaceSpec
from drl_cli.errors import InputError
from drl_cli.policies.action_specs import ActionSpec, CompositeSpec, DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from drl_cli.policies.nets import Heads, State
from drl_cli.policies.numpy_policy import NumpyPolicy


class Acted(NamedTuple):
    """What an action was computed from and by, as ``NumpyPolicy`` knows it; a batch of one."""

    obs: np.ndarray
    state: State
    heads: Heads
    chosen: np.ndarray


class ActionComputer:
    """Acts with a NumpyPolicy in an environment's units."""

    def __init__(
        self,
        policy: NumpyPolicy,
        env_id: str,
        env_config: Mapping[str, Any],
        plan: Preprocessing | None,
        action: SpaceSpec | None = None,
    ) -> None:
        """``plan``: of ``envs.preprocessors``, or None. An environment is made, to know its spaces; ``close`` ends it.

        ``action``: the action space, of one of several agents: no environment is made then, and observations are arrays of the
        shape that the policy sees.
        """
        self.policy, self._frames = policy, policy.spec.frames
        self._env: gymnasium.Env | None = None
        self._raw_space: Any  # of the environment, or words for it
        self._composite: CompositeSpace | None = None  # of actions that are a Dict or Tuple
        if action is not None:
            self._shape, self._dtype = tuple(action["shape"]), action["dtype"]
            if action["kind"] == "Composite":
                self._composite = CompositeSpace(structure_of(action["parts"]))
            self._raw_space, self._between = f"arrays of shape {list(policy.spec.obs_shape)}", ()
            return
        raw = make.make_wrapped(env_id, env_config, preprocessing=plan)
        try:
            self._env = preprocessors.wrap(raw, plan)
        except BaseException:
            raw.close()
            raise
        self._raw_space, self._between = raw.observation_space, _between(self._env, raw)
        if policy.spec.action.kind == "Composite":
            self._composite = CompositeSpace(raw.action_space)
        self._shape, self._dtype = raw.action_space.shape or (), raw.action_space.dtype

    def initial_state(self) -> list[Any]:
        """Return the state before an episode's first observation, a list; an empty one of a policy without state."""
        state = [part[0] for part in self.policy.initial_state(1)]
        return [*state, None] if self._frames > 1 else state

    def act(
        self,
        obs: Any,
        state: list[Any],
        rng: np.random.Generator | None = None,
        reward: float | None = None,
        last_action: Any = None,
    ) -> tuple[Any, list[Any], Acted]:
        """Return (action, next state, Acted) for one observation.

        ``state``: a list as ``initial_state`` returns it, or empty of a policy without state, or where ``obs`` is a whole stack
        of frames. ``rng``: generator to explore with, None for the greedy action. ``reward``, ``last_action``: of the last
        step, for policies that see them; without it, the action that was returned. Raises InputError where one does not fit.
        """
        seen = self.transform(obs)
        stack = None
        if self._frames > 1:
            state, stack = self._stacked(seen, state)
            seen = stack
        before = self._batched(state)
        if last_action is not None and self.policy.spec.previous:
            known = before[-1][:, -1].copy()
            before = self.policy.noted(before, self.policy.as_acted(self.as_recorded([last_action], 1)))
            self.policy.rewarded(before, known)
        if reward is not None:
            self.policy.rewarded(before, float(reward))
        heads, after = self.policy.stepped(seen[None], before, rng)
        chosen = self.policy.greedy(heads) if rng is None else self.policy.drawn(heads, rng)
        action = self.to_env(chosen)[0]
        after = [part[0] for part in self.policy.noted(after, chosen)]
        acted = Acted(seen[None], before, heads, chosen)
        if isinstance(action, np.ndarray | np.generic) and not action.shape:
            action = action.item()
        return action, ([*after, stack] if self._frames > 1 else after), acted

    def to_env(self, chosen: np.ndarray) -> Any:
        """Return the policy's actions ``chosen`` [N, …] in the environment's units, shape and dtype.

        Of a Dict or Tuple space a list of N dicts or tuples, of all others an array [N, …].
        """
        if self._composite is not None:
            return [self._composite.structured(row) for row in self.policy.to_env(chosen)]
        return np.asarray(self.policy.to_env(chosen), self._dtype).reshape(len(chosen), *self._shape)

    def as_recorded(self, actions: Any, count: int) -> np.ndarray:
        """Return ``count`` actions of the environment as ``NumpyPolicy.logp`` takes them. Raises InputError for others."""
        spec = self.policy.spec.action
        if isinstance(spec, CompositeSpec):
            return self._vectors(spec, actions, count)
        try:
            given = np.asarray(actions, np.float32 if spec.kind == "Box" else np.float64)
        except (TypeError, ValueError):  # of a shape that is refused below
            given = np.zeros(0)
        fits = given.shape == (count, *self._shape) and bool(np.isfinite(given).all())
        if fits and not isinstance(spec, ActionSpec):
            given = given - np.asarray(0 if isinstance(spec, MultiBinarySpec) else spec.start)
            most = (
                2
                if isinstance(spec, MultiBinarySpec)
                else np.asarray(spec.n if isinstance(spec, DiscreteSpec) else spec.nvec)
            )
            fits = bool(((given >= 0) & (given < most) & (given == np.floor(given))).all())
        if not fits:
            raise InputError(
                f"{_shown(actions)}: not {count} actions of this environment, an array of shape {[count, *self._shape]} of "
                f"{spec.kind} actions ({str(spec)[:120]})."
            )
        if isinstance(spec, ActionSpec):
            return given.reshape(count, -1)
        return given.astype(np.int32)

    def _vectors(self, spec: CompositeSpec, actions: Any, count: int) -> np.ndarray:
        """``as_recorded`` of dicts or tuples."""
        space = self._composite
        try:
            found = np.stack([space.vector(action) for action in actions]) if space else np.zeros(0)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.shape != (count, *spec.shape) or not _are_choices(spec, found):
            one = str(space.structure)[:160] if space else "a Dict or Tuple"
            raise InputError(f"{_shown(actions)}: not {count} actions of this environment, each one of {one}.")
        return found

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()

    def _batched(self, state: list[Any]) -> tuple[np.ndarray, ...]:
        shapes = [np.shape(part) for part in state]
        if shapes != [tuple(shape) for shape in self.policy.spec.state]:
            raise InputError(
                f"compute_action: a state of shapes {shapes}, this policy's are {list(self.policy.spec.state)}. Begin each "
                "episode with state=trainer.get_initial_state(), and then pass the state that the last call returned."
            )
        return tuple(np.array(part, np.float32)[None] for part in state)

    def _stacked(self, seen: np.ndarray, state: list[Any]) -> tuple[list[Any], np.ndarray]:
        """Return (the rest of the state, the stack) with the newest frame ``seen``, which may be a whole stack already."""
        shape, frames = tuple(self.policy.spec.obs_shape), self._frames
        if seen.shape != shape:
            return state[:-1], seen
        if not state:
            raise InputError(
                f"compute_action: this policy sees the last {frames} observations: begin each episode with "
                f"state=trainer.get_initial_state(), or pass a stack of shape {(*shape[:-1], shape[-1] * frames)}."
            )
        before = state[-1]
        if before is None:
            return state[:-1], np.tile(seen, frames)
        return state[:-1], np.concatenate([before[..., shape[-1] :], seen], axis=-1)

    def transform(self, obs: Any) -> np.ndarray:
        """Return ``obs`` as the policy takes it, one frame or a whole stack. Raises InputError for what is no observation."""
        spec = self.policy.spec
        fitting = [tuple(spec.obs_shape), (*spec.obs_shape[:-1], spec.obs_shape[-1] * spec.frames)]
        if self._between:
            raw = _cast(self._raw_space, obs)
            if self._raw_space.contains(raw):
                for wrapper in self._between:
                    raw = wrapper.observation(raw)
                return np.asarray(raw, spec.obs_dtype)
        try:
            seen = np.asarray(obs, spec.obs_dtype)
        except (TypeError, ValueError, OverflowError):  # of a shape that is refused below
            seen = np.zeros(0)
        if seen.shape not in fitting:
            raise InputError(
                f"{_shown(obs)} is not an observation of this environment, whose observations are "
                f"{str(self._raw_space)[:200]}."
            )
        return seen


def _are_choices(spec: CompositeSpec, action: np.ndarray) -> bool:
    """Whether ``action`` [N, A] is finite, and its choices and switches are those that there are."""
    if not np.isfinite(action).all():
        return False
    for part, at in zip(spec.parts, spec.slices(), strict=True):
        if not isinstance(part, ActionSpec):
            own = action[:, at]
            choices = part.n if isinstance(part, DiscreteSpec) else 2
            most = part.nvec if isinstance(part, MultiDiscreteSpec) else choices
            if not ((own >= 0) & (own < np.asarray(most)) & (own == np.floor(own))).all():
                return False
    return True


def _between(env: gymnasium.Env, raw: gymnasium.Env) -> tuple[gymnasium.ObservationWrapper, ...]:
    """Return the wrappers around ``raw``, the innermost first; () where one of them keeps a state of its own."""
    found = []
    while env is not raw:
        if isinstance(env, FlatActions):
            env = env.env
            continue
        if not isinstance(env, gymnasium.ObservationWrapper):
            return ()  # Atari games: a program that plays them has what comes out of their wrappers
        found.append(env)
        env = env.env
    return tuple(reversed(found))


def _cast(space: gymnasium.Space, obs: Any) -> Any:
    """Return ``obs`` in the dtype of a Box where that loses no more than precision: lists and float64 are accepted."""
    if not isinstance(space, gymnasium.spaces.Box):
        return obs
    try:
        return np.asarray(obs).astype(space.dtype, casting="same_kind")
    except (TypeError, ValueError):  # the space refuses it, and says what it is
        return obs


def _shown(obs: Any) -> str:
    return f"an array of shape {obs.shape}" if isinstance(obs, np.ndarray) else f"{str(obs)[:60]!r}"
