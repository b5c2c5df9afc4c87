"""The first steps of an environment with several agents, with sampled actions. Used by ``open_envs``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.errors import EnvError, failure

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, SpaceSpec

STEPS, EPISODES, SECONDS = 100, 2, 1.0  # whichever comes first


def try_out(env: MultiAgentEnv, env_id: str) -> int:
    """Play a little in ``env``; returns the numbers in its state, 0 without one. Raises EnvError, which names ``env_id``."""
    rng, deadline, episodes = np.random.default_rng(0), time.monotonic() + SECONDS, 0
    step = _tried(env_id, "reset", lambda: env.reset(0))
    state = env.state()
    for _ in range(STEPS):
        actions = {agent: sampled(env.spaces(agent), step.obs[agent], rng) for agent in step.acting()}
        if not actions:
            raise EnvError(f"{env_id}: reset observed no agent; one at least must act.")
        step = _tried(env_id, "step", lambda actions=actions: env.step(actions))
        if step.is_over:
            episodes += 1
            if episodes == EPISODES:
                break
            step = _tried(env_id, "reset", lambda episode=episodes: env.reset(episode))
        if time.monotonic() > deadline:
            break
    size = 0 if state is None else state.size
    then = env.state()
    if (then is None) != (state is None) or (then is not None and then.size != size):
        raise EnvError(f"{env_id}: its state has {size} numbers at first and {0 if then is None else then.size} later.")
    return size


def sampled(spec: EnvSpec, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random action of an agent with these spaces; where a mask allows nothing, any.

    ``obs``: what the agent observes, with its mask. Actions of a kind that no algorithm takes raise EnvError.
    """
    space, mask = spec["action"], spec.get("mask")
    if space["kind"] == "Discrete":
        allowed = np.flatnonzero(obs[mask[0] : mask[0] + mask[1]] > 0.5) if mask else ()
        return np.asarray(
            space["start"] + (rng.choice(allowed) if len(allowed) else rng.integers(space["n"])), np.int64
        )
    if space["kind"] == "Box":
        low, high = (np.array(space[side], float) for side in ("low", "high"))  # None becomes nan
        low, high = np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high)
        return rng.uniform(low, np.maximum(low, high), space["shape"]).astype(space["dtype"])
    if space["kind"] == "MultiDiscrete" and "nvec" in space:
        return rng.integers(space["nvec"], dtype=np.int64) + np.asarray(space["start"])
    if space["kind"] == "MultiBinary" and "n" in space:
        return rng.integers(2, size=space["n"], dtype=np.int8)
    if space["kind"] == "Composite":
        return np.concatenate([_of_part(part, rng) for part in space["parts"]], dtype=np.float32)
    raise EnvError(f"its actions are {space['text']}, which no algorithm takes.")


def _of_part(part: SpaceSpec, rng: np.random.Generator) -> np.ndarray:
    """Return random numbers for one part of a Composite; choices count from 0."""
    counted = part.copy()
    if "start" in counted:
        counted["start"] = np.zeros_like(counted["start"])
    return np.ravel(sampled({"obs": counted, "action": counted}, np.zeros(0), rng))


def _tried(env_id: str, method: str, call: Callable[[], AgentsStep]) -> AgentsStep:
    try:
        return call()
    except EnvError as error:
        raise EnvError(f"{env_id}: {error}") from error
    except (Exception, SystemExit) as error:
        raise EnvError(f"{env_id}: {method} raised {failure(error)}") from error
