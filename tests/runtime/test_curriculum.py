"""The task of a run: chosen after iterations, set on environments of workers and tester, exact when a run goes on."""

import gymnasium
import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from runtime_runs import SINCE_RESTORE, small_config, timeless

from drl_cli import Callbacks, checkpoints, register_callbacks, register_env_task_fn
from drl_cli.errors import InputError

pytestmark = pytest.mark.usefixtures("quick_learner", "plug_ins")


class Pulled(PendulumEnv):
    """A pendulum on a planet of its own."""

    def set_task(self, task):
        self.g = task

    def get_task(self):
        return self.g


gymnasium.register("Pulled-v0", Pulled, max_episode_steps=50)
KEYS = {"evaluation_interval": 1, "timesteps_per_iteration": 120, "env_task_fn": "heavier"}


@pytest.fixture(autouse=True)
def functions(plug_ins):
    seen = []

    def heavier(result, env, context):
        seen.append((result["training_iteration"], env.get_task(), context))
        return env.get_task() + (10.0 if result["training_iteration"] in (2, 4) else 0.0)

    register_env_task_fn("heavier", heavier)
    return seen


def gravities(trainer):
    return [g for envs in trainer.workers.foreach_env(lambda env: env.unwrapped.g) for g in envs]


def test_task_is_asked_for_after_every_iteration_and_set_everywhere(run, functions, reports):
    trainer = run("Pulled-v0", small_config(**KEYS))
    tasks = [trainer.train()["info"].get("env_task") for _ in range(3)]
    assert tasks == [None, 20.0, 20.0]
    assert functions == [(1, 10.0, {}), (2, 10.0, {}), (3, 20.0, {})]
    assert gravities(trainer) == [20.0] * 4
    assert [fields["text"] for kind, fields in reports if kind == "notice"] == ["task 20.0 from now on"]
    assert trainer.evaluations.handles()[0].part._kept.objects()[0].unwrapped.g == 20.0


def test_resumed_run_goes_on_bit_for_bit_with_its_task(run, tmp_path):
    whole = run("Pulled-v0", small_config(**KEYS))
    for _ in range(3):
        whole.train()
    path = whole.save(tmp_path)
    later = [timeless(whole.train(), SINCE_RESTORE) for _ in range(3)]
    resumed = run("Pulled-v0", small_config(**KEYS), restore=(checkpoints.load(path), True))
    assert gravities(resumed) == [20.0] * 4
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(3)] == later
    assert later[-1]["info"]["env_task"] == 30.0


def test_callbacks_get_trainer_workers_policy_and_environment(run):
    seen = {}

    class Watching(Callbacks):
        def on_episode_start(self, *, episode, env, worker, policy, **more):
            seen[episode.in_evaluation] = (env is episode.env, worker is None, policy.spec.distribution)

        def on_train_result(self, *, result, trainer, workers):
            if trainer.iteration == 1:
                trainer.set_task(3.5)
            result["pull"] = workers.foreach_env(lambda env: env.unwrapped.g)[0]

    register_callbacks("watching", Watching)
    trainer = run("Pulled-v0", small_config(**KEYS | {"env_task_fn": None, "callbacks": "watching"}))
    assert trainer.train()["pull"] == [3.5] * 4
    assert seen[False] == (True, False, "squashed_gaussian")
    trainer.train()
    trainer.train()
    assert seen[True] == (True, True, "squashed_gaussian")


def test_hooks_without_the_later_arguments_are_still_called(run):
    seen = []

    class Older(Callbacks):
        def on_episode_end(self, *, episode):
            seen.append(episode.length)

        def on_train_result(self, *, result):
            seen.append(result["training_iteration"])

    register_callbacks("older", Older)
    run("Pulled-v0", small_config(**KEYS | {"callbacks": "older", "timesteps_per_iteration": 240})).train()
    assert set(seen) == {50, 1}


def test_environments_that_take_no_tasks_are_named(run):
    trainer = run("Pulled-v0", small_config(**KEYS | {"remote_worker_envs": True, "env_task_fn": None}))
    with pytest.raises(
        InputError, match="set_task: tasks are for environments of one agent that workers step in their"
    ):
        trainer.set_task(1.0)
