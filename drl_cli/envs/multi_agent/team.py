"""A team seen as one agent: one observation that holds all, a joint action, one reward. Registered as ``drl/Team-v1``.

For algorithms that train all agents together (VDN, QMIX, MAPPO, MADDPG), whose nets look at slices of that observation:
``env_spec.TeamLayout`` says where what is. Workers, replay, testers and playback see a gymnasium environment.

Agents that are not there (they ended, or do not act yet) have zeros for their observation and 0 for ``alive``, as in Yu et al.
2022 (arXiv 2103.01955), section 5.3 ("death masking"). An agent that was truncated is still there in its last observation, so
that values bootstrap from it. The episode is terminated where none that is left was truncated as it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from drl_cli.config.env_names import TEAM_ID
from drl_cli.envs import make
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agent_functions import StateFunction
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.errors import EnvError

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, SpaceSpec, TeamLayout

REWARDS = {"sum": np.sum, "mean": np.mean}
KEYWORDS = ("env", "env_config", "reward", "agent_ids", "observation_fn")


class TeamEnv(gymnasium.Env):
    """The agents of a ``MultiAgentEnv`` in which all that live act at once, as one agent.

    The observation is a float32 vector (``team_layout``), the action MultiDiscrete (agents with Discrete actions) or a Box in
    which each agent has as many dimensions as the widest, those that it does not have in [-1, 1] and ignored.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        env: MultiAgentEnv | str = "",
        env_config: Mapping[str, Any] | None = None,
        reward: str = "sum",
        agent_ids: bool = True,
        observation_fn: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        """``env``: the environment, or its id with the ``env_config`` of its constructor.

        ``reward``: "sum" or "mean" of the agents' rewards; ``agent_ids``: a one-hot number of each agent follows its
        observation, so that shared weights can tell them apart. ``observation_fn``: name of the registered function whose
        result is the state, in place of the environment's own. Raises EnvError for what cannot be a team, PluginFailed.
        """
        if not env:
            raise EnvError(f"env_config.env: {TEAM_ID} needs the id of an environment with several agents.")
        if reward not in REWARDS:
            raise EnvError(f"env_config.reward: {str(reward)[:60]!r} is neither 'sum' nor 'mean'.")
        self._env = env if isinstance(env, MultiAgentEnv) else _opened(env, env_config or {}, render_mode)
        self._name = env if isinstance(env, str) else type(env).__name__
        self._reward, self._ids, self.render_mode = REWARDS[reward], agent_ids, render_mode
        self._agents = tuple(self._env.agents)
        if self._env.is_turn_based:
            raise EnvError(
                f"{self._name}: its agents act in turn; a team acts at once. Train a policy for each instead."
            )
        self._spaces = {agent: self._env.spaces(agent) for agent in self._agents}
        self._seen = max(self._length(agent) for agent in self._agents)
        self.action_space = self._joint_actions()
        self._state_fn = None if observation_fn is None else StateFunction(observation_fn)
        first = self._env.reset(0)  # some have a state only within an episode
        self.team_layout = self._layout(self._state(first))
        size = max(sum(self.team_layout[part]) for part in ("mask", "alive", "rewards", "state"))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self._acting: frozenset[str] = frozenset()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode of all agents."""
        super().reset(seed=seed)
        step = self._env.reset(seed)
        self._acting = frozenset(step.acting())
        return self._observation(step), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step with the joint ``action``, of which those that are there get their part; ``infos`` holds theirs by agent."""
        parts = {agent: self._part(index, action) for index, agent in enumerate(self._agents) if agent in self._acting}
        step = self._env.step(parts)
        self._acting = frozenset(step.acting())
        reward = float(self._reward([step.rewards.get(agent, 0.0) for agent in self._agents]))
        truncated = step.is_over and bool(step.truncated - step.terminated)
        return self._observation(step), reward, step.is_over and not truncated, truncated, {"agents": dict(step.infos)}

    def render(self) -> Any:
        """Return a frame, uint8 [H, W, 3]."""
        return self._env.render()

    def close(self) -> None:
        """Close it."""
        self._env.close()

    def _length(self, agent: str) -> int:
        obs = self._spaces[agent]["obs"]
        if obs["kind"] != "Box" or len(obs["shape"]) != 1:
            raise EnvError(
                f"{self._name}: the observations of {agent[:60]!r} are no vector; a team needs vectors. Flatten them in a "
                "wrapper."
            )
        return obs["shape"][0]

    def _joint_actions(self) -> gymnasium.Space:
        actions = [self._spaces[agent]["action"] for agent in self._agents]
        kinds = sorted({action["kind"] for action in actions})
        if kinds == ["Discrete"]:
            return gymnasium.spaces.MultiDiscrete([action["n"] for action in actions])
        if kinds != ["Box"] or any(len(action["shape"]) != 1 for action in actions):
            raise EnvError(
                f"{self._name}: its agents have {' and '.join(kinds)} actions; those of a team are all Discrete, or all "
                "a Box of one dimension."
            )
        widest = max(action["shape"][0] for action in actions)
        low, high = (np.full((len(actions), widest), bound, np.float32) for bound in (-1.0, 1.0))
        for index, action in enumerate(actions):
            for bounds, side in ((low, "low"), (high, "high")):
                bounds[index, : action["shape"][0]] = self._bounds(action, side, self._agents[index])
        return gymnasium.spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)

    def _bounds(self, action: SpaceSpec, side: str, agent: str) -> np.ndarray:
        bounds = np.array(np.broadcast_to(np.asarray(action[side], object), action["shape"]))
        if any(bound is None for bound in bounds):
            which = {"low": "lower", "high": "upper"}[side]
            raise EnvError(
                f"{self._name}: the actions of {agent[:60]!r} have no {which} bound. Clip them in a wrapper."
            )
        return bounds.astype(np.float32)

    def _layout(self, state: np.ndarray | None) -> TeamLayout:
        count, actions = len(self._agents), [self._spaces[agent]["action"] for agent in self._agents]
        discrete = actions[0]["kind"] == "Discrete"
        sizes = [action["n"] if discrete else action["shape"][0] for action in actions]
        length = self._seen + (count if self._ids else 0)
        masks = count * max(sizes) if discrete else 0
        alive = count * length + masks
        return {
            "agents": list(self._agents),
            "obs": length,
            "actions": sizes,
            "mask": [count * length if masks else 0, masks],
            "alive": [alive, count],
            "rewards": [alive + count, count],
            "state": [0, count * length] if state is None else [alive + 2 * count, int(np.size(state))],
        }

    def _observation(self, step: AgentsStep) -> np.ndarray:
        layout, count = self.team_layout, len(self._agents)
        whole = np.zeros(self.observation_space.shape or (), np.float32)
        rows = whole[: count * layout["obs"]].reshape(count, layout["obs"])  # a view
        masks = whole[layout["mask"][0] : sum(layout["mask"])].reshape(count, -1)
        if self._ids:
            rows[:, self._seen :] = np.eye(count, dtype=np.float32)
        for index, agent in enumerate(self._agents):
            seen = step.obs.get(agent)
            if seen is None or agent in step.terminated:
                continue
            rows[index, : len(seen)] = seen
            whole[layout["alive"][0] + index] = 1.0
            if masks.shape[1]:
                masks[index, : layout["actions"][index]] = self._mask(self._spaces[agent], seen)
        whole[layout["rewards"][0] : sum(layout["rewards"])] = [step.rewards.get(agent, 0.0) for agent in self._agents]
        if layout["state"][0]:
            whole[layout["state"][0] :] = np.ravel(self._state(step))  # type: ignore[arg-type]  # it had one at first
        return whole

    def _state(self, step: AgentsStep) -> np.ndarray | None:
        return self._env.state() if self._state_fn is None else self._state_fn.state(step.obs)

    @staticmethod
    def _mask(spaces: EnvSpec, seen: np.ndarray) -> Any:
        mask: Sequence[int] = spaces.get("mask", ())
        return seen[mask[0] : mask[0] + mask[1]] if mask else 1.0

    def _part(self, index: int, action: np.ndarray) -> np.ndarray:
        """The action of agent ``index`` as its space wants it."""
        described = self._spaces[self._agents[index]]["action"]
        if described["kind"] == "Discrete":
            return np.asarray(action[index] + described["start"], described["dtype"])
        widest = len(action) // len(self._agents)
        return np.asarray(action[index * widest : index * widest + described["shape"][0]], described["dtype"])


def laid_over(env_id: str, env_config: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``env_config`` of ``env_id`` with ``over`` laid over it.

    Of a team, what is no keyword of ``TeamEnv`` is one of its agents' environment.
    """
    if env_id != TEAM_ID:
        return {**env_config, **over}
    inner = {name: value for name, value in over.items() if name not in KEYWORDS}
    joined = {**env_config, **{name: value for name, value in over.items() if name in KEYWORDS}}
    return {**joined, "env_config": {**(joined.get("env_config") or {}), **inner}} if inner else joined


def _opened(env_id: str, env_config: Mapping[str, Any], render_mode: str | None) -> MultiAgentEnv:
    found = make.resolve(env_id).id
    kind = open_envs.kind_of(found, env_config)
    if kind is None:
        raise EnvError(f"env_config.env: {env_id} has one agent; a team has several.")
    return open_envs.open_env(found, env_config, kind, render_mode=render_mode)
