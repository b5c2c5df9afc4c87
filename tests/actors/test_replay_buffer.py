"""Fragments in, blocks out: what is counted twice, what must not be joined, padding, saving."""

import json

import numpy as np
import pytest
from episodes import Worker
from parts import config, spec

from drl_cli import checkpoints
from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.errors import CheckpointError, ConfigError
from drl_cli.experience.columns import Meta, Token

SPEC = spec(1, (-1.0,), (1.0,))
KEYS = {"train_batch_size": 6, "updates_per_call": 4, "n_step": 2, "gamma": 0.9, "num_envs_per_worker": 2}


def _buffer(**keys):
    return ReplayBuffer(config(**(KEYS | keys)), SPEC, 11)


def _token(worker, incarnation, sequence, columns):
    return Token(Meta(worker, incarnation, sequence, 1), columns["reward"].size, (), 0, (), {})


def _filled(fragments=10, seed=0):
    buffer, worker = _buffer(), Worker(seed, 2, end=0.1)
    for sequence in range(fragments):
        columns = worker.fragment(5)
        assert buffer.add(_token(0, 0, sequence, columns), columns) == 10
    return buffer, worker


def _drawable(buffer, draws=200):
    """The numbers of all first observations that come up in many draws."""
    return {int(number) for _ in range(draws) for number in buffer.sample(4)[0]["obs"].ravel()}


def test_a_fragment_counts_once():
    buffer, worker = _buffer(), Worker(0, 2, end=0.0)
    columns = worker.fragment(5)
    assert [buffer.add(_token(0, 0, 0, columns), columns) for _ in range(3)] == [10, 0, 0]
    assert buffer.size() == 10
    assert buffer.add(_token(1, 0, 0, columns), columns) == 10  # another worker's


def test_a_fragment_of_a_dead_incarnation_is_dropped():
    buffer, dead, alive = _buffer(), Worker(0, 2, end=0.0), Worker(1, 2, end=0.0)
    first, late, fresh = dead.fragment(5), dead.fragment(5), alive.fragment(5)
    fresh["cut"][:] = True
    assert buffer.add(_token(0, 0, 0, first), first) == 10
    assert buffer.add(_token(0, 1, 0, fresh), fresh) == 10
    assert buffer.add(_token(0, 0, 1, late), late) == 0
    assert buffer.size() == 22  # two end rows, where the dead one's streams were cut


@pytest.mark.parametrize("following", [(0, 2), (1, 1)], ids=["same incarnation", "next incarnation"])
def test_steps_around_a_lost_fragment_are_not_joined(following):
    buffer, worker = _buffer(), Worker(0, 2, end=0.0)
    first = worker.fragment(5)
    buffer.add(_token(0, 0, 0, first), first)
    for env in range(2):
        worker.cut(env)  # what the list of episodes makes of the loss
    later = worker.fragment(5)
    buffer.add(_token(0, *following, later), later)
    expected = worker.transitions(2, 0.9)
    assert _drawable(buffer) == set(expected)
    block = buffer.sample(4)[0]
    for number, behind in zip(block["obs"].ravel(), block["next_obs"].ravel(), strict=True):
        assert behind == expected[int(number)][2]


def test_sample_draws_what_the_list_of_episodes_has():
    buffer, worker = _filled()
    expected = worker.transitions(2, 0.9)
    assert _drawable(buffer) == set(expected)
    block = buffer.sample(4)[0]
    for row in np.ndindex(4, 6):
        reward, discount, behind = expected[int(block["obs"][row][0])]
        assert block["next_obs"][row][0] == behind and block["action"][row][0] == -block["obs"][row][0]
        np.testing.assert_allclose((block["reward"][row], block["discount"][row]), (reward, discount), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_sample_pads_with_the_first_batch_to_a_static_shape(count):
    block = _filled()[0].sample(count)[0]
    assert {name: array.shape for name, array in block.items()} == {
        "obs": (4, 6, 1),
        "action": (4, 6, 1),
        "reward": (4, 6),
        "discount": (4, 6),
        "next_obs": (4, 6, 1),
    }
    for name, array in block.items():
        assert array.dtype == np.float32
        assert all(np.array_equal(array[row], array[0]) for row in range(count, 4)), name
    assert count == 1 or not np.array_equal(block["obs"][0], block["obs"][1])


def test_sample_depends_on_seed_and_contents_alone():
    Worker.numbers = 0
    first, _ = _filled()
    Worker.numbers = 0
    second, _ = _filled()
    a, b = first.sample(4)[0], second.sample(4)[0]
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(first.sample(4)[0]["obs"], a["obs"])


def test_a_buffer_too_small_for_its_streams_is_refused_with_the_least_size():
    # 2 · 2 environments · (5 steps + n_step 2 + 1)
    assert _buffer(buffer_size=32, learning_starts=10).size() == 0
    with pytest.raises(ConfigError, match="buffer_size 31 is too small: 2 environments .* need at least 32"):
        _buffer(buffer_size=31, learning_starts=10)


@pytest.mark.parametrize("compress", [True, False])
def test_save_and_load_go_on_with_the_same_draws(tmp_path, compress):
    buffer, worker = _filled(30)
    with checkpoints.Writer(tmp_path, 1) as writer:
        facts = json.loads(json.dumps(buffer.save(writer.folder, compress)))
        checkpoints.write_arrays(writer.folder / "weights.safetensors", {})
        checkpoints.write_json(writer.folder / "state.json", {})
        ckpt = checkpoints.load(writer.commit({}))
    other = _buffer()
    other.load(ckpt.arrays("replay-0"), facts)
    columns = worker.fragment(5)
    assert buffer.add(_token(0, 0, 30, columns), columns) == other.add(_token(0, 0, 30, columns), columns) == 10
    assert other.add(_token(0, 0, 30, columns), columns) == 0
    for _ in range(3):
        first, second = buffer.sample(4)[0], other.sample(4)[0]
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_load_without_contents_keeps_the_random_state_alone():
    buffer, _ = _filled()
    other, worker = _buffer(), Worker(0, 2, end=0.1)
    other.load(None, json.loads(json.dumps(buffer.facts())))
    assert other.size() == 0
    columns = worker.fragment(5)
    assert other.add(_token(0, 0, 9, columns), columns) == 0  # seen before the checkpoint
    assert other.add(_token(0, 0, 10, columns), columns) == 10


def test_forgotten_streams_end_and_their_workers_may_begin_anew():
    buffer, worker = _filled(2)
    buffer.forget_streams()
    for env in range(2):
        worker.cut(env)
    columns = worker.fragment(5, cut=(0, 1))
    assert buffer.add(_token(0, 0, 0, columns), columns) == 10
    assert _drawable(buffer) == set(worker.transitions(2, 0.9))


@pytest.mark.parametrize("missing", ["rng", "seen", "ring"])
def test_load_of_facts_that_are_incomplete_is_refused(missing, tmp_path):
    buffer, _ = _filled()
    facts = buffer.save(tmp_path, False)
    arrays, _ = buffer._ring.state()
    del facts[missing]
    with pytest.raises(CheckpointError, match="The replay does not fit this run"):
        _buffer().load(arrays, facts)


def test_load_into_another_buffer_size_names_both(tmp_path):
    buffer, _ = _filled()
    facts = buffer.save(tmp_path, False)
    arrays, _ = buffer._ring.state()
    with pytest.raises(CheckpointError, match="a replay of 1000 rows; this run's buffer_size is 500"):
        _buffer(buffer_size=500).load(arrays, facts)
