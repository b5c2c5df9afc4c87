import io

import pytest
import watched
from rich.console import Console

from drl_cli.cli import figures, screen, terminal
from drl_cli.cli.live import LiveScreen
from drl_cli.cli.view import RunView


def drawn(width, height, seconds=52.0, script=watched.SCRIPT, encoding="utf-8", stop=None, **options):
    """Return the lines of the picture after the script."""
    view = RunView("SAC", "LunarLanderContinuous-v3", 200.0, 10, stop or {})
    for at, kind, fields in script:
        view.take(kind, fields, at)
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    console = Console(file=stream, width=width, height=height, force_terminal=False, color_system=None)
    console.print(screen.picture(view, seconds, console, **options))
    stream.flush()
    return [line.rstrip() for line in stream.buffer.getvalue().decode(encoding).splitlines()]


def test_80_by_24_shows_everything_in_fixed_places():
    lines = drawn(80, 24)
    assert lines[0] == "SAC · LunarLanderContinuous-v3 · 2 workers" + " " * 33 + "0:52"
    assert lines[1] == "/results/default/SAC_LunarLanderContinuous-v3_00000_2026-11-21_10-17-38_ab12cd"
    assert lines[3] == "training       153.2   mean of the newest episodes"
    assert lines[6] == "evaluation     214.4   10 episodes, 12 s ago; confirmed: 205.6"
    assert lines[7] == "best           205.6   iteration 20   goal 200"
    assert lines[9:16] == [
        "episodes         412   iteration 24",
        "env steps      61.2k     1,712 /s",
        "updates        24.5k       644 /s",
        "replay      ██░░░░░░░░░░░░░░░░░░░░░░░░░░░░  61.2k of 1.00M",
        "weights     version 490, samples are 1.2 versions old",
        "bottleneck  learner is waiting for samples",
        "checkpoint  iteration 20 (best) 12 s ago, next at iteration 30",
    ]
    assert lines[-1] == "   0:50  goal 200 reached: 214.4, confirmed by 205.6 over fresh episodes"


def test_what_has_no_value_is_not_measured():
    lines = drawn(80, 24, 1.0, [(1.0, "progress", {"env_steps": 1})])
    assert "training    no episode has ended yet" in lines
    assert "evaluation  not measured yet" in lines
    assert "best        not measured yet   goal 200" in lines


def test_a_best_of_training_rewards_is_called_so():
    best = {"metric": "episode_reward_mean", "value": 150.0, "training_iteration": 22}
    assert "best           150.0   iteration 22 of training   goal 200" in drawn(
        80, 24, script=[*watched.SCRIPT, (51.0, "best", best)]
    )


def test_weights_of_this_version_are_called_on_policy():
    script = [(1.0, "progress", watched.progress(weight_lag=0.0, replay_capacity=None))]
    assert "weights     version 490, on-policy (current weights)" in drawn(80, 24, script=script)


def test_newest_samples_of_an_algorithm_with_a_replay_are_current_and_not_on_policy():
    script = [(1.0, "progress", watched.progress(weight_lag=0.0))]
    assert "weights     version 490, current samples" in drawn(80, 24, script=script)


def test_finished_run_has_no_time_left():
    ended = (60.0, "finished", {"state": "finished", "text": ""})
    lines = drawn(80, 24, 60.0, [*watched.SCRIPT, ended], stop={"time_total_s": 100})
    assert any(line.startswith("budget ") and line.endswith("%)") for line in lines)


def test_from_30_lines_on_the_chart_has_axes_and_the_goal():
    lines = drawn(100, 30)
    assert lines[4].startswith("  goal 200  ┄") and lines[6].startswith("    -180.0  ▁")
    assert lines[7].split() == ["1,000", "61.2k", "env", "steps"]


def test_goal_inside_the_curve_stands_at_its_line():
    script = [(1.0 + i, "progress", watched.progress(env_steps=i, episode_reward_mean=10.0 * i)) for i in range(41)]
    labels = [line[:12].strip() for line in drawn(160, 50, script=script)[4:45]]
    assert labels[0] == "400.0" and abs(labels.index("goal 200") - labels.index("0.0") / 2) <= 1


def test_budget_row_has_the_share_of_the_stop_and_the_time_left():
    script = [(10.0 * i, "progress", watched.progress(env_steps=10_000 * i)) for i in range(1, 7)]
    lines = drawn(80, 24, 60.0, script, stop={"timesteps_total": 200_000, "evaluation/episode_reward_mean": 200})
    assert "budget      ██████░░░░░░░░░░░░░░  60.0k of 200k env steps (30 %), 2:20 left" in lines


def test_of_two_budgets_the_one_that_ends_first_is_shown():
    script = [(10.0 * i, "progress", watched.progress(env_steps=10_000 * i)) for i in range(1, 7)]
    lines = drawn(80, 24, 60.0, script, stop={"timesteps_total": 200_000, "time_total_s": 100})
    assert any(line.startswith("budget ") and line.endswith("0:50 of 1:40 (50 %), 0:50 left") for line in lines)


ESTIMATES = {
    "episodes": 200,
    "effective_sample_size": 7.26,
    "wis": {"V_step_WIS": 84.52, "V_step_WIS_low": 76.4, "V_step_WIS_high": 88.0},
}


@pytest.mark.parametrize(("width", "height"), [(60, 18), (80, 24), (120, 24)])
def test_estimates_stand_below_the_evaluation(width, height):
    script = [*watched.SCRIPT[:7], (41.0, "estimates", ESTIMATES), *watched.SCRIPT[7:]]
    lines = drawn(width, height, script=script)
    place = next(i for i, line in enumerate(lines) if line.startswith("best "))
    shown = lines[place + 1][: width // 2] if width >= 120 else lines[place + 1]
    assert shown.rstrip().startswith("recorded       WIS 84.5 [76.4, 88.0] discounted")
    assert max(len(line) for line in lines) < width and len(lines) < height


METRICS = {f"{name}_{end}": 2.345 for name in ("angle", "speed") for end in ("mean", "min", "max")}


@pytest.mark.parametrize(("width", "height"), [(60, 18), (80, 24), (120, 24)])
def test_metrics_of_callbacks_stand_below_the_evaluation(width, height):
    script = [*watched.SCRIPT, (50.5, "result", watched.result(25, custom_metrics=METRICS))]
    lines = drawn(width, height, script=script)
    place = next(i for i, line in enumerate(lines) if line.startswith("best "))
    shown = lines[place + 1][: width // 2] if width >= 120 else lines[place + 1]
    assert shown.rstrip() == "metrics        angle 2.3, speed 2.3"
    assert max(len(line) for line in lines) < width and len(lines) < height


def test_metrics_that_find_no_room_are_counted():
    many = {f"metric_{index}_mean": 1000.0 * index for index in range(20)}
    assert figures.custom_metrics(many, 52) == "metric_0 0.0, metric_1 1,000.0, 18 more"
    assert figures.custom_metrics({"a" * 80 + "_mean": 1.0}, 40) == "1 of them"


@pytest.mark.parametrize(("width", "height"), [(60, 18), (80, 24), (100, 30), (120, 24), (160, 45), (250, 60)])
def test_picture_fits_its_terminal(width, height):
    lines = drawn(width, height)
    assert max(len(line) for line in lines) < width
    assert len(lines) < height


def test_160_columns_put_a_chart_with_its_bounds_on_the_left():
    lines = drawn(160, 45)
    assert lines[3].startswith("training       153.2   mean of the newest episodes")
    assert "episodes         412   iteration 24" in lines[3]
    assert lines[4].startswith("  goal 200  ┄") and lines[5].startswith("            ")
    assert any(line.startswith("    -180.0") for line in lines)


def test_before_the_first_step_what_there_is_not_is_said_and_the_phase():
    lines = drawn(80, 24, 1.0, watched.SCRIPT[:3])
    assert lines[3] == "training    no episode has ended yet"
    assert "starting Ray, 2 workers" in lines
    assert "checkpoint  none yet, next at iteration 10" in lines


def test_no_periodic_checkpoints_says_when_the_next_one_comes():
    view = RunView()
    console = Console(file=io.StringIO(), width=80, height=24)
    console.print(screen.picture(view, 0.0, console))
    assert "none yet, next when the best improves, or at the end" in console.file.getvalue()


def test_loading_learner_is_shown_beside_the_updates():
    script = [(1.0, "progress", watched.progress(updates=0, updates_per_s=None, learner="loading TensorFlow"))]
    assert "updates            0   loading TensorFlow" in drawn(80, 24, 2.0, script)


def test_compiling_is_not_called_loading():
    loading = (1.0, "progress", watched.progress(updates=0, updates_per_s=None, learner="loading TensorFlow"))
    text = "compiling the learner's graph"
    lines = drawn(80, 24, 3.0, [loading, (2.0, "learner", {"text": text}), loading])
    assert f"updates            0   {text}" in lines and text in lines
    lines = drawn(80, 24, 3.0, [loading, (2.0, "learner", {"text": text}), (3.0, "learner", {"text": ""})])
    assert not any("compiling" in line for line in lines[:-2])


def test_inline_run_is_called_inline():
    assert drawn(80, 24, 2.0, [(1.0, "progress", watched.progress(workers=0))])[0].startswith(
        "SAC · LunarLanderContinuous-v3 · inline "
    )


def test_ascii_stream_gets_ascii():
    lines = drawn(80, 24, encoding="ascii")
    assert lines[0].startswith("SAC - LunarLanderContinuous-v3 - 2 workers")
    assert "replay      ##............................  61.2k of 1.00M" in lines


def test_interrupt_is_shown():
    assert "Stopping: saving a checkpoint (Ctrl-C again to quit without saving)." in drawn(80, 24, interrupted=True)


def test_finished_run_shows_how_it_ended():
    script = [*watched.SCRIPT, (60.0, "finished", {"state": "finished", "text": "target reached"})]
    assert "finished" in drawn(80, 24, 60.0, script)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_live_screen_draws_a_phase_at_once_and_leaves_its_last_picture():
    stream = Terminal()
    live = LiveScreen(
        Console(file=stream, width=80, height=24, force_terminal=True),
        RunView("SAC", "Pendulum-v1"),
        screen.picture,
        lambda: 3.0,
    )
    live("phase", {"text": "loading TensorFlow"})
    assert "loading TensorFlow" in stream.getvalue()
    live("finished", {"state": "interrupted", "text": ""})
    live.close()
    assert "interrupted" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[?25h")


def test_live_screen_survives_a_terminal_that_is_gone():
    class Gone(Terminal):
        broken = False

        def write(self, text):
            if self.broken:
                raise OSError(5, "Input/output error")
            return super().write(text)

    stream = Gone()
    live = LiveScreen(
        Console(file=terminal.Forgiving(stream), width=80, height=24, force_terminal=True),
        RunView(),
        screen.picture,
        lambda: 3.0,
    )
    stream.broken = True
    live("phase", {"text": "loading TensorFlow"})
    live.close()
    assert live.view.phase == "loading TensorFlow"


def test_live_screen_takes_an_event_of_the_past_at_its_own_time():
    made = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    live = LiveScreen(made, RunView(), screen.picture, lambda: 500.0)
    live("notice", {"text": "old"}, 61.0)
    live("notice", {"text": "new"})
    live.close()
    assert [seconds for seconds, _, _ in live.view.notices] == [61.0, 500.0]


def test_rating_of_self_play_is_on_the_screen():
    result = {"policy_reward_mean": {"main": 0.5}, "info": {"learner": {"main": {"elo": 1205.0}}}}
    lines = drawn(80, 24, script=[*watched.SCRIPT, (51.0, "result", {"result": result})])
    assert ["policies", "main", "0.5", "(Elo", "1,205)"] in [line.split() for line in lines]
