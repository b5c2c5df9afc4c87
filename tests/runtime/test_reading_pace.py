"""How much is read, and when it may be learnt from, where all steps come from files."""

import pytest
from runtime_fakes import token_of
from runtime_runs import small_config

from drl_cli.errors import ExperienceError
from drl_cli.experience.columns import ReadProgress as Told
from drl_cli.runtime import pace
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.read_pace import ReadPace

pytestmark = pytest.mark.process

CALL = 20  # updates of one call, of 32 transitions each


def made(**keys):
    config = small_config(**keys)
    return pace.make(config, Ledger(config))


def reading(**keys):
    return made(input="files", training_intensity=16.0, **keys)


def at(one, updates):
    """The pace when so many updates have been made."""
    one.ledger.updates = updates
    return one


def load(one, facts, updates, with_replay):
    """As the loop does."""
    one.ledger.updates, one.ledger.sampled = updates, facts["sampled"]
    one.load(facts | {"updates": updates}, with_replay)


def token(worker=0, steps=100, episodes=((5.0, 50), (7.0, 50)), ended=False):
    return token_of(worker, 0, 0, steps, reading=Told(len(episodes), episodes, ended))


def test_files_are_read_as_fast_as_they_come_and_learnt_from_when_they_are_over(reports):
    one = reading()
    assert isinstance(one, ReadPace)
    for _ in range(3):
        assert one.allowed(0, 0) == (1, {0}) and one.owed(0) == 0
        one.arrived(token())
    one.arrived(token(steps=0, episodes=(), ended=True))
    assert one.allowed(0, 0) == (0, frozenset())
    assert one.owed(0) == one.owed(10_000) == CALL  # nothing has to be waited for any more
    assert (one.is_whole, one.stored) == (True, 306)
    assert reports[-1] == ("notice", {"text": "loaded 300 steps into memory: 6 episodes, mean return 6"})


def test_timestep_stands_for_the_transitions_that_one_step_read_is_learnt_from_in():
    one = reading()
    assert [at(one, updates).timesteps() for updates in (0, 1, 100)] == [0, 2, 200]  # 32 transitions are 2 times 16
    one.arrived(token(ended=True))
    assert at(one, 100).info()["num_passes"] == 32.0 and at(one, 100).info()["num_steps_sampled"] == 0
    assert at(one, 0).info()["read_reward_mean"] == 6.0 and at(one, 0).info()["num_steps_read"] == 100


def test_files_that_do_not_fit_are_read_on_at_the_pace_of_learning(reports):
    one = reading(buffer_size=500)
    for _ in range(4):
        one.arrived(token())
        assert one.owed(0) == 0
    one.arrived(token())  # 510 rows
    assert "The files hold more than buffer_size 500" in reports[-1][1]["text"]
    lead = 2 * CALL * 32 / 16
    assert one.owed(0) == 2 * CALL and one.allowed(0, 0) == (lead // 40, {0})
    assert one.allowed(0, 2) == (0, {0})
    one.arrived(token(ended=True))  # a pass more or less says nothing
    assert not one.is_whole and one.stored == 500
    assert one.owed(0) == 2 * CALL + 100 * 16 // 32
    assert one.allowed(0, 0) == (0, {0}) and one.allowed(50, 0) == (lead // 40, {0})


def test_worker_without_a_share_is_not_asked_again_and_again():
    one = reading(buffer_size=300, num_workers=2, learning_starts=10)
    one.arrived(token(1, 0, (), ended=True))
    assert one.allowed(0, 0) == (1, {0})
    for _ in range(3):
        one.arrived(token(0))
    assert one.allowed(500, 0)[1] == {0}


def test_successor_brings_what_is_missing_and_no_more():
    one = reading(num_workers=2)
    one.arrived(token(0))
    one.arrived(token(0))
    one.arrived(token(1, ended=True))
    assert [one.behind(index) for index in (0, 1)] == [2, 0]


def test_files_without_a_step_end_the_run():
    one = reading()
    with pytest.raises(ExperienceError, match="input: the files hold no steps to train on"):
        one.arrived(token(steps=0, episodes=(), ended=True))


@pytest.mark.parametrize("ended", [False, True], ids=["in the middle", "whole"])
def test_reading_goes_on_from_its_state(ended):
    one, other = reading(num_workers=2), reading(num_workers=2)
    one.arrived(token(0))
    one.arrived(token(1, ended=True))
    if ended:
        one.arrived(token(0, ended=True))
    load(other, at(one, 40).state(), 40, with_replay=True)
    assert at(other, 40).state() == at(one, 40).state()
    assert other.allowed(40, 0) == one.allowed(40, 0) and other.owed(40) == one.owed(40)
    assert (
        [at(other, 41).timesteps(), other.behind(0)]
        == [at(one, 41).timesteps(), one.behind(0)]
        == [82, 0 if ended else 1]
    )


def test_without_the_replay_s_contents_the_files_are_read_anew():
    one, other = reading(), reading()
    one.arrived(token(ended=True))
    load(other, at(one, 40).state(), 40, with_replay=False)
    assert (other.owed(40), other.stored, at(other, 40).timesteps()) == (0, 0, 80)
    other.arrived(token(ended=True))
    assert other.owed(40) == CALL and at(other, 40).info()["num_passes"] == 0.0


def test_whole_set_stays_whole_whatever_workers_go_on_with_it():
    one, other = reading(num_workers=2), reading(num_workers=3)
    for worker in range(2):
        one.arrived(token(worker, ended=True))
    load(other, at(one, 40).state(), 40, with_replay=True)
    assert other.is_whole and other.allowed(40, 0)[0] == 0
    middle, other = reading(num_workers=2), reading(num_workers=3)
    middle.arrived(token(0, ended=True))
    load(other, at(middle, 0).state(), 0, with_replay=True)
    assert other.allowed(0, 0) == (3, {0, 1, 2})


def test_run_that_begins_to_sample_owes_nothing_for_what_it_read():
    read, samples = reading(), made(training_intensity=16.0)
    read.arrived(token(ended=True))
    load(samples, at(read, 1000).state(), 1000, with_replay=True)
    assert at(samples, 1000).timesteps() == 2000 and samples.owed(1000) == 0


def test_run_that_goes_on_with_files_counts_on():
    sampled, read = made(training_intensity=16.0), reading()
    sampled.ledger.sampled = 5000
    load(read, at(sampled, 2000).state(), 2000, with_replay=True)
    assert at(read, 2000).timesteps() == 5000 and at(read, 2001).timesteps() == 5002
    assert read.allowed(2000, 0) == (1, {0})


def test_mix_is_paced_like_sampling_and_says_what_was_read():
    mix = made(input={"sampler": 0.5, "files": 0.5}, learning_starts=100)
    assert isinstance(mix, pace.SamplePace)
    for one in (token(), token_of(0, 0, 0, 100)):
        mix.arrived(one)
        mix.ledger.sampled += 100
    assert mix.timesteps() == 200 and at(mix, 0).info()["num_steps_read"] == 100
    other = made(input={"sampler": 0.5, "files": 0.5}, learning_starts=100)
    load(other, at(mix, 0).state(), 0, with_replay=True)
    assert at(other, 0).state() == at(mix, 0).state()
