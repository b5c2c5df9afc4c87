"""Rows of a run → its score."""

from fake_runs import evaluation, row

from drl_cli.analysis import scores

ROWS = [
    row(1, evaluation=evaluation(1, 5.0)),
    row(2, evaluation=evaluation(1, 5.0)),  # the same evaluation, told again
    row(3, evaluation=evaluation(3, 20.0)),
    row(4, evaluation=evaluation(3, 20.0, confirmed=15.0)),  # its fresh episodes came later
    row(5, evaluation=evaluation(5, 12.0)),
]


def test_last_is_the_last_evaluation_at_the_steps_it_scored():
    found = scores.score(ROWS)
    assert (found.value, found.steps, found.seconds, found.episodes) == (12.0, 5000, 10.0, 10)


def test_best_counts_a_confirmed_evaluation_with_its_fresh_episodes():
    found = scores.score(ROWS, "best")
    assert (found.value, found.steps, found.seconds, found.episodes) == (15.0, 3000, 6.0, 50)


def test_training_is_the_mean_of_the_last_row():
    found = scores.score(ROWS, "training")
    assert (found.value, found.steps, found.seconds) == (50.0, 5000, 10.0)


def test_at_leaves_out_what_came_later():
    assert scores.score(ROWS, at=4999).value == 15.0
    assert scores.score(ROWS, "training", at=2000).value == 20.0
    assert scores.score(ROWS, at=999) is None


def test_every_evaluation_counts_once():
    assert [found.value for found in scores.evaluations(ROWS)] == [5.0, 15.0, 12.0]


def test_a_run_without_values_has_no_score():
    assert scores.score([]) is None
    assert scores.score([row(1, episode_reward_mean=None)], "training") is None
    assert scores.score([row(1)]) is None


def test_reached_is_the_first_at_or_above_the_goal():
    assert scores.reached(ROWS, 12.0).steps == 3000
    assert scores.reached(ROWS, 12.0).seconds == 6.0
    assert scores.reached(ROWS, 15.1) is None
    assert scores.reached(ROWS, 30.0, "training").steps == 3000
