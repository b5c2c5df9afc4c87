"""The environments of a worker whose environments have several agents."""

import numpy as np
from scripted_agents import Scripted, acts

import drl_cli
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_batch import AgentsBatch
from drl_cli.envs.render import EpisodeVideos


def batch(env_id, kind, count=1, *ways, **making):
    """Return the environments of a worker for ``env_id``; ``ways``: horizon, soft, viewer, watch; ``making``: of the setup."""
    found = open_envs.check(env_id, {}, kind)
    agents = {"kind": kind, "count": 1, "spaces": found.spaces, "is_turn_based": found.is_turn_based}
    return AgentsBatch({"id": env_id, "env_config": {}, "agents": agents, **making}, count, (0, 0), *ways)


def test_what_an_environment_left_out_reaches_the_worker_once():
    script = [({"a": 1}, {}, {"b": True}, {}), ({"a": 1, "b": 1}, {}, {}, {}), ({}, {}, {"__all__": True}, {})]
    drl_cli.register_env("ReturningTwice-v0", lambda env_config: Scripted({"a": 0, "b": 0}, *script))
    envs = batch("ReturningTwice-v0", "dictionary", 2)
    for index in (0, 1, 0):
        step = envs.begin(index)
        while not step.is_over:
            step = envs.step(index, acts(step))
    text = "agent 'b' came back after its end; it is left out for the rest of the episode."
    assert envs.notes == [f"ReturningTwice-v0: {text}"]


def test_reward_of_one_agent_that_is_not_finite_costs_the_episode_and_names_it():
    class Rarely(Scripted):
        begun = 0

        def reset(self, seed=None):
            type(self).begun += 1
            return super().reset()

        def step(self, actions):
            obs, rewards, *rest = super().step(actions)
            return obs, {"a": 1.0, "b": np.nan if self.begun > 2 else 0.0}, *rest

    script = [({"a": 1, "b": 1}, {}, {}, {}), ({}, {}, {"__all__": True}, {})]
    drl_cli.register_env("RarelyNaN-v0", lambda env_config: Rarely({"a": 0, "b": 0}, *script))
    envs = batch("RarelyNaN-v0", "dictionary")
    step = envs.begin(0)
    assert envs.step(0, acts(step)) is None
    assert "FloatingPointError: agent 'b': its reward is nan" in envs.notes[0]
    assert set(envs.begin(0).acting()) == {"a", "b"}


POLES = "drl/MultiAgentCartPole-v1"


def play(envs, steps, index=0):
    """Step an environment, beginning anew where an episode is over; return what it brought, as plain data."""
    step, seen = envs.begin(index), []
    for number in range(steps):
        actions = {agent: np.int64((number + int(agent)) % 2) for agent in step.acting()}
        envs.send([actions] * envs.count, [index])
        step = envs.step(index, actions)
        seen.append(
            [{agent: obs.tolist() for agent, obs in step.obs.items()}, dict(step.rewards), *map(sorted, step[2:4])]
        )
        if step.is_over:
            step = envs.begin(index)
    return seen


def test_environments_in_processes_of_their_own_bring_the_same_to_the_bit():
    here, there = batch(POLES, "dictionary", 2), batch(POLES, "dictionary", 2, remote=True)
    there.start()
    try:
        assert play(there, 40, 1) == play(here, 40, 1)
        assert here.state()[1] == there.state()[1]
    finally:
        there.close()
        here.close()


def test_process_that_dies_costs_the_episode():
    envs = batch(POLES, "dictionary", 2, remote=True)
    try:
        step = envs.begin(0)
        envs._envs[0].process._process.kill()
        assert envs.step(0, acts(step)) is None
        assert "its process died by signal 9" in envs.notes[0]
        assert play(envs, 3) and len(envs.notes) == 1
    finally:
        envs.close()


def test_after_a_soft_horizon_the_episode_goes_on_where_it_was_and_is_replayed():
    envs = batch(POLES, "dictionary", 1, 3, True)
    step = envs.begin(0)
    for _ in range(3):
        step = envs.step(0, acts(step))
    assert step.is_over and step.truncated == {"0", "1"}
    after = envs.begin(0)
    assert all((after.obs[agent] == step.obs[agent]).all() for agent in ("0", "1")) and envs.lengths[0] == 0
    step = envs.step(0, acts(after))
    arrays, facts = envs.state()
    assert facts["episode"] == [1]
    other = batch(POLES, "dictionary", 1, 3, True)
    (last,), broken = other.load(arrays, facts)
    assert broken == [] and other.lengths[0] == 1
    assert {agent: obs.tolist() for agent, obs in last.obs.items()} == {a: obs.tolist() for a, obs in step.obs.items()}


def test_training_is_filmed_as_it_is_with_one_agent(tmp_path):
    envs = batch(POLES, "dictionary", 1, 5, False, EpisodeVideos(tmp_path))
    play(envs, 12)
    envs.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["episode-000000.mp4", "episode-000001.mp4"]
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir()) and envs.notes == []
