"""The Python Trainer with several agents: actions, weights and scores by policy."""

import numpy as np
import pytest

from drl_cli import errors
from drl_cli.api.trainer import Trainer

pytestmark = pytest.mark.process

AGENTS = {"copies": 3, "policies": {"first": {}, "others": {}}, "policy_mapping": {"0": "first", "*": "others"}}
SMALL = {"num_workers": 0, "seed": 5, "evaluation_num_episodes": 2, "model": {"fcnet_hiddens": [8]}}
OBS = np.float32([0.1, -0.2, 0.03, 0.4])


@pytest.fixture
def trainer():
    with Trainer("PPO", env="CartPole-v1", config=SMALL | {"multiagent": AGENTS}) as made:
        yield made


def test_each_policy_acts_by_its_own_weights(trainer):
    weights = trainer.get_weights()
    assert set(weights) == {"first", "others"} and set(trainer.get_weights(["others"])) == {"others"}
    bias = next(name for name, array in weights["first"].items() if array.shape == (2,))
    for action in (0, 1):
        pushed = np.float32([9.0, -9.0] if action == 0 else [-9.0, 9.0])
        trainer.set_weights({"others": {bias: pushed}})
        assert trainer.compute_action(OBS, policy_id="others") == action
        np.testing.assert_array_equal(trainer.get_weights()["first"][bias], weights["first"][bias])
    assert trainer.get_initial_state("first") == []


def test_policy_that_is_not_there_is_refused_with_the_nearest(trainer):
    with pytest.raises(errors.InputError, match=r"no policy 'frist'\. Did you mean 'first'\?"):
        trainer.compute_action(OBS, policy_id="frist")
    with pytest.raises(errors.InputError, match="They are first, others; name it: policy_id"):
        trainer.compute_action(OBS)
    with pytest.raises(errors.InputError, match="set_weights: there is no policy 'x'"):
        trainer.set_weights({"x": {}})


def test_evaluate_scores_each_policy_and_the_sum(trainer):
    found = trainer.evaluate()["evaluation"]
    means = found["policy_reward_mean"]
    assert set(means) == {"first", "others"}
    assert found["episode_reward_mean"] == pytest.approx(means["first"] + 2 * means["others"])


def test_agents_with_actions_of_their_own_take_what_their_policy_sees():
    with Trainer("PPO", env="drl/TicTacToe-v1", config=SMALL) as trainer:
        obs = np.zeros(27, np.float32)
        obs[4] = 1.0  # the only free square
        assert trainer.compute_action(obs) == 4
        with pytest.raises(errors.InputError, match=r"is not an observation .* arrays of shape \[27\]"):
            trainer.compute_action(obs[:5])
