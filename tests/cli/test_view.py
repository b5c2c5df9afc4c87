from drl_cli.cli.view import Curve, RunView


def taken(*events, **known):
    view = RunView(**known)
    for second, (kind, fields) in enumerate(events):
        view.take(kind, fields, second)
    return view


def test_phase_ends_with_progress():
    view = taken(("phase", {"text": "starting Ray"}), ("progress", {"env_steps": 1}))
    assert view.phase == ""


def test_phases_of_the_start_are_kept_as_notices_and_later_ones_are_not():
    view = taken(("phase", {"text": "starting Ray"}), ("progress", {"env_steps": 1}), ("phase", {"text": "evaluating"}))
    assert [text for _, text, _ in view.notices] == ["starting Ray"]
    assert view.phase == "evaluating"


def test_best_means_training_until_the_first_evaluation_and_evaluations_afterwards():
    view = taken(("progress", {"episode_reward_mean": 50.0}))
    assert view.best == 50.0
    view.take("evaluation", {"episode_reward_mean": 30.0, "episodes": 10}, 1)
    view.take("progress", {"episode_reward_mean": 70.0}, 2)
    assert view.best == 30.0


def test_best_of_a_resumed_run_begins_where_it_was():
    view = taken(("best_before", {"value": 40.0}), ("progress", {"episode_reward_mean": 50.0}))
    assert view.best == 40.0
    view.take("evaluation", {"episode_reward_mean": 30.0, "episodes": 10}, 1)
    assert view.best == 40.0


def test_best_keeps_the_highest_evaluation():
    view = taken(("evaluation", {"episode_reward_mean": 30.0}), ("evaluation", {"episode_reward_mean": 20.0}))
    assert (view.best, view.evaluation["episode_reward_mean"]) == (30.0, 20.0)


def test_result_fills_what_progress_would_have_said():
    view = taken(("result", {"result": {"training_iteration": 3, "timesteps_total": 90, "info": {"num_updates": 7}}}))
    assert (view.iteration, view.progress["env_steps"], view.progress["updates"]) == (3, 90, 7)


def test_next_checkpoint_is_the_next_multiple_of_the_frequency():
    view = taken(("progress", {"training_iteration": 20}), checkpoint_freq=10)
    assert view.next_checkpoint() == 30


def test_next_checkpoint_without_frequency_is_unknown():
    assert RunView().next_checkpoint() is None


def test_worker_started_first_time_is_no_news():
    assert list(taken(("worker_started", {"worker": 1, "incarnation": 0})).notices) == []


def test_unknown_kind_changes_nothing():
    view = taken(("something_new", {"a": 1}))
    assert (view.progress, view.phase, list(view.notices), view.curve.points) == ({}, "", [], [])


def test_run_folder_comes_from_the_events():
    assert taken(("run", {"run": "/results/a"})).run_folder == "/results/a"


def test_curve_halves_its_points_and_doubles_its_stride_when_full():
    curve = Curve(limit=4)
    for value in (1, 3, 5, 7):
        curve.add(value)
    assert curve.points == [2, 6]
    curve.add(10)
    assert curve.points == [2, 6]
    curve.add(20)
    assert curve.points == [2, 6, 15]
