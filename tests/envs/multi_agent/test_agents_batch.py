"""The environments of a worker whose environments have several agents."""

import numpy as np
from scripted_agents import Scripted, acts

import drl_cli
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_batch import AgentsBatch


def batch(env_id, kind, count=1):
    """Return the environments of a worker for ``env_id``."""
    spaces = open_envs.check(env_id, {}, kind).spaces
    setup = {"id": env_id, "env_config": {}, "agents": {"kind": kind, "count": 1, "spaces": spaces}}
    return AgentsBatch(setup, count, (0, 0))


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
