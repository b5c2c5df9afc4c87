"""MultiAgentWorker: steps multi-agent environments and sends one fragment per policy.

The multi-agent counterpart of ``rollout_worker``. A fragment covers ``rollout_fragment_length`` env steps of every environment,
with ``batch_mode: complete_episodes`` those until the episode ends too; how many steps each policy has of them depends on when
its agents act.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli.actors import worker_functions
from drl_cli.actors.agents_recorder import AgentsRecorder, PolicyRecording
from drl_cli.actors.file_keeper import film_sender
from drl_cli.actors.part_records import SampledConfig, WorkerIdentity
from drl_cli.actors.policy_slots import PolicySetup, PolicySlots
from drl_cli.actors.rollout_worker import LONGEST_EPISODE, endless_episode
from drl_cli.actors.scripted_slots import ScriptedSlots
from drl_cli.actors.weight_pulls import WeightPulls
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.contracts import Handle
from drl_cli.envs import callbacks, render
from drl_cli.envs import make as envs
from drl_cli.envs.env_spec import EnvSetup, agents_of
from drl_cli.envs.multi_agent.agents_batch import AgentsBatch
from drl_cli.envs.multi_agent.agents_callbacks import AgentsCallbacks, PolicyCallbacks
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep
from drl_cli.envs.multi_agent.policy_choice import ODDS, EpisodeMapping, players
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import AgentReturns, Meta, Token
from drl_cli.randomness import generator, set_state, state_of


class AgentColumns(NamedTuple):
    """What a multi-agent worker sends: the columns of each policy's fragment."""

    steps: int  # env steps
    policies: dict[str, dict[str, np.ndarray]]


class MultiAgentWorker:
    """One stream of fragments from ``num_envs_per_worker`` environments. ``check``: see RolloutWorker."""

    check = staticmethod(lambda: None)

    def __init__(
        self,
        config: SampledConfig,
        env: EnvSetup,
        policies: Mapping[str, PolicySetup],
        identity: WorkerIdentity,
        server: Handle,
    ) -> None:
        """See RolloutWorker; ``env`` with ``agents``, ``policies`` by id."""
        envs.make_ready(env)
        self._config, self._identity = config, identity
        key = (identity["seed"], identity["index"], identity["incarnation"])
        self._rng = generator(key[0], "worker", key[1], key[2])
        # An incarnation has its own environment seeds: a restarted worker must not repeat its predecessor's episodes.
        stream = identity["index"] + 100_003 * identity["incarnation"]
        made_as: EnvSetup = {**env, "remote": config.remote_worker_envs, "fresh_envs": config.fresh_envs}
        made_as["timeout_s"] = config.env_timeout_s
        count = config.num_envs_per_worker
        hooks = callbacks.make(config)
        self._watch = AgentsCallbacks(hooks, self._policies_of, identity["index"]) if hooks else None
        viewer = render.make(config, env, identity["index"], functools.partial(film_sender, identity))
        self._envs = AgentsBatch(
            made_as, count, (key[0], stream), config.horizon, config.soft_horizon, viewer, self._watch
        )
        self._mapping = EpisodeMapping(agents_of(env), (key[0], stream))
        folder = identity.get("output")
        self._recorder = AgentsRecorder(config, folder, identity, count) if folder else None
        self._whole_episodes = isinstance(config, TrajectoryKeys) and config.batch_mode == "complete_episodes"
        self._slots = {name: self._slots_of(name, setup, env) for name, setup in policies.items()}
        self._self_play = agents_of(env).get("self_play")
        named = self._self_play["scripted"] if self._self_play else ()
        self._scripted = {name: ScriptedSlots(name, env, count) for name in named}
        self._players: dict[str, PolicySlots | ScriptedSlots] = {**self._slots, **self._scripted}
        self._acting: list[list[str]] = [[] for _ in range(count)]  # agents that act next, by environment
        self._policy_of: list[dict[str, str]] = [{} for _ in range(count)]  # of the agents of the running episodes
        self._returns: list[dict[str, float]] = [{} for _ in range(count)]  # by agent, of the running episodes
        self._living: list[set[str]] = [set() for _ in range(count)]  # agents that were observed and have not ended
        self._counts_agents = config.multiagent.count_steps_by == "agent_steps"
        self._pulls = WeightPulls(server, identity["index"])
        self._sequence, self._steps = 0, 0
        self._is_started = False

    def _policies_of(self, env: int) -> Mapping[str, str]:
        return self._policy_of[env]

    def _slots_of(self, name: str, setup: PolicySetup, env: EnvSetup) -> PolicySlots:
        place: Any = {name: self._identity[name] for name in ("random_steps", "stream", "streams", "base")}
        watch = PolicyCallbacks(self._watch, name, setup.agents) if self._watch and setup.is_trained else None
        recording = None
        if self._recorder:
            everyone = list(agents_of(env)["spaces"])
            recording = PolicyRecording(self._recorder, name, setup.spec, setup.agents, everyone)
        return PolicySlots(setup, env, self._envs.count, place, watch, recording)

    def collect(self, min_version: int = 0, max_version: int | None = None) -> tuple[Token, AgentColumns]:
        """Step every environment ``rollout_fragment_length`` times; returns (Token, AgentColumns). See RolloutWorker.

        With ``batch_mode: complete_episodes`` each goes on from there until its episode ends.
        """
        began = time.perf_counter()
        self._start()
        self._pulls.adopt(min_version, max_version, self._take)
        for slots in self._slots.values():
            slots.use_own_filter()
        meta = Meta(self._identity["index"], self._identity["incarnation"], self._sequence, self._pulls.version)
        seconds = {"env": 0.0, "policy": 0.0}
        episodes: list[AgentReturns] = []
        env_steps, bad = self._fill(episodes, seconds)
        closed = {name: slots.close() for name, slots in self._slots.items()}
        self._sequence += 1
        notes, self._envs.notes = tuple(self._envs.notes[:3]), []
        if self._recorder:
            self._recorder.write(env_steps)
            notes, self._recorder.notes = (*notes, *self._recorder.notes), []
        seconds["making"], self._envs.making_s = self._envs.making_s, 0.0
        seconds["total"] = time.perf_counter() - began
        columns = {name: one.columns for name, one in closed.items() if self._slots[name].setup.is_trained}
        agent_steps = sum(_steps_of(own) for own in columns.values())
        steps = agent_steps if self._counts_agents else env_steps
        seen = {name: one.seen for name, one in closed.items() if one.seen is not None}
        token = Token(
            meta,
            steps,
            tuple((episode.reward, episode.length) for episode in episodes),
            bad,
            notes,
            seconds,
            self._exploring(),
            seen | self._outcomes(episodes) or None,
            told=self._watch.episodes.take() if self._watch else (),
            agents=tuple(episodes),
        )
        return token, AgentColumns(steps, columns)

    def _outcomes(self, episodes: list[AgentReturns]) -> dict[str, np.ndarray]:
        """Return the learner's games of self-play, {"self_play": float32 [n, 2]}, see ``OpponentPool.note``; {} without any."""
        setup, games = self._self_play, []
        if setup is None:
            return {}
        numbers = {name: number for number, name in enumerate(players(setup))}
        for episode in episodes:
            (opponent,) = set(episode.policy_of.values()) - {setup["learner"]} or {setup["learner"]}
            if opponent == setup["learner"]:
                continue
            own = [episode.returns.get(agent, 0.0) for agent, name in episode.policy_of.items() if name != opponent]
            others = [episode.returns.get(agent, 0.0) for agent, name in episode.policy_of.items() if name == opponent]
            ahead = float(np.sign(np.mean(own) - np.mean(others)))
            games.append((numbers[opponent], (1.0 + ahead) / 2.0))
        return {ODDS: np.array(games, np.float32)} if games else {}

    def _exploring(self) -> dict[str, float]:
        trained = {name: slots for name, slots in self._slots.items() if slots.setup.is_trained}
        if len(trained) == 1:
            (slots,) = trained.values()
            return slots.exploration.describe(self._steps)
        found = {name: slots.exploration.describe(self._steps) for name, slots in trained.items()}
        return {f"{name}/{what}": value for name, described in found.items() for what, value in described.items()}

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._envs.start()
            for env in range(self._envs.count):
                self._begin(env)

    def _take(self, weights: Mapping[str, Any]) -> None:
        for name, slots in self._slots.items():
            slots.adopt(weights[name])
        self._mapping.adopt(weights)

    def _fill(self, episodes: list[AgentReturns], seconds: dict[str, float]) -> tuple[int, int]:
        """Take the steps of a fragment; returns (env steps, how many of them broke)."""
        least, going = self._config.rollout_fragment_length, list(range(self._envs.count))
        taken = steps = bad = 0
        while going:
            ended, broken = self._step(going, episodes, seconds)
            taken += 1
            steps += len(going)
            bad += broken
            if taken >= least:
                going = [env for env in going if env not in ended] if self._whole_episodes else []
            if taken == least + LONGEST_EPISODE:
                raise endless_episode()
        return steps, bad

    def _step(
        self, going: Sequence[int], episodes: list[AgentReturns], seconds: dict[str, float]
    ) -> tuple[set[int], int]:
        """Take one step of the environments ``going``; returns (those whose episode ended, how many broke)."""
        self.check()
        began = time.perf_counter()
        actions = self._act(going)
        acted = time.perf_counter()
        ended, bad = set(), 0
        self._envs.send(actions, going)
        for env in going:
            step = self._envs.step(env, actions[env])
            if step is None:
                bad += 1
                self._break(env)
                continue
            self._note(env, step)
            if step.is_over:
                episodes.append(self._episode(env))
                ended.add(env)
                self._begin(env)
        self._steps += 1
        seconds["policy"] += acted - began
        seconds["env"] += time.perf_counter() - acted
        return ended, bad

    def _act(self, going: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """Return the actions of the agents that act, by environment: one act of each policy for all of its agents."""
        groups: dict[str, list[tuple[int, str]]] = {}
        for env in going:
            for agent in self._acting[env]:
                groups.setdefault(self._policy_of[env][agent], []).append((env, agent))
        actions: list[dict[str, np.ndarray]] = [{} for _ in self._acting]
        for name in self._players:  # in their order: draws must not depend on who came first
            who = groups.get(name)
            if not who:
                continue
            slots = self._players[name]
            chosen = slots.act([slots.stream(env, agent) for env, agent in who], self._rng, self._steps)
            for (env, agent), action in zip(who, chosen, strict=True):
                actions[env][agent] = action
        return actions

    def _note(self, env: int, step: AgentsStep) -> None:
        """File what a step of an environment brought into the streams of its agents."""
        returns, policy_of, living = self._returns[env], self._policy_of[env], self._living[env]
        for agent, reward in step.rewards.items():
            returns[agent] = returns.get(agent, 0.0) + reward
            if agent in living:
                slots = self._players[policy_of[agent]]
                slots.rewarded(slots.stream(env, agent), reward)
        for agent, obs in step.obs.items():
            slots = self._players[policy_of[agent]]
            stream = slots.stream(env, agent)
            if agent in step.terminated or agent in step.truncated:
                slots.ended(stream, (agent in step.terminated, agent in step.truncated), obs)
                living.discard(agent)
            elif agent in living:
                slots.observed(stream, obs)
            else:
                living.add(agent)
                slots.began(stream, obs)
        self._acting[env] = step.acting()

    def _begin(self, env: int) -> None:
        """Begin an episode: policies are chosen for its agents, and those that are observed begin their streams."""
        self._policy_of[env] = self._mapping.of_episode(env)
        if self._recorder:
            self._recorder.began(env)
        step = self._envs.begin(env)
        self._returns[env], self._living[env] = {}, set()
        self._note(env, step)

    def _break(self, env: int) -> None:
        """The episode of an environment was broken off: its agents' streams end there, cut short."""
        for agent in sorted(self._living[env]):
            slots = self._players[self._policy_of[env][agent]]
            slots.broken(slots.stream(env, agent))
        self._begin(env)

    def _episode(self, env: int) -> AgentReturns:
        returns = self._returns[env]
        length = int(self._envs.lengths[env])
        return AgentReturns(sum(returns.values()), length, dict(returns), dict(self._policy_of[env]))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): everything that the next fragment depends on."""
        self._start()
        arrays, envs_facts = self._envs.state()
        facts: dict[str, Any] = {"policies": {}}
        for name, slots in self._slots.items():
            own, facts["policies"][name] = slots.state()
            arrays |= {f"{name}/{what}": array for what, array in own.items()}
        for name, scripted in self._scripted.items():
            arrays |= {f"{name}/{what}": array for what, array in scripted.state().items()}
        if self._watch:
            facts["callbacks"] = self._watch.episodes.hooks.state()
        if self._recorder:
            facts["recorder"] = self._recorder.state()
        return arrays, facts | {
            "rng": state_of(self._rng),
            "envs": envs_facts,
            "mapping": self._mapping.state(),
            # Pairs, since a file of plain data does not keep the order of names, which sums and windows depend on.
            "policy_of": [[list(pair) for pair in own.items()] for own in self._policy_of],
            "returns": [[list(pair) for pair in own.items()] for own in self._returns],
            "sequence": self._sequence,
            "steps": self._steps,
        }

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> int:
        """Continue from ``state``; returns how many running episodes could not be brought back, and begin anew.

        Raises CheckpointError for what is no state of such a worker.
        """
        self._policy_of = [dict(own) for own in facts.get("policy_of", ())]
        steps, broken = self._load_envs(arrays, facts)
        try:
            for name, slots in self._slots.items():
                prefix = f"{name}/"
                own = {what.removeprefix(prefix): array for what, array in arrays.items() if what.startswith(prefix)}
                slots.load(own, facts["policies"][name])
            for name, scripted in self._scripted.items():
                scripted.load({"obs": arrays[f"{name}/obs"]})
            set_state(self._rng, facts["rng"])
            self._mapping.load(facts["mapping"])
            self._returns = [dict(own) for own in facts["returns"]]
            self._sequence, self._steps = facts["sequence"], facts["steps"]
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"The state of a worker does not fit these policies: {error}") from error
        self._is_started = True
        for env, step in enumerate(steps):
            self._acting[env] = step.acting()
            self._living[env] = self._envs.living(env)
        if self._recorder and "recorder" in facts:
            self._recorder.load(facts["recorder"])
        for env in broken:
            self._living[env] = set(self._policy_of[env])
            self._break(env)
        return len(broken)

    def _load_envs(
        self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
    ) -> tuple[list[AgentsStep], list[int]]:
        if len(self._policy_of) != self._envs.count:
            raise CheckpointError(
                f"The state of a worker has {len(self._policy_of)} environments; this run has {self._envs.count}."
            )
        found: list[tuple[list[AgentsStep], list[int]]] = []
        if self._watch:
            self._watch.episodes.replaying(
                facts.get("callbacks"), lambda: found.append(self._envs.load(arrays, facts["envs"]))
            )
        else:
            found.append(self._envs.load(arrays, facts["envs"]))
        return found[0]

    apply = worker_functions.apply

    def foreach_env(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(env)] of the environments."""
        self._start()
        return worker_functions.to_envs(function, self._envs.objects())

    def close(self) -> None:
        """Close the environments, and the recording."""
        self._envs.close()
        if self._recorder:
            self._recorder.close()


def _steps_of(columns: Mapping[str, np.ndarray]) -> int:
    lengths = columns.get("length", columns.get("steps"))
    return columns["reward"].size if lengths is None else int(lengths.sum())
