"""Runs without workers repeat bit for bit, and go on from a checkpoint as if they had not stopped."""

import threading

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, small_config, timeless

from drl_cli import checkpoints, events

pytestmark = pytest.mark.process


def state_of_run(trainer):
    """Everything that what comes next depends on: arrays by name, and plain data."""
    arrays = dict(trainer.parts.learner.call("state").result())
    replay = trainer.parts.replay.handles[0].part
    columns, ring = replay._ring.state()
    arrays.update({f"replay/{name}": array.copy() for name, array in columns.items()})
    own, worker = trainer.parts.pool.handles()[0].call("state").result()
    arrays.update({f"worker/{name}": array for name, array in own.items()})
    plain = {
        "counters": {name: value for name, value in trainer.counters().items() if name != "time_total_s"},
        "ring": ring,
        "replay": replay.facts(),
        "worker": worker,
        "loop": trainer.loop.state(),
        "version": trainer.loop.ledger.version,
        "evaluations": trainer.scoring.count,
    }
    return arrays, plain


def assert_same_state(mine, other):
    assert sorted(mine[0]) == sorted(other[0])
    differing = [name for name in mine[0] if not np.array_equal(mine[0][name], other[0][name])]
    assert differing == []
    assert mine[1] == other[1]


def results(trainer, count):
    return [timeless(trainer.train(), SINCE_RESTORE) for _ in range(count)]


@pytest.fixture
def told():
    heard = []
    stop = events.subscribe(lambda kind, fields: heard.append((kind, fields.get("text") or "")))
    yield lambda: [(kind, text) for kind, text in heard if text.startswith("Resumed")]
    stop()


FORGETS = "a reset of {} with a seed clears all earlier state"


@pytest.mark.parametrize(
    ("env_id", "fresh", "why", "learner"),
    [
        ("Pendulum-v1", False, FORGETS, None),
        ("LunarLanderContinuous-v3", False, FORGETS, None),
        ("BipedalWalker-v3", True, "every episode has a new {}", None),
        ("BipedalWalker-v3", True, "every episode has a new {}", "quick_learner"),
    ],
    ids=["pendulum", "lander", "walker", "walker, quick learner"],
)
def test_inline_run_interrupted_after_three_iterations_equals_the_whole_run(
    request, run, tmp_path, told, env_id, fresh, why, learner
):
    if learner:
        request.getfixturevalue(learner)
    config = small_config(fresh_envs=fresh)
    whole = run(env_id, config)
    before, after = results(whole, 3), results(whole, 3)
    end = state_of_run(whole)
    assert whole.loop.ledger.updates > 300

    first = run(env_id, config)
    assert results(first, 3) == before
    path = first.save(tmp_path)
    assert results(first, 3) == after, "saving changed the run"
    assert_same_state(state_of_run(first), end)

    assert told() == []
    resumed = run(env_id, config, restore=(checkpoints.load(path), True))
    assert told() == [("notice", f"Resumed bit for bit: {why.format(env_id)}.")]
    assert results(resumed, 3) == after
    assert_same_state(state_of_run(resumed), end)


@pytest.mark.usefixtures("quick_learner")
def test_run_in_an_environment_that_keeps_its_past_repeats_and_says_that_a_resumed_one_does_not(run, tmp_path, told):
    config = small_config()
    first, again = run("BipedalWalker-v3", config), run("BipedalWalker-v3", config)
    assert results(first, 3) == results(again, 3)
    resumed = run("BipedalWalker-v3", config, restore=(checkpoints.load(first.save(tmp_path)), True))
    ((kind, text),) = told()
    assert kind == "warning" and text.startswith("Resumed, but not bit for bit: ")
    assert "BipedalWalker-v3 keeps something over a seeded reset: a used one differs from a new one from step" in text
    assert "fresh_envs: true" in text
    assert len(results(resumed, 2)) == 2


@pytest.mark.usefixtures("quick_learner")
def test_inline_run_interrupted_before_learning_starts_equals_the_whole_run(run, tmp_path):
    config = small_config(learning_starts=300)
    whole = run("Pendulum-v1", config)
    before, after = results(whole, 1), results(whole, 3)
    assert before[0]["info"]["num_updates"] == 0
    assert after[-1]["info"]["num_updates"] > 100

    first = run("Pendulum-v1", config)
    assert results(first, 1) == before
    resumed = run("Pendulum-v1", config, restore=(checkpoints.load(first.save(tmp_path)), True))
    assert results(resumed, 3) == after
    assert_same_state(state_of_run(resumed), state_of_run(whole))


@pytest.mark.usefixtures("quick_learner")
def test_inline_run_saved_before_its_first_iteration_equals_the_whole_run(run, tmp_path):
    config = small_config()
    first = run("Pendulum-v1", config)
    path = first.save(tmp_path)
    after = results(first, 2)
    resumed = run("Pendulum-v1", config, restore=(checkpoints.load(path), True))
    assert results(resumed, 2) == after


@pytest.mark.parametrize("xla", [False, True])
def test_inline_run_repeats_whatever_the_threads_do(run, xla):
    config = small_config(xla=xla, updates_per_call=5, publish_every=5)
    plain = run("Pendulum-v1", config)
    expected = results(plain, 3)
    slow = run("Pendulum-v1", config)
    worker = slow.parts.pool.handles()[0].part
    collect = worker.collect
    pause = threading.Event()

    def late(*versions):
        pause.wait(0.02)  # the update that runs beside this ends first, and has pushed its weights
        return collect(*versions)

    worker.collect = late
    assert results(slow, 3) == expected
    assert_same_state(state_of_run(slow), state_of_run(plain))
