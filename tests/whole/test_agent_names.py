"""Sixteen agents whose names have slashes and whose spaces differ, through the commands: nothing is lost."""

import csv
import json
import struct

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from tensorboardX.proto.event_pb2 import Event

import drl_cli
from drl_cli import checkpoints, cli

pytestmark = pytest.mark.process

CONFIG = {
    "num_workers": 0,
    "num_envs_per_worker": 1,
    "rollout_fragment_length": 20,
    "train_batch_size": 20,
    "sgd_minibatch_size": 20,
    "num_sgd_iter": 1,
    "timesteps_per_iteration": 100,
    "evaluation_interval": 1,
    "evaluation_num_episodes": 1,
    "model": {"fcnet_hiddens": [4]},
    "xla": False,
}
NUMBERS = {"red": 3, "blue": 5}  # what an agent observes
AGENTS = [f"{team}/{number}" for team in NUMBERS for number in range(8)]


class Named:
    """An episode of ten steps; an agent is paid 1 for its action 0."""

    possible_agents = AGENTS

    def observation_space(self, agent):
        return Box(-1, 1, (NUMBERS[agent.partition("/")[0]],), np.float32)

    def action_space(self, agent):
        return Discrete(NUMBERS[agent.partition("/")[0]] - 1)

    def _seen(self):
        spaces = {agent: self.observation_space(agent) for agent in self.possible_agents}
        return {agent: self.rng.uniform(-1, 1, space.shape).astype(np.float32) for agent, space in spaces.items()}

    def reset(self, seed=None, options=None):
        self.rng, self.steps = np.random.default_rng(seed), 0
        return self._seen(), {}

    def step(self, actions):
        self.steps += 1
        rewards = {agent: float(actions[agent] == 0) for agent in self.possible_agents}
        return self._seen(), rewards, {"__all__": self.steps == 10}, {"__all__": False}, {}


def tags(run):
    """The names of the numbers in a run's event file."""
    (path,) = run.glob("events.out.tfevents.*")
    data, at, found = path.read_bytes(), 0, set()
    while at < len(data):
        (length,) = struct.unpack_from(
            "<Q", data, at
        )  # a record: length, its checksum (4), the event, its checksum (4)
        event = Event.FromString(data[at + 12 : at + 12 + length])
        found |= {value.tag for value in event.summary.value}
        at += 16 + length
    return found


def test_sixteen_agents_with_slashes_are_trained_recorded_played_and_exported(tmp_path, capsys, plug_ins):
    drl_cli.register_env("Named-v0", lambda env_config: Named())
    words = ["train", "--run", "PPO", "--env", "Named-v0", "--seed", "1", "--config", json.dumps(CONFIG)]
    assert cli.main([*words, "--stop", "training_iteration=2", "--local-dir", str(tmp_path)]) == 0
    (run,) = (path.parent for path in tmp_path.glob("*/*/params.json"))

    result = json.loads((run / "result.json").read_text().splitlines()[-1])
    assert set(result["policy_reward_mean"]) == set(result["info"]["learner"]) == {"red", "blue"}
    assert result["info"]["num_updates"] > 0
    by_policy = {"ray/tune/policy_reward_mean/red", "ray/tune/evaluation/policy_reward_mean/blue"}
    assert by_policy | {"ray/tune/info/learner/red/kl", "ray/tune/info/learner/blue/kl"} <= tags(run)
    (columns, *rows) = csv.reader((run / "progress.csv").open())
    assert len(rows) == 2 and "policy_reward_mean/red" in columns
    held = checkpoints.load(run / "checkpoint_000002").arrays("weights")
    assert {name.partition("/")[0] for name in held} == {"red", "blue"}

    capsys.readouterr()
    out = tmp_path / "played.jsonl"
    assert cli.main(["rollout", str(run), "--episodes", "1", "--json", "--out", str(out)]) == 0
    (episode, *_) = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(episode["agents"]) == AGENTS and episode["reward"] == sum(episode["agents"].values())
    assert episode["policies"] == {agent: agent.partition("/")[0] for agent in AGENTS}

    assert cli.main(["checkpoint", "export", str(run), "--format", "onnx", "-o", str(tmp_path / "out"), "-q"]) == 0
    assert {path.stem.partition(".")[0] for path in (tmp_path / "out").iterdir()} == {"red", "blue"}
