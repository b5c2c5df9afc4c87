"""Whole episodes side by side: what one is depends on its key alone; what breaks begins again; nothing begins behind an end."""

import numpy as np
import pytest
from scripted_envs import ENV, Scripted

from drl_cli.actors import whole_episodes
from drl_cli.actors.whole_episodes import Episodes
from drl_cli.errors import WorkersFailed
from drl_cli.randomness import number

CARTPOLE = {"id": "CartPole-v1", "env_config": {}}
NO_MOTION = np.zeros((2, 1), np.float32)


def _lengths(made, keys, actions):
    """Play to the end with the same actions in every episode; the steps and the last observations of each."""
    made.begin(keys)
    going, last = list(range(len(keys))), [None] * len(keys)
    for action in actions:
        rewards, ended, broken = made.step(np.full(len(keys), action), going)
        assert rewards.sum() == len(going) and not broken
        for index in ended:
            last[index] = made.newest()[index].tolist()
        going = [index for index in going if index not in ended]
        if not going:
            return made.lengths.tolist(), last
    raise AssertionError("no end")


def test_episode_depends_on_its_key_alone():
    keys = [(7, 0, index) for index in range(4)]
    actions = [step % 2 for step in range(200)]
    made = Episodes(CARTPOLE)
    lengths, last = _lengths(made, keys, actions)
    assert len(set(lengths)) > 1 or len({tuple(obs) for obs in last}) == 4
    assert _lengths(made, keys[::-1], actions) == (lengths[::-1], last[::-1])  # the same environments, other places
    alone = [_lengths(Episodes(CARTPOLE), [key], actions) for key in keys]
    assert [(one[0][0], one[1][0]) for one in alone] == list(zip(lengths, last, strict=True))


def test_equal_keys_begin_alike_and_others_do_not():
    made = Episodes(CARTPOLE)
    made.begin([(7, 0, 1), (7, 0, 1), (7, 0, 2)])
    first, same, other = made.newest()
    assert first.tolist() == same.tolist() != other.tolist()


def test_seed_of_an_episode_is_made_of_its_key_and_of_how_often_it_began():
    Scripted.begin({"reset": "raise"})
    made = Episodes(ENV)
    made.begin([(7, 3, 4)])
    assert Scripted.seeds == [number(7, "env", 3, 4, 0), number(7, "env", 3, 4, 1)]
    assert made.bad_steps == 0 and len(made.notes) == 1


def test_nothing_begins_behind_an_end_and_those_that_stand_still_are_not_stepped():
    Scripted.begin({"ends": (2, "terminated")}, {"ends": (3, "truncated")})
    made = Episodes(ENV)
    made.begin([(7, 0), (7, 1)])
    assert made.step(NO_MOTION, [0, 1])[1] == []
    rewards, ended, _ = made.step(NO_MOTION, [0, 1])
    assert (rewards.tolist(), ended) == ([1.0, 101.0], [0])
    rewards, ended, _ = made.step(NO_MOTION, [1])
    assert (rewards.tolist(), ended) == ([0.0, 102.0], [1])
    assert Scripted.made == 2 and made.lengths.tolist() == [2, 3]


def test_horizon_ends_episodes():
    Scripted.begin({"ends": (3, "terminated")})
    made = Episodes(ENV, horizon=3)
    made.begin([(7, 0), (7, 1)])
    ended = [made.step(NO_MOTION, [0, 1])[1] for _ in range(3)]
    assert ended == [[], [], [0, 1]]


@pytest.mark.parametrize("how", ["raise", "exit", "nan obs", "shape", "nan reward", "inf reward", "word"])
def test_broken_episode_begins_again_and_the_others_go_on(how):
    Scripted.begin({"breaks": (1, how)}, {})
    made = Episodes(ENV)
    made.begin([(7, 0), (7, 1)])
    made.step(NO_MOTION, [0, 1])
    rewards, ended, broken = made.step(NO_MOTION, [0, 1])
    assert (rewards.tolist(), ended, broken) == ([0.0, 101.0], [], [0])
    assert made.newest().tolist() == [[2.0, 0.0], [1.0, 2.0]]  # the third environment that was made
    assert (made.lengths.tolist(), made.bad_steps) == ([0, 2], 1)
    assert made.notes[0].startswith(f"Scripted-v0 failed in step 1 of an episode with seed {number(7, 'env', 0, 0)}: ")


def test_environment_that_breaks_again_and_again_ends_the_run():
    Scripted.begin(*[{"breaks": (0, "raise")}] * 20)
    made = Episodes(ENV)
    made.begin([(7, 0)])
    with pytest.raises(WorkersFailed, match="10 environments failed in one episode's place; the last: .* motor"):
        for _ in range(20):
            made.step(NO_MOTION[:1], [0])
    assert Scripted.made == whole_episodes.MAX_FAILURES + 1
