"""``is_success`` of an environment as a rate: in results, stop rules, on the screen, in evaluate and rollout."""

import json

import gymnasium
import numpy as np
import pytest

from drl_cli import cli
from drl_cli.envs.steps import success_of

KEYS = {
    "num_workers": 0,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 12,
    "train_batch_size": 24,
    "timesteps_per_iteration": 24,
    "model": {"fcnet_hiddens": [4]},
    "evaluation_interval": 1,
    "evaluation_num_episodes": 4,
    "xla": False,
}


class EveryThird(gymnasium.Env):
    """Episodes of four steps; those with a seed, or a number, that three divides say that they reached their goal."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": []}
    number = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.left = (self.number + 1 if seed is None else seed), 4
        return np.zeros(2, np.float32), {"is_success": True}

    def step(self, action):
        self.left -= 1
        told = {} if self.left else {"is_success": np.float32(self.number % 3 == 0)}
        return np.zeros(2, np.float32), 1.0, not self.left, False, told


gymnasium.register("EveryThird-v0", entry_point=EveryThird)


def test_success_is_that_of_the_last_step_and_may_be_any_zero_or_one():
    assert success_of({}) is None and success_of({"is_success": None}) is None
    assert success_of({"is_success": np.float32(1)}) is True and success_of({"is_success": 0}) is False


@pytest.mark.process
def test_rate_is_in_results_evaluations_scores_and_stop_rules(tmp_path, capsys):
    words = ["train", "--run", "PG", "--env", "EveryThird-v0", "--seed", "1", "--local-dir", str(tmp_path)]
    words += ["--config", json.dumps(KEYS), "--stop", "training_iteration=3", "--assert", "evaluation/success_rate>=2"]
    assert cli.main([*words, "--json"]) == 4  # nothing succeeds more often than always
    *lines, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert 0 < lines[-1]["success_rate"] < 1 and lines[-1]["success_rate"] * lines[-1]["episodes_total"] % 1 < 1e-9
    assert lines[-1]["evaluation"]["success_rate"] in (0.0, 0.25, 0.5, 0.75, 1.0)  # of four seeds
    (run,) = (path.parent for path in tmp_path.glob("*/*/params.json"))

    assert cli.main(["evaluate", str(run), "--episodes", "6", "--seed", "3", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert scored["greedy"]["success_rate"] == pytest.approx(1 / 3)
    assert cli.main(["rollout", str(run), "--episodes", "3", "--seed", "3"]) == 0
    assert ", success 33 %" in capsys.readouterr().out
    again = ["train", "--resume", str(run), "--stop"]
    assert cli.main([*again, '{"success_rate": 0.01, "training_iteration": 9}']) == 0
    assert "success_rate 0.333333 reached 0.01 already" in capsys.readouterr().out
    assert cli.main([*again, "training_iteration=4"]) == 0
    captured = capsys.readouterr()
    assert ", success " in captured.out + captured.err
