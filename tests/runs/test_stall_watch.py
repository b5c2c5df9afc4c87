"""When a run looks as if it stood still between two results, and when it does not."""

import threading

from diagnoses import Clock, names

from drl_cli.runs.diagnosis import StallWatch


def test_a_long_compilation_in_the_midst_of_a_run_is_not_taken_for_a_hanging_step(told):
    clock = Clock()
    seen = StallWatch(False, clock)
    seen.hear("progress", progress(5))
    seen.hear("learner", {"text": "compiling the update (XLA)"})
    for clock.now in (100.0, 200.0):
        seen.hear("progress", progress(5))
    seen.hear("learner", {"text": ""})
    clock.now = 210.0
    seen.hear("progress", progress(5))
    assert told == []


def progress(steps, updates=0):
    return {"env_steps": steps, "updates": updates, "learner": "learning", "waiting": "learner is waiting for samples"}


def test_no_step_and_no_update_for_a_minute_is_told(told):
    clock = Clock()
    seen = StallWatch(False, clock)
    for seconds, steps in ((0.0, 10), (5.0, 20), (64.0, 20)):
        clock.now = seconds
        seen.hear("progress", progress(steps))
    assert told == []
    clock.now = 66.0
    seen.hear("progress", progress(20))
    assert names(told) == ["no movement"] and "61 s (learner is waiting for samples)" in told[0]["text"]


def test_long_steps_that_are_usual_are_no_news(told):
    clock = Clock()
    seen = StallWatch(False, clock)
    for seconds, steps in ((0.0, 0), (50.0, 1), (100.0, 2), (180.0, 2), (190.0, 3)):
        clock.now = seconds
        seen.hear("progress", progress(steps))
    assert told == []


def test_no_news_for_three_minutes_is_told(told):
    clock = Clock()
    seen = StallWatch(False, clock)
    clock.now = 179.0
    seen.check_silence()
    seen.hear("phase", {"text": "x"})
    clock.now = 300.0
    seen.check_silence()
    assert told == []
    clock.now = 360.0
    seen.check_silence()
    assert names(told) == ["silence"] and "set horizon" in told[0]["text"]


def test_thread_looks_until_it_is_stopped(told):
    clock = Clock()
    watch = StallWatch(False, clock, every_s=0.001)
    stop = watch.start()
    clock.now = 200.0
    while not told:
        pass
    stop()
    assert names(told) == ["silence"] and "silence" not in [thread.name for thread in threading.enumerate()]
