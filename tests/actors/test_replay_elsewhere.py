"""A replay whose file is read in blocks, as from a node with another disk."""

import os

import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import make
from drl_cli.runtime import assembly, loop_kinds, replay_shards
from drl_cli.runtime.cluster import ACTOR, InlineCluster
from drl_cli.runtime.replay_shards import Shards


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Function (is_elsewhere) → (bytes of the file, facts) of a replay's checkpoint, read in blocks of 100 bytes."""
    monkeypatch.setattr(replay_shards, "BLOCK_BYTES", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "node"))
    (tmp_path / "node").mkdir()

    def save(is_elsewhere):
        cluster = InlineCluster()
        args = (small_config(), policy_spec(), 7, 0)
        kind, first = loop_kinds.REPLAY, ()
        if is_elsewhere:
            kind, first = loop_kinds.REPLAY_ELSEWHERE, (loop_kinds.REPLAY,)
        shards = Shards([cluster.spawn("replay", kind, (*first, *args), ACTOR)], is_elsewhere)
        folder = tmp_path / f"checkpoint {is_elsewhere}"
        folder.mkdir()
        facts = shards.save(folder, False, lambda: None)
        cluster.close()
        return (folder / "replay-0.safetensors").read_bytes(), facts

    return save


def small_config():
    return SACConfig(seed=7, num_workers=0, num_envs_per_worker=2, rollout_fragment_length=8, buffer_size=200)


def policy_spec():
    sac, env_id = table.find("SAC"), "Pendulum-v1"
    env = {"id": env_id, "asked": env_id, "env_config": {}, "spaces": make.check(env_id, {}, sac), "imports": ()}
    return assembly.setup_of(sac, small_config(), env).spec


def test_file_of_a_replay_elsewhere_is_that_of_one_here(saved, tmp_path):
    assert saved(True) == saved(False)
    assert os.listdir(tmp_path / "node") == []  # nothing is left on the shard's own node
