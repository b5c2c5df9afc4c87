import io
import os

import pytest
import watched

from drl_cli.cli import console, terminal
from drl_cli.cli.view import STOPPING, RunView


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def written(events, **options):
    """Send events [(seconds, kind, fields)] to a PlainConsole and return its lines."""
    stream, clock = io.StringIO(), Clock()
    plain = console.PlainConsole(stream, RunView(), clock, **options)
    for clock.seconds, kind, fields in events:
        plain(kind, fields)
    return stream.getvalue().splitlines()


def test_script_gives_one_line_for_each_thing_worth_knowing():
    assert written(watched.SCRIPT) == [
        "   0:00  LunarLanderContinuous-v2 is retired and runs as LunarLanderContinuous-v3.",
        "   0:00  starting Ray, 2 workers",
        "   0:40  evaluation: reward 214.4 over 10 greedy episodes; confirmed: 205.6",
        "   0:40  best so far: checkpoint_000020, evaluation 205.6",
        "   0:45  Warning: worker 1 lost: killed by signal 9",
        "   0:47  worker 1 restarted",
        "   0:50  goal 200 reached: 214.4, confirmed by 205.6 over fresh episodes",
    ]


def test_iteration_line_tells_reward_steps_and_speed():
    assert written([(3.0, "result", watched.result(7))]) == [
        "   0:03  iteration 7: reward -93.0, 28 episodes, 7,000 steps (2,000/s), 2,800 updates"
    ]


def test_first_episode_of_a_run_is_not_in_the_plural():
    result = {"result": {"training_iteration": 1, "episodes_total": 1, "timesteps_total": 6144}}
    assert written([(3.0, "result", result)]) == ["   0:03  iteration 1: reward -, 1 episode, 6,144 steps, - updates"]


def test_iteration_that_was_held_back_does_not_come_behind_a_later_one():
    results = [(at, "result", {"result": {"training_iteration": n}}) for n, at in ((1, 1.0), (2, 2.0), (3, 9.0))]
    finished = (9.5, "finished", {"state": "finished"})
    told = [line.split(":")[1][4:].strip() for line in written([*results, finished])]
    assert told == ["iteration 1", "iteration 3", "finished"]


def test_iterations_come_at_most_every_two_seconds_and_the_last_is_not_lost():
    events = [(second, "result", watched.result(i)) for i, second in enumerate((0.0, 0.5, 1.0, 2.1, 2.5), 1)]
    events.append((3.0, "finished", {"state": "finished", "text": "timesteps_total reached 5000"}))
    lines = written(events)
    assert [line.split(":")[1].split("  ")[1] for line in lines] == [
        "iteration 1",
        "iteration 4",
        "iteration 5",
        "finished",
    ]


def test_holding_the_goal_is_told():
    assert written([(9.0, "held", {"target": 200.0, "value": 231.26, "evaluations": 3})]) == [
        "   0:09  held: mean 231.3 over 3 evaluations after the goal"
    ]


def test_estimates_are_one_line():
    found = {"episodes": 200, "effective_sample_size": 7.26}
    both = {"wis": {"V_step_WIS": 84.52, "V_step_WIS_low": 76.4, "V_step_WIS_high": 88.0}, "is": {"V_step_IS": 60.0}}
    assert written([(9.0, "estimates", {**found, **both})]) == [
        "   0:09  by recorded episodes: WIS 84.5 [76.4, 88.0] discounted, worth 7.3 of 200 episodes"
    ]
    assert written([(9.0, "estimates", {**found, "is": {"V_step_IS": None}})]) == [
        "   0:09  by recorded episodes: IS - discounted, worth 7.3 of 200 episodes"
    ]


def test_the_same_perfect_evaluation_every_second_is_told_once_and_its_checkpoints_too():
    events = []
    for second in range(20):
        number = {"training_iteration": second, "path": f"{watched.RUN}/checkpoint_{second:06d}"}
        events += [
            (second, "evaluation", {**watched.EVALUATION, **number, "episode_reward_mean": 500.0, "confirmed": None}),
            (second, "checkpoint", {**watched.CHECKPOINT, **number}),
            (second, "best", {**watched.BEST, "checkpoint": f"checkpoint_{second:06d}", "value": 500.0}),
        ]
    assert written(events) == [
        "   0:00  evaluation: reward 500.0 over 10 greedy episodes",
        "   0:00  best so far: checkpoint_000000, evaluation 500.0",
    ]


def test_periodic_checkpoints_are_told_by_name_and_not_every_second():
    made = {**watched.CHECKPOINT, "reason": "periodic"}
    lines = written([(second, "checkpoint", made) for second in range(12)])
    assert lines == ["   0:00  checkpoint_000020 (periodic)", "   0:10  checkpoint_000020 (periodic)"]


def test_final_checkpoint_is_always_told():
    made = [
        (second, "checkpoint", {**watched.CHECKPOINT, "reason": why}) for second, why in ((1, "periodic"), (2, "final"))
    ]
    assert written(made)[1] == "   0:02  checkpoint_000020 (final)"


def test_iteration_line_has_the_share_of_the_stop():
    stream = io.StringIO()
    plain = console.PlainConsole(stream, RunView(stop={"timesteps_total": 28_000}), lambda: 3.0)
    plain("result", watched.result(7))
    assert stream.getvalue().endswith("2,800 updates; 7,000 of 28.0k env steps (25 %)\n")


def test_resumed_run_tells_its_best_so_far_once():
    age = {"evaluation": 1.0, "checkpoint": 1.0}
    started = {"path": f"{watched.RUN}/checkpoint_000030", "training_iteration": 30, "reason": "resumed"}
    history = {"rewards": [], "result": {}, "best": watched.BEST, "checkpoint": started, "seconds_ago": age}
    assert written([(1.0, "history", history), (2.0, "best", watched.BEST)]) == [
        "   0:01  best so far: checkpoint_000020, evaluation 205.6"
    ]


def test_compiling_is_told_once():
    events = [(1.0, "learner", {"text": "compiling"}), (9.0, "learner", {"text": ""})]
    assert written(events) == ["   0:01  compiling"]


def test_quiet_shows_warnings_only():
    events = [
        *watched.SCRIPT,
        (60.0, "result", watched.result(30)),
        (61.0, "finished", {"state": "failed", "text": "diverged"}),
    ]
    assert written(events, quiet=True, color=False) == [
        "   0:45  Warning: worker 1 lost: killed by signal 9",
    ]


def test_no_escapes_without_color_and_some_with():
    assert "\x1b" not in "".join(written(watched.SCRIPT))
    assert "\x1b[33mWarning: worker 1 lost" in "".join(written(watched.SCRIPT, color=True))


def test_interrupt_is_said_once():
    read, write = os.pipe()
    stream = open(write, "w", encoding="utf-8")  # noqa: SIM115 - closed below
    plain = console.PlainConsole(stream, RunView(), Clock())
    plain.interrupt(2)
    plain("stopping", {"text": STOPPING})
    stream.close()
    with open(read, encoding="utf-8") as file:
        assert file.read().count("Stopping: saving a checkpoint (Ctrl-C again to quit without saving).") == 1


def test_broken_stderr_silences_the_console_and_raises_nothing():
    class Broken(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    plain = console.PlainConsole(terminal.Forgiving(Broken()), RunView(), Clock())
    plain("notice", {"text": "one"})
    plain("progress", watched.progress())
    assert plain.view.progress["env_steps"] == 61_234


def test_ascii_stream_gets_question_marks_instead_of_an_error(tmp_path):
    path = tmp_path / "log"
    with open(path, "w", encoding="ascii", errors="replace") as stream:
        console.PlainConsole(stream, RunView(), Clock())("notice", {"text": "Größe ∞ 5"})
    assert path.read_text(encoding="ascii") == "   0:00  Gr??e ? 5\n"


@pytest.fixture
def a_terminal(monkeypatch):
    """Stderr that claims to be a terminal of 100 by 40, without CI."""
    for name in ("CI", "COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    class Tty(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

        def fileno(self):
            return 2

    stream = Tty()
    monkeypatch.setattr(terminal, "private_stderr", lambda: stream)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((100, 40)))
    return stream


def kind_opened(**options):
    watcher = console.open_watcher(RunView(), terminal.Session(), **options)
    watcher.close()
    return type(watcher).__name__


def test_terminal_gets_the_live_screen(a_terminal):
    assert kind_opened() == "LiveScreen"
    assert "training" in a_terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb"), ("COLUMNS", "40")])
def test_ci_dumb_and_narrow_terminals_get_plain_lines(a_terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert kind_opened() == "PlainConsole"


def test_plain_and_quiet_get_plain_lines(a_terminal):
    assert [kind_opened(plain=True), kind_opened(quiet=True)] == ["PlainConsole", "PlainConsole"]


def test_pipe_gets_plain_lines():
    assert kind_opened() == "PlainConsole"


def test_an_event_of_the_past_is_told_at_its_own_time():
    stream = io.StringIO()
    made = console.PlainConsole(stream, RunView(), clock=lambda: 500.0)
    made("phase", {"text": "loading TensorFlow"}, 61.0)
    made("phase", {"text": "stopping"})
    assert stream.getvalue() == "   1:01  loading TensorFlow\n   8:20  stopping\n"
