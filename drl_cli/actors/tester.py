"""Tester: plays whole episodes with given weights and returns their scores. It never touches what is learnt from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from drl_cli.actors import custom_evaluation
from drl_cli.actors.estimator import Estimator
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, env_tasks, make
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.env_reuse import FOREIGN, KeptEnvs
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.preprocessors import frames_of
from drl_cli.envs.spaces import seen_dtype
from drl_cli.envs.steps import as_action, as_number, is_finite, success_of
from drl_cli.errors import EnvError, failure
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

SIDE_BY_SIDE = 16  # episodes stepped together: one forward pass for all of them


def score(
    policy: NumpyPolicy,
    env_id: str,
    env_config: Mapping[str, Any],
    seeds: Sequence[int],
    explore: bool = False,
    horizon: int | None = None,
    **making: Any,
) -> list[ScoredEpisode]:
    """Play one episode for each of ``seeds`` and return a list of ScoredEpisode in their order.

    ``policy`` is a NumpyPolicy. ``making``: how environments are made, preprocessing: a plan for scoring
    (``envs.preprocessors.for_scoring``) or None, fresh_envs: whether every episode has a new one; and max_steps: see
    ``envs.make.bound_of``. Each episode is reset with its seed, and has (with ``explore``) a generator of its own, so that a
    score depends on nothing but the weights and the seed where a reset with a seed forgets all that was before. Raises
    EnvError, which names the seed and the step, when an
    environment breaks: a score without that episode would be another score.
    """
    env = {"id": env_id, "env_config": env_config, "explore": explore, "horizon": horizon, **making}
    kept = kept_for(env)
    try:
        return play(policy, env, seeds, kept)
    finally:
        kept.close()


def kept_for(env: Mapping[str, Any]) -> KeptEnvs:
    """Return the KeptEnvs in which ``play`` plays."""
    making = (env["id"], env["env_config"], None, env.get("preprocessing"))
    task = env.get("task", ())

    def made() -> Any:
        found = make.make(*making)
        for one in task:
            env_tasks.give(found, one)
        return found

    return KeptEnvs(made, bool(env.get("fresh_envs")))


def play(
    policy: NumpyPolicy,
    env: Mapping[str, Any],
    seeds: Sequence[int],
    kept: KeptEnvs,
    hooks: callbacks.Hooks | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[ScoredEpisode]:
    """As ``score``, with the setting in ``env``: dict(id, env_config, preprocessing, fresh_envs, explore, horizon),
    and maybe max_steps (see ``envs.make.bound_of``).

    ``kept``: the KeptEnvs to play in. ``hooks``: the ``envs.callbacks.Hooks`` that look on, or None. ``check`` is called
    before every step.
    """
    episodes = []
    for start in range(0, len(seeds), SIDE_BY_SIDE):
        watch = CallbackEpisodes(hooks, in_evaluation=True) if hooks else None
        if watch:
            watch.policy = policy
        episodes += _play(policy, env, list(seeds[start : start + SIDE_BY_SIDE]), kept, watch, check)
    return episodes


def _play(
    policy: NumpyPolicy,
    env: Mapping[str, Any],
    seeds: Sequence[int],
    kept: KeptEnvs,
    watch: CallbackEpisodes | None,
    check: Callable[[], None],
) -> list[ScoredEpisode]:
    totals, lengths, results = [0.0] * len(seeds), [0] * len(seeds), {}
    explore, horizon = env["explore"], env["horizon"]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    try:
        made = [kept.begin(index) for index in range(len(seeds))]
        bound = make.bound_of(made[0], env.get("max_steps"))
        # Always as many rows, also when episodes have ended: a product of one row rounds otherwise than that of many,
        # and a score must not depend on the episodes played beside it.
        dtype, frames = seen_dtype(made[0].observation_space), frames_of(env.get("preprocessing"))
        stacks = FrameStack(SIDE_BY_SIDE, policy.spec.obs_shape, dtype, frames)
        for index, seed in enumerate(seeds):
            stacks.begin(index, _begun(made[index], stacks, env["id"], seed))
            if watch:
                watch.began(index, made[index], _look(stacks, index))
        running, state = list(range(len(seeds))), policy.initial_state(SIDE_BY_SIDE)
        while running:
            check()
            actions, state = _actions(policy, stacks.stacked(), state, running, rngs if explore else None)
            for index in running:
                place = seeds[index], lengths[index]
                obs, reward, *ends, info = _stepped(made[index], stacks, actions[index], env["id"], place)
                stacks.push(index, obs)
                policy.rewarded(state, reward, index)
                totals[index] += reward
                lengths[index] += 1
                if watch:
                    watch.stepped(index, as_action(actions[index]), reward, info)
                is_over = any(ends) or (horizon is not None and lengths[index] >= horizon)
                if is_over or lengths[index] == bound:
                    metrics = watch.ended(index) if watch else ({}, {})
                    results[index] = ScoredEpisode(
                        totals[index],
                        lengths[index],
                        seeds[index],
                        ends[0],
                        *metrics,
                        not is_over,
                        success=success_of(info),
                    )
            running = [index for index in running if index not in results]
    except BaseException:
        kept.close()  # in the middle of episodes, one of them maybe broken
        raise
    return [results[index] for index in range(len(seeds))]


def _actions(
    policy: NumpyPolicy,
    obs: np.ndarray,
    state: tuple[np.ndarray, ...],
    running: Sequence[int],
    rngs: Sequence[np.random.Generator] | None,
) -> tuple[Any, tuple[np.ndarray, ...]]:
    """Return ({index: the environment's action}, next state); with ``rngs`` each row is drawn with a generator of its own."""
    if rngs is None:
        action, state, _ = policy.act(obs, state, None, False)
        return policy.to_env(action), state
    rows = []
    for i in running:
        action, after, _ = policy.act(obs[i : i + 1], tuple(part[i : i + 1] for part in state), rngs[i], True)
        rows.append(action[0])
        for part, new in zip(state, after, strict=True):
            part[i] = new[0]
    return dict(zip(running, policy.to_env(np.stack(rows)), strict=True)), state


def _look(stacks: FrameStack, index: int) -> Callable[[], np.ndarray]:
    return lambda: stacks.newest(slice(index, index + 1))[0]


def _begun(env: gymnasium.Env, stacks: FrameStack, env_id: str, seed: int) -> np.ndarray:
    try:
        obs = stacks.seen(env.reset(seed=seed)[0])
        _expect_finite(obs)
    except FOREIGN as error:
        raise _failed(env_id, "reset", seed, error) from error
    return obs


def _stepped(
    env: gymnasium.Env, stacks: FrameStack, action: np.ndarray, env_id: str, place: tuple[int, int]
) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
    """Return (obs, reward, terminated, truncated, info); ``place``: (seed, steps so far), for the message when it breaks."""
    seed, step = place
    try:
        obs, reward, terminated, truncated, info = env.step(as_action(action))
        obs, reward = stacks.seen(obs), as_number(reward)
        _expect_finite(obs, reward)
    except FOREIGN as error:
        raise _failed(env_id, f"step {step}", seed, error) from error
    return obs, reward, bool(terminated), bool(truncated), info


def _expect_finite(obs: np.ndarray, reward: float = 0.0) -> None:
    if not is_finite(obs, reward):
        raise FloatingPointError(f"observation or reward is not finite (reward {reward})")


def _failed(env_id: str, where: str, seed: int, error: BaseException) -> EnvError:
    return EnvError(f"{env_id} failed in {where} of an episode with seed {seed}: {failure(error)}")


class Tester:
    """Scores versions of the weights that the parameter server has kept. ``check``: see RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(self, env: Mapping[str, Any], spec: PolicySpec, server: Handle) -> None:
        """``env``: dict(id, env_config, imports, horizon, max_steps, explore, preprocessing, fresh_envs), and maybe config:
        that of the run, where recorded episodes judge too; callbacks: the name of those that look on; custom_eval_function: the
        name of the function that scores. ``server``: the parameter server.
        """
        make.make_ready(env)
        self._env, self._server = env, server
        self._policy = NumpyPolicy(spec)
        self._version = None
        self._kept, self._kept_as = None, None  # the environments, and how they were made
        self._hooks = callbacks.Hooks(env["callbacks"]) if env.get("callbacks") else None
        self._estimator = Estimator(env["config"], self._policy) if env.get("config") else None

    def evaluate(self, version: int, seeds: Sequence[int]) -> list[ScoredEpisode]:
        """Score the weights of ``version`` on ``seeds``; returns a list of ScoredEpisode."""
        self._adopt(version)
        return self._play(self._env, seeds)

    def evaluate_otherwise(self, version: int, seeds: Sequence[int]) -> dict[str, Any]:
        """Score the weights of ``version`` by ``custom_eval_function``; returns its metrics, with ``episode_reward_mean``."""
        self._adopt(version)
        evaluation = custom_evaluation.Evaluation({DEFAULT_POLICY: self._policy}, self._env, seeds, self._play)
        return custom_evaluation.evaluated(self._env["custom_eval_function"], evaluation)

    def _play(self, env: Mapping[str, Any], seeds: Sequence[int]) -> list[ScoredEpisode]:
        if self._kept is None or self._kept_as != env["env_config"]:  # an evaluation of one's own may change it
            self.close()
            self._kept, self._kept_as = kept_for(env), env["env_config"]
        return play(self._policy, env, seeds, self._kept, self._hooks, self.check)

    def set_task(self, task: Any) -> None:
        """Play with environments of ``task`` from now on. Raises EnvError, PluginFailed where it cannot be set."""
        self._env = {**self._env, "task": [task]}
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def estimate(self, version: int, t: int) -> dict[str, Any]:
        """Judge the weights of ``version``, of env step ``t``, by recorded episodes; see ``Estimator.estimate``."""
        self._adopt(version)
        if self._estimator is None:
            raise RuntimeError("a tester without the run's config has no recorded episodes")
        return self._estimator.estimate(t)

    def close(self) -> None:
        """Close the environments."""
        if self._kept is not None:
            self._kept.close()

    def _adopt(self, version: int) -> None:
        if version != self._version:
            self._policy.set_weights(self._server.call("pull_exact", version).result()[DEFAULT_POLICY])
            self._version = version
