"""What stands between an environment and its policy: observations made a vector or an image, Atari games made playable.

``plan`` says what is done, as plain data for workers and the manifest; ``wrap`` does it with gymnasium's wrappers. Used
by ``envs.make`` and all that make environments. Sources: RLlib 1.0.1 (keys, order of wrappers), OpenAI's baselines
(EpisodicLifeEnv, FireResetEnv), Mnih et al. 2015 (doi:10.1038/nature14236), Machado et al. 2018 (arXiv:1709.06009).

Deviations
- Where a life ends the episode, gymnasium's own wrapper would start the game anew; ours goes on with it, as RLlib's does.
- Where whole games are played (scores, rollouts), FIRE is pressed after every lost life too: a policy whose lives all
  began with FIRE need not have learnt to press it, and would stand still to the end (Breakout).
- RLlib crops 25 rows at the top and bottom of every image that it resizes, made for Atari and wrong for all else: not here.
- RLlib maps the 128 bytes of an Atari game's memory to (x - 128)/128, gymnasium's RescaleObservation to (x - 127.5)/127.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium import wrappers

from drl_cli.config.env_names import named_wrappers
from drl_cli.envs import custom_preprocessors, env_wrappers
from drl_cli.envs.composite_actions import with_flat_actions
from drl_cli.envs.spaces import describe_obs, describe_space, find_board, find_goal, find_mask, is_image
from drl_cli.errors import CheckpointError, EnvError

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.envs.env_spec import AtariPreprocessing, EnvSpec, Preprocessing

NOTHING: Preprocessing = {
    "frames": 1,
    "dim": None,
    "grayscale": False,
    "atari": None,
    "scale_bytes": False,
    "fresh_after": 0,
}
"""The plan that leaves images and vectors as they are; ``envs.env_spec.Preprocessing`` says what its keys are."""
_BOUNDS = {
    "frames": (1, 16),
    "dim": (8, 1024),
    "fresh_after": (0, 1_000_000),
    "noop_max": (0, 1000),
    "frame_skip": (1, 60),
}
_ATARI_KEYS = {"noop_max", "frame_skip", "fire", "lives"}
_FRESH_AFTER = 5000  # seeding a game loads its ROM: 0.1 s, as long as 250 steps; a resume replays these


def plan(config: CommonKeys, env_id: str) -> Preprocessing:
    """Return what is done for an algorithm's ``config`` and the registered environment ``env_id``, as ``NOTHING``."""
    model, custom = config.model, config.model.custom_preprocessor
    atari = is_atari(gymnasium.registry.get(env_id.rpartition(":")[2]))
    pixels = atari and config.env_config.get("obs_type") != "ram" and not config.env_config.get("sound_obs")
    pixels = pixels and custom is None  # whose observations are as it makes them
    deepmind = pixels and config.preprocessor_pref == "deepmind"
    stack = model.framestack
    if stack is None or isinstance(stack, bool):
        stack = 4 if stack or (stack is None and deepmind) else 1
    found: Preprocessing = {
        "frames": stack,
        "dim": model.dim or (84 if pixels and config.preprocessor_pref else None),
        "grayscale": deepmind if model.grayscale is None else model.grayscale,
        "atari": {"noop_max": 30, "frame_skip": 4, "fire": True, "lives": True} if deepmind else None,
        "scale_bytes": atari and custom is None and config.preprocessor_pref is not None,
        "fresh_after": _FRESH_AFTER if atari else 0,
    }
    if config.env_wrappers:
        found["wrappers"] = [[name, keywords] for name, keywords in named_wrappers(config.env_wrappers)]
    if custom is not None:
        found["preprocessor"] = [custom, config.model.custom_model_config]
    return found


def for_scoring(given: Preprocessing | None) -> Preprocessing | None:
    """Return the plan for scores and rollouts: whole games instead of lives. None, no plan, stays None."""
    if not given or not given["atari"]:
        return given
    return {**given, "atari": {**given["atari"], "lives": False}}


def reward_rule(clip_rewards: Any, given: Preprocessing | None) -> Any:
    """Return the rule of ``clip_rewards`` that holds under a plan: null means signs for deepmind's Atari games."""
    return True if clip_rewards is None and given and given["atari"] else clip_rewards


def frames_of(given: Preprocessing | None) -> int:
    """Return the length of the frame stack of a plan, 1 without one."""
    return given["frames"] if given else 1


def from_facts(data: Any) -> Preprocessing | None:
    """Return the plan that a manifest's facts hold, None where they hold none (older ones). Raises CheckpointError."""
    if data is None:
        return None
    try:
        atari = data["atari"]
        if set(data) - {"wrappers", "preprocessor"} != set(NOTHING) or (
            atari is not None and set(atari) != _ATARI_KEYS
        ):
            raise ValueError("other keys than this version's")
        for name, value in {**data, **(atari or {})}.items():
            if name in _BOUNDS and not (name == "dim" and value is None):
                low, high = _BOUNDS[name]
                if type(value) is not int or not low <= value <= high:
                    raise ValueError(f"{name} {str(value)[:60]} is no whole number in [{low}, {high}]")
            elif name == "wrappers":
                env_wrappers.read(value)
            elif name == "preprocessor":
                custom_preprocessors.read(value)
            elif name not in ("dim", "atari") and type(value) is not bool:
                raise ValueError(f"{name} {str(value)[:60]} is neither true nor false")
        if atari is not None and data["dim"] is None:
            raise ValueError("Atari games without a dim")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"The preprocessing in the manifest cannot be read ({error}).") from error
    return cast("Preprocessing", data)


def is_atari(spec: Any) -> bool:
    """Whether a gymnasium EnvSpec is that of a game of ale_py."""
    return spec is not None and (spec.namespace == "ALE" or str(spec.entry_point).startswith("ale_py"))


def wrap(env: gymnasium.Env, given: Preprocessing | None = None) -> gymnasium.Env:
    """Return ``env`` in the wrappers of a plan; without one, observations are only made a vector or [H, W, C].

    Actions that are a Dict or a Tuple become a vector (``envs.composite_actions``).

    Raises EnvError where the plan does not fit the observations, and what gymnasium's wrappers raise.
    """
    given, env = (given or NOTHING), with_flat_actions(env)
    if "preprocessor" in given:
        env = custom_preprocessors.Preprocessed(env, *given["preprocessor"])
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box) and is_image(space.shape):
        if given["atari"] and is_atari(env.unwrapped.spec):
            return _atari(env, given, given["atari"])
        return _image(env, given)
    if given["dim"] or given["grayscale"] or given["frames"] > 1:
        raise EnvError(f"model.dim, grayscale and framestack are for images; the observations are {str(space)[:200]}.")
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        if given["scale_bytes"] and space.dtype == np.uint8:
            return wrappers.RescaleObservation(
                wrappers.DtypeObservation(env, np.float32), np.float32(-1), np.float32(1)
            )
        return env
    return wrappers.FlattenObservation(env) if space.is_np_flattenable else env


def described(env: gymnasium.Env) -> EnvSpec:
    """Return the spaces of what ``wrap`` returned, as ``envs.make.describe`` says.

    Raises ValueError for a mask that does not fit.
    """
    spaces: EnvSpec = {"obs": describe_obs(env.observation_space), "action": describe_space(env.action_space)}
    if isinstance(env, custom_preprocessors.Preprocessed) and env.mask is not None:
        spaces["mask"] = env.mask
    if isinstance(env, wrappers.FlattenObservation):
        mask = find_mask(env.env.observation_space, env.action_space, gymnasium.spaces.flatdim)
        if mask:
            spaces["mask"] = mask
        board = find_board(env.env.observation_space, gymnasium.spaces.flatdim)
        if board:
            spaces["board"] = board
        goal = find_goal(env.env.observation_space, gymnasium.spaces.flatdim)
        if goal:
            spaces["goal"] = goal
    return spaces


def goes_on(env: Any) -> bool:
    """Whether the episode that has just ended was a life of a game that goes on with the next reset."""
    return isinstance(env, AtariGame) and env.goes_on


def _image(env: gymnasium.Env, given: Preprocessing) -> gymnasium.Env:
    """Resize, then remove colour (cheaper on the smaller image), then see to the channel axis."""
    shape, dim = _shape_of(env), given["dim"]
    channels = shape[2] if len(shape) == 3 else 1
    resized = dim is not None and shape[:2] != (dim, dim)
    gray = given["grayscale"] and channels != 1
    if gray and channels != 3:
        raise EnvError(f"model.grayscale is for images with three colours; the observations have the shape {shape}.")
    if (resized or gray) and not _has_bytes(env.observation_space):
        raise EnvError(
            "model.dim and model.grayscale are for images of bytes from 0 to 255; the observations are "
            f"{str(env.observation_space)[:200]}."
        )
    if dim is not None and resized:
        if channels == 1 and len(shape) == 3:
            env = wrappers.ReshapeObservation(env, shape[:2])  # OpenCV drops an axis of one channel anyhow
        env = wrappers.ResizeObservation(env, (dim, dim))
    if gray:
        env = wrappers.GrayscaleObservation(env, keep_dim=True)
    shape = _shape_of(env)
    return env if len(shape) == 3 else wrappers.ReshapeObservation(env, (*shape, 1))


def _shape_of(env: gymnasium.Env) -> tuple[int, ...]:
    """Return the shape of an environment's observations, which are a Box."""
    return tuple(env.observation_space.shape or ())


def _has_bytes(space: Any) -> bool:
    return space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())


def _atari(env: gymnasium.Env, given: Preprocessing, atari: AtariPreprocessing) -> gymnasium.Env:
    """Return a game in gymnasium's wrapper (no-ops, max over two frames of four, resize, gray) and ours."""
    own = getattr(env.unwrapped, "_frameskip", None)
    can_wait = isinstance(env.action_space, gymnasium.spaces.Discrete)  # the wrapper's no-op is the number 0
    env = wrappers.AtariPreprocessing(
        env,
        noop_max=atari["noop_max"] if can_wait else 0,
        frame_skip=atari["frame_skip"] if own == 1 else 1,  # ALE/*-v5 skips four frames itself
        screen_size=given["dim"] or 84,
        grayscale_obs=given["grayscale"],
        grayscale_newaxis=True,
    )
    return AtariGame(env, atari["lives"], atari["fire"])


class AtariGame(gymnasium.Wrapper):
    """A game that presses FIRE where it waits for it, and whose lives may be episodes.

    With ``lives`` a lost life terminates the episode, and the next ``reset`` without a seed goes on with the game.
    """

    def __init__(self, env: gymnasium.Env, lives: bool, fire: bool) -> None:
        super().__init__(env)
        game: Any = env.unwrapped  # of ale_py
        meanings = game.get_action_meanings()
        discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
        self.goes_on = False
        self._lives_end = lives
        self._noop = 0 if discrete else np.zeros(env.action_space.shape or (), np.float32)
        # FIRE, then the action after it: some games wait for both (baselines' FireResetEnv).
        self._opening = (1, 2) if fire and discrete and len(meanings) > 2 and meanings[1] == "FIRE" else ()
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a life of the running game, or else a game."""
        if self.goes_on and seed is None:
            obs, info = self._pressed((self._noop, *self._opening))
        else:
            obs, info = self.env.reset(seed=seed, options=options)
            if self._opening:
                obs, info = self._pressed(self._opening)
        self.goes_on, self._lives = False, info["lives"]
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; a life is not over while its counter is at zero (Qbert shows that for some frames)."""
        reward: Any
        obs, reward, terminated, truncated, info = self.env.step(action)
        lost = 0 < info["lives"] < self._lives and not (terminated or truncated)
        self._lives = info["lives"]
        if lost and self._lives_end:
            self.goes_on = True
            return obs, reward, True, False, info
        if lost and self._opening:
            for pressed in (self._noop, *self._opening):
                obs, gained, terminated, truncated, info = self.env.step(pressed)
                reward += gained
                if terminated or truncated:
                    break
            self._lives = info["lives"]
        return obs, reward, terminated, truncated, info

    def _pressed(self, actions: Iterable[Any]) -> tuple[Any, dict[str, Any]]:
        """Return (obs, info) after ``actions``, at least one; where the game ends over them the next one begins."""
        obs: Any = None
        info: dict[str, Any] = {}
        for action in actions:
            obs, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                obs, info = self.env.reset()
        return obs, info
