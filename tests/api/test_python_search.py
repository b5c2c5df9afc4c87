"""``run_search``: what a program gets back from a search, and what it is refused."""

import math

import pytest

from drl_cli import errors, run_search

pytestmark = pytest.mark.process
SMALL = {"num_workers": 0, "num_rollouts": 2, "rollouts_used": 1, "timesteps_per_iteration": 50, "min_iter_time_s": 0}


class Made:
    pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"env": Made}, "run_search: env .*Made'>\" is no name.*imports="),
        ({"config": {"callbacks": Made}}, r"run_search: config\['callbacks'\] .* is no name"),
        ({"num_sample": 3}, "run_search: unknown argument 'num_sample'. Did you mean 'num_samples'"),
        ({"shceduler": "ASHA"}, "Did you mean 'scheduler'"),
        ({"scheduler": "ASHE"}, "Did you mean 'ASHA'"),
        ({"config": {"noise_stdv": {"grid_search": [1]}}}, "Did you mean 'noise_stdev'"),
        ({"seeds": [3, 3]}, "'3,3' names a seed twice"),
        ({"imports": ["no_such_module"]}, "no_such_module"),
    ],
    ids=["class", "callbacks", "argument", "option", "scheduler", "key", "seeds", "import"],
)
def test_what_is_wrong_is_refused_before_anything_starts(tmp_path, given, message):
    with pytest.raises(errors.InputError, match=message):
        run_search("ARS", **{"env": "CartPole-v1", "local_dir": str(tmp_path), **given})
    assert not list(tmp_path.iterdir())


@pytest.mark.ray
def test_trials_come_back_the_best_first_with_their_checkpoints(tmp_path):
    found = run_search(
        "ARS",
        env="CartPole-v1",
        config={**SMALL, "noise_stdev": {"grid_search": [0.01, 0.2]}, "evaluation_interval": 1},
        stop={"training_iteration": 1},
        seeds=[4],
        local_dir=str(tmp_path),
    )
    assert found.record.is_file() and found.text == "" and found.metric == "evaluation/episode_reward_mean"
    assert sorted(trial.values["noise_stdev"] for trial in found.trials) == [0.01, 0.2]
    first, second = found.trials
    assert found.best is first and first.score >= second.score and not math.isnan(second.score)
    for trial in found.trials:
        assert trial.state == "finished" and trial.result["training_iteration"] == 1
        assert trial.checkpoint.is_file() or trial.checkpoint.is_dir()
        assert trial.run_folder in trial.checkpoint.parents
