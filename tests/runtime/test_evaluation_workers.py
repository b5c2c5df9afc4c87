"""Several testers: what each is asked, that scores come in the order of seeds, who is ended when one is lost; waiting."""

from types import SimpleNamespace

import pytest
from runtime_fakes import Later
from runtime_runs import small_config

from drl_cli.runtime import assembly, evaluation_schedule
from drl_cli.runtime.cluster import InlineCluster, PartLost
from drl_cli.runtime.testers import ManyTesters

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]

ENV = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}


class Handle:
    """A tester whose answers come when a test says so."""

    def __init__(self):
        self.asked, self.answers = [], []

    def call(self, method, version, seeds):
        self.asked.append((method, version, list(seeds)))
        self.answers.append(Later())
        return self.answers[-1]


def test_episodes_are_shared_out_and_joined_in_the_order_of_seeds():
    handles = [Handle(), Handle(), Handle()]
    answer = ManyTesters(handles).call("evaluate", 7, [10, 11, 12, 13, 14])
    assert [handle.asked for handle in handles] == [
        [("evaluate", 7, [10, 11])],
        [("evaluate", 7, [12, 13])],
        [("evaluate", 7, [14])],
    ]
    handles[2].answers[0].finish(["e"])
    handles[0].answers[0].finish(["a", "b"])
    assert not answer.done()
    handles[1].answers[0].finish(["c", "d"])
    assert answer.done() and answer.result() == ["a", "b", "c", "d", "e"]


def test_tester_without_episodes_is_not_asked():
    handles = [Handle(), Handle()]
    ManyTesters(handles).call("evaluate", 7, [10])
    assert [len(handle.asked) for handle in handles] == [1, 0]


def test_tester_that_died_is_told():
    handles = [Handle(), Handle()]
    answer = ManyTesters(handles).call("evaluate", 7, [10, 11])
    handles[0].answers[0].finish(["a"])
    handles[1].answers[0].fail(PartLost("tester 1", "killed"))
    with pytest.raises(PartLost, match="tester 1 was lost: killed"):
        answer.result()


@pytest.mark.parametrize(("count", "is_remote", "names"), [(0, True, 1), (1, True, 1), (3, True, 3), (3, False, 1)])
def test_as_many_testers_are_made_as_the_config_asks_for(count, is_remote, names):
    spawned = []
    cluster = SimpleNamespace(is_remote=is_remote, spawn=lambda name, *_: spawned.append(name))
    assembly.make_tester(
        assembly.RunSetup("row", small_config(evaluation_num_workers=count, num_workers=2), ENV, "spec"),
        cluster,
        "server",
    )
    assert spawned == (["tester"] if names == 1 else [f"tester {index}" for index in range(names)])


def test_other_testers_are_ended_with_the_one_that_is_lost(run, monkeypatch):
    killed, handles = [], [Handle(), Handle()]
    monkeypatch.setattr(InlineCluster, "kill", lambda self, handle: killed.append(handle))
    monkeypatch.setattr(assembly, "make_tester", lambda *_: ManyTesters(handles))
    made = run("Pendulum-v1", small_config(evaluation_interval=1))
    monkeypatch.setattr(made, "_evaluate_when_due", lambda: None)
    made.train()
    made.scoring.begin(SimpleNamespace(version=1, counters={}))
    handles[0].answers[0].fail(PartLost("tester 0", "killed"))
    handles[1].answers[0].finish([])
    made.evaluations.poll()
    assert killed == handles and not made.scoring.is_busy


@pytest.mark.parametrize(("parallel", "waits"), [(None, False), (True, False), (False, True)])
def test_training_with_workers_waits_for_scores_only_when_asked(parallel, waits, run, monkeypatch):
    handle = Handle()
    monkeypatch.setattr(assembly, "make_tester", lambda *_: handle)
    made = run("Pendulum-v1", small_config(evaluation_interval=100, evaluation_parallel_to_training=parallel))
    made.train(), made.train()
    looks = []

    def sleep(_):
        looks.append(1)
        if len(looks) == 3:
            handle.answers[-1].finish(
                [
                    SimpleNamespace(
                        reward=1.0,
                        length=5,
                        is_cut=False,
                        custom_metrics={},
                        hist_data={},
                        policy_rewards={},
                        success=None,
                    )
                ]
            )

    made._cluster.is_remote = True
    monkeypatch.setattr(evaluation_schedule.time, "sleep", sleep)
    made.clock.iteration = 100
    made._evaluate_when_due()
    made._cluster.is_remote = False
    assert (len(looks), made.scoring.is_busy) == ((3, False) if waits else (0, True))


def test_stop_ends_the_wait_for_scores(run, monkeypatch):
    monkeypatch.setattr(assembly, "make_tester", lambda *_: Handle())
    config = small_config(evaluation_interval=None, evaluation_parallel_to_training=False)
    made = run("Pendulum-v1", config, stop_requested=lambda: True)
    made.scoring.begin(SimpleNamespace(version=1, counters={}))
    made._cluster.is_remote = True
    made.evaluations.wait(lambda: True)
    made._cluster.is_remote = False
    assert made.scoring.is_busy
