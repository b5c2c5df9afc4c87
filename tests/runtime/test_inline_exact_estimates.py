"""A run that recorded episodes judge goes on from a checkpoint as if it had not stopped, estimates included."""

import pytest
from recorded_files import write_uniform
from runtime_runs import SINCE_RESTORE, small_config, timeless

from drl_cli import checkpoints

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]


def _results(trainer, count):
    return [timeless(trainer.train(), SINCE_RESTORE) for _ in range(count)]


@pytest.mark.parametrize("evaluated", [["is", "wis"], []])
def test_run_interrupted_between_two_estimates_equals_the_whole_run(run, tmp_path, evaluated):
    path = write_uniform(tmp_path / "recorded.json", episodes=40)
    config = small_config(input=path, input_evaluation=evaluated, learning_starts=0)
    whole = run("Pendulum-v1", config)
    before, after = _results(whole, 3), _results(whole, 3)
    first = run("Pendulum-v1", config)
    assert _results(first, 3) == before
    resumed = run("Pendulum-v1", config, restore=(checkpoints.load(first.save(tmp_path)), True))
    assert _results(resumed, 3) == after
    told = [result.get("off_policy_estimator") for result in before + after]
    if not evaluated:
        assert told == [None] * 6
        return
    # an evaluation every second iteration; in between the newest is repeated
    assert told[0] is None and told[1] == told[2] != told[3] == told[4] != told[5]
    assert told[5]["episodes"] == 40 and -100 < told[5]["wis"]["V_step_WIS"] < -10
    assert "off_policy_estimator" not in after[-1]["evaluation"]
