"""Draws with goals of hindsight against a slow list of episodes."""

import numpy as np
import pytest
from episodes import Worker

from drl_cli.experience.hindsight import BYTES, Hindsight, Relabelling
from drl_cli.experience.priorities import Priorities
from drl_cli.experience.ring_buffer import Ring

GAMMA = 0.9
OWN = 0.0  # the goal that all episodes desire


def rewards(achieved, desired):
    return -np.abs(achieved - desired)[:, 0].astype(np.float32) / 100.0


def endless(achieved, desired):
    return rewards(achieved, desired), None


def ending(achieved, desired):
    return rewards(achieved, desired), achieved[:, 0] == desired[:, 0]


def hindsight(capacity=10_000, n_step=3, share=0.8, strategy="future", outcomes=endless, seed=3):
    how = Relabelling((0, 1, 1), share, strategy, (n_step, GAMMA), outcomes)
    return Hindsight(Ring(capacity, (2,), (1,)), how, np.random.default_rng(seed))


def with_goals(columns):
    """The fragment whose observations are [number, goal desired]."""
    wide = {
        name: np.concatenate([columns[name], np.full_like(columns[name], OWN)], axis=-1)
        for name in ("obs", "end_obs", "tail_obs")
    }
    return columns | wide


def filled(held, worker, fragments=12, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(fragments):
        cut = [env for env in range(worker.envs) if rng.random() < 0.1]
        held.add(0, with_goals(worker.fragment(int(rng.integers(1, 12)), cut)))
    return held


def later(worker):
    """{number of a step's observation: the numbers behind it in its episode, None while that has not ended}."""
    found = {}
    for episode in worker.episodes:
        numbers = [number for number, _ in episode["steps"]] + [episode["after"]]
        for place in range(len(episode["steps"])):
            found[numbers[place]] = numbers[place + 1 :] if episode["kind"] else None
    return found


def expected(worker, first, goal, n_step, outcomes):
    """(reward, discount, number behind the window) of a window with another goal, one step at a time."""
    behind, recorded = later(worker)[first], worker.transitions(n_step, GAMMA)[first]
    reward, factor = 0.0, 1.0
    for number in behind[:n_step]:
        gained, ends = outcomes(np.float32([[number]]), np.float32([[goal]]))
        reward, factor = reward + factor * float(gained[0]), factor * GAMMA
        if ends is not None and ends[0]:
            return reward, 0.0, number
    return reward, recorded[1] if ends is None else factor, number


def check(batch, worker, n_step, outcomes):
    """Compare a batch with the slow list; returns the share with another goal."""
    of, others = later(worker), 0
    for obs, next_obs, reward, discount in zip(
        *(batch[name] for name in ("obs", "next_obs", "reward", "discount")), strict=True
    ):
        first, goal = int(obs[0]), float(obs[1])
        assert next_obs[1] == goal
        if goal == OWN:
            told = worker.transitions(n_step, GAMMA)[first]
        else:
            assert goal in of[first]
            told = expected(worker, first, goal, n_step, outcomes)
            others += 1
        np.testing.assert_allclose((reward, discount), told[:2], rtol=1e-5, atol=1e-6)
        assert int(next_obs[0]) == told[2]
    return others / len(batch["obs"])


@pytest.mark.parametrize("outcomes", [endless, ending])
@pytest.mark.parametrize("n_step", [1, 3])
def test_rewards_ends_and_goals_are_those_of_the_slow_list(n_step, outcomes):
    worker = Worker(1, 3, end=0.1)
    held = filled(hindsight(n_step=n_step, outcomes=outcomes), worker)
    batch = held.draw(1500, n_step, GAMMA, np.random.default_rng(5))
    assert 0.4 < check(batch, worker, n_step, outcomes) < 0.8
    assert np.array_equal(batch["action"][:, 0], -batch["obs"][:, 0])


def test_steps_of_episodes_that_have_not_ended_keep_their_goal_until_these_end():
    worker = Worker(2, 2, lengths=[(12, "truncated")])
    held = hindsight(n_step=1)
    held.add(0, with_goals(worker.fragment(8)))
    assert (held.draw(200, 1, GAMMA, np.random.default_rng(0))["obs"][:, 1] == OWN).all()
    held.add(0, with_goals(worker.fragment(4)))
    assert (held.draw(200, 1, GAMMA, np.random.default_rng(0))["obs"][:, 1] != OWN).mean() > 0.7


def test_share_of_other_goals_is_the_one_asked_and_future_goals_are_uniform():
    worker = Worker(3, 1, lengths=[(10, "truncated")])
    held = hindsight(n_step=1, share=0.75)
    held.add(0, with_goals(worker.fragment(10)))
    batch = held.draw(8000, 1, GAMMA, np.random.default_rng(0))
    is_other = batch["obs"][:, 1] != OWN
    assert abs(is_other.mean() - 0.75) < 0.02
    ahead = (batch["obs"][:, 1] - batch["obs"][:, 0])[is_other & (batch["obs"][:, 0] == batch["obs"][:, 0].min())]
    counts = np.bincount(ahead.astype(int), minlength=11)[1:]
    assert len(counts) == 10 and (np.abs(counts - counts.mean()) < 5 * np.sqrt(counts.mean())).all()


def test_final_goal_is_the_one_behind_the_episode():
    worker = Worker(4, 2, end=0.2)
    held = filled(hindsight(strategy="final", share=1.0), worker)
    behind = later(worker)
    batch = held.draw(800, 3, GAMMA, np.random.default_rng(1))
    finals = [behind[int(first)][-1] for first, goal in batch["obs"] if goal != OWN]
    assert len(finals) > 400 and finals == [goal for _, goal in batch["obs"] if goal != OWN]


@pytest.mark.parametrize("capacity", [70, 200])
def test_rows_that_were_overwritten_many_times_are_read_with_goals_of_their_own_episodes(capacity):
    worker = Worker(5, 2, end=0.08)
    held = hindsight(capacity=capacity, n_step=2)
    for lap in range(80):
        held.add(0, with_goals(worker.fragment(5)))
        if lap > 3:
            batch = held.draw(40, 2, GAMMA, np.random.default_rng(lap))
    assert held.written > 4 * capacity
    batch = held.draw(400, 2, GAMMA, np.random.default_rng(0))
    assert check(batch, worker, 2, endless) > 0.1


def test_draws_by_priority_have_other_goals_too():
    worker, held = Worker(6, 2, end=0.1), hindsight(n_step=2)
    priorities = Priorities(held, 0.6, 0.01)
    for _ in range(10):
        priorities.follow(held.add(0, with_goals(worker.fragment(6))))
    batch, serial, _ = priorities.draw(20, 10, 2, GAMMA, np.random.default_rng(0))
    assert check(batch, worker, 2, endless) > 0.3
    priorities.set(serial, np.ones(len(serial)))


def test_what_was_saved_draws_on_as_what_was_not():
    worker = Worker(7, 2, end=0.1)
    held = filled(hindsight(capacity=90), worker, 30)
    held.draw(50, 3, GAMMA, np.random.default_rng(0))
    other = hindsight(capacity=90)
    other.load(*held.state())
    other._rng.bit_generator.state = held._rng.bit_generator.state
    for part in range(3):
        more = with_goals(worker.fragment(7))
        drawn = []
        for one in (held, other):
            one.add(0, more)
            drawn.append(one.draw(60, 3, GAMMA, np.random.default_rng(part)))
        assert all(np.array_equal(drawn[0][name], drawn[1][name]) for name in drawn[0])


def test_memory_of_a_row_is_what_is_said_of_it():
    held = hindsight(capacity=1000)
    assert held.reserved() - held._ring.reserved() == BYTES * 1000
