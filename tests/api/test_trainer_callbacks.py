"""Callbacks and evaluations that a program hands to the door itself, and loggers by name."""

import gymnasium
import numpy as np
import pytest

from drl_cli import Callbacks, register_logger
from drl_cli.api.trainer import Trainer
from drl_cli.errors import ConfigError, RunFailed

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 0,
    "episodes_per_batch": 8,
    "train_batch_size": 50,
    "timesteps_per_iteration": 50,
    "evaluation_interval": None,
    "model": {"fcnet_hiddens": [4]},
    "seed": 5,
}


class Walk(gymnasium.Env):
    """Ten steps of reward 1."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == 10, False, {}


class Half(Callbacks):
    """Half of each return, and a result that a logger sees."""

    def on_episode_end(self, *, episode, **more):
        episode.custom_metrics["half"] = episode.total_reward / 2

    def on_train_result(self, *, result, **more):
        result["half"] = result["custom_metrics"]["half_mean"]


class Broken(Callbacks):
    """Fails."""

    def on_episode_start(self, *, episode, **more):
        raise LookupError("nothing there")


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch, plug_ins):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))


def test_a_class_of_callbacks_and_a_function_may_be_handed_in():
    def best(evaluation):
        return evaluation.summary(evaluation.play(evaluation.seeds[:2])) | {"asked": evaluation.episodes}

    rows = []

    class Rows:
        def __init__(self, folder, facts, resumed):
            rows.append(facts["config"]["callbacks"])

        def write(self, result):
            rows.append(result["half"])

        def close(self):
            rows.append("over")

    register_logger("rows", Rows)
    config = {**SMALL, "callbacks": Half, "custom_eval_function": best}
    with Trainer("ES", env=Walk, config=config, loggers=["rows"]) as trainer:
        result = trainer.train()
        assert result["custom_metrics"] == {"half_mean": 5.0, "half_min": 5.0, "half_max": 5.0}
        found = trainer.evaluate(3)["evaluation"]
        assert (found["asked"], found["episodes_this_iter"], found["episode_reward_mean"]) == (3, 2, 10.0)
        assert found["custom_metrics"]["half_mean"] == 5.0
    assert rows == ["Half", 5.0, "over"]


def test_a_hook_that_raises_is_raised_in_the_program():
    with (
        Trainer("ES", env=Walk, config={**SMALL, "callbacks": Broken}) as trainer,
        pytest.raises(RunFailed, match=r"callbacks 'Broken': on_episode_start failed: LookupError: nothing there \("),
    ):
        trainer.train()


def test_what_is_no_class_of_callbacks_is_refused():
    with pytest.raises(ConfigError, match="callbacks: No class of callbacks is registered as 'half'"):
        Trainer("ES", env=Walk, config={**SMALL, "callbacks": "half"})
