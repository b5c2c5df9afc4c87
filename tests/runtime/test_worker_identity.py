"""Who a worker is told to be: its place among all environments of the run, and how far the run is."""

from types import SimpleNamespace

import pytest

from drl_cli import events
from drl_cli.algorithms import table
from drl_cli.algorithms.ddpg import DDPGConfig
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.runtime.assembly import RunSetup, WorkerMaker
from drl_cli.runtime.pool import Standing

pytestmark = pytest.mark.process

WORKER = "drl_cli.actors.rollout_worker:RolloutWorker"


class _Cluster:
    is_remote = True

    def __init__(self, nodes=1):
        self.kept, self._nodes = [], nodes

    def nodes(self):
        return [{}] * self._nodes

    def spawn(self, name, factory, args, place, resources):
        if name == "files":
            self.kept.append((factory, args, place, resources))
            return "the keeper"
        assert factory == WORKER
        return name, args[1], args[3]


def _made(index, incarnation=0, sampled=0, output=None, **keys):
    config = DDPGConfig(num_envs_per_worker=4, seed=9, learning_starts=2000, **keys)
    env = {"id": "Pendulum-v1", "asked": "Pendulum-v1", "env_config": {"g": 9.0}, "preprocessing": {"frames": 1}}
    make = WorkerMaker(WORKER, RunSetup(table.find("DDPG"), config, env, None), _Cluster(), None, output)
    return make(index, incarnation, Standing(sampled))


def test_a_worker_is_told_its_place_and_the_env_steps_of_the_run():
    name, env, identity = _made(2, incarnation=5, sampled=750, num_workers=3)
    assert name == "worker 2"
    assert env == {
        "id": "Pendulum-v1",
        "env_config": {"g": 9.0},
        "imports": (),
        "plugins": (),
        "preprocessing": {"frames": 1},
    }
    # 1250 steps are left of the random phase, 105 for each of 12 environments.
    expected = {"seed": 9, "index": 2, "incarnation": 5, "random_steps": 105, "stream": 8, "streams": 12, "base": 750}
    assert identity == expected


def test_a_worker_is_told_where_to_record():
    name, env, identity = _made(1, output="/run/experience")
    assert identity["output"] == "/run/experience" and "output" not in env


def test_workers_are_told_who_writes_for_them_once_ray_has_other_nodes():
    config = DDPGConfig(num_workers=2, output="/data", record_env=True, seed=9)
    env = {"id": "Pendulum-v1", "asked": "Pendulum-v1", "env_config": {}, "preprocessing": {"frames": 1}}
    env["videos"] = "/run/videos"
    cluster = _Cluster()
    make = WorkerMaker(WORKER, RunSetup(table.find("DDPG"), config, env, None), cluster, None, "/data")
    assert "keeper" not in make(0, 0, Standing(0))[2] and cluster.kept == []
    cluster._nodes = 2  # one has joined
    assert [make(index, 1, Standing(0))[2]["keeper"] for index in (0, 1)] == ["the keeper"] * 2
    made_of = ("/data", 64 * 2**20, "/run/videos")
    assert cluster.kept == [("drl_cli.actors.file_keeper:FileKeeper", made_of, "actor", {"pinned": True})]


@pytest.mark.parametrize("keys", [{"record_env": False}, {"record_env": True, "num_workers": 0}])
def test_nobody_writes_for_workers_that_write_nothing_or_are_on_the_node_of_the_run(keys):
    config = DDPGConfig.model_validate({"num_workers": 2, "seed": 9, **keys})
    env = {"id": "Pendulum-v1", "asked": "Pendulum-v1", "env_config": {}, "preprocessing": {"frames": 1}}
    cluster = _Cluster(2)
    cluster.is_remote = config.num_workers > 0
    make = WorkerMaker(WORKER, RunSetup(table.find("DDPG"), config, {**env, "videos": "/v"}, None), cluster, None)
    assert "keeper" not in make(0, 0, Standing(0))[2]


@pytest.mark.parametrize(
    ("exploration", "sampled", "expected"),
    [
        ({}, 0, 500),  # null: learning_starts
        ({"random_timesteps": 300}, 0, 75),
        ({"random_timesteps": 301}, 0, 76),
        ({"random_timesteps": 300}, 5000, 0),
        ({"random_timesteps": 0}, 0, 0),
        ({"type": "Random"}, 0, 0),
    ],
)
def test_the_random_phase_is_what_the_config_says_less_what_has_been_sampled(exploration, sampled, expected):
    assert _made(0, sampled=sampled, exploration_config=exploration)[2]["random_steps"] == expected


@pytest.mark.parametrize(("is_remote", "told"), [(True, ["127.0.0.1:9902, up to 4 episodes at once"]), (False, [])])
def test_where_a_served_worker_will_listen_is_reported_by_the_driver_of_one_elsewhere(is_remote, told, monkeypatch):
    heard = []
    monkeypatch.setattr(events, "report", lambda kind, **fields: heard.append(fields["text"]))
    config = DQNConfig(num_envs_per_worker=4, num_workers=3, input="policy_server", seed=1)
    spec = SimpleNamespace(frames=1)
    env = {"id": "drl/External-v1", "env_config": {}, "spaces": {}}
    cluster = SimpleNamespace(is_remote=is_remote, spawn=lambda *args: None)
    WorkerMaker(WORKER, RunSetup(table.find("DQN"), config, env, spec), cluster, None)(2, 0, Standing(0))
    assert heard == [f"policy server: {where}, once worker 2 has started" for where in told]
