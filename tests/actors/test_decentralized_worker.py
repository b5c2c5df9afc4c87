"""A worker that learns itself: its own weights, when it ends a fragment early, and what it publishes."""

import numpy as np
import pytest
from parts import server

from drl_cli.actors import decentralized_worker
from drl_cli.actors.decentralized_worker import DecentralizedWorker, OwnWeights
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ddppo import DDPPOConfig, finished_workers
from drl_cli.errors import Diverged

pytestmark = pytest.mark.process

SPACES = {
    "obs": {"kind": "Box1d", "shape": (4,), "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": ()},
    "frames": 1,
}
ENV = {"id": "CartPole-v1", "env_config": {}, "imports": ()}
SMALL = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 30,
    "sgd_minibatch_size": 20,
    "model": {"fcnet_hiddens": [4]},
}
NAMES = {"graph": "drl_cli.algorithms.ppo_graph", "nets": "drl_cli.algorithms.actor_critic_nets"}


@pytest.fixture
def made():
    """Function (**keys) → (worker, its parameter server); workers are closed after the test."""
    workers = []

    def make(**keys):
        config, started = DDPPOConfig.model_validate(SMALL | keys), server()
        place = {"seed": 7, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": 2, "base": 0}
        spec = actor_critic_nets.policy_spec(config, SPACES)
        workers.append(DecentralizedWorker(config, ENV, spec, place | {"learns": NAMES}, started))
        return workers[-1], started

    yield make
    for worker in workers:
        worker.close()


@pytest.mark.parametrize(
    ("mode", "shape"), [("truncate_episodes", (1, 2)), ("complete_episodes", None)], ids=["cut", "whole episodes"]
)
def test_fragment_ends_early_when_enough_others_have_finished_with_the_weights_that_act(made, monkeypatch, mode, shape):
    monkeypatch.setattr(decentralized_worker, "LOOK_S", 0.0)
    worker, started = made(num_workers=4, batch_mode=mode, horizon=10)
    started.call("cut", 0)
    token, sent = worker.collect(1, 1)
    assert sent is None and token.steps >= 60  # that cut was of older weights
    started.call("cut", 1)
    token, _ = worker.collect(1, 1)
    columns = worker._columns
    if shape is not None:
        assert columns["reward"].shape == columns["logp"].shape == shape and token.steps == 2
        assert columns["tail_obs"].shape == (2, 4)
    else:  # each goes on to the end of its episode
        assert 2 <= token.steps <= 20 and columns["length"].sum() == token.steps
        assert (columns["terminated"] | columns["truncated"]).sum() == 2
    assert np.isfinite(columns["obs"]).all()


@pytest.mark.parametrize("keys", [{"num_workers": 4, "straggler_cutoff": 1.0}, {"num_workers": 2}, {}])
def test_worker_asks_nobody_where_no_cutoff_is_possible(made, monkeypatch, keys):
    monkeypatch.setattr(decentralized_worker, "LOOK_S", 0.0)
    worker, started = made(**keys)
    started.call("cut", 99)
    assert worker.collect(1, 1)[0].steps == 60


@pytest.mark.parametrize(
    ("cutoff", "workers", "needed"), [(0.6, 2, 2), (0.6, 3, 2), (0.6, 5, 3), (0.5, 2, 1), (0.01, 9, 1), (1.0, 8, 8)]
)
def test_share_of_the_workers_is_rounded_up(cutoff, workers, needed):
    assert finished_workers(DDPPOConfig(straggler_cutoff=cutoff, num_workers=workers), workers) == needed


def test_own_weights_are_pulled_once_and_those_of_the_same_version_again_when_they_were_replaced():
    own = OwnWeights({"default_policy": {"kernel": np.zeros(2)}})
    assert own.call("pull", 0, 1).result() == (1, own.weights) and own.call("pull", 1, 1).result() is None
    own.load({"default_policy": {"kernel": np.ones(2)}}, 1)
    version, weights = own.call("pull", 1, 1).result()
    assert version == 1 and weights["default_policy"]["kernel"].sum() == 2
    assert own.call("push", {"default_policy": {"kernel": np.ones(2)}}).result() == 2
    with pytest.raises(Diverged):
        own.call("push", {"default_policy": {"kernel": np.array([np.inf])}})
    assert own.version == 2


@pytest.mark.tensorflow
def test_worker_learns_publishes_its_weights_with_their_version_and_gives_another_one_its_state(made):
    worker, started = made(xla=False, num_sgd_iter=1)
    other, _ = made(xla=False, num_sgd_iter=1)
    for number in (1, 2):
        token, _ = worker.collect(number, number)
        worker.plan([worker.begin(60 * number)])
        answers = ()
        for step in range(4):
            taken, answer = worker.step(step, *answers)
            answers = [answer]
            assert taken == step
        result = worker.end([token.seen])
        assert (result["updates"], result["version"], result["steps"]) == (3, 1 + number, 60)
    version, arrays = worker.publish()
    scored = started.call("pull_exact", version).result()["default_policy"]
    assert version == worker.version() == 3
    assert all(np.array_equal(value, arrays[f"default_policy/{name}"]) for name, value in scored.items())
    other.adopt(worker.held())
    assert other.version() == 3
    theirs = other.trained()
    assert [name for name in arrays if arrays[name].tobytes() != theirs[name].tobytes()] == []
    other.collect(3, 3)
    name = "policy/logits/kernel"
    assert np.array_equal(other._worker.policy.weights[name], arrays[f"default_policy/{name}"])
    assert worker.trained()["default_policy/num_updates"] == 6
