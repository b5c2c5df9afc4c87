"""The loop of DD-PPO over fake parts: rounds, deaths wherever a round is, stragglers, equal variables, the ledger's sum."""

import pytest
from decentralized_fakes import STEPS, UPDATES, Run

from drl_cli import events
from drl_cli.errors import DrlError, WorkersFailed
from drl_cli.runtime.loops import decentralized

pytestmark = pytest.mark.process


def states(run):
    """The variables of the workers that are there."""
    return {worker.value for worker in run.living().values()}


def test_round_is_a_fragment_of_every_worker_and_the_same_steps_by_all():
    run = Run(workers=3)
    run.rounds(2)
    ledger = run.loop.ledger
    assert (ledger.version, ledger.updates, ledger.fragments) == (3, 2 * UPDATES, 6)
    assert ledger.sampled == ledger.trained == 6 * STEPS and run.began_at == 3 * [3 * STEPS] + 3 * [6 * STEPS]
    assert len(states(run)) == 1
    first = [entry for entry in run.steps if entry[0] == 0]
    assert first == 2 * [(0, number, 3 if number else 0) for number in range(UPDATES + 1)]
    assert run.sum_holds()


def test_worker_samples_nothing_before_it_has_learnt_from_its_fragment():
    run = Run(workers=2, takes=None)
    run.until(lambda: run.pool.outstanding == 2)
    run.made[0].deliver()
    run.until(lambda: run.loop.stored == STEPS)
    for _ in range(20):
        run.loop.step()
    assert run.made[0].calls == ["collect", "prepare"] and run.made[1].calls == ["collect", "prepare"]
    run.made[1].deliver()
    run.until(lambda: run.pool.outstanding == 2)
    assert run.loop.ledger.version == 2


def test_steps_are_called_a_few_ahead_and_no_further(monkeypatch):
    monkeypatch.setattr(decentralized, "AHEAD", 4)
    run = Run(workers=2, plans={1: {("step", 6): "hang"}})
    for _ in range(200):
        run.loop.step()
    assert max(number for index, number, _ in run.steps if index == 0) <= 9 < UPDATES


PLACES = {
    "while it samples": {("collect", 2): "die"},
    "before it learns": {("begin", 2): "die"},
    "in the first step": {("step", UPDATES + 2): "die"},
    "in the midst of steps": {("step", UPDATES + 8): "die"},
    "in the last step": {("step", 2 * UPDATES + 2): "die"},
}


@pytest.mark.parametrize("plan", PLACES.values(), ids=PLACES)
def test_others_go_on_when_a_worker_dies_and_its_fragment_counts_as_lost(plan):
    run = Run(workers=3, plans={1: plan})
    run.rounds(2)
    ledger, pool = run.loop.ledger, run.pool
    assert (ledger.updates, ledger.fragments, pool.fragments_lost) == (2 * UPDATES, 5, 1)
    assert ledger.trained == 5 * STEPS and run.sum_holds()
    assert run.made[0].value == run.made[2].value
    run.rounds(3)
    successor = run.living()[1]
    assert (successor.incarnation, pool.restarts) == (1, 1)
    assert successor.calls[:4] == ["prepare", "adopt", "collect", "begin"]
    assert len(states(run)) == 1 and run.sum_holds() and pool.fragments_lost == 1


def test_worker_that_dies_when_all_steps_are_taken_has_been_learnt_from():
    run = Run(workers=3, plans={1: {("end", 1): "die"}})
    run.rounds(1)
    assert (run.loop.ledger.fragments, run.pool.fragments_lost, run.loop.ledger.trained) == (3, 0, 3 * STEPS)
    run.rounds(3)
    assert len(states(run)) == 1 and run.sum_holds() and run.living()[1].incarnation == 1


def test_survivors_continue_from_the_step_that_they_reached_with_their_own_answers():
    run = Run(workers=3, plans={1: {("step", 8): "die"}})
    run.rounds(1)
    own = [(number, answers) for index, number, answers in run.steps if index == 0]
    assert own == [(n, 3 if n else 0) for n in range(8)] + [(7, 0)] + [(n, 2) for n in range(8, UPDATES + 1)]
    assert run.teams == [3, 3, 3, 3, 3]  # what every fragment began with stays the measure of the round


def test_worker_that_did_not_get_the_answers_of_a_lost_one_adopts_the_state_of_one_that_did():
    plan = {("step", 8): {2}, ("step", 9): "die"}  # its answer to step 7 reaches worker 0, not worker 2
    run = Run(workers=3, plans={1: plan})
    run.rounds(1)
    assert "adopt" in run.made[2].calls and "adopt" not in run.made[0].calls
    assert run.made[0].value == run.made[2].value and run.made[0].taken == UPDATES
    assert (run.loop.ledger.fragments, run.pool.fragments_lost) == (2, 1) and run.sum_holds()


def test_worker_that_did_not_get_the_answers_goes_on_alone_when_the_one_that_did_is_lost_too():
    plans = {1: {("step", 8): {2}, ("step", 9): "die"}, 0: {("held", 1): "die"}}
    run = Run(workers=3, plans=plans)
    run.rounds(1)
    assert (run.loop.ledger.updates, run.loop.ledger.fragments, run.pool.fragments_lost) == (UPDATES, 1, 2)
    assert run.sum_holds()
    run.rounds(3)
    assert len(states(run)) == 1 and len(run.living()) == 3 and run.sum_holds()


def test_two_workers_that_die_one_after_the_other_leave_the_last_one_to_finish_the_round():
    run = Run(workers=3, plans={1: {("step", 8): "die"}, 0: {("step", 15): "die"}})
    run.rounds(1)
    assert (run.loop.ledger.updates, run.loop.ledger.fragments, run.pool.fragments_lost) == (UPDATES, 1, 2)
    run.rounds(3)
    assert len(states(run)) == 1 and len(run.living()) == 3 and run.sum_holds()


def test_run_ends_when_nobody_is_left_who_has_the_weights():
    run = Run(workers=2)
    run.rounds(1)
    run.until(lambda: run.pool.outstanding == 2)
    for worker in run.made[:2]:
        worker.die()
    for later in list(run.cluster.pending):
        later.fail(decentralized.PartLost("worker", "killed"))
    with pytest.raises(
        WorkersFailed, match=r"no learner keeps them beside the workers. Continue from the last checkpoint"
    ):
        run.rounds(1)
    assert run.sum_holds()


def test_workers_that_die_before_anything_was_learnt_cost_their_fragments_only():
    run = Run(workers=2, takes=None)
    run.until(lambda: run.pool.outstanding == 2)
    for worker in run.made[:2]:
        worker.die()
    run.takes = 1.0
    run.rounds(1)
    assert (run.pool.fragments_lost, run.loop.ledger.fragments) == (2, 2) and run.sum_holds()


@pytest.mark.parametrize(("cutoff", "needed"), [(0.6, 3), (0.2, 1), (1.0, 5)])
def test_stragglers_are_cut_off_once_so_many_have_finished_and_are_learnt_from(cutoff, needed):
    run = Run(workers=5, takes=None, straggler_cutoff=cutoff)
    run.until(lambda: run.pool.outstanding == 5)
    for count, worker in enumerate(run.made, 1):
        assert run.server.cuts == ([1] if count > needed and needed < 5 else [])
        worker.deliver(STEPS if count <= needed else 7 * count)
        run.until(lambda count=count: run.loop.ledger.sampled >= count or run.loop.ledger.updates > 0, most=50)
        run.loop.step()
    run.rounds(1)
    late = 5 - needed
    assert run.loop.info()["fragments_cut_short"] == late
    assert run.loop.trained() == needed * STEPS + sum(7 * count for count in range(needed + 1, 6))
    assert run.loop.ledger.fragments == 5 and run.sum_holds()


def test_worker_whose_variables_differ_gets_those_of_the_first_one_before_it_samples_again():
    seen = []
    unsubscribe = events.subscribe(lambda kind, fields: seen.append((kind, fields.get("text"))))
    run = Run(workers=3, plans={2: {("end", 1): "differ", ("end", 3): "differ"}})
    run.rounds(1)
    assert len(states(run)) == 2 and run.loop.info()["workers_unequal"] == 1
    run.rounds(1)
    assert len(states(run)) == 1 and run.made[2].calls.count("adopt") == 1
    run.rounds(2)
    unsubscribe()
    assert run.loop.info()["workers_unequal"] == 2 and len(states(run)) == 1
    (text,) = [text for kind, text in seen if kind == "warning"]
    assert text.startswith("The weights of worker 2 differ, and are replaced by those of worker 0, from now on without")


def test_worker_that_does_not_answer_while_it_learns_is_killed():
    run = Run(workers=3, plans={1: {("step", 5): "hang"}})
    run.rounds(1)
    assert run.cluster.killed[0] is run.made[1] and set(run.cluster.killed) == {run.made[1]}
    assert run.clock.now > 1000 + decentralized.SILENCE_S
    assert (run.loop.ledger.fragments, run.pool.fragments_lost) == (2, 1) and run.sum_holds()


def test_worker_that_does_not_build_its_graph_is_killed_and_the_others_learn():
    run = Run(workers=3, plans={1: {("prepare", 1): "hang"}})
    run.rounds(1)
    assert set(run.cluster.killed) == {run.made[1]} and run.clock.now > 1000 + decentralized.SILENCE_S
    assert (run.loop.ledger.fragments, run.pool.fragments_lost) == (2, 1) and run.sum_holds()


def test_what_a_worker_raises_ends_the_run():
    run = Run(workers=2, plans={1: {("step", 4): "raise"}})
    with pytest.raises(DrlError, match="not finite"):
        run.rounds(1)


def test_quiescent_loop_has_completed_the_round_that_was_begun_and_begins_no_other():
    run = Run(workers=2)
    run.until(lambda: run.pool.outstanding == 2)
    run.loop.quiesce()
    assert (run.loop.ledger.version, run.pool.outstanding, run.loop.stored) == (2, 0, 0)
    run.loop.quiesce()
    assert run.loop.ledger.version == 2
    run.rounds(1)


def test_state_goes_on_with_its_counters():
    run = Run(workers=5, straggler_cutoff=0.2)
    run.rounds(2)
    other = Run(workers=5)
    other.loop.load(run.loop.state(), False)
    assert other.loop.info() == run.loop.info() and other.loop.sampled == run.loop.sampled == 10 * STEPS


def test_snapshot_is_of_the_next_worker_when_the_first_one_is_lost():
    run = Run(workers=2)
    run.rounds(1)
    run.loop.quiesce()
    run.made[0].die()
    assert run.leader.call("publish").result() == (run.made[1].version, {"value": run.made[1].value})
    assert run.leader.call("state").result() == {"value": run.made[1].value}
    run.rounds(3)
    assert len(states(run)) == 1 and run.sum_holds()


def test_variables_of_a_checkpoint_are_given_to_every_worker():
    run = Run(workers=3)
    run.leader.call("load", 77, 5).result()
    run.loop.ledger.pushed(5)
    assert states(run) == {77} and run.leader.call("push").result() == 5
    run.rounds(1)
    assert run.loop.ledger.version == 6
