"""Filters in a run: the loop tells the learner of what is stored, checkpoints hold them, rollout acts with them."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
from runtime_fakes import Later, Learner, token_of
from runtime_runs import env_facts, small_config
from test_replay_loop import Run

from drl_cli import checkpoints
from drl_cli.actors.tester import score
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.errors import CheckpointError, ConfigError
from drl_cli.policies import net_builders
from drl_cli.policies.numpy_policy import NumpyPolicy, policy_from_checkpoint
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

KEYS = {"observation_filter": "MeanStdFilter", "reward_scaling": True}


class Told(Learner):
    """A learner's handle that notes what it is told of, and when."""

    def __init__(self, cluster, update_takes):
        super().__init__(cluster, update_takes)
        self.calls = []

    def call(self, method, *args):
        self.calls.append((method, args))
        return Later().finish() if method == "observe" else super().call(method, *args)


def _run(**over):
    run = Run(worker_takes=None, update_takes=0.001, **over)
    run.learner = run.loop._learner = Told(run.cluster, 0.001)
    return run


def _observed(run):
    return [seen for method, args in run.learner.calls if method == "observe" for seen in args[0]]


def test_learner_hears_of_every_stored_fragment_once_and_before_it_learns():
    run = _run(learning_starts=100, num_workers=1)
    run.loop.step()
    (worker,) = run.makes.made
    for number in range(6):
        while not worker.open:
            run.loop.step()
        worker.deliver(seen={"number": number})
        run.steps(3)
    names = [method for method, _ in run.learner.calls]
    assert "learn" in names and names.index("observe") == names.index("learn") - 1
    run.makes.made[0].takes = 0.01
    for token, _ in worker.open:
        token.finish(token.value)  # without anything seen
    run.loop.quiesce()
    assert _observed(run) == [{"number": number} for number in range(6)]


def test_fragment_that_has_been_stored_already_is_not_told_again():
    run = _run(num_workers=1)
    again = token_of(0, 0, 0)._replace(seen={"number": 1})
    for stored in (100, 0):
        run.loop._added(Later().finish(stored), again)
    run.loop.settle()
    assert _observed(run) == [{"number": 1}]


def test_fault_of_the_learner_when_told_is_not_lost():
    run = _run()
    run.loop._observed = Later()
    run.loop._observed.fail(ValueError("shapes"))
    run.loop._observed.over = True
    with pytest.raises(ValueError, match="shapes"):
        run.loop.settle()


def test_checkpoint_holds_the_filter_that_rollout_and_evaluate_act_with(run, tmp_path):
    trainer = run("Pendulum-v1", small_config(**KEYS))
    for _ in range(3):
        trainer.train()
    path = trainer.save(tmp_path)
    loaded = checkpoints.load(path)
    policy = policy_from_checkpoint(loaded)
    assert policy.spec.filter and policy.spec == trainer.setup.spec
    replay = trainer.parts.replay.handles[0].part._ring.state()[0]
    rows = np.concatenate([replay[name] for name in replay if name == "obs"]).astype(np.float64)
    arrays = loaded.arrays("weights")
    assert arrays["default_policy/filter/count"] == trainer.loop.sampled == 600
    # The ring holds the last observations of episodes beside the steps.
    np.testing.assert_allclose(policy.weights["filter/mean"], rows.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(policy.weights["filter/var"], rows.var(axis=0), rtol=0.05)
    assert policy.weights["filter/return_var"] > 100  # Pendulum pays -16 to 0 a step
    # Greedy scores are those of the same nets behind observations that are normalised by hand.
    plain = NumpyPolicy(dataclasses.replace(policy.spec, filter=False), policy.weights)
    mean, deviation = policy.weights["filter/mean"], np.sqrt(policy.weights["filter/var"]) + 1e-8

    class ByHand:
        spec, initial_state, to_env, rewarded = plain.spec, plain.initial_state, plain.to_env, plain.rewarded

        def act(self, obs, state, rng, explore):
            return plain.act(np.clip((obs - mean) / deviation, -10, 10).astype(np.float32), state, rng, explore)

    (mine,), (other,) = (score(each, "Pendulum-v1", {}, [3], horizon=60) for each in (policy, ByHand()))
    np.testing.assert_allclose(mine.reward, other.reward, rtol=1e-4)
    assert score(plain, "Pendulum-v1", {}, [3], horizon=60)[0].reward != pytest.approx(mine.reward, rel=1e-4)

    returns = trainer.train()["hist_stats"]["episode_reward"]
    assert max(returns) < -100  # as the environment gave them
    with pytest.raises(CheckpointError, match="its observation filter is 'MeanStdFilter', this run's is 'NoFilter'"):
        run("Pendulum-v1", small_config(reward_scaling=True), restore=(loaded, False))
    with pytest.raises(CheckpointError, match="its reward scaling is True, this run's is False"):
        run("Pendulum-v1", small_config(observation_filter="MeanStdFilter"), restore=(loaded, False))


@pytest.mark.usefixtures("quick_learner")
def test_checkpoint_from_before_there_were_filters_is_gone_on_with(run, tmp_path):
    trainer = run("Pendulum-v1", small_config())
    trainer.train()
    path = trainer.save(tmp_path)
    loaded = checkpoints.load(path)
    for keys in (loaded.facts["config"], loaded.facts["policies"]["default_policy"]):
        for name in ("observation_filter", "reward_scaling", "filter", "scaled"):
            keys.pop(name, None)
    assert "filter" not in json.dumps(loaded.facts["policies"])
    assert not policy_from_checkpoint(loaded).spec.filter
    resumed = run("Pendulum-v1", small_config(), restore=(loaded, True))
    assert resumed.train()["training_iteration"] == 2


@pytest.mark.parametrize("schema", [SACConfig, DQNConfig])
def test_filter_over_images_is_refused_in_one_line(schema):
    image = {"obs": {"kind": "Box", "shape": [16, 16, 1], "dtype": "uint8"}}
    with pytest.raises(ConfigError) as refused:
        net_builders.observation(schema(observation_filter="MeanStdFilter"), image)
    assert str(refused.value) == (
        "observation_filter: MeanStdFilter is for vectors of numbers, the environment's observations are images of shape "
        "(16, 16, 1), which nets scale themselves. Set it to NoFilter."
    )
    assert net_builders.observation(schema(reward_scaling=True), image)[0]["scaled"]


PPO = KEYS | {
    "seed": 1,
    "train_batch_size": 80,
    "sgd_minibatch_size": 40,
    "num_sgd_iter": 2,
    "rollout_fragment_length": 10,
    "num_envs_per_worker": 4,
    "timesteps_per_iteration": 80,
    "evaluation_interval": None,
    "model": {"fcnet_hiddens": [8]},
    "xla": False,
}


def _ppo(restore=None, **keys):
    config = PPOConfig.model_validate(PPO | keys)
    trainer = Driver("PPO", config, env_facts("Pendulum-v1"))
    if restore:
        trainer.restore(restore, True)
    trainer.start()
    return trainer


def test_trajectories_are_learnt_from_by_the_filter_that_acted_and_a_run_goes_on_exactly(tmp_path):
    with contextlib.ExitStack() as stack:
        whole = _ppo()
        stack.callback(whole.close)
        for _ in range(3):
            learnt = whole.train()["info"]["learner"]["default_policy"]
            # The ratio of the first minibatch is 1 although the filter moves after every batch.
            assert learnt["first_ratio_deviation"] < 1e-5 and learnt["first_clip_fraction"] == 0
            assert learnt["vf_loss"] < 10  # of returns of the order of 1; Pendulum's are some hundreds
        path = whole.save(tmp_path)
        resumed = _ppo(checkpoints.load(path))
        stack.callback(resumed.close)
        stats = [[each.train()["info"]["learner"] for _ in range(2)] for each in (whole, resumed)]
        states = [each.parts.learner.call("state").result() for each in (whole, resumed)]
    assert stats[0] == stats[1]
    assert [name for name in states[0] if not np.array_equal(states[0][name], states[1][name])] == []
    assert states[0]["default_policy/filter/count"] == states[0]["default_policy/filter/return_count"] == 400


def test_a_run_whose_workers_have_filters_of_their_own_learns_one_policy_and_goes_on_exactly(tmp_path):
    with contextlib.ExitStack() as stack:
        whole = _ppo(synchronize_filters=False)
        stack.callback(whole.close)
        whole.train(), whole.train()
        acting = whole.parts.pool.handles()[0].part.policy.weights
        path = whole.save(tmp_path)
        learnt = policy_from_checkpoint(checkpoints.load(path)).weights
        assert not np.array_equal(
            acting["filter/mean"], learnt["filter/mean"]
        )  # the learner knows the newest fragment too
        resumed = _ppo(checkpoints.load(path), synchronize_filters=False)
        stack.callback(resumed.close)
        stats = [[each.train()["info"]["learner"] for _ in range(2)] for each in (whole, resumed)]
        states = [each.parts.learner.call("state").result() for each in (whole, resumed)]
    assert stats[0] == stats[1]
    assert [name for name in states[0] if not np.array_equal(states[0][name], states[1][name])] == []
    assert states[0]["default_policy/filter/count"] == 320  # of all that was seen, whoever filtered it how
