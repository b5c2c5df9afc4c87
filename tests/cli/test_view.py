from drl_cli.cli.view import Curve, RunView


def taken(*events, **known):
    view = RunView(**known)
    for second, (kind, fields) in enumerate(events):
        view.take(kind, fields, second)
    return view


def test_phase_ends_with_progress():
    view = taken(("phase", {"text": "starting Ray"}), ("progress", {"env_steps": 1}))
    assert view.phase == ""


def test_loading_ends_when_the_learner_says_more():
    view = taken(("phase", {"text": "loading TensorFlow"}), ("learner", {"text": "compiling"}))
    assert (view.phase, view.compiling) == ("", "compiling")


def test_phases_of_the_start_are_kept_as_notices_and_later_ones_are_not():
    view = taken(("phase", {"text": "starting Ray"}), ("progress", {"env_steps": 1}), ("phase", {"text": "evaluating"}))
    assert [text for _, text, _ in view.notices] == ["starting Ray"]
    assert view.phase == "evaluating"


def test_best_is_what_best_json_says_and_no_evaluation_or_training_reward():
    best = {"metric": "evaluation/episode_reward_mean", "value": 40.0, "training_iteration": 3}
    view = taken(("best", best), ("progress", {"env_steps": 9, "episode_reward_mean": 50.0}))
    view.take("evaluation", {"episode_reward_mean": 60.0, "confirmed": 30.0, "episodes": 10}, 1)
    assert view.best == best


def test_resumed_run_shows_the_evaluation_checkpoint_and_curve_that_it_has():
    evaluation = {"training_iteration": 4, "episode_reward_mean": 20.0, "episodes_this_iter": 10}
    last = {"training_iteration": 5, "timesteps_total": 500, "evaluation": evaluation, "time_total_s": 33.0}
    history = {
        "rewards": [[100, 1.0], [500, 5.0]],
        "result": last,
        "best": {"metric": "evaluation/episode_reward_mean", "value": 21.0, "training_iteration": 3},
        "checkpoint": {"path": "/r/checkpoint_000005", "training_iteration": 5, "reason": "resumed"},
        "seconds_ago": {"evaluation": 60.0, "checkpoint": 30.0},
    }
    view = RunView()
    view.take("history", history, 2.0)
    assert view.curve.points == [(100, 1.0), (500, 5.0)]
    assert (view.evaluation["episode_reward_mean"], view.evaluation["seconds"]) == (20.0, -58.0)
    assert (view.checkpoint["training_iteration"], view.checkpoint["at"]) == (5, -28.0)
    assert (view.best["value"], view.best["training_iteration"]) == (21.0, 3)
    assert (view.iteration, view.progress["env_steps"], view.time_total) == (5, 500, (33.0, None))


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


def test_pace_is_measured_from_the_last_of_the_rows_of_an_earlier_process():
    view = RunView()
    for seconds, steps in ((0.0, 1000), (0.0, 2000), (0.0, 300_000), (10.0, 310_000)):
        view.take("progress", {"env_steps": steps}, seconds)
    assert [(seconds, counters["env_steps"]) for seconds, counters in view.pace] == [(0.0, 300_000), (10.0, 310_000)]


def test_pace_is_not_measured_while_the_learner_is_made_ready():
    view = taken(("progress", {"env_steps": 1, "learner": "loading TensorFlow"}))
    assert not view.pace
    view.take("learner", {"text": ""}, 8.0)
    view.take("progress", {"env_steps": 9}, 9.0)
    assert view.pace[0][0] == 9.0


def test_curve_halves_its_points_and_doubles_its_stride_when_full():
    curve = Curve(limit=4)
    for steps, value in ((0, 1), (1, 3), (2, 5), (3, 7)):
        curve.add(steps, value)
    assert curve.points == [(0.5, 2), (2.5, 6)]
    curve.add(4, 10)
    assert curve.points == [(0.5, 2), (2.5, 6)]
    curve.add(5, 20)
    assert curve.points == [(0.5, 2), (2.5, 6), (4.5, 15)]


def test_curve_is_drawn_over_env_steps_whatever_the_points_are_spaced():
    curve = Curve()
    for steps, value in ((0, 1.0), (1, 3.0), (80, 5.0), (100, 7.0)):
        curve.add(steps, value)
    assert curve.columns(5) == [2.0, 2.0, 2.0, 2.0, 6.0]
    assert Curve().columns(5) == []
