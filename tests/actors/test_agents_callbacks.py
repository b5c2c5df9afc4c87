"""Callbacks in workers with several agents: which hooks when, with which agents and policies; steps changed on their way."""

import numpy as np
import pytest
from agent_workers import APART, SHARED, agents_worker, lived_by
from agents_at_random import AGENTS

from drl_cli.envs.callbacks import Callbacks, register_callbacks
from drl_cli.errors import PluginFailed


class Seeing(Callbacks):
    """Keeps what it sees of episodes and steps; adds 1000 to the rewards of agent a; halves those of the policy "others"."""

    episodes, parts, sent = [], [], []

    def __init__(self):
        self.steps = 0

    def on_episode_start(self, *, episode, **more):
        assert (episode.length, episode.agent_rewards, episode.last_action) == (0, {}, {})
        episode.user_data["acted"] = set()
        episode.user_data["will"] = set(episode.acting)

    def on_episode_step(self, *, episode, **more):
        self.steps += 1
        assert set(episode.last_action) <= set(episode.agents) == set(AGENTS)
        assert episode.user_data["will"] <= set(episode.last_action)
        episode.user_data["will"] = set(episode.acting)

    def on_episode_end(self, *, episode, **more):
        self.episodes.append((dict(episode.agent_rewards), episode.length, episode.total_reward))
        episode.custom_metrics["agents"] = len(episode.agent_rewards)

    def on_postprocess(self, *, episode, steps, gamma, agent_id, policy_id, **more):
        assert episode.policy_for(agent_id) == policy_id
        self.parts.append((agent_id, policy_id, id(episode), {name: array.copy() for name, array in steps.items()}))
        if agent_id == "a":
            steps["reward"] += 1000.0

    def on_sample_end(self, *, samples, worker_index, policy_id, **more):
        self.sent.append(policy_id)
        if policy_id == "others":
            samples["reward"] *= 0.5

    def state(self):
        return {"steps": self.steps}

    def load(self, state):
        self.steps = state["steps"]


class Crooked(Callbacks):
    def on_sample_end(self, *, samples, **more):
        samples["reward"] = samples["reward"][:1]


@pytest.fixture(autouse=True)
def fresh(monkeypatch, plug_ins):
    register_callbacks("seeing", Seeing)
    register_callbacks("crooked", Crooked)
    for name in ("episodes", "parts", "sent"):
        monkeypatch.setattr(Seeing, name, [])


@pytest.mark.parametrize("breaks", [0.0, 0.05])
def test_hooks_see_each_agent_with_its_policy_and_every_step_once(monkeypatch, breaks):
    worker, made = agents_worker(monkeypatch, "dqn", APART, breaks, callbacks="seeing")
    tokens, sent = zip(*[worker.collect() for _ in range(20)], strict=True)
    episodes = [episode for token in tokens for episode in token.agents]
    assert [len(found) for found, _, _ in Seeing.episodes] == [len(episode.returns) for episode in episodes]
    for (rewards, length, total), episode in zip(Seeing.episodes, episodes, strict=True):
        assert (length, total) == (episode.length, pytest.approx(episode.reward))
        assert rewards == {(agent, episode.policy_of[agent]): own for agent, own in episode.returns.items()}
    told = [metrics for token in tokens for metrics in token.told]
    assert told == [({"agents": float(len(rewards))}, {}) for rewards, _, _ in Seeing.episodes]
    for name, agents in APART.items():
        lived = lived_by(made, agents)
        parts = [part for part in Seeing.parts if part[1] == name]
        seen = [int(obs[0]) for *_, steps in parts for obs in steps["obs"]]
        assert len(seen) == len(set(seen)) and set(seen) <= set(lived) and len(lived) - len(seen) <= 2 * len(agents)
        for agent, _, _, steps in parts:
            assert {lived[int(obs[0])]["agent"] for obs in steps["obs"]} == {agent}
            after = [lived[int(obs[0])]["after"] for obs in steps["obs"]]
            if not breaks:
                assert steps["next_obs"][:, 0].tolist() == after
    learnt = np.concatenate([own.policies["first"]["reward"][own.policies["first"]["obs"][..., 0] > 0] for own in sent])
    assert learnt.min() > 900
    assert set(Seeing.sent) == {"first", "others"}


def test_steps_of_one_part_belong_to_one_episode(monkeypatch):
    worker, made = agents_worker(monkeypatch, "ppo", SHARED, callbacks="seeing")
    for _ in range(6):
        worker.collect()
    by_episode = {}
    for agent, _, episode, steps in Seeing.parts:
        by_episode.setdefault((episode, agent), []).append(steps)
    lived = lived_by(made, AGENTS)
    assert any(len(parts) > 1 for parts in by_episode.values())
    for parts in by_episode.values():
        for before, after in zip(parts, parts[1:], strict=False):
            assert lived[int(before["obs"][-1, 0])]["after"] == int(after["obs"][0, 0])


def test_sample_end_that_changes_a_shape_ends_the_run_in_one_line(monkeypatch):
    worker, _ = agents_worker(monkeypatch, callbacks="crooked")
    with pytest.raises(PluginFailed, match="callbacks 'crooked': on_sample_end left reward with another shape"):
        worker.collect()
