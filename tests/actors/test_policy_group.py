"""Several policies behind one learner and one replay."""

from types import SimpleNamespace

import numpy as np
import pytest
from agents_at_random import SPACES
from safetensors.numpy import load_file

from drl_cli.actors.multi_agent_worker import AgentColumns
from drl_cli.actors.policy_group import GroupLearner, GroupReplay
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.algorithms.dqn import DQN, DQNConfig
from drl_cli.config.sections.multi_agent import MultiAgentConfig
from drl_cli.config.sections.self_play import SelfPlayConfig
from drl_cli.errors import CheckpointError
from drl_cli.experience.columns import Meta, Token
from drl_cli.experience.trajectories import join
from drl_cli.extras import load
from drl_cli.runtime.cluster import InlineCluster


class OnesLearner:
    """Adds one to its weight with every update, and pushes it."""

    def __init__(self, config, spec, graph, initial, identity, server):
        self.policy, self.server, self.value = identity["policy"], server, float(initial["w"][0])
        self.seen, self.prepared = [], None

    def prepare(self, *shape):
        self.prepared = shape
        return 0.1

    def learn(self, *args):
        self.args = args
        self.value += 1
        self.push()
        return {"updates": 1, "stats": {"loss": self.value}, "seconds": 0.0, "version": 0, "steps": 1}

    def observe(self, seen):
        self.seen += seen

    def push(self, keep=False):
        self.server.call("push", {self.policy: {"w": np.float32([self.value])}}, False).result()
        return 0

    def state(self):
        return {f"{self.policy}/w": np.float32([self.value])}

    def load(self, arrays, version):
        self.value = float(arrays[f"{self.policy}/w"][0])


class OneWeight:
    """A PolicySpec as far as a group asks."""

    @staticmethod
    def weight_names():
        return ["w"]


def _group(trained=("first", "second"), fixed=()):
    setups = {name: PolicySetup(None, OneWeight(), ("a",), name in trained) for name in (*trained, *fixed)}
    server = InlineCluster().spawn("server", "drl_cli.actors.parameter_server:ParameterServer", (), "here")
    initial = {name: {"w": np.float32([10.0 * index])} for index, name in enumerate(setups)}
    server.call("push", initial)
    identity = {"seed": 0, "with_ray": False}
    return GroupLearner("test_policy_group:OnesLearner", setups, "graph", initial, identity, server), server


def _columns(name, numbers=(1, 2)):
    steps = len(numbers)
    return {
        "obs": np.float32(numbers).reshape(steps, 1, 1),
        "action": np.zeros((steps, 1), np.int32),
        "reward": np.ones((steps, 1), np.float32),
        "terminated": np.zeros((steps, 1), bool),
        "truncated": np.zeros((steps, 1), bool),
        "end_obs": np.empty((0, 1), np.float32),
        "tail_obs": np.float32([[numbers[-1] + 1]]),
        "cut": np.array([False]),
    }


def test_all_policies_learn_from_their_own_columns_and_are_pushed_as_one_version():
    group, server = _group()
    fragment = AgentColumns(2, {"first": _columns("first"), "second": _columns("second", (5, 6))})
    result = group.learn(100, [{"first": "f", "second": None}], fragment)
    assert result["version"] == 2
    assert result["steps"] == 2
    assert result["stats"] == {"first/loss": 1.0, "second/loss": 11.0}
    version, weights = server.call("pull", 1).result()
    assert version == 2
    assert {name: float(own["w"][0]) for name, own in weights.items()} == {"first": 1.0, "second": 11.0}
    assert group._learners["first"].args[1] == ["f"]
    assert group._learners["second"].args[2]["obs"][0, 0, 0] == 5


def test_a_policy_whose_agents_never_acted_does_not_learn_and_keeps_its_weights():
    group, server = _group()
    idle = {**_columns("second"), "steps": np.array([0])}
    group.learn(100, [None], AgentColumns(2, {"first": _columns("first"), "second": idle}))
    _, weights = server.call("pull", 1).result()
    assert float(weights["second"]["w"][0]) == 10.0


def test_a_batch_keeps_its_rows_where_the_agents_of_a_policy_acted_in_some_fragments_only():
    group, _ = _group()
    absent = {**_columns("first", (1,)), "steps": np.array([0])}
    both = [AgentColumns(2, {"first": one, "second": _columns("second")}) for one in (_columns("first"), absent)]
    group.learn(0, None, *both)
    batch = join(group._learners["first"].args[2:], 0.9)
    assert batch["mask"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batch["end_at"].tolist() == [1, 4, 4, 4]


def test_policies_that_are_not_trained_keep_their_first_weights_in_pushes_and_checkpoints():
    group, server = _group(("first",), ("frozen",))
    group.learn(1, [None], AgentColumns(2, {"first": _columns("first")}))
    _, weights = server.call("pull", 1).result()
    assert float(weights["frozen"]["w"][0]) == 10.0
    assert {name: float(array[0]) for name, array in group.state().items()} == {"first/w": 1.0, "frozen/w": 10.0}


def test_a_group_goes_on_from_its_state():
    group, _ = _group(("first",), ("frozen",))
    group.learn(1, [None], AgentColumns(2, {"first": _columns("first")}))
    other, server = _group(("first",), ("frozen",))
    other.load(group.state(), 7)
    other.push()
    version, weights = server.call("pull", 1).result()
    assert version == 2  # the server's own count
    assert float(weights["first"]["w"][0]) == 1.0
    with pytest.raises(CheckpointError, match="frozen"):
        other.load({"first/w": np.float32([1])}, 7)


def test_a_batch_of_a_policy_has_a_row_for_each_of_its_agents_when_it_is_compiled():
    group, _ = _group(("first",))
    group.prepare(3, 20)
    assert group._learners["first"].prepared == (3, 20)


def _replay(**keys):
    given = {"num_workers": 0, "num_envs_per_worker": 1, "rollout_fragment_length": 4, "train_batch_size": 4, **keys}
    config = DQNConfig(buffer_size=1000, learning_starts=1, n_step=1, seed=0, **given)
    spec = load(DQN.nets).policy_spec(config, SPACES)
    return GroupReplay({name: PolicySetup(config, spec, (name,), True) for name in ("a", "b")}, seed=0)


def _token(sequence):
    return Token(Meta(0, 0, sequence, 1), 8, (), 0, (), {})


def _sent(first, second):
    own = {"a": _columns("a", range(first, first + 8)), "b": {**_columns("b", range(8)), "steps": np.array([second])}}
    return AgentColumns(8, own)


def test_a_policy_without_experience_has_no_block_until_it_has_some():
    replay = _replay()
    assert replay.add(_token(0), _sent(0, 0)) == 8
    assert replay.add(_token(0), _sent(0, 0)) == 0  # the same fragment again
    blocks, _ = replay.sample(1)
    assert set(blocks) == {"a"}
    assert replay.add(_token(1), _sent(8, 8)) == 8
    assert set(replay.sample(1)[0]) == {"a", "b"}


def test_priorities_go_to_the_replay_of_their_policy():
    replay = _replay(prioritized_replay=True)
    replay.add(_token(0), _sent(0, 8))
    blocks, smallest = replay.sample(1)
    assert set(smallest) == {"a", "b"}
    serial = {name: block["serial"][0] for name, block in blocks.items()}
    replay.prioritize(serial, {"a": np.full(4, 9.0), "b": np.full(4, 0.5)})
    largest = {name: own._priorities.largest for name, own in replay._replays.items()}
    assert largest == {"a": 9.0, "b": 1.0}


def test_replays_of_several_policies_are_one_file_and_come_back(tmp_path):
    replay = _replay()
    replay.add(_token(0), _sent(0, 8))
    facts = replay.save(tmp_path, False)
    arrays = load_file(tmp_path / "replay-0.safetensors")
    other = _replay()
    other.load(arrays, facts)
    for name, block in replay.sample(1)[0].items():
        np.testing.assert_array_equal(block["obs"], other.sample(1)[0][name]["obs"])
        break
    with pytest.raises(CheckpointError, match="other policies"):
        other.load(arrays, {"policies": {"a": {}}})


def _self_play_group():
    names = ("main", "main_0", "main_1")
    keys = MultiAgentConfig(self_play=SelfPlayConfig(opponents=2, freeze_interval=100))
    setups = {
        name: PolicySetup(SimpleNamespace(multiagent=keys), OneWeight(), ("a", "b"), name == "main") for name in names
    }
    server = InlineCluster().spawn("server", "drl_cli.actors.parameter_server:ParameterServer", (), "here")
    initial = {name: {"w": np.float32([0.0])} for name in names}
    server.call("push", initial)
    playing = {"learner": "main", "slots": names[1:], "scripted": [], "own_share": 0.5, "evaluate_against": ["random"]}
    identity = {"seed": 0, "with_ray": False, "self_play": playing}
    return GroupLearner("test_policy_group:OnesLearner", setups, "graph", initial, identity, server), server


def test_a_frozen_copy_has_the_learners_weights_and_keeps_them():
    group, server = _self_play_group()
    fragment = AgentColumns(2, {"main": _columns("main")})
    for steps in (50, 100, 150):  # the second update freezes
        result = group.learn(steps, [None], fragment)
    _, weights = server.call("pull", 1).result()
    assert [float(weights[name]["w"][0]) for name in ("main", "main_0", "main_1")] == [3.0, 2.0, 0.0]
    assert weights["self_play"]["odds"].tolist() == [0.5, 0.5, 0.0]
    assert result["stats"]["main/copies_frozen"] == 1


def test_games_reach_the_pool_and_go_on_from_a_checkpoint():
    group, _ = _self_play_group()
    fragment = AgentColumns(2, {"main": _columns("main")})
    group.learn(100, [None], fragment)
    result = group.learn(101, [{"self_play": np.float32([[1, 1.0]])}, None], fragment)
    assert result["stats"]["main/elo"] == 1008.0
    assert result["stats"]["main/win_rate_main_0"] == 1.0
    other, server = _self_play_group()
    other.load(group.state(), 3)
    other.push()
    _, weights = server.call("pull", 1).result()
    assert float(weights["main_0"]["w"][0]) == 1.0
    assert other.learn(102, [None], fragment)["stats"] == group.learn(102, [None], fragment)["stats"]


def test_observed_games_of_a_replay_reach_the_pool_too():
    group, _ = _self_play_group()
    group.learn(100, [None], AgentColumns(2, {"main": _columns("main")}))
    group.observe([{"self_play": np.float32([[1, 0.0]])}])
    assert group._pool.stats()["elo"] == 992.0
