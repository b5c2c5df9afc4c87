"""What screen and lines say of a run that reads instead of sampling."""

import io

import watched
from rich.console import Console
from test_console import written
from test_screen import drawn

from drl_cli.cli import screen
from drl_cli.cli.view import RunView

READ = {"num_steps_read": 15_360, "num_episodes_read": 197, "read_reward_mean": 76.08}
NOW = {"only_reads": True, "read": READ, "episodes": 0, "episode_reward_mean": None, "weight_lag": 3, "waiting": ""}


def script(*scores):
    evaluations = [
        (20.0 + n, "evaluation", watched.EVALUATION | {"episode_reward_mean": x, "timesteps_total": 1000 * n})
        for n, x in enumerate(scores)
    ]
    return [(14.0, "progress", watched.progress(**NOW)), *evaluations]


def test_screen_says_what_was_read_in_place_of_what_was_played():
    lines = drawn(80, 24, script=script(143.1, 450.0))
    assert [line[:10].strip() for line in lines[3:9]] == ["", "", "evaluation", "best", "", "read"]
    assert lines[8:10] == [
        "read           15.4k steps, 197 episodes, mean 76.1   iteration 24",
        "timesteps      61.2k     1,712 /s",
    ]
    assert lines[12] == "weights     version 490" and lines[13] == "bottleneck  not measured yet"


def test_chart_of_a_run_that_reads_shows_its_evaluations():
    view = RunView("BC", "CartPole-v1", 200.0, 0)
    for at, kind, fields in script(10.0, 20.0, 15.0):
        view.take(kind, fields, at)
    assert view.curve.points == [(0, 10.0), (1000, 20.0), (2000, 15.0)]
    console = Console(file=io.StringIO(), width=140, height=40)
    console.print(screen.picture(view, 30.0, console))
    assert "goal 200" in console.file.getvalue() and "10.0" in console.file.getvalue()


def test_chart_of_a_run_that_plays_does_not():
    view = RunView("SAC", "Pendulum-v1", 200.0, 0)
    for at, kind, fields in [(1.0, "progress", watched.progress()), (2.0, "evaluation", watched.EVALUATION)]:
        view.take(kind, fields, at)
    assert view.curve.points == [(61_234, 153.24)]


def test_iteration_line_tells_steps_read_and_how_often_each_was_learnt_from():
    info = {"num_updates": 800, "num_steps_read": 15_360, "num_passes": 26.7}
    told = written([(3.0, "result", watched.result(7, timesteps_total=409_600, info=info))])
    assert told == [
        "   0:03  iteration 7: 15.4k steps read, 26.7 passes over the data, 410k timesteps (2,000/s), 800 updates"
    ]
    streamed = written([(3.0, "result", watched.result(7, info=info | {"num_passes": None}))])
    assert streamed == ["   0:03  iteration 7: 15.4k steps read, 7,000 timesteps (2,000/s), 800 updates"]
