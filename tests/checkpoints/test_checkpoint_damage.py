"""Several hundred damaged checkpoints; each must be refused with one line that names a file of it."""

import os
import random
import shutil

import pytest
from checkpoint_maker import read_everything, save

from drl_cli import checkpoints
from drl_cli.errors import CheckpointError

SEEDS = range(400)


def flip(rng, path):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(rng, path):
    os.truncate(path, rng.randrange(path.stat().st_size))


def extend(rng, path):
    with open(path, "ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 100)))


def blank(rng, path):
    data = bytearray(path.read_bytes())
    begin = rng.randrange(len(data))
    block = data[begin : begin + 64]
    data[begin : begin + 64] = bytes(255 - byte for byte in block)
    path.write_bytes(data)


def remove(_rng, path):
    path.unlink()


def swap(rng, path):
    other = rng.choice([p for p in sorted(path.parent.iterdir()) if p != path])
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(data)


def rename(_rng, path):
    path.rename(path.with_name(path.name + "_"))


def add(rng, path):
    path.with_name(rng.choice(["params.pkl", "replay-1.safetensors", "replay.dropped", ".hidden", "x"])).write_bytes(
        b"x"
    )


def link(_rng, path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def fifo(_rng, path):
    path.unlink()
    os.mkfifo(path)


def folder(_rng, path):
    path.unlink()
    path.mkdir()


DAMAGES = [flip] * 8 + [truncate] * 3 + [extend, blank, remove, swap, rename, add, link, fifo, folder]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return save(tmp_path_factory.mktemp("sound"))


def damaged(sound, folder, seed):
    rng = random.Random(seed)
    path = folder / sound.name
    shutil.copytree(sound, path)
    damage = DAMAGES[seed % len(DAMAGES)]
    damage(rng, rng.choice(sorted(path.iterdir())))
    return path, damage.__name__


def test_every_seeded_damage_is_refused_in_one_line_that_names_a_file(sound, tmp_path):
    assert sorted(read_everything(sound)) == ["replay-0", "state", "weights", "workers"]
    for seed in SEEDS:
        here = tmp_path / str(seed)
        here.mkdir()
        path, name = damaged(sound, here, seed)
        with pytest.raises(CheckpointError) as caught:
            read_everything(path)
            pytest.fail(f"seed {seed}: {name} was not noticed")
        message = str(caught.value)
        assert message.startswith(str(path)) and "\n" not in message, (seed, name, message)
        shutil.rmtree(here)


def test_load_with_optional_refuses_a_damaged_replay_that_load_alone_leaves_to_the_reader(sound, tmp_path):
    path = tmp_path / sound.name
    shutil.copytree(sound, path)
    flip(random.Random(1), path / "replay-0.safetensors")
    assert checkpoints.load(path).has("replay")
    with pytest.raises(CheckpointError, match="replay-0.safetensors: SHA-256 differs"):
        checkpoints.load(path, optional=True)


def test_large_manifest_is_refused_by_its_size(sound, tmp_path):
    path = tmp_path / sound.name
    shutil.copytree(sound, path)
    os.truncate(path / "manifest.json", 2**40)
    with pytest.raises(CheckpointError, match=r"manifest\.json: has 1099511627776 bytes, more than the 1000000"):
        checkpoints.load(path)
