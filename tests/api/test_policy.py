"""``get_policy``, ``compute_actions`` and ``full_fetch``: what a program can ask about a policy."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from drl_cli import errors
from drl_cli.api.trainer import Trainer
from tests.api.test_trainer_acting import SMALL, over

pytestmark = pytest.mark.process
OBS = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, -0.1, 0.0, 0.2]], np.float32)


@pytest.fixture
def made(tmp_path, plug_ins):
    def make(algorithm, env, **config):
        return Trainer(algorithm, env=env, config={**SMALL, **config}, local_dir=str(tmp_path))

    return make


def test_log_likelihoods_are_those_of_the_distribution_in_the_environments_numbers(made):
    trainer = made("PPO", over(Box(-1, 1, (4,), np.float32), Discrete(3, start=5)))
    policy = trainer.get_policy()
    logits = policy.action_distribution(OBS).inputs
    expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    for action in (5, 6, 7):
        found = policy.compute_log_likelihoods([action, action], OBS)
        np.testing.assert_allclose(found, expected[:, action - 5], rtol=1e-5)
    np.testing.assert_allclose(
        policy.action_distribution(OBS).entropy(), -(np.exp(expected) * expected).sum(-1), rtol=1e-5
    )
    for wrong in ([4, 5], [5, 8], [5.5, 6], [5], "up"):
        with pytest.raises(errors.InputError, match="not 2 actions of this environment"):
            policy.compute_log_likelihoods(wrong, OBS)


@pytest.mark.parametrize(
    ("algorithm", "actions"),
    [
        ("PPO", Box(-2.0, 6.0, (2,), np.float32)),
        ("PPO", MultiDiscrete([2, 3])),
        ("PPO", MultiBinary(3)),
        ("SAC", Box(-2.0, 6.0, (2,), np.float32)),
        ("DQN", Discrete(3, start=-1)),
    ],
)
def test_batch_and_single_actions_agree_for_every_kind_of_action(made, algorithm, actions):
    trainer = made(algorithm, over(Box(-1, 1, (4,), np.float32), actions))
    policy = trainer.get_policy()
    batch, states, extras = policy.compute_actions(OBS)
    assert states == [] and batch.dtype == actions.dtype
    assert all(actions.contains(action) for action in policy.compute_actions(OBS, explore=True)[0])
    for row, obs in enumerate(OBS):
        action, _, one = trainer.compute_action(obs, full_fetch=True)
        np.testing.assert_allclose(action, batch[row], rtol=1e-5)
        for name, value in one.items():
            np.testing.assert_allclose(value, extras[name][row], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(policy.compute_log_likelihoods(batch, OBS), extras["action_logp"], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(policy.action_distribution(OBS).deterministic_sample(), batch)


def test_values_are_there_where_a_net_estimates_them(made):
    learner, critic = made("DQN", "CartPole-v1").get_policy(), made("PPO", "CartPole-v1").get_policy()
    q = learner.q_values(OBS)
    assert q.shape == (2, 2)
    np.testing.assert_array_equal(learner.compute_actions(OBS)[0], q.argmax(axis=-1))
    assert critic.value_function(OBS).shape == (2,)
    np.testing.assert_array_equal(critic.compute_actions(OBS)[2]["vf_preds"], critic.value_function(OBS))
    with pytest.raises(errors.InputError, match="estimates no state values"):
        learner.value_function(OBS)
    with pytest.raises(errors.InputError, match="does not act by action values"):
        critic.q_values(OBS)
    with pytest.raises(errors.InputError, match="has no closed form"):
        learner.action_distribution(OBS).entropy()


def test_policy_follows_the_weights_and_says_what_it_is(made):
    trainer = made("PPO", "CartPole-v1", model={"fcnet_hiddens": [8], "vf_share_layers": True})
    policy = trainer.get_policy()
    before = policy.value_function(OBS)
    trainer.set_weights({"default_policy": {n: w + 1 for n, w in trainer.get_weights()["default_policy"].items()}})
    assert not np.array_equal(policy.value_function(OBS), before)
    assert repr(policy) == "<Policy default_policy: categorical of observations [4]>"
    assert policy.summary().splitlines()[-1].split() == ["total", str(4 * 8 + 8 + 8 * 2 + 2 + 8 + 1)]
    with pytest.raises(errors.InputError, match=r"one of them is a batch of its own: \[obs\]"):
        policy.compute_actions(None)
    with pytest.raises(errors.InputError, match="'0.1' is not an observation of this environment"):
        policy.compute_actions(OBS[0])
    with pytest.raises(errors.InputError, match="no policy 'x'"):
        trainer.get_policy("x")


def test_compute_actions_takes_names_and_keeps_a_state_for_each(made):
    trainer = made(
        "PPO", "CartPole-v1", model={"use_lstm": True, "lstm_cell_size": 4, "lstm_use_prev_action_reward": True}
    )
    start = trainer.get_initial_state()
    actions, states, extras = trainer.compute_actions({"a": OBS[0], "b": OBS[1]}, {"a": start, "b": start})
    alone, after, _ = trainer.compute_action(OBS[0], start)
    assert (actions["a"], extras) == (alone, {"a": {}, "b": {}})
    np.testing.assert_array_equal(states["a"][0], after[0])
    batch, next_states, _ = trainer.get_policy().compute_actions(OBS)
    assert [part.shape for part in next_states] == [(2, 4), (2, 4), (2, 3)]
    assert batch.tolist() == [actions["a"], actions["b"]]
    others = [trainer.compute_action(OBS[0], after, prev_action=action)[1][0] for action in (0, 1)]
    assert not np.array_equal(*others)
    np.testing.assert_array_equal(others[alone], trainer.compute_action(OBS[0], after)[1][0])


def test_preprocessor_makes_what_the_policy_sees(made):
    preprocessor = made("PPO", over(Discrete(4))).get_preprocessor()
    assert (preprocessor.shape, preprocessor.transform(2).tolist()) == ((4,), [0, 0, 1, 0])
