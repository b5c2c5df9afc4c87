"""What a run asks of Ray and of its iterations: CPUs, memory, steps learnt from, and what results say of the machine."""

from types import SimpleNamespace

import pytest
from runtime_runs import small_config

from drl_cli.algorithms import table
from drl_cli.runtime import assembly, ray_cluster
from drl_cli.runtime.pool import Standing

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("quick_learner")]

ENV = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}


def asked_by(**keys):
    """Return the resources that a worker asks for."""
    config = small_config(num_workers=2, **keys)
    cluster = SimpleNamespace(spawn=lambda *args: args[4], is_remote=True)
    setup = assembly.RunSetup(table.find("SAC"), config, ENV, "spec")
    return assembly.WorkerMaker("worker", setup, cluster, "server")(0, 0, Standing())


def test_worker_asks_for_memory_only_when_told_to():
    assert "memory" not in asked_by()
    assert asked_by(memory_per_worker=10**9)["memory"] == 10**9


def test_workers_and_testers_start_with_the_variables_for_workers():
    given = {"extra_python_environs_for_worker": {"SIM_PORT": 9000, "SIM_HOST": "box"}}
    told = {"env_vars": {"SIM_PORT": "9000", "SIM_HOST": "box"}}
    assert asked_by(**given)["runtime_env"] == told and "runtime_env" not in asked_by()
    asked = []
    cluster = SimpleNamespace(spawn=lambda *args: asked.append(args[4]), is_remote=True)
    assembly.make_tester(assembly.RunSetup("row", small_config(num_workers=2, **given), ENV, "spec"), cluster, "server")
    assert asked == [{"runtime_env": told}]


@pytest.mark.parametrize(("keys", "cpus"), [({}, 4), ({"num_cpus_for_driver": 3}, 6), ({"num_cpus_for_driver": 0}, 3)])
def test_ray_of_the_runs_own_has_cpus_for_workers_and_driver(keys, cpus, monkeypatch):
    started = []
    monkeypatch.setattr(ray_cluster, "RayCluster", lambda *args: started.append(args))
    assembly.open_cluster(small_config(num_workers=2, **keys), {}, with_tensorflow=False)
    assert started[0][1] == cpus


def test_iteration_lasts_until_enough_was_learnt_from(run):
    trainer = run("Pendulum-v1", small_config(evaluation_interval=None, min_train_timesteps_per_iteration=6400))
    trained = [trainer.train()["info"]["num_steps_trained"] for _ in range(3)]
    assert all(later - before >= 6400 for before, later in zip([0, *trained], trained, strict=False))
    assert trainer.loop.sampled > 600  # timesteps_per_iteration 200 alone would have ended them at 600


def test_results_are_silent_about_the_machine_when_told_to(run):
    trainer = run("Pendulum-v1", small_config(evaluation_interval=None, log_sys_usage=False))
    trainer.train()
    assert trainer.train()["perf"] == {"cpu_util_percent": None, "ram_util_percent": None}
