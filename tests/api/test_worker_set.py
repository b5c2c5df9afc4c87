"""``trainer.workers``: functions on every worker and environment, inline and over Ray."""

import os

import pytest

from drl_cli import errors
from drl_cli.api.trainer import Trainer
from tests.api.test_trainer import SMALL as EVOLUTION

pytestmark = pytest.mark.process
SMALL = {"num_envs_per_worker": 2, "rollout_fragment_length": 8, "train_batch_size": 32, "sgd_minibatch_size": 16}
SMALL |= {"timesteps_per_iteration": 32, "model": {"fcnet_hiddens": [4]}, "evaluation_interval": None, "seed": 5}


@pytest.fixture
def made(tmp_path, plug_ins):
    trainers = []

    def make(algorithm="PPO", config=None, **more):
        given = {**(SMALL if config is None else config), "num_workers": 0, **more}
        trainers.append(Trainer(algorithm, env="CartPole-v1", config=given, local_dir=str(tmp_path)))
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.stop()


def _lengthen(env):
    env.unwrapped.length = 0.75
    return env.unwrapped.gravity


def test_functions_reach_every_environment_and_worker(made):
    workers = made().workers
    assert workers.foreach_env(_lengthen) == [[9.8, 9.8]]
    assert workers.foreach_env(lambda env: env.unwrapped.length) == [[0.75, 0.75]]
    assert workers.foreach_worker(lambda worker: worker.policy.spec.distribution) == ["categorical"]
    assert workers.foreach_worker_with_index(lambda worker, index: index) == [0]


def test_evolution_workers_have_the_environments_of_their_last_round(made):
    trainer = made("ES", EVOLUTION)
    assert trainer.workers.foreach_env(_lengthen) == [[]]
    trainer.train()
    (gravity,) = trainer.workers.foreach_env(_lengthen)
    assert gravity and set(gravity) == {9.8}


def test_several_agents_have_environments_too(made):
    trainer = made(
        config=SMALL | {"multiagent": {"copies": 3, "policies": {"one": {}}, "policy_mapping": {"*": "one"}}}
    )
    (found,) = trainer.workers.foreach_env(lambda env: len(env.agents))
    assert found == [3, 3]


def test_function_that_fails_is_named_with_its_line(made):
    trainer = made("ES", EVOLUTION)  # which loads no TensorFlow
    trainer.train()
    workers = trainer.workers
    with pytest.raises(
        errors.PluginFailed, match=r"A function of foreach_env failed: ZeroDivisionError.*test_worker_set.py:\d+"
    ):
        workers.foreach_env(lambda env: 1 / 0)
    with pytest.raises(errors.InputError, match="'up' is not a function"):
        workers.foreach_worker("up")


def test_environments_in_processes_of_their_own_are_refused(made):
    with pytest.raises(errors.InputError, match="set remote_worker_envs to false"):
        made(remote_worker_envs=True).workers.foreach_env(_lengthen)


@pytest.mark.ray
def test_functions_travel_to_workers_in_other_processes(made, monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.path.dirname(os.path.dirname(__file__)), prepend=os.pathsep
    )  # watched_callbacks
    trainer = made(num_workers=2)
    trainer.train()
    assert trainer.workers.foreach_env(lambda env: env.unwrapped.gravity) == [[9.8, 9.8]] * 2
    assert trainer.workers.foreach_worker_with_index(lambda worker, index: index) == [0, 1]
    with pytest.raises(errors.PluginFailed, match="ZeroDivisionError"):
        trainer.workers.foreach_worker(lambda worker: 1 / 0)
    trainer.train()
