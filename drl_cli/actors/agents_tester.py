"""AgentsTester: what ``tester`` is for one agent, for several: whole episodes, each agent by its policy, scored by policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli.actors import custom_evaluation
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, make
from drl_cli.envs.callback_episodes import EpisodeMetrics
from drl_cli.envs.env_reuse import FOREIGN
from drl_cli.envs.env_spec import AgentsSetup
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_callbacks import AgentsCallbacks
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.envs.multi_agent.policy_choice import EpisodeMapping
from drl_cli.envs.multi_agent.scripted import opponents
from drl_cli.errors import EnvError, PluginFailed, failure
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

SIDE_BY_SIDE = 16  # episodes stepped together: one forward pass of each policy for all of them


class ActingPolicies:
    """Policies that act for the agents of ``rows`` environments, without exploring unless they are asked to."""

    def __init__(self, policies: Mapping[str, NumpyPolicy], agents: AgentsSetup, rows: int) -> None:
        """``policies`` by id; ``agents``: of the environment."""
        self._policies = policies
        self._agents = {
            name: {agent: i for i, agent in enumerate(agents["policies"][name]["agents"])} for name in policies
        }
        self._frames, self._states = {}, {}
        for name, policy in policies.items():
            count, spec = rows * len(self._agents[name]), policy.spec
            self._frames[name] = FrameStack(count, spec.obs_shape, spec.obs_dtype, spec.frames)
            self._states[name] = policy.initial_state(count)
        self_play, spaces = agents.get("self_play"), agents["spaces"]
        named = dict.fromkeys([*self_play["scripted"], *self_play["evaluate_against"]]) if self_play else {}
        named = [name for name in named if name not in agents["policies"]]
        self._scripted = opponents(named, spaces, rows)
        self._agents |= {name: {agent: i for i, agent in enumerate(spaces)} for name in named}

    def row(self, name: str, env: int, agent: str) -> int:
        """Return the row of an agent of environment ``env`` among those of the policy ``name``."""
        return env * len(self._agents[name]) + self._agents[name][agent]

    def began(self, name: str, row: int, frame: np.ndarray) -> None:
        """Begin an agent's episode with its first observation."""
        if name in self._scripted:
            self._scripted[name].see(row, frame)
            return
        self._frames[name].begin(row, self._frames[name].seen(frame))
        for part in self._states[name]:
            part[row] = 0.0

    def observed(self, name: str, row: int, frame: np.ndarray, reward: float) -> None:
        """Note a further observation of an agent, and the reward since it acted."""
        if name in self._scripted:
            self._scripted[name].see(row, frame)
            return
        self._frames[name].push(row, self._frames[name].seen(frame))
        if self._policies[name].spec.previous:
            self._policies[name].rewarded(self._states[name], reward, slice(row, row + 1))

    def act(self, name: str, rows: Sequence[int], rngs: Sequence[np.random.Generator], explore: bool) -> np.ndarray:
        """Return the actions of ``rows``, [n, …] as the environment wants them.

        ``rngs``: one for each row, with which policies draw where they ``explore``, and opponents by name always.
        """
        if name in self._scripted:
            return self._scripted[name].act(rows, rngs)
        policy, state, which = self._policies[name], self._states[name], np.asarray(rows)
        stacked = self._frames[name].stacked()
        if not explore:
            # Always as many rows: a product rounds as their number decides, and a score must not depend on who else plays.
            action, after, _ = policy.act(stacked, state, None, False)
            for part, new in zip(state, after, strict=True):
                part[which] = new[which]
            return policy.to_env(action)[which]
        chosen = []
        for row, rng in zip(rows, rngs, strict=True):
            one = slice(row, row + 1)
            action, after, _ = policy.act(stacked[one], tuple(part[one] for part in state), rng, True)
            chosen.append(action[0])
            for part, new in zip(state, after, strict=True):
                part[row] = new[0]
        return policy.to_env(np.stack(chosen))


class AgentEpisode:
    """One episode of several agents while it is played."""

    def __init__(self, index: int, seed: int, env: MultiAgentEnv, policy_of: Mapping[str, str]) -> None:
        """``index``: of the environment among those side by side; ``policy_of``: agent → policy id."""
        self.index, self.seed, self.env, self.policy_of = index, seed, env, policy_of
        self.rng = np.random.default_rng(seed)
        self.returns: dict[str, float] = {}
        self.length = 0
        self.terminated = False
        self._since: dict[str, float] = {}  # reward since each living agent acted
        self._now: AgentsStep | None = None

    @property
    def now(self) -> AgentsStep:
        """What the last reset or step brought."""
        if self._now is None:
            raise RuntimeError("the episode has not begun")
        return self._now

    def begin(self, acting: ActingPolicies) -> None:
        """Reset the environment with the episode's seed."""
        self._take(self.env.reset(self.seed), acting)

    def step(self, actions: Mapping[str, np.ndarray], acting: ActingPolicies) -> None:
        """Take one step with the ``actions`` of the agents that act."""
        step = self.env.step(actions)
        self.length += 1
        self._take(step, acting)
        self.terminated = bool(step.terminated) and not step.truncated

    def _take(self, step: AgentsStep, acting: ActingPolicies) -> None:
        self._now = step
        for agent, reward in step.rewards.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + reward
            if agent in self._since:
                self._since[agent] += reward
        ended = step.ended
        for agent, obs in step.obs.items():
            if agent in ended:
                self._since.pop(agent, None)
                continue
            name = self.policy_of[agent]
            row = acting.row(name, self.index, agent)
            if agent in self._since:
                acting.observed(name, row, obs, self._since[agent])
            else:
                acting.began(name, row, obs)
            self._since[agent] = 0.0

    def scored(self, is_cut: bool, only: str | None = None, metrics: EpisodeMetrics = ({}, {})) -> ScoredEpisode:
        """Return the score: the sum over the agents (of the policy ``only``), and the returns of each policy's agents.

        ``metrics``: what callbacks found out.
        """
        rewards: dict[str, list[float]] = {}
        for agent, own in self.returns.items():
            rewards.setdefault(self.policy_of[agent], []).append(own)
        total = sum(self.returns.values() if only is None else rewards.get(only, ()))
        return ScoredEpisode(total, self.length, self.seed, self.terminated, *metrics, is_cut, rewards)


def play_step(
    episodes: Sequence[AgentEpisode], acting: ActingPolicies, policies: Sequence[str], explore: bool
) -> dict[int, dict[str, np.ndarray]]:
    """Take one step of every one of ``episodes``: one act of each policy for all of its agents.

    Returns what was done: {index of the episode: {agent: action as the environment got it}}.
    """
    groups: dict[str, list[tuple[AgentEpisode, str]]] = {}
    for episode in episodes:
        for agent in episode.now.acting():
            groups.setdefault(episode.policy_of[agent], []).append((episode, agent))
    actions: dict[int, dict[str, np.ndarray]] = {episode.index: {} for episode in episodes}
    for name in [*policies, *(groups.keys() - set(policies))]:  # the others: opponents by name, which draw by episode
        who = groups.get(name)
        if who:
            rows = [acting.row(name, episode.index, agent) for episode, agent in who]
            chosen = acting.act(name, rows, [episode.rng for episode, _ in who], explore)
            for (episode, agent), action in zip(who, chosen, strict=True):
                actions[episode.index][agent] = action
    for episode in episodes:
        episode.step(actions[episode.index], acting)
    return actions


class AgentsTester:
    """Scores versions of the weights that the parameter server has kept. ``check``: see RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(self, env: Mapping[str, Any], specs: Mapping[str, PolicySpec], server: Handle) -> None:
        """``env``: as of ``Tester``, with ``agents``; ``specs`` by policy id."""
        make.make_ready(env)
        self._env, self._server = env, server
        self._policies = {name: NumpyPolicy(spec) for name, spec in specs.items()}
        self._version: int | None = None
        self._envs, self._made_as = OpenEnvs(env), env["env_config"]
        self._hooks = callbacks.Hooks(env["callbacks"]) if env.get("callbacks") else None

    def evaluate(self, version: int, seeds: Sequence[int]) -> list[ScoredEpisode]:
        """Score the weights of ``version`` on ``seeds``; returns a list of ScoredEpisode."""
        self._adopt(version)
        return self._play(self._env, seeds)

    def evaluate_otherwise(self, version: int, seeds: Sequence[int]) -> dict[str, Any]:
        """Score the weights of ``version`` by ``custom_eval_function``; returns its metrics, with ``episode_reward_mean``."""
        self._adopt(version)
        evaluation = custom_evaluation.Evaluation(self._policies, self._env, seeds, self._play)
        return custom_evaluation.evaluated(self._env["custom_eval_function"], evaluation)

    def _play(self, env: Mapping[str, Any], seeds: Sequence[int]) -> list[ScoredEpisode]:
        if self._made_as != env["env_config"]:  # an evaluation of one's own may change it
            self._envs.close()
            self._envs, self._made_as = OpenEnvs(env), env["env_config"]
        return play(self._policies, env, seeds, self._envs, self._hooks, self.check)

    def _adopt(self, version: int) -> None:
        if version != self._version:
            weights = self._server.call("pull_exact", version).result()
            for name, policy in self._policies.items():
                policy.set_weights(weights[name])
            self._version = version

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()


class OpenEnvs:
    """Environments with several agents, used again for the next episode unless ``fresh_envs`` says otherwise."""

    def __init__(self, env: Mapping[str, Any]) -> None:
        """``env``: dict(id, env_config, agents), maybe fresh_envs."""
        self._env = env
        self._open: dict[int, MultiAgentEnv] = {}

    def at(self, index: int) -> MultiAgentEnv:
        """Return the environment for the next episode of place ``index``; the caller resets it."""
        if self._env.get("fresh_envs") and index in self._open:
            self._open.pop(index).close()
        if index not in self._open:
            self._open[index] = open_envs.open_setup(self._env)
        return self._open[index]

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1].close()


def play(
    policies: Mapping[str, NumpyPolicy],
    env: Mapping[str, Any],
    seeds: Sequence[int],
    envs: OpenEnvs,
    hooks: callbacks.Hooks | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[ScoredEpisode]:
    """Play one episode for each of ``seeds``; returns ScoredEpisodes in their order.

    ``env``: dict(id, env_config, agents, explore, horizon), and maybe max_steps. ``hooks``: the callbacks that look on, or
    None. Raises EnvError, which names the seed, where
    an environment breaks.
    """
    found: list[ScoredEpisode] = []
    for start in range(0, len(seeds), SIDE_BY_SIDE):
        found += _play(policies, env, list(seeds[start : start + SIDE_BY_SIDE]), envs, (hooks, check), start)
    return found


def _play(
    policies: Mapping[str, NumpyPolicy],
    env: Mapping[str, Any],
    seeds: list[int],
    envs: OpenEnvs,
    calls: tuple[callbacks.Hooks | None, Callable[[], None]],
    first: int,
) -> list[ScoredEpisode]:
    """Play up to SIDE_BY_SIDE episodes, of which the first is number ``first``; ``calls``: (hooks, check)."""
    hooks, check = calls
    results: dict[int, ScoredEpisode] = {}
    horizon, bound = env["horizon"], env.get("max_steps") or make.UNBOUNDED_STEPS
    acting = ActingPolicies(policies, env["agents"], SIDE_BY_SIDE)
    running: list[AgentEpisode] = []
    chosen: dict[int, Mapping[str, str]] = {}
    watch = AgentsCallbacks(hooks, chosen.__getitem__, in_evaluation=True) if hooks else None
    learner = env["agents"]["self_play"]["learner"] if "self_play" in env["agents"] else None
    try:
        for index, seed in enumerate(seeds):
            mapping = EpisodeMapping(env["agents"], (seed, 0))
            chosen[index] = mapping.of_evaluation(first + index)
            episode = AgentEpisode(index, seed, envs.at(index), chosen[index])
            episode.begin(acting)
            if watch:
                watch.began(index, episode.env, episode.now)
            running.append(episode)
        while running:
            check()
            actions = play_step(running, acting, list(policies), env["explore"])
            for episode in running:
                if watch:
                    watch.stepped(episode.index, actions[episode.index], episode.now)
                is_over = episode.now.is_over or (horizon is not None and episode.length >= horizon)
                if is_over or episode.length >= bound:
                    metrics = watch.ended(episode.index) if watch else ({}, {})
                    results[episode.index] = episode.scored(not is_over, learner, metrics)
            running = [episode for episode in running if episode.index not in results]
    except FOREIGN as error:
        envs.close()  # in the middle of episodes, one of them maybe broken
        if isinstance(error, (EnvError, PluginFailed)):
            raise
        places = ", ".join(f"{episode.seed} (step {episode.length})" for episode in running[:4])
        raise EnvError(f"{env['id']} failed in an episode with one of the seeds {places}: {failure(error)}") from error
    return [results[index] for index in range(len(seeds))]
