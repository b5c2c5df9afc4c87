"""Blocks drawn by priority: weights, write-backs, annealing, saving; and shards, images and discrete actions."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from episodes import Worker, as_images, numbers_in
from parts import config, spec
from scipy import stats

from drl_cli import checkpoints
from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.errors import CheckpointError, ConfigError, Diverged
from drl_cli.experience.columns import Meta, Token

SPEC = spec(1, (-1.0,), (1.0,))
IMAGES = SimpleNamespace(
    obs_shape=(2, 2, 1), obs_dtype="uint8", frames=4, action=SimpleNamespace(shape=(), dtype="int32"), state=()
)
KEYS = {"train_batch_size": 6, "updates_per_call": 4, "n_step": 2, "gamma": 0.9, "num_envs_per_worker": 2}
PRIORITIZED = {
    "prioritized_replay": True,
    "prioritized_replay_alpha": 0.5,
    "prioritized_replay_beta": 0.4,
    "final_prioritized_replay_beta": 1.0,
    "prioritized_replay_beta_annealing_timesteps": 1000,
    "prioritized_replay_eps": 0.25,
}


def _buffer(of_spec=SPEC, index=0, **keys):
    return ReplayBuffer(config(**(KEYS | PRIORITIZED | keys)), of_spec, 11, index)


def _add(buffer, columns, sequence, worker=0):
    token = Token(Meta(worker, 0, sequence, 1), columns["reward"].size, (), 0, (), {})
    return buffer.add(token, columns)


def _filled(fragments=10, seed=0, end=0.1, **keys):
    buffer, worker = _buffer(**keys), Worker(seed, 2, end=end)
    for sequence in range(fragments):
        assert _add(buffer, worker.fragment(5), sequence) == 10
    return buffer, worker


def _serials(buffer, draws=300):
    """{number of the first observation: serial} of everything that comes up in many draws."""
    found = {}
    for _ in range(draws):
        block = buffer.sample(4)[0]
        found |= dict(zip(block["obs"].ravel().astype(int).tolist(), block["serial"].ravel().tolist(), strict=True))
    return found


def _priority(number):
    return (number * 7919 % 53) / 5.0


@pytest.mark.parametrize(("size", "fragments"), [(1000, 12), (70, 60)], ids=["not full", "after many laps"])
def test_draws_follow_written_back_priorities_while_episodes_end(size, fragments):
    buffer, worker = _filled(fragments, end=0.2, buffer_size=size, learning_starts=10)
    serials = _serials(buffer)
    numbers = sorted(serials)
    if size == 1000:
        assert numbers == sorted(worker.transitions(2, 0.9))
    buffer.prioritize(np.array([serials[n] for n in numbers]), np.float32([_priority(n) for n in numbers]))
    counts = np.zeros(len(numbers))
    for _ in range(1000):
        np.add.at(counts, np.searchsorted(numbers, buffer.sample(4)[0]["obs"].ravel()), 1)
    expected = np.array([(_priority(number) + 0.25) ** 0.5 for number in numbers])
    assert counts.sum() == 24_000
    assert stats.chisquare(counts, 24_000 * expected / expected.sum()).pvalue > 0.01


def test_block_brings_weight_and_serial_and_the_smallest_probability_comes_with_it():
    buffer, _ = _filled()
    block, least = buffer.sample(3)
    assert {name: (array.shape, array.dtype.name) for name, array in block.items()} == {
        "obs": ((4, 6, 1), "float32"),
        "action": ((4, 6, 1), "float32"),
        "reward": ((4, 6), "float32"),
        "discount": ((4, 6), "float32"),
        "next_obs": ((4, 6, 1), "float32"),
        "weight": ((4, 6), "float32"),
        "serial": ((4, 6), "int64"),
    }
    assert np.array_equal(block["serial"][3], block["serial"][0])
    assert (block["weight"] == 1.0).all()  # all priorities are alike so far
    assert least == pytest.approx(1 / 100)


def test_weights_undo_the_draws_to_the_power_beta_and_the_rarest_row_has_weight_one():
    buffer, _ = _filled(end=0.0)
    assert buffer.beta() == pytest.approx(0.4 + 0.6 * 100 / 1000)
    buffer.prioritize(np.arange(100), np.where(np.arange(100) % 2, 0.0, 15.75))  # masses 0.5 and 4
    block, least = buffer.sample(4)
    even = block["serial"] % 2 == 0
    assert even.any() and not even.all()
    np.testing.assert_allclose(block["weight"][~even], 1.0, rtol=1e-6)
    np.testing.assert_allclose(block["weight"][even], (4 / 0.5) ** -0.46, rtol=1e-6)
    assert least == pytest.approx(0.5 / 225)


def test_a_smaller_least_of_another_shard_lowers_all_weights_and_a_larger_one_none():
    blocks = []
    for least in (None, 0.5, 0.002, np.array(0.002)):
        buffer, _ = _filled(end=0.0)
        block, smallest = buffer.sample(2, least)
        blocks.append(block)
        assert smallest == pytest.approx(0.01)  # its own, so that the others' does not come back to them
    assert (blocks[0]["weight"] == 1.0).all() and (blocks[1]["weight"] == 1.0).all()
    for block in blocks[2:]:
        np.testing.assert_allclose(block["weight"], (0.01 / 0.002) ** -0.46, rtol=1e-6)


def test_beta_anneals_over_stored_steps_and_then_stays():
    buffer, worker = _filled(0)
    assert buffer.beta() == 0.4
    found = []
    for sequence in range(120):
        _add(buffer, worker.fragment(5), sequence)
        found.append(buffer.beta())
    np.testing.assert_allclose(found[:4], [0.406, 0.412, 0.418, 0.424], rtol=1e-9)
    assert found[49] == pytest.approx(0.7) and found[99:] == [1.0] * 21


def test_beta_stays_where_nobody_asked_for_annealing():
    buffer, _ = _filled(30, final_prioritized_replay_beta=0.4)
    assert buffer.beta() == pytest.approx(0.4)


def test_steps_of_one_shard_stand_for_those_of_all_in_beta():
    buffer, _ = _filled(5, num_replay_shards=2, num_workers=2, buffer_size=2000)
    assert buffer.beta() == pytest.approx(0.4 + 0.6 * 100 / 1000)


def test_priorities_of_workers_are_where_their_steps_begin():
    buffer, worker = _buffer(), Worker(0, 2, end=0.0)
    columns = worker.fragment(5)
    columns["priority"] = np.zeros((5, 2), np.float32)
    columns["priority"][0, 1] = 99.75  # mass 10 beside nine of 0.5
    _add(buffer, columns, 0)
    _add(buffer, worker.fragment(5), 1)  # without: the largest so far
    draws = np.concatenate([buffer.sample(4)[0]["serial"].ravel() for _ in range(200)])
    counts = np.bincount(draws, minlength=20)
    masses = np.array([0.5, 10.0] + [0.5] * 8 + [10.0] * 6)  # the last two of each stream are incomplete
    assert counts[16:].sum() == 0
    assert stats.chisquare(counts[:16], counts.sum() * masses / masses.sum()).pvalue > 0.01


def test_write_back_to_rows_overwritten_meanwhile_does_nothing():
    buffers = []
    for write_back in (True, False):
        Worker.numbers = 0
        buffer, worker = _filled(7, buffer_size=70, learning_starts=10)
        serial = buffer.sample(4)[0]["serial"]
        for sequence in range(7, 20):
            _add(buffer, worker.fragment(5), sequence)
        if write_back:
            buffer.prioritize(serial.ravel(), np.full(24, 50.0, np.float32))
        buffers.append(buffer)
    first, second = (buffer.sample(4)[0] for buffer in buffers)
    assert np.array_equal(first["obs"], second["obs"]) and np.array_equal(first["weight"], second["weight"])


@pytest.mark.parametrize("how", ["cut", "forget_streams"])
def test_rows_behind_streams_that_were_cut_take_no_mass(how):
    buffer, _ = _filled(7, end=0.0, buffer_size=70, learning_starts=10)
    assert buffer.sample(4)[1] == pytest.approx(1 / 70)
    buffer.cut(0) if how == "cut" else buffer.forget_streams()
    assert buffer.sample(4)[1] == pytest.approx(1 / 68)  # two of the steps made room for end rows


def test_priorities_that_are_not_finite_are_refused():
    buffer, worker = _filled()
    with pytest.raises(Diverged, match="2 of 3 priorities for the replay are not finite"):
        buffer.prioritize(np.array([1, 2, 3]), np.float32([np.nan, 1.0, np.inf]))
    columns = worker.fragment(5)
    columns["priority"] = np.full((5, 2), np.nan, np.float32)
    before = buffer.size()
    with pytest.raises(Diverged, match="10 of 10"):
        _add(buffer, columns, 10)
    assert buffer.size() == before


def test_uniform_replay_has_no_weights_and_takes_no_priorities():
    buffer, worker = _filled(prioritized_replay=False)
    columns = worker.fragment(5) | {"priority": np.ones((5, 2), np.float32)}
    assert _add(buffer, columns, 10) == 10
    assert sorted(buffer.sample(2, 0.1)[0]) == ["action", "discount", "next_obs", "obs", "reward"]
    assert sorted(buffer.facts()) == ["rng", "seen"]
    with pytest.raises(ValueError, match="without prioritized_replay"):
        buffer.prioritize(np.array([1]), np.float32([1.0]))


def test_uniform_draws_are_those_that_they_always_were():
    """Rows drawn by plain ``integers`` over the rows present, complete windows kept in order."""
    buffer, worker = _filled(prioritized_replay=False)
    ring, rng = buffer._ring, np.random.default_rng()
    rng.bit_generator.state = buffer._rng.bit_generator.state
    rows = rng.integers(0, buffer.size(), size=24 + 1 + 8)
    transitions = worker.transitions(2, 0.9)
    numbers = [int(ring.obs[row, 0]) for row in rows if ring.flags[row] and int(ring.obs[row, 0]) in transitions]
    assert len(numbers) >= 24
    assert buffer.sample(4)[0]["obs"].ravel().astype(int).tolist() == numbers[:24]


def _saved(buffer, folder, number=1):
    with checkpoints.Writer(folder, number) as writer:
        facts = json.loads(json.dumps(buffer.save(writer.folder, True)))
        checkpoints.write_arrays(writer.folder / "weights.safetensors", {})
        checkpoints.write_json(writer.folder / "state.json", {})
        path = writer.commit({})
    return path, checkpoints.load(path).arrays(f"replay-{buffer._index}"), facts


@pytest.mark.parametrize("size", [1000, 70])
def test_save_and_load_go_on_with_the_same_draws_and_priorities(tmp_path, size):
    keys = {"buffer_size": size, "learning_starts": 10}
    buffer, worker = _filled(30, **keys)
    buffer.prioritize(buffer.sample(4)[0]["serial"].ravel(), np.arange(24) / 3)
    _, arrays, facts = _saved(buffer, tmp_path)
    other = _buffer(**keys)
    other.load(arrays, facts)
    assert other.beta() == buffer.beta() == pytest.approx(0.58)
    for sequence in range(30, 33):
        columns = worker.fragment(5)
        blocks = []
        for mine in (buffer, other):
            _add(mine, columns, sequence)
            block = mine.sample(3, 0.001)[0]
            mine.prioritize(block["serial"].ravel(), np.abs(block["reward"]).ravel())
            blocks.append(block)
        assert all(np.array_equal(blocks[0][name], blocks[1][name]) for name in blocks[0])


def test_equal_runs_write_equal_bytes(tmp_path):
    written = []
    for number in (1, 2):
        Worker.numbers = 0
        buffer, _ = _filled(20, end=0.3)
        buffer.cut(0)
        block = buffer.sample(4)[0]
        buffer.prioritize(block["serial"].ravel(), np.abs(block["reward"]).ravel())
        path, _, facts = _saved(buffer, tmp_path, number)
        written.append(((path / "replay-0.safetensors").read_bytes(), facts))
    assert written[0] == written[1] and len(written[0][0]) > 1000


def test_replay_saved_without_priorities_goes_on_with_them_as_if_new(tmp_path):
    """What the version before priorities wrote: neither arrays nor facts know of them."""
    uniform, worker = _filled(prioritized_replay=False)
    _, arrays, facts = _saved(uniform, tmp_path)
    assert sorted(arrays) == ["action", "flags", "head_obs", "link", "obs", "reward"]
    buffer = _buffer()
    buffer.load(arrays, facts)
    block = buffer.sample(4)[0]
    assert (block["weight"] == 1.0).all() and buffer.beta() == 0.4
    assert set(_serials(buffer)) == set(worker.transitions(2, 0.9))


def test_replay_saved_with_priorities_goes_on_without_them(tmp_path):
    buffer, worker = _filled()
    _, arrays, facts = _saved(buffer, tmp_path)
    uniform = _buffer(prioritized_replay=False)
    uniform.load(arrays, facts)
    drawn = {int(number) for _ in range(200) for number in uniform.sample(4)[0]["obs"].ravel()}
    assert drawn == set(worker.transitions(2, 0.9))


def test_load_without_contents_keeps_beta_and_the_largest_priority():
    buffer, worker = _filled()
    buffer.prioritize(np.array([0]), np.float32([15.75]))
    other = _buffer()
    other.load(None, json.loads(json.dumps(buffer.facts())))
    assert other.size() == 0 and other.beta() == buffer.beta()
    _add(other, worker.fragment(5), 10)
    assert other._priorities.state()["priority"][0] == 4.0


def test_load_of_priorities_that_do_not_fit_is_refused(tmp_path):
    buffer, _ = _filled()
    _, arrays, facts = _saved(buffer, tmp_path)
    arrays["priority"] = arrays["priority"][:-1]
    with pytest.raises(CheckpointError, match="The replay does not fit this run: replay column priority"):
        _buffer().load(arrays, facts)


@pytest.mark.parametrize(("shards", "rows"), [(0, 1001), (1, 1001), (2, 500), (3, 333)])
def test_a_shard_holds_its_part_of_the_rows(shards, rows):
    buffer, _ = _filled(150, index=max(0, shards - 1), num_replay_shards=shards, num_workers=4, buffer_size=1001)
    assert buffer.size() == rows


def test_shards_of_one_seed_draw_differently_and_write_files_of_their_own(tmp_path):
    keys = {"num_replay_shards": 2, "num_workers": 2}
    Worker.numbers = 0
    first, _ = _filled(**keys)
    Worker.numbers = 0
    second, _ = _filled(index=1, **keys)
    assert not np.array_equal(first.sample(4)[0]["obs"], second.sample(4)[0]["obs"])
    first.save(tmp_path, False)
    second.save(tmp_path, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["replay-0.safetensors", "replay-1.safetensors"]


def test_shards_too_small_for_their_environments_are_refused_with_the_least_size():
    # Two of three workers at most on a shard: 2 · 4 environments · (5 steps + n_step 2 + 1) rows each.
    keys = {"num_replay_shards": 2, "num_workers": 3, "learning_starts": 10}
    assert _buffer(buffer_size=128, **keys).size() == 0
    with pytest.raises(ConfigError, match="127 is too small: 4 environments .* and 2 shards need at least 128"):
        _buffer(buffer_size=127, **keys)


def _images(compress, prioritized=True, fragments=40):
    Worker.numbers = 0
    buffer = _buffer(IMAGES, compress_observations=compress, prioritized_replay=prioritized, buffer_size=120)
    worker = Worker(0, 2, end=0.1)
    for sequence in range(fragments):
        columns = as_images(worker.fragment(5, (0, 1) if sequence == 0 else ()))
        columns["action"] = (-columns["action"][..., 0] % 7).astype(np.int32)
        assert _add(buffer, columns, sequence) == 10
    return buffer, worker


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("compress", [False, True])
def test_block_of_images_has_stacks_of_bytes_and_whole_actions(compress, prioritized):
    buffer, worker = _images(compress, prioritized)
    block = buffer.sample(3)[0]
    shapes = {name: (array.shape, array.dtype.name) for name, array in block.items()}
    assert shapes["obs"] == shapes["next_obs"] == ((4, 6, 2, 2, 4), "uint8")
    assert shapes["action"] == ((4, 6), "int32")
    stacks, transitions = worker.stacks(4), worker.transitions(2, 0.9)
    assert np.array_equal(block["obs"][3], block["obs"][0])
    found, behind = (numbers_in(block[name].reshape(24, 2, 2, 4)).tolist() for name in ("obs", "next_obs"))
    for stack, after, action in zip(found, behind, block["action"].ravel(), strict=True):
        assert stack == stacks[stack[-1]] and action == stack[-1] % 7
        assert after == stacks[transitions[stack[-1]][2]]


def test_compressed_observations_give_the_same_blocks(tmp_path):
    dense, packed = _images(False)[0], _images(True)[0]
    for _ in range(5):
        first, second = dense.sample(4)[0], packed.sample(4)[0]
        assert all(np.array_equal(first[name], second[name]) for name in first)
    _, arrays, facts = _saved(packed, tmp_path)
    again, _ = _images(True, fragments=0)
    again.load(arrays, facts)
    first, second = packed.sample(4)[0], again.sample(4)[0]
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_compressed_vectors_work_too():
    buffer, worker = _filled(compress_observations=True)
    expected = worker.transitions(2, 0.9)
    block = buffer.sample(4)[0]
    for number, behind in zip(block["obs"].ravel(), block["next_obs"].ravel(), strict=True):
        assert behind == expected[int(number)][2]
    assert buffer.memory() > buffer.size() * (4 + 41)  # and cost more than they would as they are
