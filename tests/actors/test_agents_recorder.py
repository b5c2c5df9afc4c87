"""Recordings of several agents as RLlib's MultiAgentBatch: written, read back policy by policy, and what is refused."""

import json

import numpy as np
import pytest
from agent_workers import APART, GAMMA, agents_worker, lived_by
from agents_at_random import SPACES

from drl_cli.actors.agents_reader import AgentsReader
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.algorithms.dqn import DQN, DQNConfig
from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded import read
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.ring_buffer import Ring
from drl_cli.extras import load


@pytest.fixture
def recording(monkeypatch, tmp_path):
    """Function (kind, breaks, **keys) → (folder, the environments) of a recording of ten fragments."""

    def record(kind="dqn", breaks=0.0, **keys):
        worker, made = agents_worker(monkeypatch, kind, APART, breaks, identity={"output": tmp_path / "rec"}, **keys)
        for _ in range(10):
            _, sent = worker.collect()
            for columns in sent.policies.values():
                assert not {"eps_id", "t", "behaviour_logp"} & set(columns)
        worker.close()
        return tmp_path / "rec", made

    return record


def lines(folder):
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def layout(policy, *others):
    return layout_of(SPACES, policies=(policy, *others))


def pieces(folder, *policies):
    return list(read.Source(str(folder), layout(*policies), passes=1))


def test_a_line_is_a_batch_of_each_policy_with_one_episode_id_for_all_agents(recording):
    folder, _ = recording(output_compress_columns=[])
    batches = lines(folder)
    assert len(batches) == 10
    episodes = {name: set() for name in APART}
    for batch in batches:
        assert (batch["type"], batch["count"]) == ("MultiAgentBatch", 16)
        for name, columns in batch["policy_batches"].items():
            assert len({len(values) for values in columns.values()}) == 1
            episodes[name].update(columns["eps_id"])
            assert set(columns["agent_index"]) <= ({0} if name == "first" else {1, 2})
            first = np.array(columns["t"]) == 0
            assert (
                not np.array(columns["prev_rewards"])[first].any()
                and not np.array(columns["prev_actions"])[first].any()
            )
    assert len(episodes["first"] & episodes["others"]) > 5


@pytest.mark.parametrize(
    ("kind", "breaks", "keys"),
    [
        ("dqn", 0.0, {}),
        ("dqn", 0.05, {}),
        ("ppo", 0.0, {"batch_mode": "complete_episodes"}),
    ],
    ids=["dqn", "broken", "whole"],
)
def test_what_is_read_back_is_what_the_agents_lived_through(recording, kind, breaks, keys):
    folder, made = recording(kind, breaks, **keys)
    for name, agents in APART.items():
        lived = lived_by(made, agents)
        found = {}
        for piece in pieces(folder, name, *(set(APART) - {name})):
            assert len({lived[int(obs[0])]["agent"] for obs in piece.obs}) == 1
            for index, obs in enumerate(piece.obs):
                step = lived[int(obs[0])]
                found[int(obs[0])] = step
                assert piece.action[index] == step["action"]
                assert piece.reward[index] == pytest.approx(step["reward"], abs=1e-5)
                after = piece.obs[index + 1] if index + 1 < piece.steps else piece.end_obs
                if step["end"] != "broken":
                    assert int(after[0]) == step["after"]
            last = lived[int(piece.obs[-1, 0])]["end"]
            assert piece.terminated == (last == "terminated")
        assert len(found) > 40 and len(lived) - len(found) <= 2 * len(agents)


def test_policy_whose_actions_have_probabilities_has_them_recorded(recording):
    folder, _ = recording("ppo", output_compress_columns=[])
    for batch in lines(folder):
        for columns in batch["policy_batches"].values():
            assert np.allclose(np.exp(columns["action_logp"]), columns["action_prob"], atol=1e-6)
            assert 0 < min(columns["action_prob"]) <= max(columns["action_prob"]) <= 1


def reader(folder, **identity):
    config = DQNConfig(
        input=str(folder), gamma=GAMMA, num_workers=0, num_envs_per_worker=1, rollout_fragment_length=8, seed=0
    )
    setup = PolicySetup(config, load(DQN.nets).policy_spec(config, SPACES), ("a",), True)
    policies = {name: setup._replace(agents=agents) for name, agents in APART.items()}
    env = {
        "id": "at-random",
        "env_config": {},
        "spaces": SPACES,
        "agents": {"policies": {name: {"agents": agents, "spaces": SPACES} for name, agents in APART.items()}},
    }
    own = {"seed": 3, "index": 0, "number": 0, "incarnation": 0, "workers": 1, "behind": 0, **identity}
    return AgentsReader(config, env, policies, own, None)


def read_through(source):
    """Read one pass; return {policy: ring} and the tokens."""
    rings, tokens = {name: Ring(10_000, (1,), (), ("float32", "int32")) for name in APART}, []
    while not (tokens and tokens[-1].reading.ended):
        token, sent = source.collect()
        tokens.append(token)
        for name, columns in (sent.policies if sent else {}).items():
            rings[name].add(0, columns)
    return rings, tokens


def test_each_policy_learns_from_its_own_steps_and_a_pass_ends_for_all_of_them(recording):
    folder, made = recording()
    rings, tokens = read_through(reader(folder))
    assert [token.reading.ended for token in tokens].count(True) == 1
    for name, agents in APART.items():
        ring, lived = rings[name], lived_by(made, agents)
        rows = np.arange(len(ring))
        reward, discount, _, valid = ring.windows(rows, 1, GAMMA)
        seen = [int(ring.obs[row, 0]) for row in rows[valid]]
        assert len(seen) == len(set(seen)) > 40
        for row in rows[valid]:
            step = lived[int(ring.obs[row, 0])]
            assert reward[row] == pytest.approx(step["reward"], abs=1e-5)
            assert discount[row] == np.float32(0.0 if step["end"] == "terminated" else GAMMA)


def test_reader_goes_on_from_its_state_and_passes_over_what_a_predecessor_brought(recording):
    folder, _ = recording()
    whole = reader(folder)
    whole.collect()
    arrays, facts = whole.state()
    expected = [whole.collect() for _ in range(3)]
    resumed, successor = reader(folder), reader(folder, behind=1)
    resumed.load(arrays, json.loads(json.dumps(facts)))
    for other in (resumed, successor):
        for _, sent in expected:
            for name, columns in other.collect()[1].policies.items():
                assert np.array_equal(columns["obs"], sent.policies[name]["obs"])


@pytest.mark.parametrize(
    ("change", "policies", "text"),
    [
        (
            lambda data: data["policy_batches"].update(frist=data["policy_batches"].pop("first")),
            ("first", "others"),
            "policy_batches: 'frist' is no policy of this run. Did you mean 'first'? They are first, others.",
        ),
        (
            lambda data: data.update(data["policy_batches"]["first"], type="SampleBatch"),
            ("first", "others"),
            "policy_batches: 'default_policy' is no policy of this run. They are first, others.",
        ),
        (
            lambda data: data["policy_batches"].pop("first"),
            ("first", "others"),
            "holds no steps of the policy first to train on.",
        ),
        (
            lambda data: data.update(format="drl-episodes-1"),
            ("first", "others"),
            "its episode is of one agent; this run reads those of several.",
        ),
        (
            lambda data: data.update(format="drl-agents-episodes-1", agents=[]),
            ("first",),
            "agents: is no object of steps by agent.",
        ),
        (
            lambda data: data.update(format="drl-agents-episodes-1", agents={}),
            (),
            "its episodes are of several agents; this run reads those of one.",
        ),
    ],
    ids=["misnamed", "one-policy", "absent", "one-agent", "agents", "several"],
)
def test_line_that_does_not_fit_is_refused_in_one_line(recording, tmp_path, change, policies, text):
    folder, _ = recording(output_compress_columns=[])
    data = lines(folder)[0]
    change(data)
    (tmp_path / "one.json").write_text(json.dumps(data) + "\n")
    with pytest.raises(ExperienceError) as caught:
        list(read.Source(str(tmp_path / "one.json"), layout_of(SPACES, policies=policies), passes=1))
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_batch_of_one_policy_is_that_of_the_default_policy(recording, tmp_path):
    folder, _ = recording(output_compress_columns=[])
    data = lines(folder)[0]
    steps = data["policy_batches"]["first"]
    (tmp_path / "one.json").write_text(json.dumps({"type": "SampleBatch", **steps}) + "\n")
    assert sum(piece.steps for piece in pieces(tmp_path / "one.json", "default_policy")) == len(steps["t"])


def test_steps_of_agents_that_act_in_turn_stay_together_where_t_counts_env_steps(recording, tmp_path):
    folder, _ = recording(output_compress_columns=[])
    data = lines(folder)[0]
    parts = [len(piece.obs) for piece in pieces(folder, "first", "others")]
    for batch in data["policy_batches"].values():
        batch["t"] = [2 * t for t in batch["t"]]
    (tmp_path / "turns.json").write_text(json.dumps(data) + "\n")
    assert max(len(piece.obs) for piece in pieces(tmp_path / "turns.json", "first", "others")) > 1
    assert max(parts) > 1


def test_episodes_that_rollout_writes_are_read_by_policy(tmp_path):
    own = {"obs": [[1.0], [2.0], [3.0]], "action": [0, 2], "reward": [0.5, 1.5]}
    ends = {"terminated": [False, True], "truncated": [False, False]}
    agents = {"a": {"policy": "first", **own, **ends}, "b": {"policy": "others", **own, **ends}}
    data = {"format": "drl-agents-episodes-1", "env": "x", "episode": 0, "seed": 1, "agents": agents}
    (tmp_path / "played.json").write_text(json.dumps(data) + "\n")
    (piece,) = pieces(tmp_path / "played.json", "first", "others")
    assert (piece.obs.ravel().tolist(), piece.end_obs.tolist(), piece.reward.tolist()) == ([1, 2], [3], [0.5, 1.5])
    assert piece.terminated and piece.action.tolist() == [0, 2]
