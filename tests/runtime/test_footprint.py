"""Sizes computed before a run, against the arrays that the run really makes."""

import numpy as np
import pytest

from drl_cli.actors import replay_buffer
from drl_cli.algorithms import table
from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.algorithms.sac import SACConfig
from drl_cli.errors import ResourcesExhausted
from drl_cli.extras import load
from drl_cli.runtime import assembly, footprint, machine

pytestmark = pytest.mark.process

VECTOR = {"kind": "Box", "shape": [8], "dtype": "float32", "low": None, "high": None}
BOX = {"kind": "Box", "shape": [2], "dtype": "float32", "low": [-1.0, -1.0], "high": [1.0, 1.0]}
DISCRETE = {"kind": "Discrete", "n": 4, "start": 0, "shape": [], "dtype": "int64"}
IMAGE = {"kind": "Box", "shape": [84, 84, 1], "dtype": "uint8", "low": 0, "high": 255}


def policy(name, config, obs, action, frames=1):
    return load(table.find(name).nets).policy_spec(config, {"obs": obs, "action": action, "frames": frames})


def test_step_of_a_vector_takes_obs_action_reward_link_and_flags():
    config = SACConfig()
    assert replay_buffer.bytes_per_step(config, policy("SAC", config, VECTOR, BOX)) == 8 * 4 + 2 * 4 + 4 + 4 + 1


def test_step_of_an_image_is_stored_once_however_many_are_stacked():
    config = DQNConfig()
    size = replay_buffer.bytes_per_step(config, policy("DQN", config, IMAGE, DISCRETE, frames=4))
    assert 84 * 84 <= size < 84 * 84 + 64


@pytest.mark.parametrize(
    ("name", "config"),
    [("SAC", SACConfig(buffer_size=3000)), ("R2D2", R2D2Config(buffer_size=3000, learning_starts=500))],
)
def test_size_is_that_of_the_replay_that_is_made(name, config):
    spec = policy(name, config, VECTOR, BOX if name == "SAC" else DISCRETE)
    made = replay_buffer.ReplayBuffer(config, spec, 0)
    assert replay_buffer.bytes_per_step(config, spec) * 3000 == pytest.approx(made._ring.reserved(), rel=1e-9)


def test_replay_counts_what_the_stop_rules_let_in():
    row, config = table.find("SAC"), SACConfig(buffer_size=1_000_000)
    found = footprint.replay(row, config, policy("SAC", config, VECTOR, BOX), {"timesteps_total": 20_000})
    assert (found.used, found.used_bytes, found.full_bytes) == (20_000, 49 * 20_000, 49 * 1_000_000)
    assert footprint.replay(row, config, policy("SAC", config, VECTOR, BOX), {}).used == 1_000_000


def test_algorithm_without_a_replay_has_none():
    config = PPOConfig()
    assert footprint.replay(table.find("PPO"), config, policy("PPO", config, VECTOR, BOX), {}) is None


def test_gradients_without_a_train_batch_size_are_of_a_fragment_each():
    config = A3CConfig(num_envs_per_worker=4, rollout_fragment_length=25)
    assert footprint.blocks(table.find("A3C"), config, policy("A3C", config, VECTOR, DISCRETE)) == 2 * 100 * (
        32 + 4 + 40
    )


def test_replay_that_cannot_fit_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr(machine, "memory_total", lambda: 2 * 2**30)
    row, config = table.find("DQN"), DQNConfig(buffer_size=1_000_000)
    env = {"spaces": {"obs": IMAGE, "action": DISCRETE}, "preprocessing": {"frames": 4}}
    with pytest.raises(ResourcesExhausted) as refused:
        footprint.check_replay(assembly.setup_of(row, config, env), {})
    assert "1,000,000 env steps of 7,089 bytes are 6.6 GB, this machine has 2.0 GB" in str(refused.value)
    assert "-s buffer_size=" in str(refused.value) and "compress_observations=true" in str(refused.value)
    footprint.check_replay(assembly.setup_of(row, config, env), {"timesteps_total": 100_000})
    packed = config.model_copy(update={"compress_observations": True})
    footprint.check_replay(assembly.setup_of(row, packed, env), {})


OUT_OF_ROOM = (
    "a run with TensorFlow takes at least {} of memory beside its replay, and this machine has {}. {} the limit of the"
)


@pytest.mark.parametrize(
    ("keys", "size", "said"),
    [
        ({"xla": True}, 300, ("400 MB", "300 MB", "-s xla=false needs 250 MB; or raise")),
        ({"xla": True}, 240, ("400 MB", "240 MB", "Raise")),
        ({"xla": False}, 240, ("250 MB", "240 MB", "Raise")),
        ({"xla": None}, 240, ("250 MB", "240 MB", "Raise")),  # images are not compiled without a GPU
        ({"xla": False}, 300, None),
        ({"xla": True}, 500, None),
    ],
)
def test_machine_without_memory_for_the_run_itself_is_refused_by_what_the_updates_take(monkeypatch, keys, size, said):
    monkeypatch.setattr(machine, "memory_total", lambda: size * 2**20)
    env = {"spaces": {"obs": IMAGE, "action": DISCRETE}, "preprocessing": {"frames": 4}}
    setup = assembly.setup_of(table.find("DQN"), DQNConfig(buffer_size=1000, **keys), env)
    if said is None:
        footprint.check_replay(setup, {})
        return
    with pytest.raises(ResourcesExhausted) as refused:
        footprint.check_replay(setup, {})
    assert str(refused.value).startswith(OUT_OF_ROOM.format(*said))


@pytest.mark.parametrize(("size", "most"), [(2048, (2048 - 700) * 2**20 // 7089), (450, 100 * 2**20 // 7089)])
def test_size_of_a_replay_that_is_advised_leaves_room_to_the_run(monkeypatch, size, most):
    monkeypatch.setattr(machine, "memory_total", lambda: size * 2**20)
    env = {"spaces": {"obs": IMAGE, "action": DISCRETE}, "preprocessing": {"frames": 4}}
    setup = assembly.setup_of(table.find("DQN"), DQNConfig(buffer_size=10**6), env)
    with pytest.raises(ResourcesExhausted, match=f"{most:,} fit with room to spare: -s buffer_size={most}"):
        footprint.check_replay(setup, {})


def test_replays_of_several_policies_are_summed_over_those_that_learn():
    row, config = table.find("DQN"), DQNConfig(buffer_size=1000)
    spaces = {"obs": VECTOR, "action": DISCRETE}
    one = {"agents": ["0", "1"], "spaces": spaces, "config": {}, "is_trained": True}
    policies = {
        "a": one,
        "b": {**one, "agents": ["2"], "config": {"buffer_size": 500}},
        "c": {**one, "is_trained": False},
    }
    setup = assembly.setup_of(row, config, {"spaces": spaces, "agents": {"policies": policies}})
    alone = footprint.replay(row, config, setup.spec, {})
    found = footprint.replays(setup, {})
    assert found.row == 3 * alone.row and found.full_bytes == pytest.approx(1500 * alone.row, rel=0.01)
    assert footprint.replays(setup, {"timesteps_total": 100}).used_bytes == pytest.approx(300 * alone.row, rel=0.01)


def test_weights_count_the_policy_and_a_checkpoints_bytes():
    row, config = table.find("SAC"), SACConfig(seed=0)
    numbers, size = footprint.weights(row, config, policy("SAC", config, VECTOR, BOX))
    assert numbers == 8 * 64 + 64 + 64 * 64 + 64 + 2 * (64 * 2 + 2)
    assert size > 3 * 4 * numbers


def test_processes_of_an_inline_run_are_one():
    (only,) = footprint.processes(table.find("SAC"), SACConfig(num_workers=0), {})
    assert only[1] == 1 and only[2] > 500 * 2**20
    (plain,) = footprint.processes(table.find("ARS"), load(table.find("ARS").config)(num_workers=0), {})
    assert plain[2] < 200 * 2**20


def test_processes_with_workers_and_shards_are_all_told():
    config = SACConfig(num_workers=4, num_replay_shards=2)
    found = {what: count for what, count, _ in footprint.processes(table.find("SAC"), config, {})}
    assert found == {
        "the run: driver, learner": 1, "workers": 4, "parameter server": 1, "tester": 1, "replay shards": 2, "Ray's own": 1,
    }  # fmt: skip
    assert "Ray's own" not in [what for what, *_ in footprint.processes(table.find("SAC"), config, {"address": "a:1"})]


@pytest.mark.parametrize(
    ("count", "text"), [(10, "10 bytes"), (2048, "2.0 kB"), (3 * 2**30, "3.0 GB"), (150 * 2**20, "150 MB")]
)
def test_sizes_are_told_as_people_read_them(count, text):
    assert footprint.sized(np.int64(count)) == text


def test_environments_with_processes_of_their_own_are_told():
    def elsewhere(workers):
        config = SACConfig(num_workers=workers, num_envs_per_worker=3, remote_worker_envs=True)
        found = footprint.processes(table.find("SAC"), config, {})
        return {what: count for what, count, _ in found}["environments"]

    assert (elsewhere(0), elsewhere(2)) == (3, 6)
